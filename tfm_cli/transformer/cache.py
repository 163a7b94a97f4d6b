"""What a decoder remembers between steps."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tfm_cli.transformer.layers import LayerCache


@dataclass
class DecoderCache:
    """Keys and values of every layer for R rows, and how many positions they hold.

    Rows are beams, those of one sentence side by side: row ``b * beams + k`` is beam k of sentence b.
    """

    layers: list[LayerCache]
    memory_mask: Tensor | None
    length: int = 0

    def reorder(self, rows: Tensor, sentences: Tensor | None = None) -> None:
        """Row i becomes what row ``rows[i]`` [R'] was: after each beam step, and to widen one row into several beams.

        ``sentences`` [B'] are those whose beams are among the rows, in their order, where some have left: finished ones
        then cost nothing. Rows that stay in place are not copied.
        """
        for layer in self.layers:
            if layer.key is not None and layer.value is not None and not _stays(rows, len(layer.key)):
                layer.key = layer.key.index_select(0, rows)
                layer.value = layer.value.index_select(0, rows)
            if sentences is not None:
                layer.cross_key = layer.cross_key.index_select(0, sentences)
                layer.cross_value = layer.cross_value.index_select(0, sentences)
        if sentences is not None and self.memory_mask is not None:
            self.memory_mask = self.memory_mask.index_select(0, sentences)


def _stays(rows: Tensor, count: int) -> bool:
    return len(rows) == count and bool((rows == torch.arange(count, device=rows.device)).all())
