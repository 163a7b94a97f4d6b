"""The whole network: embeddings, encoder, decoder, output projection (figure 1)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tfm_cli.errors import TfmError
from tfm_cli.transformer.attention import padding_mask, unless_whole
from tfm_cli.transformer.cache import DecoderCache
from tfm_cli.transformer.decoder import Decoder
from tfm_cli.transformer.dropout import Dropout
from tfm_cli.transformer.embedding import embed
from tfm_cli.transformer.encoder import Encoder
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.positions import position_encoding
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import PAD


@dataclass(frozen=True)
class Memory:
    """The encoder's answer: ``states`` [B, S, D], or rows [N, D] with their packing, and ``mask`` [B, 1, 1, S]."""

    states: Tensor
    mask: Tensor
    packing: Packing | None = None


class Transformer(nn.Module):
    """The encoder-decoder, without a loss and without a search: a family adds those.

    ``source_vocab`` and ``target_vocab`` are sizes in tokens; tying all embeddings takes equal ones (section 3.4).
    """

    def __init__(self, shape: Shape, source_vocab: int, target_vocab: int) -> None:
        super().__init__()
        self.shape = shape
        self.target_embedding = nn.Embedding(target_vocab, shape.dim)
        if shape.tie == "all":
            if source_vocab != target_vocab:
                raise TfmError(
                    f"embeddings cannot be shared between vocabularies of {source_vocab} and {target_vocab} tokens",
                    where="--tie all",
                    fix="Use --tie decoder, or one joint tokenizer.",
                )
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = nn.Embedding(source_vocab, shape.dim)
        self.output = nn.Linear(shape.dim, target_vocab, bias=False) if shape.tie == "none" else None
        self.projection: nn.Module | None = None  # in use, what computes `logits` faster from the same weight
        self.source_positions, self.target_positions = position_encoding(shape), position_encoding(shape)
        self.dropout = Dropout(shape.dropout)
        self.encoder, self.decoder = Encoder(shape), Decoder(shape)
        self.reset()

    def reset(self) -> None:
        """Xavier-uniform matrices, zero biases, embeddings of standard deviation D^-0.5 (they are scaled by sqrt(D))."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.shape.dim**-0.5)

    @property
    def output_weight(self) -> Tensor:
        """[V, D]: the matrix that turns states into logits, the target embedding itself where tied."""
        return self.target_embedding.weight if self.output is None else self.output.weight

    def embed_source(self, ids: Tensor, packing: Packing | None = None) -> Tensor:
        """[B, S] -> [B, S, D], or rows [N, D]: embedding times sqrt(D), plus positions, dropout."""
        return self._embed(ids, self.source_embedding, self.source_positions, 0, packing)

    def embed_target(self, ids: Tensor, start: int = 0, packing: Packing | None = None) -> Tensor:
        """[B, T] -> [B, T, D], or rows [N, D], the first column at position ``start``."""
        return self._embed(ids, self.target_embedding, self.target_positions, start, packing)

    def _embed(
        self, ids: Tensor, embedding: nn.Embedding, positions: nn.Module | None, start: int, packing: Packing | None
    ) -> Tensor:
        x = embed(ids if packing is None else packing.pick(ids), embedding.weight, math.sqrt(self.shape.dim))
        if positions is not None:
            table = positions(ids.shape[1], start)
            x = x + (table if packing is None else embed(packing.positions, table, 1.0))
        return self.dropout(x)

    def encode(self, source: Tensor, packing: Packing | None = None) -> Memory:
        """Ids [B, S], padded with PAD -> what the decoder reads; in rows without padding where their packing is given."""
        mask = padding_mask(source, PAD)
        x = self.embed_source(source, packing)
        return Memory(self.encoder(x, unless_whole(mask), packing), mask, packing)

    def decode(
        self,
        target: Tensor,
        memory: Memory,
        *,
        causal: bool,
        mask: Tensor | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Ids [B, T] -> states [B, T, D] of every position at once, or rows [N, D] where their packing is given."""
        x = self.embed_target(target, packing=packing)
        packings = (memory.packing, packing)
        return self.decoder(x, memory.states, memory.mask, causal=causal, mask=mask, packings=packings)

    def start(self, memory: Memory) -> DecoderCache:
        """A cache before the first target token."""
        return self.decoder.start(memory.states, unless_whole(memory.mask))

    def step(self, ids: Tensor, cache: DecoderCache) -> Tensor:
        """The newest token of each row, ids [R] -> its logits [R, V] for the next; equal to `decode`'s last position."""
        states = self.decoder.step(self.embed_target(ids[:, None], cache.length), cache)
        return self.logits(states[:, 0])

    def log_probs(self, states: Tensor, ids: Tensor, chunk: int = 512) -> Tensor:
        """Log-probability of the token ``ids`` [N] at each of N states [N, D]: [N] float32.

        ``chunk`` positions' logits exist at one time.
        """
        parts = zip(states.split(chunk), ids[:, None].split(chunk), strict=True)
        return torch.cat([self.logits(here).float().log_softmax(-1).gather(1, each)[:, 0] for here, each in parts])

    def logits(self, states: Tensor) -> Tensor:
        """[.., D] -> [.., V]."""
        if self.projection is None:
            return F.linear(states, self.output_weight)
        logits: Tensor = self.projection(states)
        return logits
