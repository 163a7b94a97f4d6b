"""CTC: every way in which a row of slots can write a sentence, summed or searched (Graves et al. 2006).

Each of L slots says a token or BLANK; neighbours that say the same are merged, then BLANKs are dropped. The ways to write
y_1 .. y_T are the paths through a lattice of L slots times U = 2T + 1 states: a blank, y_1, a blank, y_2, .., y_T, a blank.
From one slot to the next a path stays, moves on by one state, or skips the blank between two tokens that differ.

``emissions`` [B, L, 1 + T] hold what a slot gives for BLANK (column 0) and for each of the sentence's own T tokens: no other
word of the vocabulary matters. ``target`` [B, T] has no END and is padded with PAD, ``slots`` [B] are the rows' lengths.
Inside, slots and states come first and sentences last, so that a step is a few operations on contiguous rows.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.transformer.special import BLANK, PAD

# In place of minus infinity, whose differences are no numbers.
NEVER = -1e30


def needed_slots(target: Tensor) -> Tensor:
    """The fewest slots [B] that can write targets [B, T]: one a token, and a blank between equal neighbours."""
    return (target != PAD).sum(1) + ((target[:, 1:] == target[:, :-1]) & (target[:, 1:] != PAD)).sum(1)


def collapse(ids: Tensor) -> Tensor:
    """What slots [B, L], padded with PAD, say: [B, L] bool, True at the first slot of each token."""
    before = F.pad(ids[:, :-1], (1, 0), value=PAD)
    return (ids != before) & (ids != BLANK) & (ids != PAD)


def owners(ids: Tensor, kept: Tensor) -> Tensor:
    """Which token each slot of ids [B, L] belongs to, given `collapse`'s answer: [B, L] indices.

    Repetitions belong to their token, blanks to the token that follows, and those after the last one to the end, whose index
    is the number of tokens.
    """
    return (kept.cumsum(1) - (ids != BLANK).long()).clamp(min=0)


def ctc_sum(emissions: Tensor, target: Tensor, slots: Tensor) -> Tensor:
    """Log of the sum over all paths of the exponential of what their slots give: [B], minus infinity where there is no path.

    With log-probabilities this is the log-likelihood (equation 8). Any other numbers do as well: all paths visit every slot,
    so that a constant added to a slot is added to the sum.
    """
    total: Tensor = _CtcSum.apply(emissions, target, slots)
    return total


class _CtcSum(torch.autograd.Function):
    """The gradient is the probability that a path passes through a state: forward times backward variables (equation 14)."""

    @staticmethod
    def forward(ctx: Any, emissions: Tensor, target: Tensor, slots: Tensor) -> Tensor:
        states, ends = _states(emissions), 2 * (target != PAD).sum(1)
        trail = _forward_variables(states, target)
        total = _last(trail, slots, ends).logsumexp(1)
        possible = total > NEVER / 2
        if ctx.needs_input_grad[0]:
            # In place: what was the sum over the beginnings becomes the share of all paths.
            passed = trail[:, 2:]
            passed += _backward_variables(states, target, slots, ends)
            passed -= total
            passed.exp_()
            outside = torch.arange(len(states), device=slots.device)[:, None] >= slots
            passed.masked_fill_((outside | ~possible)[:, None], 0)
            gradient = torch.empty_like(emissions)
            gradient[..., 0] = passed[:, 0::2].sum(1).T
            gradient[..., 1:] = passed[:, 1::2].permute(2, 0, 1)
            ctx.save_for_backward(gradient)
        return total.masked_fill(~possible, float("-inf"))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient * grads[0][:, None, None], None, None


def _states(emissions: Tensor) -> Tensor:
    """[B, L, 1 + T] -> [L, U, B]: what each slot gives in each state of the lattice."""
    batch, length, columns = emissions.shape
    states = emissions.new_empty(length, 2 * columns - 1, batch)
    states[:, 0::2] = emissions[..., 0].T[:, None]
    states[:, 1::2] = emissions[..., 1:].permute(1, 2, 0)
    return states


def _skips(target: Tensor, like: Tensor) -> Tensor:
    """[T, B]: 0 where the blank before a token may be skipped, else NEVER."""
    allowed = F.pad(target[:, 1:] != target[:, :-1], (1, 0))[:, : target.shape[1]]
    return torch.where(allowed, 0.0, NEVER).to(like.dtype).T.contiguous()


def _trail(states: Tensor) -> Tensor:
    """Room for the forward variables [L, 2 + U, B] with the first slot's filled in. Two rows before state 0 are NEVER."""
    length, width, batch = states.shape
    trail = states.new_full((length, 2 + width, batch), NEVER)
    trail[0, 2:4] = states[0, :2]
    return trail


