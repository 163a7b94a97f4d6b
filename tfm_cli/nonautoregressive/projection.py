"""Losses that know their own few words of each sentence, without ever holding all logits.

A log-probability is a logit less the position's log-normaliser. The logits that a dynamic program asks for are products with
a few rows of the output weight, in float32; only the normaliser takes the whole vocabulary. Its gradient is the softmax,
which at a position that is sure of its word all but cancels that of the word's logit. So the two are put together in float32
before they meet the weight: the difference of their products in bfloat16 would be noise.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tfm_cli.nonautoregressive.family import CHUNK, chunked_log_probs
from tfm_cli.nonautoregressive.slots import on_grid
from tfm_cli.transformer.embedding import embed
from tfm_cli.transformer.loss import chunk_rows
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.packing import whole_rows

_NEGLIGIBLE = 1e-3  # a position's gradient this small beside the mean of all is left out


def needed_logits(states: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """Logits of each sentence's own tokens: states [B, L, D], weight [V, D], ids [B, U] -> [B, L, U], at least float32."""
    wide = torch.promote_types(states.dtype, torch.float32)
    return states.to(wide) @ embed(ids, weight, 1.0).to(wide).transpose(1, 2)


def needed_log_probs(states: Tensor, real: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """Log-probabilities of each sentence's own tokens, [B, L, U], at least float32; beyond a row they mean nothing.

    The backward pass forms the logits once more, and only of positions whose gradient counts.

    Args:
        states: [N, D] at the N ``real`` [B, L] positions.
        weight: [V, D] of the output.
        ids: [B, U], any word any number of times.
    """
    log_probs: Tensor = _NeededLogProbs.apply(states, real, weight, ids)
    return log_probs


def given_log_probs(network: Transformer, states: Tensor, real: Tensor, ids: Tensor) -> Tensor:
    """`needed_log_probs` by the output that ``network`` decodes with, which in use may be another than the weight's."""
    if network.projection is None:
        return needed_log_probs(states, real, network.output_weight, ids)
    parts = zip(chunked_log_probs(network, states), ids[real.nonzero()[:, 0]].split(CHUNK), strict=True)
    found = [likely.gather(1, each) for likely, each in parts]
    log_probs = states.new_zeros(*real.shape, ids.shape[1], dtype=torch.float32)
    log_probs[real] = torch.cat(found)
    return log_probs


def path_loss(states: Tensor, real: Tensor, weight: Tensor, ids: Tensor, paths: Callable[[Tensor], Tensor]) -> Tensor:
    """The negative log-likelihood of sentences whose paths visit every position, summed: a scalar.

    Constants added to a position's logits are added to what ``paths`` says of them, so that it needs no normaliser, and the
    gradient of all is formed in the visit that finds those.

    Args:
        states, real, weight, ids: as in `needed_log_probs`.
        paths: needed logits [B, L, U] -> [B], minus infinity for a sentence without a path, which is left out.
    """
    total: Tensor = _PathLoss.apply(states, real, weight, ids, paths, torch.is_grad_enabled())
    return total


class _NeededLogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, real: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
        log_probs = needed_logits(on_grid(states, real), weight, ids)
        log_probs[real] -= _normalisers(states, weight, _Needed(log_probs, real, ids))[:, None]
        ctx.save_for_backward(states, real, weight, ids, log_probs)
        return log_probs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None]:
        states, real, weight, ids, log_probs = ctx.saved_tensors
        size = grads[0].abs().sum(2)[real]
        counting = size > _NEGLIGIBLE * size.mean()
        needed = _Needed(log_probs, real.masked_scatter(real, counting), ids, -grads[0])
        gradient = _Gradient(weight)
        _normalisers(states[counting], weight, needed, gradient)
        return gradient.of_states(states, counting), None, gradient.of_weight.to(weight.dtype), None


