"""The shape of a network, as options."""

from dataclasses import dataclass

from tfm_cli.errors import TfmError
from tfm_cli.options import check, option

GROUP = "Network"


@dataclass(frozen=True)
class Shape:
    """Everything that fixes the weights' names and sizes except the vocabulary. Defaults are the ``small`` preset."""

    dim: int = option(256, "Model width (d_model).", minimum=2, group=GROUP)
    ffn_dim: int = option(1024, "Inner width of the feed-forward layers.", minimum=1, group=GROUP)
    heads: int = option(4, "Attention heads; they divide the width.", minimum=1, group=GROUP)
    encoder_layers: int = option(3, "Encoder layers.", minimum=1, group=GROUP)
    decoder_layers: int = option(3, "Decoder layers.", minimum=1, group=GROUP)
    dropout: float = option(
        0.1, "Dropout on embeddings and on each sub-layer's output.", minimum=0, maximum=0.9, group=GROUP
    )
    attention_dropout: float = option(0.0, "Dropout on attention weights.", minimum=0, maximum=0.9, group=GROUP)
    ffn_dropout: float = option(0.0, "Dropout inside the feed-forward layers.", minimum=0, maximum=0.9, group=GROUP)
    norm: str = option(
        "pre", "Layer norm before each sub-layer, or after it as in the paper.", choices=("pre", "post"), group=GROUP
    )
    activation: str = option("relu", "Feed-forward activation.", choices=("relu", "gelu"), group=GROUP)
    positions: str = option(
        "sinusoidal", "Position encoding.", choices=("sinusoidal", "learned", "rotary"), group=GROUP
    )
    max_positions: int = option(1024, "Longest sentence in tokens with learned positions.", minimum=2, group=GROUP)
    tie: str = option(
        "all",
        "Share the embedding matrix: source, target and output; target and output; or none.",
        choices=("all", "decoder", "none"),
        group=GROUP,
    )

    def __post_init__(self) -> None:
        check(self)
        if self.dim % self.heads:
            raise TfmError(
                f"width {self.dim} is not divisible by {self.heads} heads", where="--dim", fix="Change one of them."
            )
        if self.positions == "rotary" and (self.dim // self.heads) % 2:
            raise TfmError(
                "rotary positions need an even width per head", where="--heads", fix="Change --dim or --heads."
            )
        if self.dim % 2:
            raise TfmError("the model width must be even", where="--dim")


PRESETS: dict[str, dict[str, int | float]] = {
    "tiny": {"dim": 128, "ffn_dim": 512, "heads": 4, "encoder_layers": 2, "decoder_layers": 2},
    "mini": {"dim": 128, "ffn_dim": 512, "heads": 4, "encoder_layers": 4, "decoder_layers": 4},
    "small": {"dim": 256, "ffn_dim": 1024, "heads": 4, "encoder_layers": 3, "decoder_layers": 3},
    "base": {"dim": 512, "ffn_dim": 2048, "heads": 8, "encoder_layers": 6, "decoder_layers": 6},
    "big": {"dim": 1024, "ffn_dim": 4096, "heads": 16, "encoder_layers": 6, "decoder_layers": 6, "dropout": 0.3},
}
