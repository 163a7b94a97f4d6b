"""Where a token stands: sinusoids, learned vectors, or rotation of queries and keys."""

import math

import torch
from torch import Tensor, nn

from tfm_cli.transformer.shape import Shape


def sinusoids(length: int, dim: int, start: int = 0) -> Tensor:
    """Position encodings of section 3.5: ``PE(pos, 2i) = sin(pos / 10000^(2i/D))``, ``PE(pos, 2i+1) = cos(...)``.

    Returns [length, D] float32 for positions ``start .. start + length - 1``.
    """
    position = torch.arange(start, start + length, dtype=torch.float64)[:, None]
    rate = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10000.0) / dim))
    angle = position * rate
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1).float()


class Sinusoidal(nn.Module):
    """A table of `sinusoids` that grows when a longer sentence comes; no weights, nothing saved."""

    table: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.register_buffer("table", sinusoids(256, dim), persistent=False)

    def forward(self, length: int, start: int = 0) -> Tensor:
        """[length, D] in the dtype and on the device of the module."""
        table = self.table
        if start + length > len(table):  # by its own name: another thread may put a shorter one in place
            table = self.table = sinusoids(2 * (start + length), self.dim).to(table)
        return table[start : start + length]


class Learned(nn.Module):
    """One trained vector per position. Positions past the last one share it, so a long line degrades and does not crash."""

    def __init__(self, dim: int, max_positions: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, dim).normal_(std=dim**-0.5))

    def forward(self, length: int, start: int = 0) -> Tensor:
        index = torch.arange(start, start + length, device=self.weight.device).clamp(max=len(self.weight) - 1)
        return self.weight[index]


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Rotary position embedding (Su et al. 2021, equation 34) of x [..., T, K], K even.

    Pairs ``(x_i, x_{i+K/2})`` turn by ``pos / 10000^(2i/K)``, so that a query-key product depends on their distance only.
    """
    length, width = x.shape[-2:]
    angle = torch.arange(start, start + length, device=x.device, dtype=torch.float32)[:, None] * torch.exp(
        torch.arange(0, width, 2, device=x.device, dtype=torch.float32) * (-math.log(10000.0) / width)
    )
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, left * sin + right * cos), dim=-1)


def position_encoding(shape: Shape) -> nn.Module | None:
    """The module whose output is added to the embeddings, or None where attention itself knows positions (rotary)."""
    if shape.positions == "sinusoidal":
        return Sinusoidal(shape.dim)
    if shape.positions == "learned":
        return Learned(shape.dim, shape.max_positions)
    return None
