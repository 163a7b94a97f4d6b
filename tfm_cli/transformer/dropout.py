"""Dropout whose random numbers cost little on a CPU."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """Zero each element with probability p and scale the rest by 1/(1-p), in training only (Srivastava et al. 2014).

    On a CPU torch draws one float per element in a single thread, which takes longer than the layers around it. Here one
    64-bit draw decides four elements, each by 16 of its bits, so p is kept to within 1/65536 and elements stay independent.
    The draws are those of NumPy's SFC64, each mask's seeded from torch's generator.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        dropped: Tensor = _Masked.apply(x, *keep_mask(x.shape, self.p))
        return dropped

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """``x + dropout(y)``."""
        if not self.training or self.p == 0:
            return x + y
        if x.device.type != "cpu":
            return x + F.dropout(y, self.p)
        total: Tensor = _MaskedSum.apply(x, y, *keep_mask(y.shape, self.p))
        return total

    def extra_repr(self) -> str:
        return f"p={self.p}"


def keep_mask(shape: torch.Size, p: float) -> tuple[Tensor, float]:
    """A bool CPU tensor of ``shape``, False with probability p (to 1/65536), and the scale 1/(1-p) of what is kept."""
    count = shape.numel()
    seed = int(torch.randint(2**63 - 1, ()))
    bits = torch.from_numpy(np.random.SFC64(seed).random_raw(-(-count // 4)).view(np.int16))[:count]
    dropped = round(p * _LEVELS)
    return (bits >= dropped - _LEVELS // 2).view(shape), _LEVELS / (_LEVELS - dropped)


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return keep.to(x.dtype).mul_(x).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return keep.to(grads[0].dtype).mul_(grads[0]).mul_(ctx.scale), None, None


class _MaskedSum(torch.autograd.Function):
    """``x + scale * keep * y`` in one pass; the mask is kept as bool, a byte for an element."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, keep: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return torch.addcmul(x, keep.to(y.dtype), y, value=scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return grads[0], keep.to(grads[0].dtype).mul_(grads[0]).mul_(ctx.scale), None, None
