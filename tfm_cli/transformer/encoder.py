"""The encoder stack (section 3.1)."""

from torch import Tensor, nn

from tfm_cli.transformer.layers import EncoderLayer
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.shape import Shape


class Encoder(nn.Module):
    """N layers, closed by a layer norm where the layers are pre-norm: [B, S, D] -> [B, S, D]."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(shape.encoder_layers))
        self.norm = nn.LayerNorm(shape.dim) if shape.norm == "pre" else nn.Identity()

    def forward(self, x: Tensor, mask: Tensor | None = None, packing: Packing | None = None) -> Tensor:
        """``mask`` [B, 1, 1, S]: True where a token stands. With a packing x is rows [N, D]."""
        for layer in self.layers:
            x = layer(x, mask, packing)
        return self.norm(x)