class _PathLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        real: Tensor,
        weight: Tensor,
        ids: Tensor,
        paths: Callable[[Tensor], Tensor],
        learning: bool,
    ) -> Tensor:
        logits, gradient, shares = needed_logits(on_grid(states, real), weight, ids), None, None
        if learning:
            with torch.enable_grad():
                found = paths(logits.requires_grad_())
                (shares,) = torch.autograd.grad(found.sum(), logits)
            logits, found, gradient = logits.detach(), found.detach(), _Gradient(weight)
        else:
            found = paths(logits)
        usable = found != float("-inf")
        there = real & usable[:, None]
        counting = there[real]
        total = _normalisers(states[counting], weight, _Needed(logits, there, ids, shares), gradient).sum()
        if gradient is not None:
            ctx.save_for_backward(gradient.of_states(states, counting), gradient.of_weight.to(weight.dtype))
        return total - found[usable].sum()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, Tensor, None, None, None]:
        of_states, of_weight = (each * grads[0].to(each.dtype) for each in ctx.saved_tensors)
        return of_states, None, of_weight, None, None, None


class _Needed:
    """What N positions know of their sentences' words, each word once: [N, U] columns, logits and shares.

    ``shares`` [B, L, U] are what the loss gains by a log-probability. They add up at each position to the weight of its
    softmax. A word's later copies have the logit minus infinity, and its first one all shares.
    """

    def __init__(self, logits: Tensor, there: Tensor, ids: Tensor, shares: Tensor | None = None) -> None:
        sentence = there.nonzero()[:, 0]
        first = (ids[:, :, None] == ids[:, None]).int().argmax(2)
        again = first != torch.arange(ids.shape[1], device=ids.device)
        self.columns = ids[sentence]
        self.logits = logits[there].masked_fill_(again[sentence], float("-inf"))
        self.shares = None
        if shares is not None:
            given = shares[there]
            self.shares = torch.zeros_like(given).scatter_add_(1, first[sentence], given)


class _Gradient:
    """Gradients of states, a chunk after the other, and of the weight, added up."""

    def __init__(self, weight: Tensor) -> None:
        self.of_weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        self._states = [weight[:0]]

    def add(self, of_logits: Tensor, states: Tensor, weight: Tensor) -> None:
        self._states.append(of_logits @ weight)
        self.of_weight += of_logits.T @ states

    def of_states(self, states: Tensor, counting: Tensor) -> Tensor:
        """The gradients of those ``counting`` [N] among all states, 0 elsewhere: [N, D]."""
        result = torch.zeros_like(states)
        found = torch.cat(self._states)
        result[counting] = found[: int(counting.sum())]
        return result


def _normalisers(states: Tensor, weight: Tensor, needed: _Needed, gradient: _Gradient | None = None) -> Tensor:
    """Log-normalisers [N], consistent with the needed logits; on the way the gradient of the loss that shares belong to."""
    chunk, states = chunk_rows(len(weight)), whole_rows(states)
    buffers = [states.new_empty(min(chunk, len(states)), len(weight)) for _ in range(2)]
    wide = needed.logits.dtype
    normalisers = [needed.logits.new_empty(0)]
    for begin in range(0, len(states), chunk):
        rows = slice(begin, begin + chunk)
        here, columns, own = states[rows], needed.columns[rows], needed.logits[rows]
        logits, all_words = (buffer[: len(here)] for buffer in buffers)
        torch.mm(here, weight.T, out=logits)
        torch.softmax(logits, -1, out=all_words)
        softmax = all_words[: len(own)]
        # All other words' sum, in units of the likeliest needed one, whose exact logit is known.
        highest, at = own.max(1, keepdim=True)
        unit = softmax.gather(1, columns.gather(1, at)).to(wide)
        softmax.scatter_(1, columns, 0)
        rest = softmax.sum(1, keepdim=True, dtype=wide) / unit.clamp_min(torch.finfo(wide).tiny)
        p = (own - highest).exp_()
        total = p.sum(1, keepdim=True) + rest
        normalisers.append((highest + total.log())[:, 0])
        if gradient is not None and needed.shares is not None:
            shares = needed.shares[rows]
            mass = shares.sum(1, keepdim=True)
            softmax *= mass.to(softmax.dtype)
            softmax.scatter_add_(1, columns, (mass * p / total - shares).to(softmax.dtype))
            all_words[len(own) :] = 0
            gradient.add(all_words, here, weight)
    return torch.cat(normalisers)
