"""`--batch-tokens auto`: the largest micro-batch that memory has room for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tfm_cli.data.batching import collate, plan
from tfm_cli.data.storage import Split
from tfm_cli.errors import TfmError
from tfm_cli.training.distributed import World
from tfm_cli.training.learner import Learner
from tfm_cli.training.memory import Gauge, is_out_of_memory

LARGEST, STEP = 16_384, 256  # tokens
UNKNOWN = 2048  # tokens, where memory cannot be measured
TRIALS = (512, 2048)
SHARE = 0.75  # of what is free; the rest is for validation, for longer batches than those tried, and for others


@dataclass(frozen=True)
class Sizing:
    """A token budget, and why it is this one."""

    batch_tokens: int
    reason: str


def largest_batch(learner: Learner, split: Split, world: World) -> Sizing:
    """The largest token budget for the memory at hand, the same on all ranks; weights and random states stay as they are.

    Raises:
        TfmError: not even the smallest one fits.
    """
    found = _largest_here(learner, split, world)
    least = world.least(found.batch_tokens)
    return found if least == found.batch_tokens else Sizing(least, "the process with the least memory allows no more")


def _largest_here(learner: Learner, split: Split, world: World) -> Sizing:
    multiple = learner.multiple
    trials = [(size, chosen) for size in TRIALS if (chosen := _heaviest(split.lengths, size, multiple))]
    gauge = Gauge(learner.device)
    if gauge.free is None or not trials:
        return Sizing(UNKNOWN, f"memory cannot be measured on {learner.device.type} here")
    sharing = 1 if learner.device.type == "cuda" else world.local_size
    free = int(SHARE * gauge.free / sharing) - learner.optimizer.bytes_of_updates

    def rehearse(chosen: Sequence[np.ndarray]) -> None:
        for indices in chosen:
            learner.rehearse(collate(split.pairs(indices), multiple).to(learner.device))

    points: list[tuple[int, int]] = []
    for size, chosen in trials:
        try:
            if not points:  # what only the first step takes must not count for the small trial alone
                rehearse(chosen[:1])
            points.append((_tokens(split.lengths, chosen[0], multiple), gauge.peak(partial(rehearse, chosen))))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if not points:
                raise _too_small(size, free) from error
            smaller = range(size - STEP, TRIALS[0], -STEP)
            found = next((each for each in smaller if _fits(learner, split, each)), TRIALS[0])
            return Sizing(found, f"memory has no room for {size:,}")
    tokens = budget(points, free)
    if tokens < STEP:
        raise _too_small(STEP, free)
    while learner.device.type == "cuda" and tokens > STEP and not _fits(learner, split, tokens):
        tokens = tokens // 2 // STEP * STEP
    if tokens == LARGEST:
        return Sizing(tokens, f"the most that auto takes; {free / 1e9:.1f} GB are at hand for a step")
    return Sizing(tokens, f"what {free / 1e9:.1f} GB have room for")


def budget(points: Sequence[tuple[int, int]], free: int) -> int:
    """Tokens, a multiple of `STEP` up to `LARGEST`, that ``free`` bytes suffice for, by a line through (tokens, bytes)."""
    (low, less), (high, more) = points[0], points[-1]
    if high > low and more > less:
        slope = (more - less) / (high - low)
        tokens = int((free - less) / slope) + low
    else:
        tokens = LARGEST if free > more else 0
    return max(0, min(LARGEST, tokens // STEP * STEP))


def _heaviest(lengths: np.ndarray, size: int, multiple: int) -> list[np.ndarray]:
    """Of the batches of ``size`` tokens the one with the most, and the one with the longest sentences."""
    batches = plan(lengths, size, multiple=multiple).batches
    if not batches:
        return []
    largest = max(batches, key=lambda batch: _tokens(lengths, batch, multiple))
    longest = max(batches, key=lambda batch: int(lengths[batch].max()))
    return [largest, longest]


def _tokens(lengths: np.ndarray, batch: np.ndarray, multiple: int) -> int:
    return len(batch) * -(-int(lengths[batch].max()) // multiple) * multiple


def _fits(learner: Learner, split: Split, size: int) -> bool:
    try:
        for indices in _heaviest(split.lengths, size, learner.multiple):
            learner.rehearse(collate(split.pairs(indices), learner.multiple).to(learner.device))
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        return False
    return True


def _too_small(tokens: int, free: int) -> TfmError:
    return TfmError(
        f"a batch of {tokens} tokens does not fit into {max(0, free) / 1e9:.1f} GB of memory",
        where="--batch-tokens auto",
        fix="Use a smaller network (--preset), or free some memory.",
    )
