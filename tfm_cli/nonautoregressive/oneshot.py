"""One pass over a row of BEGIN: every position writes its token without knowing what the others write (Gu et al. 2018).

How long the translation is follows from the first END in a row of ample length, or from a classifier on the encoder's output.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.family import (
    CONTROLS,
    NEVER,
    SPECIALS,
    NonAutoregressive,
    hypothesis,
    rows,
    token_counts,
    without_end,
)
from tfm_cli.nonautoregressive.glancing import Glancing, choose, errs, first_look, revealed
from tfm_cli.nonautoregressive.length import (
    LengthClassifier,
    ample,
    candidates,
    length_loss,
    log_prob_of,
    repeated,
    surest,
)
from tfm_cli.nonautoregressive.options import OBEYS, NonAutoregressiveDecodeOptions
from tfm_cli.transformer.batch import Batch, Hypothesis, LossReport
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.special import BEGIN, END, PAD


class OneShot(NonAutoregressive):
    """The decoder is fed BEGIN at every position and answers all of them at once.

    With ``length`` = cap, the row for a source of S tokens has ``min(cap, ceil(1.5 S) + 16)`` positions, and what stands
    right of the first END is dropped. With predict, the row is as long as the translation, and no END is written.
    """

    obeys = OBEYS["oneshot"]

    def __init__(
        self,
        network: Transformer,
        label_smoothing: float = 0.1,
        length: str = "cap",
        cap: int = 300,
        tail_weight: float = 0.05,
        length_weight: float = 0.1,
        glancing: bool = False,
        glancing_start: float = 0.5,
        glancing_end: float | None = None,
    ) -> None:
        super().__init__(network, label_smoothing)
        self.cap, self.tail_weight, self.length_weight = cap, tail_weight, length_weight
        self.glancing = Glancing.chosen(glancing, glancing_start, glancing_end)
        self.classifier = LengthClassifier(network.shape.dim) if length == "predict" else None

    # -- training

    def room(self, source: Tensor) -> Tensor:
        return ample(source - 1, self.cap) if self.classifier is None else super().room(source)

    def loss(self, batch: Batch, progress: float) -> LossReport:
        """Cross-entropy at every position that glancing has not shown.

        Where the length is predicted, its log-probability stands in ``nll`` for END's. A target longer than the row is
        learnt as far as the row goes; the tokens beyond are in no sum, and ``unreachable`` counts them.
        """
        memory = self.encode(batch)
        if self.classifier is None:
            return self._loss_until_end(batch, memory, progress)
        target = without_end(batch.target)
        real = target != PAD
        states, hidden = self._forward(target, real, memory, progress)
        total, nll = self.cross_entropy(states, hidden)
        lengths = self.classifier(memory)
        counted = real.masked_scatter(real, hidden != PAD).sum(1) + 1
        weighted, plain = length_loss(lengths, token_counts(batch.source), token_counts(target), counted)
        return LossReport(total + self.length_weight * weighted, int(counted.sum()), {"nll": nll + plain})

    def _loss_until_end(self, batch: Batch, memory: Memory, progress: float) -> LossReport:
        real = rows(ample(token_counts(batch.source), self.cap))
        target = _resized(batch.target, real.shape[1]).masked_fill(~real, PAD)
        states, hidden = self._forward(target, real, memory, progress)
        total, nll = self.cross_entropy(states, hidden)
        if self.tail_weight:
            # At full weight the many ENDs of the tail would swallow the words.
            tail = torch.full_like(hidden, END).masked_fill(target[real] != PAD, PAD)
            total = total + self.tail_weight * self.cross_entropy(states, tail)[0]
        unreachable = (batch.target != PAD).sum() - (target != PAD).sum()
        return LossReport(total, int((hidden != PAD).sum()), {"nll": nll, "unreachable": unreachable})

    def _forward(self, target: Tensor, real: Tensor, memory: Memory, progress: float) -> tuple[Tensor, Tensor]:
        """States at the N ``real`` positions [B, T], and which of their target ids [B, T] are to be learnt: [N], else PAD."""
        ids = torch.full_like(target, BEGIN)
        if part := self.part_shown(progress):
            known = target != PAD
            forbidden = CONTROLS if self.classifier is None else SPECIALS
            with first_look(target.device):
                states = self.states(ids, memory, real)[known[real]]
                wrong = known.masked_scatter(known, errs(states, self.network.output_weight, target[known], forbidden))
                shown = choose(revealed(part, wrong.sum(1)), known)
            ids, target = torch.where(shown, target, ids), target.masked_fill(shown, PAD)
        return self.states(ids, memory, real), target[real]

    # -- use

    def written(
        self, source: Tensor, memory: Memory, options: NonAutoregressiveDecodeOptions
    ) -> list[list[Hypothesis]]:
        size = token_counts(source)
        if self.classifier is None:
            real = rows(ample(size, self.cap))
            ids, terms = self.write(self.states_of_row(BEGIN, memory, real), real, CONTROLS)
            found = zip(ids.tolist(), terms.tolist(), real.sum(1).tolist(), strict=True)
            return [[_until_end(*row)] for row in found]
        lengths = self.classifier(memory)
        tried = candidates(lengths, size, options.length_scale, options.length_beam, self.cap)
        real = rows(tried.flatten())
        states = self.states_of_row(BEGIN, repeated(memory, options.length_beam), real)
        return surest(*self.write(states, real, SPECIALS), tried, lengths, size, options.every_candidate)

    def check(self, options: NonAutoregressiveDecodeOptions, prefix: list[list[int]] | None) -> None:
        super().check(options, prefix)
        for name, value in (("--length-scale", options.length_scale), ("--length-beam", options.length_beam)):
            if self.classifier is None and value != 1:
                raise TfmError(
                    "this model writes until END and predicts no length",
                    where=name,
                    fix="Leave it out, or train with --length predict.",
                )

    @torch.inference_mode()
    def score(self, batch: Batch, options: NonAutoregressiveDecodeOptions | None = None) -> list[Hypothesis]:
        """Where the model writes until END, a token beyond the row has no probability. A given length is held to no cap."""
        memory, size = self.network.encode(batch.source), token_counts(batch.source)
        if self.classifier is None:
            terms = self._terms(batch.target, rows(ample(size, self.cap)), memory)
            written = zip(batch.target.tolist(), terms.tolist(), (batch.target != PAD).sum(1).tolist(), strict=True)
            return [_until_end(*row) for row in written]
        target = without_end(batch.target)
        length = token_counts(target)
        terms = self._terms(target, target != PAD, memory)
        endings = log_prob_of(self.classifier(memory), size, length)
        given = zip(target.tolist(), terms.tolist(), length.tolist(), endings.tolist(), strict=True)
        return [hypothesis(ids[:count], row[:count], ending) for ids, row, count, ending in given]

    def _terms(self, target: Tensor, real: Tensor, memory: Memory) -> Tensor:
        """Log-probability of each of the ids [B, T] in a row of which ``real`` [B, R] exists: [B, T]."""
        terms = torch.full(real.shape, NEVER, device=real.device)
        states = self.states_of_row(BEGIN, memory, real)
        terms[real] = self.network.log_probs(states, _resized(target, real.shape[1])[real])
        return _resized(terms, target.shape[1], NEVER)


def _resized(x: Tensor, length: int, value: float = PAD) -> Tensor:
    """[B, T] -> [B, length]: cut, or filled up with ``value``."""
    return F.pad(x, (0, length - x.shape[1]), value=value)


def _until_end(ids: list[int], terms: list[float], length: int) -> Hypothesis:
    """What the first ``length`` positions say up to their first END, or all of it."""
    if END in ids[:length]:
        end = ids.index(END)
        return hypothesis(ids[:end], terms[: end + 1])
    return hypothesis(ids[:length], terms[:length], finished=False)
