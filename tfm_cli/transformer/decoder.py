"""The decoder stack (section 3.1), causal or not."""

from torch import Tensor, nn

from tfm_cli.transformer.cache import DecoderCache
from tfm_cli.transformer.layers import DecoderLayer, LayerCache
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.shape import Shape


class Decoder(nn.Module):
    """N layers over embedded targets and the encoder's states, closed by a layer norm where pre-norm.

    ``causal`` is all that separates the autoregressive decoder from the non-autoregressive one.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(shape) for _ in range(shape.decoder_layers))
        self.norm = nn.LayerNorm(shape.dim) if shape.norm == "pre" else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        memory_mask: Tensor | None,
        *,
        causal: bool,
        mask: Tensor | None = None,
        packings: tuple[Packing | None, Packing | None] = (None, None),
    ) -> Tensor:
        """x [B, T, D] and memory [B, S, D] -> [B, T, D].

        ``memory_mask`` [B, 1, 1, S]. ``mask`` [B, 1, 1, T] is for the non-causal decoder: a causal one never sees the
        padding on its right from a real position. ``packings`` are those of memory and of x, which then are rows [N, D].
        """
        for layer in self.layers:
            x = layer(x, memory, memory_mask, causal, mask, packings)
        return self.norm(x)

    def start(self, memory: Tensor, memory_mask: Tensor | None) -> DecoderCache:
        """An empty cache for memory [B, S, D]; the encoder's keys and values are projected here, once per sentence."""
        layers = [LayerCache(*layer.cross.project_memory(memory)) for layer in self.layers]  # type: ignore[union-attr, operator]
        return DecoderCache(layers, memory_mask)

    def step(self, x: Tensor, cache: DecoderCache) -> Tensor:
        """The states of one new position: x [R, 1, D] -> [R, 1, D]; the cache grows by one."""
        for layer, kept in zip(self.layers, cache.layers, strict=True):
            x = layer.step(x, kept, cache.length, cache.memory_mask)  # type: ignore[operator]
        cache.length += 1
        return self.norm(x)
