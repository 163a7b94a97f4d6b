"""Linear maps whose weights lie in the order in which a CPU reads them.

A plain product of a few rows, which is all that decoding has, spends much of its time on bringing the weight into that order,
each time anew. oneDNN can keep it there.
"""

from itertools import count

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfm_cli.engines.replace import replace_linear
from tfm_cli.transformer.family import Family

_ROWS = 64  # for which number of rows the order is chosen; any other is computed as well


class PackedLinear(nn.Module):
    """A linear map [.., I] -> [.., O] in the float type of its weight [O, I], for use only."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), _ROWS)
        self.bias = None if bias is None else bias.detach()
        self.weight = weight.new_empty(0)  # its float type is that of the results

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")
        return result


def pack(family: Family) -> None:
    """Replace the linear maps of a model on the CPU, where this build of torch can: what it has for that is for its compiler,
    and may be called otherwise in another version."""
    if _can_pack(family.network.output_weight.dtype):
        replace_linear(family, PackedLinear)


@torch.inference_mode()
def _can_pack(dtype: torch.dtype) -> bool:
    """Whether a packed map gives what a plain one gives."""
    steps = count(1)
    weight, bias, x = (
        torch.tensor([(next(steps) * 37 % 101) / 101 for _ in range(rows * 48)]).view(rows, 48).to(dtype)
        for rows in (40, 1, 3)
    )
    try:
        found = PackedLinear(weight, bias[0, :40].contiguous())(x[None])
    except (AttributeError, RuntimeError, TypeError):
        return False
    expected = F.linear(x[None], weight, bias[0, :40])
    return found.shape == expected.shape and torch.allclose(found.float(), expected.float(), rtol=2e-2)
