"""Logits and log-normalisers for losses that know their own few words of each sentence, without ever holding all logits.

A log-probability is a logit less the position's log-normaliser. The logits that a dynamic program asks for are products with
a few rows of the output weight; only the normaliser takes the whole vocabulary, and its gradient is the softmax.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tfm_cli.transformer.embedding import embed

_LOGITS = 1 << 24  # that exist at one time
_NEGLIGIBLE = 1e-7  # a gradient this small beside the mean of its kind vanishes in the sum


def needed_logits(states: Tensor, weight: Tensor, ids: Tensor) -> Tensor:
    """Logits of each sentence's own tokens: states [B, L, D], weight [V, D], ids [B, U] -> [B, L, U], at least float32."""
    wide = torch.promote_types(states.dtype, torch.float32)
    return states.to(wide) @ embed(ids, weight, 1.0).to(wide).transpose(1, 2)


def log_normalisers(states: Tensor, weight: Tensor) -> Tensor:
    """``log sum_v exp(states . weight_v)`` for states [N, D] and weight [V, D]: [N], at least float32.

    The backward pass forms the logits once more, and only of positions whose gradient counts.
    """
    if not torch.is_grad_enabled():
        return _normalised(states, weight, None)
    normalisers: Tensor = _LogNormalisers.apply(states, weight)
    return normalisers


def summed_log_normalisers(states: Tensor, weight: Tensor) -> Tensor:
    """``log_normalisers(states, weight).sum()``, whose gradient is known before any loss, hence formed in the same visit."""
    if not torch.is_grad_enabled():
        return _normalised(states, weight, None).sum()
    total: Tensor = _SummedLogNormalisers.apply(states, weight)
    return total


class _LogNormalisers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(states, weight)
        return _normalised(states, weight, None)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        states, weight = ctx.saved_tensors
        size = grads[0].abs()
        counting = (size > _NEGLIGIBLE * size.mean()).nonzero().squeeze(1)
        gradient = _Gradient(weight)
        _normalised(states[counting], weight, gradient, grads[0][counting])
        return torch.zeros_like(states).index_copy_(0, counting, gradient.states), gradient.weight.to(weight.dtype)


class _SummedLogNormalisers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor) -> Tensor:
        gradient = _Gradient(weight)
        total = _normalised(states, weight, gradient).sum()
        ctx.save_for_backward(gradient.states, gradient.weight.to(weight.dtype))
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        scale = grads[0]
        of_states, of_weight = ctx.saved_tensors
        return of_states * scale.to(of_states.dtype), of_weight * scale.to(of_weight.dtype)


class _Gradient:
    """Gradients of states, a chunk after the other, and of the weight, added up."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = torch.zeros_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
        self._states = [weight[:0]]

    def add(self, softmax: Tensor, states: Tensor, weight: Tensor) -> None:
        self._states.append(softmax @ weight)
        self.weight += softmax.T @ states

    @property
    def states(self) -> Tensor:
        return torch.cat(self._states)


def _normalised(states: Tensor, weight: Tensor, gradient: _Gradient | None, scale: Tensor | None = None) -> Tensor:
    """Log-normalisers [N]; on the way the gradient of their sum, or of their sum weighted by ``scale`` [N]."""
    chunk = max(1, _LOGITS // len(weight))
    buffers = [states.new_empty(min(chunk, len(states)), len(weight)) for _ in range(2)]
    wide = torch.promote_types(states.dtype, torch.float32)
    normalisers = [states.new_empty(0, dtype=wide)]
    for begin, here in _chunks(states, chunk):
        logits, softmax = (buffer[: len(here)] for buffer in buffers)
        torch.mm(here, weight.T, out=logits)
        torch.softmax(logits, -1, out=softmax)
        # The largest probability is 1 / sum(exp(logit - highest)), which gives the normaliser without another pass.
        normalisers.append(logits.amax(-1).to(wide) - softmax.amax(-1).to(wide).log())
        if gradient is not None:
            if scale is not None:
                softmax *= scale[begin : begin + len(here), None].to(softmax.dtype)
            gradient.add(softmax, here, weight)
    return torch.cat(normalisers)


def _chunks(states: Tensor, size: int) -> Iterator[tuple[int, Tensor]]:
    return ((begin, states[begin : begin + size]) for begin in range(0, len(states), size))