def _forward_variables(states: Tensor, target: Tensor) -> Tensor:
    """Log-sum over all beginnings of paths that end in a state at a slot (equations 6 and 7): [L, 2 + U, B]."""
    trail, skips = _trail(states), _skips(target, states)
    skipped = torch.empty_like(skips)
    for slot in range(1, len(states)):
        before, after = trail[slot - 1], trail[slot]
        here, tokens = after[2:], after[3::2]
        torch.logaddexp(before[2:], before[1:-1], out=here)
        torch.add(before[1 : 2 * len(skips) : 2], skips, out=skipped)
        torch.logaddexp(tokens, skipped, out=tokens)
        here += states[slot]
    return trail


def _backward_variables(states: Tensor, target: Tensor, slots: Tensor, ends: Tensor) -> Tensor:
    """Log-sum over all ways to go on from a state at a slot to the end (equations 10 and 11, less the slot's own emission):
    [L, U, B]. From the last slot on it is 0 in the two states in which a path may end, NEVER elsewhere.
    """
    length, width, batch = states.shape
    state = torch.arange(width, device=slots.device)[:, None]
    ending = torch.where((state == ends) | (state == ends - 1), 0.0, NEVER).to(states.dtype)
    result, skips = torch.empty_like(states), _skips(target, states)[1:]
    result[-1] = ending
    # Two rows after the last state are NEVER.
    after = states.new_full((width + 2, batch), NEVER)
    skipped = torch.empty_like(skips)
    shortest = int(slots.min())
    for slot in range(length - 2, -1, -1):
        here = result[slot]
        torch.add(result[slot + 1], states[slot + 1], out=after[:-2])
        torch.logaddexp(after[:-2], after[1:-1], out=here)
        torch.add(after[3:-2:2], skips, out=skipped)
        tokens = here[1:-2:2]
        torch.logaddexp(tokens, skipped, out=tokens)
        if slot >= shortest - 1:
            torch.where(slot < slots - 1, here, ending, out=here)
    return result


def _last(trail: Tensor, slots: Tensor, ends: Tensor) -> Tensor:
    """The variables [B, 2] of the two states in which a path may end: the last token, and the blank after it."""
    last = trail[slots - 1, :, torch.arange(len(slots), device=slots.device)]
    return last.gather(1, torch.stack((ends + 1, ends + 2), 1))


@torch.no_grad()
def ctc_align(emissions: Tensor, target: Tensor, slots: Tensor) -> Tensor:
    """The best single path: what each slot says in it, [B, L] ids, PAD beyond the slots (Viterbi).

    Of a sentence without a path the answer means nothing.
    """
    states, ends = _states(emissions), 2 * (target != PAD).sum(1)
    trail, skips = _trail(states), _skips(target, states)
    moved = torch.zeros(states.shape, dtype=torch.bool, device=states.device)
    jumped = moved[:, 1::2].clone()
    skipped = torch.empty_like(skips)
    for slot in range(1, len(states)):
        before, after = trail[slot - 1], trail[slot]
        here, tokens = after[2:], after[3::2]
        torch.gt(before[1:-1], before[2:], out=moved[slot])
        torch.maximum(before[2:], before[1:-1], out=here)
        torch.add(before[1 : 2 * len(skips) : 2], skips, out=skipped)
        torch.gt(skipped, tokens, out=jumped[slot])
        torch.maximum(tokens, skipped, out=tokens)
        here += states[slot]
    steps = moved.long()
    steps[:, 1::2].masked_fill_(jumped, 2)
    steps.masked_fill_(torch.arange(len(states), device=slots.device)[:, None, None] >= slots, 0)
    last = _last(trail, slots, ends)
    path = _trace(steps, ends - (last[:, 0] > last[:, 1]).long())
    said = torch.where(path % 2 == 1, _token_at(target, path), BLANK)
    return said.masked_fill(torch.arange(len(states), device=slots.device) >= slots[:, None], PAD)


def _trace(steps: Tensor, state: Tensor) -> Tensor:
    """Walk back from the last states [B] by ``steps`` [L, U, B]: the state at each slot, [B, L]."""
    path = [state]
    for taken in reversed(steps[1:].unbind()):
        path.append(path[-1] - taken.gather(0, path[-1][None])[0])
    return torch.stack(path[::-1], 1)


def _token_at(target: Tensor, path: Tensor) -> Tensor:
    """The tokens of states [B, L]; of a blank's state, any."""
    if target.shape[1] == 0:
        return torch.full_like(path, PAD)
    return target.gather(1, (path // 2).clamp(max=target.shape[1] - 1))
