"""What goes into a family and what comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tfm_cli.transformer.special import PAD


def pad(rows: Sequence[Sequence[int] | np.ndarray]) -> Tensor:
    """Rows of ids -> [B, longest] int64, padded on the right with PAD; at least one column."""
    longest = max([1, *map(len, rows)])
    padded = torch.full((len(rows), longest), PAD, dtype=torch.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = torch.as_tensor(row, dtype=torch.int64)
    return padded


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as ids, padded on the right.

    ``source`` [B, S] ends each sentence with END; ``target`` [B, T] is the bare sentence followed by END, with no BEGIN:
    each family adds what its decoder reads.
    """

    source: Tensor
    target: Tensor

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "Batch":
        """Pad ids that already end with END."""
        return cls(pad(sources), pad(targets))

    def to(self, device: torch.device | str) -> "Batch":
        return Batch(self.source.to(device, non_blocking=True), self.target.to(device, non_blocking=True))


@dataclass(frozen=True)
class LossReport:
    """A loss summed, not averaged, so that micro-batches and machines add up to the right mean.

    ``sum`` is the scalar to differentiate; ``count`` the number of real target tokens behind it (END included);
    ``parts`` are detached scalars summed likewise, such as ``nll`` in nats without label smoothing.
    """

    sum: Tensor
    count: int
    parts: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Hypothesis:
    """One translation as ids, without BEGIN and END.

    ``score`` ranks hypotheses of one sentence; ``log_prob`` is the natural log of the model's probability, END included;
    ``token_log_probs`` holds its terms, one per token and END's last where the sentence ended by itself;
    ``finished`` is False where the length cap cut it.
    """

    tokens: list[int]
    score: float
    log_prob: float
    token_log_probs: list[float]
    finished: bool = True
