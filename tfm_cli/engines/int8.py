"""Linear maps in int8, for use on a CPU: a quarter of the memory to read, which is what small products wait for."""

import warnings

import torch
from torch import Tensor, nn

from tfm_cli.engines.replace import replace_linear
from tfm_cli.errors import TfmError
from tfm_cli.transformer.family import Family

_LARGEST = 127  # of a quantised weight


class Int8Linear(nn.Module):
    """A linear map whose weight [O, I] is integers, scaled row by row; inputs are scaled as a whole, each time anew.

    [.., I] float32 -> [.., O] float32. One outlier coarsens its whole batch, so what a sentence becomes depends a little on its
    neighbours.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        weight = weight.detach().float()
        scales = weight.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / _LARGEST
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a later torch will have this elsewhere
            rounded = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self.packed = torch.ops.quantized.linear_prepack(rounded, None if bias is None else bias.detach().float())
        self.weight = torch.empty(0)  # its float type is that of the results
        # Without VNNI the integer sums of two products may overflow, unless one factor has only seven bits.
        self.has_seven_bits = not _has_vnni()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed, self.has_seven_bits)
        return result


def quantise(family: Family) -> None:
    """Replace the linear maps of a float32 model on the CPU, that to the vocabulary among them, each in its place.

    Raises:
        TfmError: this build of torch has no products in int8.
    """
    engines = getattr(torch.backends.quantized, "supported_engines", ())
    if not hasattr(torch, "quantize_per_channel") or not any(engine != "none" for engine in engines):
        raise TfmError("this build of torch does not compute in int8", where="--precision int8", fix="Use float32.")
    replace_linear(family, Int8Linear)


def _has_vnni() -> bool:
    probe = getattr(torch.cpu, "_is_vnni_supported", None)
    return bool(probe and probe())
