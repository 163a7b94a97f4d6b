"""Rows of the embedding matrix (section 3.4)."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F


def embed(ids: Tensor, weight: Tensor, scale: float) -> Tensor:
    """Rows ``ids`` of weight [V, D], times ``scale``: ids [..] -> [.., D].

    In bfloat16 the gradients of a frequent token are added up in float32: a bfloat16 sum of hundreds stops growing.
    """
    if weight.dtype != torch.bfloat16 or not torch.is_grad_enabled():
        return F.embedding(ids, weight) * scale
    rows: Tensor = _WideSum.apply(ids, weight, scale)
    return rows


class _WideSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, weight: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape, ctx.scale = weight.shape, scale
        return F.embedding(ids, weight) * scale

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        (ids,) = ctx.saved_tensors
        gradient = grads[0].flatten(0, -2)
        total = torch.zeros(ctx.shape, device=gradient.device).index_add_(
            0, ids.flatten(), gradient.float(), alpha=ctx.scale
        )
        return None, total.to(gradient.dtype), None
