"""Glancing: the decoder is shown a part of the translation in training, the more the more it gets wrong.

Glancing Transformer (Qian et al. 2021, section 3): a first pass without gradient tells how many positions are wrong, a share
of that number of positions is revealed, and the second pass learns what stayed hidden. Using the model is untouched by it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from tfm_cli.transformer.packing import whole_rows


@dataclass(frozen=True)
class Glancing:
    """How much is revealed at the ``start`` of a training and at its ``end``: see `share`."""

    start: float
    end: float

    @classmethod
    def chosen(cls, glancing: bool, start: float, end: float | None, default_end: float = 0.3) -> "Glancing | None":
        """What the options of the same names ask for, in a family that ends at ``default_end`` where they do not say."""
        return cls(start, default_end if end is None else end) if glancing else None


def share(progress: float, start: float, end: float) -> float:
    """What part of the wrong positions is revealed: from ``start`` to ``end`` along a line as progress goes from 0 to 1."""
    return start + (end - start) * min(max(progress, 0.0), 1.0)


def revealed(part: float, wrong: Tensor) -> Tensor:
    """How many of ``wrong`` [B] positions are shown: ``part`` of them, rounded at random so that it is the mean: [B]."""
    return (part * wrong + torch.rand(wrong.shape, device=wrong.device)).floor()


def errs(states: Tensor, weight: Tensor, ids: Tensor, forbidden: Sequence[int], chunk: int = 512) -> Tensor:
    """Whether a token that is not ``forbidden`` is likelier at states [N, D] than the one of ids [N]: [N] bool."""
    wrong = [ids.new_empty(0, dtype=torch.bool)]
    for here, right in zip(states.split(chunk), ids[:, None].split(chunk), strict=True):
        logits = (whole_rows(here) @ weight.T)[: len(here)]
        own = logits.gather(1, right)[:, 0]
        logits[:, list(forbidden)] = float("-inf")
        wrong.append(own < logits.amax(1))
    return torch.cat(wrong)


def choose(count: Tensor, among: Tensor) -> Tensor:
    """Of the True positions of ``among`` [B, T], ``count`` [B] at random in each row, or all: [B, T] bool."""
    noise = torch.rand(among.shape, device=among.device).masked_fill(~among, 2.0)
    rank = noise.argsort(1).argsort(1)
    return (rank < count[:, None]) & among


@contextmanager
def first_look(device: torch.device) -> Iterator[None]:
    """Compute without gradient, and give back every random number drawn.

    The pass right after it has the same dropout, so what is shown is chosen inside too.
    """
    others = [] if device.type == "cpu" else [device]
    kind = "cuda" if device.type == "cpu" else device.type
    with torch.random.fork_rng(others, device_type=kind), torch.no_grad():
        yield
