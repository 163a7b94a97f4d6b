"""Sentences without their padding: rows [N, D] for all that looks at one position, a grid [B, T] only for attention."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tfm_cli.transformer.special import PAD

ROWS = 128  # N is a multiple of this, so that the products of a training have few shapes


@dataclass(frozen=True)
class Packing:
    """Where the ``count`` tokens of a padded grid [B, T] stand among N rows.

    ``cells`` [N] holds the cell ``b * T + t`` of each row and ``rows`` [B * T] the row of each cell. At least one row at the
    end is filler: it stands for all padding, its values reach no token as long as every row of the grid holds one, and its
    gradient is zero.
    """

    grid: tuple[int, int]
    count: int
    cells: Tensor
    rows: Tensor

    @classmethod
    def of(cls, ids: Tensor) -> "Packing":
        """The packing of ids [B, T], padded with PAD; best made on the CPU, where its size is known without waiting."""
        flat = ids.flatten()
        real = (flat != PAD).nonzero().squeeze(1)
        count = len(real)
        total = -(-(count + 1) // ROWS) * ROWS
        cells = torch.zeros(total, dtype=torch.int64, device=ids.device)
        cells[:count] = real
        rows = torch.full_like(flat, count)
        rows[real] = torch.arange(count, device=ids.device)
        return cls((ids.shape[0], ids.shape[1]), count, cells, rows)

    def pick(self, ids: Tensor) -> Tensor:
        """Ids [B, T] -> [N], PAD in the filler."""
        picked = ids.flatten().index_select(0, self.cells)
        picked[self.count :] = PAD
        return picked

    @property
    def positions(self) -> Tensor:
        """[N]: the position of each row in its sentence."""
        return self.cells % self.grid[1]

    def to(self, device: torch.device | str) -> "Packing":
        cells, rows = (index.to(device, non_blocking=True) for index in (self.cells, self.rows))
        return Packing(self.grid, self.count, cells, rows)

    def pin(self) -> "Packing":
        """The same in memory from which a GPU copies by itself."""
        return Packing(self.grid, self.count, self.cells.pin_memory(), self.rows.pin_memory())


def whole_rows(x: Tensor) -> Tensor:
    """Rows [N, D] and as many of zeros as make their number a multiple of `ROWS`.

    For each shape of a bfloat16 product oneDNN compiles a kernel and keeps it, in the midst of memory that is then free for
    smaller things only: products of ever other shapes cost gigabytes.
    """
    return F.pad(x, (0, 0, 0, -len(x) % ROWS))


def to_heads(x: Tensor, heads: int, packing: Packing | None, dtype: torch.dtype) -> Tensor:
    """Rows [N, D], or [B, T, D] without a packing -> [B, H, T, K] in ``dtype``, contiguous on a CPU."""
    if packing is not None:
        split: Tensor = _ToHeads.apply(x, heads, packing, dtype)
        return split
    view = x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return _contiguous(view, dtype) if x.device.type == "cpu" else view.to(dtype)


def from_heads(x: Tensor, packing: Packing | None, dtype: torch.dtype) -> Tensor:
    """The way back: [B, H, T, K] -> rows [N, D], or [B, T, D] without a packing, in ``dtype``."""
    if packing is not None:
        merged: Tensor = _FromHeads.apply(x, packing, dtype)
        return merged
    return _contiguous(x.transpose(1, 2), dtype).flatten(2)


def _contiguous(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype, memory_format=torch.contiguous_format) if x.dtype != dtype else x.contiguous()


def _spread(x: Tensor, heads: int, packing: Packing, dtype: torch.dtype) -> Tensor:
    grid = x.index_select(0, packing.rows).view(*packing.grid, heads, -1)
    return _contiguous(grid.transpose(1, 2), dtype)


def _gather(x: Tensor, packing: Packing, dtype: torch.dtype) -> Tensor:
    return _contiguous(x.transpose(1, 2), dtype).view(len(packing.rows), -1).index_select(0, packing.cells)


class _ToHeads(torch.autograd.Function):
    """Each is the other's gradient, and both are gathers: nothing is added up, so nothing depends on an order."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, heads: int, packing: Packing, dtype: torch.dtype) -> Tensor:
        ctx.packing, ctx.dtype = packing, x.dtype
        return _spread(x, heads, packing, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = _gather(grads[0], ctx.packing, ctx.dtype)
        gradient[ctx.packing.count :] = 0
        return gradient, None, None, None


class _FromHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, packing: Packing, dtype: torch.dtype) -> Tensor:
        ctx.packing, ctx.heads, ctx.dtype = packing, x.shape[1], x.dtype
        return _gather(x, packing, dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        # Padding reads the filler's gradient, which is zero as long as nothing is made of the filler's values.
        return _spread(grads[0], ctx.heads, ctx.packing, ctx.dtype), None, None
