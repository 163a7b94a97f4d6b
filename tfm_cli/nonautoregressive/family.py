"""What the families that write all positions at once have in common."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import ClassVar

import torch
from torch import Tensor

from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.glancing import Glancing, share
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.transformer.argmax import greatest
from tfm_cli.transformer.attention import unless_whole
from tfm_cli.transformer.batch import Batch, Hypothesis
from tfm_cli.transformer.family import Family
from tfm_cli.transformer.loss import projection_loss
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.special import BEGIN, BLANK, END, MASK, PAD

NEVER = float("-inf")
CHUNK = 512  # positions whose logits exist at a time
CONTROLS = (PAD, BEGIN, MASK, BLANK)  # never part of a translation
SPECIALS = (*CONTROLS, END)  # what a position that stands for a word never says


class NonAutoregressive(Family):
    """A network whose decoder sees its whole row.

    ``obeys`` is the family's row of `OBEYS`. Of the options of training, those named there are the constructor's arguments,
    kept as the model's settings.
    """

    obeys: ClassVar[frozenset[str]] = frozenset()
    default_options = NonAutoregressiveDecodeOptions()
    glancing: Glancing | None = None
    words: Callable[[Tensor, Sequence[int]], tuple[Tensor, Tensor] | None] | None = None
    """What answers in place of `most_likely` where it can; None where it cannot."""

    def __init__(self, network: Transformer, label_smoothing: float = 0.0) -> None:
        if network.shape.positions == "rotary":
            raise TfmError(
                "rotary positions tell equal tokens apart by nothing, and this family's decoder starts from a row of them",
                where="--positions rotary",
                fix="Use sinusoidal or learned positions.",
            )
        super().__init__(network)
        self.label_smoothing = label_smoothing

    def check(self, options: NonAutoregressiveDecodeOptions, prefix: list[list[int]] | None) -> None:
        """What every `decode` asks first.

        Raises:
            TfmError: the family cannot obey one of the options, or cannot write behind a prefix.
        """
        if prefix is not None:
            raise TfmError(
                "a prefix needs a model that writes from left to right, and this one writes all positions at once",
                where="--target-prefix",
                fix="Use a model of the autoregressive family.",
            )
        for f in fields(options):
            if f.name not in self.obeys and getattr(options, f.name) != f.default:
                raise TfmError(
                    "this model's family cannot obey it", where="--" + f.name.replace("_", "-"), fix="Leave it out."
                )

    def part_shown(self, progress: float) -> float:
        """The part of the wrong positions that glancing reveals in this pass; 0 without glancing, and in use."""
        if self.glancing is None or not self.training:
            return 0.0
        return share(progress, self.glancing.start, self.glancing.end)

    @torch.inference_mode()
    def decode(
        self,
        source: Tensor,
        options: NonAutoregressiveDecodeOptions,
        prefix: list[list[int]] | None = None,
        lines: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        self.check(options, prefix)
        return self.written(source, self.network.encode(source), options) if len(source) else []

    @abstractmethod
    def written(
        self, source: Tensor, memory: Memory, options: NonAutoregressiveDecodeOptions
    ) -> list[list[Hypothesis]]:
        """`decode` of at least one sentence, by what the encoder says of it and options that the family obeys."""

    def encode(self, batch: Batch) -> Memory:
        """The encoder's answer without padding, for training and its loss."""
        return self.network.encode(
            batch.source, batch.packings[0] if batch.packings else packing_of(batch.source != PAD)
        )

    def states(self, ids: Tensor, memory: Memory, real: Tensor) -> Tensor:
        """The decoder's states over ids [B, T] at the ``real`` [B, T] positions, in reading order: [N, D].

        Where memory is without padding, so is the work of the decoder.
        """
        packing = packing_of(real) if memory.packing else None
        return decoded(self.network, self.network.embed_target(ids, packing=packing), memory, real, packing)

    def states_of_row(self, token: int, memory: Memory, real: Tensor) -> Tensor:
        """`states` over ``token`` at every position, in use: one embedded row serves all sentences."""
        row = self.network.embed_target(torch.full((1, real.shape[1]), token, device=real.device))
        return decoded(self.network, row.expand(len(real), -1, -1), memory, real, None)

    def cross_entropy(self, states: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Summed loss and summed negative log-likelihood of target ids [N] at states [N, D], PAD left out."""
        return projection_loss(states, self.network.output_weight, target, self.label_smoothing)

    def write(self, states: Tensor, real: Tensor, forbidden: Sequence[int]) -> tuple[Tensor, Tensor]:
        """`likeliest` of `states` put back in its place: ids and log-probabilities [B, T], PAD and 0 elsewhere."""
        ids = torch.full(real.shape, PAD, device=real.device)
        log_probs = torch.zeros(real.shape, device=real.device)
        ids[real], log_probs[real] = self.likeliest(states, forbidden)
        return ids, log_probs

    def likeliest(self, states: Tensor, forbidden: Sequence[int]) -> tuple[Tensor, Tensor]:
        """`most_likely`, by the quicker way where there is one."""
        found = self.words(states, forbidden) if self.words else None
        return most_likely(self.network, states, forbidden) if found is None else found


def decoded(network: Transformer, x: Tensor, memory: Memory, real: Tensor, packing: Packing | None) -> Tensor:
    """The decoder's states over x [B, T, D], or rows of ``packing``, at the ``real`` [B, T] positions: [N, D]."""
    packings = (memory.packing, packing)
    there, here = unless_whole(memory.mask), unless_whole(attended(real))
    states: Tensor = network.decoder(x, memory.states, there, causal=False, mask=here, packings=packings)
    return states[real] if packing is None else states[: packing.count]


def packing_of(real: Tensor) -> Packing:
    """How to leave out the positions that are not ``real`` [B, T]."""
    return Packing.of(real.cpu().long()).to(real.device)


def attended(real: Tensor) -> Tensor:
    """[B, T] bool -> the mask [B, 1, 1, T]. The first position is always True, or an empty row would give NaN."""
    mask = real.clone()
    mask[:, 0] = True
    return mask[:, None, None, :]


def rows(lengths: Tensor) -> Tensor:
    """Lengths [B] -> [B, longest] bool, True where a row has a position."""
    return torch.arange(max(1, int(lengths.max())), device=lengths.device) < lengths[:, None]


def token_counts(ids: Tensor) -> Tensor:
    """[B, S] -> [B]: tokens of each sentence, END not counted."""
    return ((ids != PAD) & (ids != END)).sum(1)


def without_end(target: Tensor) -> Tensor:
    """Targets [B, T] that close with END -> the bare sentences [B, max(T - 1, 1)], padded with PAD."""
    return target.masked_fill(target == END, PAD)[:, : max(target.shape[1] - 1, 1)]


def chunked_log_probs(network: Transformer, states: Tensor) -> Iterator[Tensor]:
    """Log-probabilities of all words at states [N, D], float32, at most `CHUNK` positions at a time.

    All that is said of a model in use goes through the same chunks: what int8 makes of a position depends a little on those it
    is computed with.
    """
    for here in states.split(CHUNK):
        yield network.logits(here).float().log_softmax(-1)


def most_likely(network: Transformer, states: Tensor, forbidden: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """The likeliest token at each of N states [N, D] and its log-probability: [N] ids, [N] float32.

    A forbidden token is passed over, and what is left keeps its true probability.
    """
    ids, log_probs = [], []
    for likely in chunked_log_probs(network, states):
        likely[:, list(forbidden)] = NEVER
        best, place = greatest(likely)
        ids.append(place)
        log_probs.append(best)
    return torch.cat(ids), torch.cat(log_probs)


def hypothesis(tokens: list[int], terms: list[float], ending: float | None = None, finished: bool = True) -> Hypothesis:
    """A hypothesis of tokens and their log-probabilities, ranked by the mean of these.

    ``ending`` is the log-probability of ending there, where something other than one of ``terms`` decided that.
    """
    return Hypothesis.of(tokens, terms if ending is None else [*terms, ending], finished, length_penalty=1.0)
