"""A decoder's row that is a fixed number of times as long as the source: each source token's state, repeated.

CTC's slots and the vertices of a directed acyclic graph start from it. What stands at a slot is the state of the source token
below it plus an embedded id: MASK, or a token that glancing shows.
"""

import torch
from torch import Tensor

from tfm_cli.nonautoregressive.family import NEVER, decoded, hypothesis, packing_of, rows
from tfm_cli.transformer.batch import Hypothesis
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.special import MASK, PAD


def slot_counts(memory: Memory, factor: float, least: int = 1) -> Tensor:
    """``round(factor * S)`` for each source of S tokens, END included, halves upward; at least ``least``: [B]."""
    size = memory.mask[:, 0, 0].sum(1)
    return (factor * size.double().cpu() + 0.5).floor().long().clamp(min=least).to(size.device)


def blank_row(counts: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of ``counts`` [B] slots of which nothing is known: ids [B, L], MASK everywhere, and which exist, [B, L] bool."""
    real = rows(counts)
    return torch.full(real.shape, MASK, device=real.device), real


def slot_states(network: Transformer, memory: Memory, ids: Tensor, real: Tensor) -> Tensor:
    """The decoder's states over ids [B, L] at the ``real`` [B, L] slots, in reading order: [N, D].

    Where memory is without padding, so is the work of the decoder.
    """
    packing = packing_of(real) if memory.packing else None
    below = _source_cells(memory, real)
    if packing is not None and memory.packing is not None:
        below = memory.packing.rows[below.flatten()[packing.cells]]
        x = memory.states.index_select(0, below)
    else:
        x = memory.states.flatten(0, 1)[below]
    x = x + network.embed_target(ids, packing=packing)
    return decoded(network, x, memory, real, packing)


def on_grid(states: Tensor, real: Tensor) -> Tensor:
    """States [N, D] of the ``real`` [B, L] slots back in their places: [B, L, D]; what stands elsewhere means nothing."""
    return states[(real.flatten().cumsum(0) - 1).clamp(min=0).view(real.shape)]


def or_impossible(found: list[Hypothesis], target: Tensor, usable: Tensor) -> list[Hypothesis]:
    """Hypotheses of targets [B, T]; one that does not fit into its row (``usable`` [B] False) has probability 0."""
    answers = []
    for each, ids, fits in zip(found, target.tolist(), usable.tolist(), strict=True):
        words = [token for token in ids if token != PAD]
        answers.append(each if fits else hypothesis(words, [NEVER] * len(words), NEVER))
    return answers


def _source_cells(memory: Memory, real: Tensor) -> Tensor:
    """The source token below each slot, spread evenly, as its cell ``b * S + s``: [B, L]."""
    size, count = memory.mask[:, 0, 0].sum(1, keepdim=True), real.sum(1, keepdim=True)
    place = torch.arange(real.shape[1], device=real.device) * size // count
    sentence = torch.arange(len(real), device=real.device)[:, None]
    return sentence * memory.mask.shape[3] + place.minimum(size - 1)
