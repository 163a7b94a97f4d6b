"""Prefix beam search over CTC's slots (Graves 2012, section 7.5; Hannun et al. 2014, algorithm 1).

The best path is one way to write a sentence; the likeliest sentence is the one whose ways add up to most. Slot by slot the
search keeps the likeliest beginnings of sentences, each with the sum over all ways to have written it so far.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.nonautoregressive.family import NEVER
from tfm_cli.transformer.special import PAD

_FACTOR = 6364136223846793005  # odd, so that no bit of a name is lost in its children's
_NOBODY = -1  # no beginning's name


class _Beam(NamedTuple):
    """W beginnings of each of B sentences, likeliest first. All are [B, W]; the last two are log-probabilities."""

    name: Tensor  # a number that tells beginnings apart
    stem: Tensor  # the name of the beginning without its last token
    last: Tensor  # the last token
    closed: Tensor  # of all ways that end in a blank
    open: Tensor  # of all ways that end in the last token, which one more slot can repeat


def likeliest_sentences(
    words: Tensor, log_probs: Tensor, blank: Tensor, width: int
) -> list[list[tuple[list[int], float]]]:
    """Per sentence at most ``width`` different ones, likeliest first, with their log-probabilities.

    With all words of a small vocabulary and a width that holds all beginnings this is exact; else a sum lacks the ways through
    what was not kept, and a word that is not among a slot's K is never said there.

    Args:
        words: [B, L, K] ids, the K likeliest words of each slot, none twice.
        log_probs: [B, L, K] of these; minus infinity beyond a row's end.
        blank: [B, L] log-probability of the blank; 0 beyond a row's end.
    """
    beam = _start(blank)
    steps = []
    for slot in range(words.shape[1]):
        beam, parent, token = _step(beam, words[:, slot], log_probs[:, slot], blank[:, slot, None], width)
        steps.append((parent, token))
    totals = torch.logaddexp(beam.closed, beam.open).tolist()
    return [
        [(tokens, total) for tokens, total in zip(rows, each, strict=True) if total > NEVER]
        for rows, each in zip(_traced(steps, beam.last), totals, strict=True)
    ]


def _start(blank: Tensor) -> _Beam:
    """The empty beginning alone."""
    zero = blank.new_zeros(len(blank), 1)
    nothing = torch.zeros_like(zero, dtype=torch.int64)
    return _Beam(nothing, nothing + _NOBODY, nothing + PAD, zero, zero + NEVER)


def _step(beam: _Beam, words: Tensor, log_probs: Tensor, blank: Tensor, width: int) -> tuple[_Beam, Tensor, Tensor]:
    """One slot on: the beam, which of the old one each came from, and the token that it added, PAD for none."""
    total, count = torch.logaddexp(beam.closed, beam.open), words.shape[1]
    again = words[:, None] == beam.last[..., None]
    once_more = log_probs[:, None].masked_fill(~again, NEVER).amax(2)  # the last token's at this slot
    # A token is said twice only with a blank between.
    grown = torch.where(again, beam.closed[..., None], total[..., None]) + log_probs[:, None]
    # Where a beginning's stem is in the beam too, what would grow from that into it joins it.
    stems = beam.name[..., None] == beam.stem[:, None]
    stem, column = stems.int().argmax(1), again.int().argmax(2)
    joins = stems.any(1) & again.any(2)
    place = torch.where(joins, stem * count + column, grown.shape[1] * count)
    every = F.pad(grown.flatten(1), (0, 1), value=NEVER)
    joined = every.gather(1, place)
    grown = every.scatter(1, place, NEVER)[:, :-1]
    closed, open = total + blank, torch.logaddexp(beam.open + once_more, joined)

    every = torch.cat((torch.logaddexp(closed, open), grown), 1)
    best, place = (each[:, :width] for each in every.sort(dim=1, descending=True, stable=True))
    # Place i of W is a beginning that stays; those after them grew, ``count`` from each.
    before = beam.name.shape[1]
    stays = place < before
    parent = torch.where(stays, place, (place - before) // count)
    token = words.gather(1, torch.where(stays, 0, (place - before) % count))
    name = beam.name.gather(1, parent)
    # A beginning without a probability only fills the beam: it is nobody, and nothing joins it.
    lives = best > NEVER
    kept = _Beam(
        torch.where(stays, name, name * _FACTOR + token + 1).masked_fill(~lives, _NOBODY - 1),
        torch.where(stays, beam.stem.gather(1, parent), name).masked_fill(~lives, _NOBODY),
        torch.where(stays, beam.last.gather(1, parent), token),
        closed.gather(1, parent).masked_fill(~stays, NEVER),
        torch.where(stays, open.gather(1, parent), best),
    )
    return kept, parent, torch.where(stays, PAD, token)


def _traced(steps: list[tuple[Tensor, Tensor]], last: Tensor) -> list[list[list[int]]]:
    """What each beginning of the last beam says, from where each slot's beam came from and what it added."""
    place = torch.arange(last.shape[1], device=last.device).expand_as(last)
    added = []
    for parent, token in reversed(steps):
        added.append(token.gather(1, place))
        place = parent.gather(1, place)
    rows = torch.stack(added[::-1], 2).tolist()
    return [[[token for token in row if token != PAD] for row in each] for each in rows]
