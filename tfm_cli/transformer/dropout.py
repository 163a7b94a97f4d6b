"""Dropout whose random numbers cost little on a CPU."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

_LEVELS = 1 << 16


class Dropout(nn.Module):
    """Zero each element with probability p and scale the rest by 1/(1-p), in training only (Srivastava et al. 2014).

    On a CPU torch draws one float per element in a single thread, which takes longer than the layers around it. Here one
    64-bit draw decides four elements, each by 16 of its bits, so p is kept to within 1/65536 and elements stay independent.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return x * keep_mask(x.shape, self.p, x.dtype)

    def extra_repr(self) -> str:
        return f"p={self.p}"


def keep_mask(shape: torch.Size, p: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """A CPU tensor of ``shape`` holding 0 with probability p (to 1/65536) and 1/(1-p) elsewhere."""
    count = shape.numel()
    bits = torch.empty(-(-count // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:count]
    dropped = round(p * _LEVELS)
    keep = (bits >= dropped - _LEVELS // 2).to(dtype)
    return keep.mul_(_LEVELS / (_LEVELS - dropped)).view(shape)
