"""What goes into a family and what comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from tfm_cli.transformer.hypothesis import Hypothesis as Hypothesis
from tfm_cli.transformer.packing import Packing
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
    each family adds what its decoder reads. ``packings`` of both, where they are given, let a family skip the padding.
    """

    source: Tensor
    target: Tensor
    packings: tuple[Packing, Packing] | None = None

    @classmethod
    def of(cls, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> "Batch":
        """Pad ids that already end with END."""
        return cls(pad(sources), pad(targets))

    def pack(self) -> tuple[Packing, Packing]:
        """The packings of both sides."""
        return Packing.of(self.source), Packing.of(self.target)

    def packed(self) -> "Batch":
        """The same with its packings."""
        return replace(self, packings=self.pack())

    def pin(self) -> "Batch":
        """The same in memory from which a GPU copies by itself."""
        packings = self.packings and (self.packings[0].pin(), self.packings[1].pin())
        return Batch(self.source.pin_memory(), self.target.pin_memory(), packings)

    def to(self, device: torch.device | str) -> "Batch":
        packings = self.packings and (self.packings[0].to(device), self.packings[1].to(device))
        return Batch(self.source.to(device, non_blocking=True), self.target.to(device, non_blocking=True), packings)


@dataclass(frozen=True)
class LossReport:
    """A loss summed, not averaged, so that micro-batches and machines add up to the right mean.

    ``sum`` is the scalar to differentiate; ``count`` the number of real target tokens behind it (END included);
    ``parts`` are detached scalars summed likewise, such as ``nll`` in nats without label smoothing.
    """

    sum: Tensor
    count: int
    parts: dict[str, Tensor] = field(default_factory=dict)
