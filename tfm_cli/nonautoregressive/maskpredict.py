"""Mask-Predict (Ghazvininejad et al. 2019): words are guessed from those already there, in a few passes.

The conditional masked language model is trained to fill in masked words. A translation starts all masked; each further pass
masks the least sure words again and guesses them anew, fewer every time.
"""

import torch
from torch import Tensor

from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.family import SPECIALS, NonAutoregressive, rows, token_counts, without_end
from tfm_cli.nonautoregressive.glancing import choose
from tfm_cli.nonautoregressive.length import LengthClassifier, candidates, length_loss, repeated, surest
from tfm_cli.nonautoregressive.options import OBEYS, NonAutoregressiveDecodeOptions
from tfm_cli.transformer.batch import Batch, Hypothesis, LossReport
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.special import MASK, PAD


class MaskPredict(NonAutoregressive):
    """Fills in masked tokens; a classifier on the encoder's output says how many there are to be."""

    obeys = OBEYS["maskpredict"]

    def __init__(
        self, network: Transformer, label_smoothing: float = 0.1, cap: int = 300, length_weight: float = 0.1
    ) -> None:
        super().__init__(network, label_smoothing)
        self.cap, self.length_weight = cap, length_weight
        self.classifier = LengthClassifier(network.shape.dim)

    def loss(self, batch: Batch, progress: float) -> LossReport:
        """Cross-entropy of masked tokens, of which a sentence of T has 1 to T with equal chance (section 2.2).

        In evaluation mode all are masked: what the first pass of decoding sees, with nothing drawn at random. The length's
        log-probability stands in ``nll`` for END's.
        """
        memory = self.encode(batch)
        target = without_end(batch.target)
        real, length = target != PAD, token_counts(target)
        masked = real
        if self.training:
            masked = choose((torch.rand(len(target), device=target.device) * length).floor() + 1, real)
        states = self.states(target.masked_fill(masked, MASK), memory, real)
        hidden = target.masked_fill(~masked, PAD)[real]
        total, nll = self.cross_entropy(states, hidden)
        counted = masked.sum(1) + 1
        weighted, plain = length_loss(self.classifier(memory), token_counts(batch.source), length, counted)
        return LossReport(total + self.length_weight * weighted, int(counted.sum()), {"nll": nll + plain})

    def written(
        self, source: Tensor, memory: Memory, options: NonAutoregressiveDecodeOptions
    ) -> list[list[Hypothesis]]:
        """A token's log-probability is the one with which it was written; their sum is no probability of the sentence."""
        size, lengths = token_counts(source), self.classifier(memory)
        tried = candidates(lengths, size, options.length_scale, options.length_beam, self.cap)
        ids, terms = self._passes(repeated(memory, options.length_beam), tried.flatten(), options.iterations)
        return surest(ids, terms, tried, lengths, size, options.every_candidate)

    def _passes(self, memory: Memory, length: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
        """Rows of ``length`` [B] tokens, written in ``iterations`` passes: ids and log-probabilities [B, T]."""
        real = rows(length)
        ids, terms = self.write(self.states_of_row(MASK, memory, real), real, SPECIALS)
        for done in range(1, iterations):
            # Whole numbers keep floor(L * (1 - done / iterations)) from falling short by a rounding error.
            masked = least(terms, length * (iterations - done) // iterations, real)
            if not bool(masked.any()):
                break
            states = self.states(ids.masked_fill(masked, MASK), memory, real)[masked[real]]
            again, again_terms = self.write(states, masked, SPECIALS)
            ids, terms = torch.where(masked, again, ids), torch.where(masked, again_terms, terms)
        return ids, terms

    def score(self, batch: Batch, options: NonAutoregressiveDecodeOptions | None = None) -> list[Hypothesis]:
        raise TfmError(
            "a maskpredict model gives a whole translation no probability: each word was guessed beside other words",
            where="--score",
            fix="Score with a model of another family.",
        )


def least(terms: Tensor, count: Tensor, real: Tensor) -> Tensor:
    """The ``count`` [B] lowest of terms [B, T] among the ``real`` [B, T] positions: [B, T] bool."""
    rank = terms.masked_fill(~real, float("inf")).argsort(dim=1, stable=True).argsort(1)
    return (rank < count[:, None]) & real
