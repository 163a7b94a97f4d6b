"""Scaled dot-product and multi-head attention (section 3.2)."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfm_cli.transformer.dropout import Dropout
from tfm_cli.transformer.packing import Packing, from_heads, to_heads
from tfm_cli.transformer.positions import rotate

FUSED_FROM = 512  # positions; beyond this the T x S scores no longer fit in cache


def padding_mask(ids: Tensor, pad: int) -> Tensor:
    """[B, S] ids -> [B, 1, 1, S] bool, True where a token stands.

    The first position is always True: a sentence has one there, and an empty row then gives a finite average, not NaN.
    """
    mask = ids != pad
    mask[:, 0] = True
    return mask[:, None, None, :]


def unless_whole(mask: Tensor) -> Tensor | None:
    """The mask; None where it hides nothing, which attention takes without one.

    Only in use on a CPU: a GPU would have to be waited for, and a graph that learns would depend on what the batch holds.
    """
    is_free = torch.is_inference_mode_enabled() and mask.device.type == "cpu"
    return None if is_free and bool(mask.all()) else mask


def causal_mask(length: int, device: torch.device | None = None) -> Tensor:
    """The look-ahead mask: [T, T] bool, position i sees 0..i."""
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


class StackedLinear(nn.Linear):
    """So many linear ``maps`` of one input, computed as one product: [.., D] -> [.., maps * D]."""

    def __init__(self, dim: int, maps: int) -> None:
        super().__init__(dim, maps * dim)
        self.maps = maps


class MultiHeadAttention(nn.Module):
    """``MultiHead(Q, K, V) = Concat(head_1..head_H) W^O`` with ``head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V)``.

    The heads' projections stand side by side in one matrix, keys and values in another. Where a packing is given, what is
    written as [B, T, D] below is rows [N, D] without padding (see `tfm_cli.transformer.packing`).
    """

    def __init__(self, dim: int, heads: int, dropout: float = 0.0, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.rotary = heads, rotary
        self.query = nn.Linear(dim, dim)
        self.key_value = StackedLinear(dim, 2)
        self.output = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)

    def project_memory(self, memory: Tensor, start: int = 0, packing: Packing | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values, each [B, H, S, K], of memory [B, S, D] whose first position is ``start``."""
        key, value = self.key_value(memory).chunk(2, dim=-1)
        key, value = self._to_heads(key, packing), self._to_heads(value, packing)
        return (rotate(key, start) if self.rotary else key), value

    def project_query(self, x: Tensor, start: int = 0, packing: Packing | None = None) -> Tensor:
        """Queries [B, H, T, K] of x [B, T, D] whose first position is ``start``."""
        query = self._to_heads(self.query(x), packing)
        return rotate(query, start) if self.rotary else query

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
    ) -> Tensor:
        """Attention of projected query [B, H, T, K] over key and value [B, H, S, K] -> [B, T, D].

        ``mask`` is broadcastable to [B, H, T, S]; ``causal`` hides later positions and takes T = S.
        """
        mixed = scaled_dot_product(query, key, value, mask, causal, self.dropout)
        return self.output(from_heads(mixed, packing, self.output.weight.dtype))

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Tensor:
        """Attention of x [B, T, D] over memory [B, S, D] -> [B, T, D]; self-attention where memory is x."""
        key, value = self.project_memory(memory, packing=memory_packing)
        return self.attend(self.project_query(x, packing=packing), key, value, mask, causal, packing)

    def _to_heads(self, x: Tensor, packing: Packing | None) -> Tensor:
        """Split off the heads. On a CPU they are float32 also where the layers are bfloat16: the products are small, and
        oneDNN would compile a bfloat16 kernel for each new shape of batch, which takes longer than it saves."""
        wide = torch.promote_types(x.dtype, torch.float32) if x.device.type == "cpu" else x.dtype
        return to_heads(x, self.heads, packing, wide)


def scaled_dot_product(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool, dropout: nn.Module
) -> Tensor:
    """Equation 1, ``softmax(Q K^T / sqrt(K)) V``: [B, H, T, K] over [B, H, S, K] -> [B, H, T, K].

    A CPU works sentences of ordinary length faster as two plain products; elsewhere torch's fused kernel is used.
    """
    if query.device.type != "cpu" or key.shape[-2] > FUSED_FROM:
        p = dropout.p if dropout.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, mask, dropout_p=float(p), is_causal=causal)  # type: ignore[arg-type]
    batch, (length, size) = query.shape[:2], (key.shape[-2], query.shape[-1])
    queries, keys = query.flatten(0, 1), key.flatten(0, 1).transpose(1, 2)
    if mask is None and not causal:
        scores = torch.bmm(queries * size**-0.5, keys)
    else:
        bias = _bias(mask, causal, length, query).expand(*batch, query.shape[-2], length).flatten(0, 1).contiguous()
        scores = bias.baddbmm_(queries, keys, alpha=size**-0.5)
    return torch.bmm(dropout(scores.softmax(-1)), value.flatten(0, 1)).unflatten(0, batch)


def _bias(mask: Tensor | None, causal: bool, length: int, like: Tensor) -> Tensor:
    """What is added to the scores: 0 where attention is allowed, minus infinity elsewhere."""
    seen = causal_mask(length, like.device) if causal else None
    allowed = mask if seen is None else seen if mask is None else mask & seen
    assert allowed is not None
    return like.new_zeros(allowed.shape).masked_fill_(~allowed, float("-inf"))
