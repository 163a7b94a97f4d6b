"""Batches of pairs of similar length, within a budget of padded tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tfm_cli.transformer.special import PAD

if TYPE_CHECKING:
    from tfm_cli.transformer.batch import Batch


@dataclass(frozen=True)
class Plan:
    """One epoch: the indices of each batch, and how many pairs are longer than a whole batch may be."""

    batches: list[np.ndarray]
    left_out: int


def plan(
    lengths: np.ndarray,
    batch_tokens: int,
    seed: int = 0,
    epoch: int = 0,
    multiple: int = 1,
) -> Plan:
    """Cut an epoch into batches; the same (seed, epoch) gives the same batches on every machine.

    Args:
        lengths: [N, 2] tokens of source and target.
        batch_tokens: the padded tokens of a batch, sentences times the longest one, stay within it on either side.
        multiple: lengths are padded up to a multiple of this, so that few shapes of batch occur (see `collate`).
    """
    # Raw bits of PCG64 are fixed by definition; NumPy's own shuffles may change from one version to the next.
    random = np.random.PCG64([seed, epoch])
    longest = -(-lengths.max(axis=1, initial=0) // multiple) * multiple
    fitting = np.flatnonzero(longest <= batch_tokens)
    order = fitting[_by_length(lengths[fitting], random)]
    ends = _cut(longest[order].tolist(), batch_tokens)
    batches = np.split(order, ends[:-1]) if ends else []
    shuffled = np.argsort(random.random_raw(len(batches)), kind="stable")
    return Plan([batches[i] for i in shuffled], len(lengths) - len(fitting))


def collate(
    pairs: Sequence[tuple[Sequence[int] | np.ndarray, Sequence[int] | np.ndarray]], multiple: int = 1
) -> "Batch":
    """Pairs of ids that end with END -> source [B, S] and target [B, T], padded on the right to a ``multiple``, packed."""
    import torch

    from tfm_cli.transformer.batch import Batch

    sources, targets = (_pad([pair[side] for pair in pairs], multiple) for side in (0, 1))
    return Batch(torch.from_numpy(sources), torch.from_numpy(targets)).packed()


def _by_length(lengths: np.ndarray, random: np.random.PCG64) -> np.ndarray:
    """An order in which neighbours are about as long on both sides, and which is another one in each epoch."""
    # One pair in eight counts as a token longer, so that batches are not made of the same pairs every time.
    longest = lengths.max(axis=1, initial=0) + (random.random_raw(len(lengths)) >> np.uint64(61) == 0)
    # The shorter side runs up and down by turns: where the longer one grows, it goes on from where it was.
    slack = lengths[:, 1].astype(np.int64) - lengths[:, 0]
    return np.lexsort((random.random_raw(len(lengths)), np.where(longest % 2, -slack, slack), longest))


def _cut(longest: list[int], batch_tokens: int) -> list[int]:
    """Where each batch ends; ``longest`` holds the longer side of each pair in order."""
    ends = []
    start = width = 0
    for i, length in enumerate(longest):
        width = max(width, length)
        if (i + 1 - start) * width > batch_tokens:
            ends.append(i)
            start, width = i, length
    return [*ends, len(longest)] if longest else []


def _pad(rows: Sequence[Sequence[int] | np.ndarray], multiple: int) -> np.ndarray:
    lengths = np.array([len(row) for row in rows])
    width = -(-int(lengths.max(initial=1)) // multiple) * multiple
    padded = np.full((len(rows), width), PAD, np.int64)
    padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return padded
