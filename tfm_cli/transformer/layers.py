"""One layer of each stack: attention, feed-forward, residual connections and layer norm (sections 3.1 and 3.3)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfm_cli.transformer.attention import MultiHeadAttention
from tfm_cli.transformer.dropout import Dropout
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.shape import Shape


class FeedForward(nn.Module):
    """Equation 2: ``FFN(x) = max(0, x W_1 + b_1) W_2 + b_2``, or GELU in place of max: [.., D] -> [.., D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.inner = nn.Linear(shape.dim, shape.ffn_dim)
        self.outer = nn.Linear(shape.ffn_dim, shape.dim)
        self.activation = torch.relu_ if shape.activation == "relu" else F.gelu
        self.dropout = Dropout(shape.ffn_dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.dropout(self.activation(self.inner(x))))


class Residual(nn.Module):
    """A sub-layer's way in and out: ``LayerNorm(x + f(x))`` as in the paper, or ``x + f(LayerNorm(x))``, pre-norm.

    Pre-norm (Xiong et al. 2020) trains without a long warm-up, hence the default.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.pre = shape.norm == "pre"
        self.norm = nn.LayerNorm(shape.dim)
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self.pre:
            return self.dropout.add(x, sublayer(self.norm(x)))
        return self.norm(self.dropout.add(x, sublayer(x)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward: [B, S, D] -> [B, S, D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(
            shape.dim, shape.heads, shape.attention_dropout, rotary=shape.positions == "rotary"
        )
        self.ffn = FeedForward(shape)
        self.attention_residual, self.ffn_residual = Residual(shape), Residual(shape)

    def forward(self, x: Tensor, mask: Tensor | None, packing: Packing | None = None) -> Tensor:
        x = self.attention_residual(x, lambda h: self.attention(h, h, mask, packing=packing, memory_packing=packing))
        return self.ffn_residual(x, self.ffn)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention over the encoder's states, feed-forward: [B, T, D] -> [B, T, D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        rotary = shape.positions == "rotary"
        self.attention = MultiHeadAttention(shape.dim, shape.heads, shape.attention_dropout, rotary=rotary)
        self.cross = MultiHeadAttention(shape.dim, shape.heads, shape.attention_dropout)
        self.ffn = FeedForward(shape)
        self.attention_residual, self.cross_residual, self.ffn_residual = (
            Residual(shape),
            Residual(shape),
            Residual(shape),
        )

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        causal: bool,
        mask: Tensor | None = None,
        packings: tuple[Packing | None, Packing | None] = (None, None),
    ) -> Tensor:
        """``packings`` are those of memory and of x."""
        there, here = packings
        x = self.attention_residual(x, lambda h: self.attention(h, h, mask, causal, here, here))
        x = self.cross_residual(x, lambda h: self.cross(h, memory, memory_mask, False, here, there))
        return self.ffn_residual(x, self.ffn)

    def step(self, x: Tensor, cache: "LayerCache", start: int, memory_mask: Tensor | None) -> Tensor:
        """The newest position alone, x [R, 1, D], earlier ones taken from ``cache``: equal to `forward`'s last row.

        Beams of one sentence stand side by side, so cross-attention reads them as positions of one query against keys and
        values kept once per sentence.
        """
        sentences = cache.cross_key.shape[0]

        def attend_self(h: Tensor) -> Tensor:
            key, value = cache.append(*self.attention.project_memory(h, start), start)
            return self.attention.attend(self.attention.project_query(h, start), key, value)

        def attend_cross(h: Tensor) -> Tensor:
            query = self.cross.project_query(h.view(sentences, -1, h.shape[-1]))
            return self.cross.attend(query, cache.cross_key, cache.cross_value, memory_mask).view_as(h)

        x = self.attention_residual(x, attend_self)
        x = self.cross_residual(x, attend_cross)
        return self.ffn_residual(x, self.ffn)


class LayerCache:
    """Keys and values of one decoder layer: its own [R, H, capacity, K], the encoder's [B, H, S, K]."""

    def __init__(self, cross_key: Tensor, cross_value: Tensor) -> None:
        # Views of one projection, which every step would copy anew.
        self.cross_key, self.cross_value = cross_key.contiguous(), cross_value.contiguous()
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def append(self, key: Tensor, value: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Write one position [R, H, 1, K] behind the first ``length`` and return all of them. Room doubles as it fills."""
        if self.key is None or self.value is None:
            room = (*key.shape[:2], 16, key.shape[3])
            self.key, self.value = key.new_empty(room), value.new_empty(room)
        if length == self.key.shape[2]:
            self.key = torch.cat((self.key, torch.empty_like(self.key)), dim=2)
            self.value = torch.cat((self.value, torch.empty_like(self.value)), dim=2)
        self.key[:, :, length] = key[:, :, 0]
        self.value[:, :, length] = value[:, :, 0]
        return self.key[:, :, : length + 1], self.value[:, :, : length + 1]
