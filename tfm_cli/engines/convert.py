"""A model folder -> a folder that CTranslate2 loads, weight by weight.

CTranslate2 has its own position encodings, a start token of its own choice and its own order of gates; whatever it is not told
it assumes. So everything is told here: the start row is the trained embedding of BEGIN, position encodings are a table of this
model's, and nothing comes from a default that differs from `tfm_cli.transformer`.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tfm_cli.engines.ctranslate2 import POSITIONS
from tfm_cli.engines.store import ABOUT, Unsuited
from tfm_cli.errors import TfmError
from tfm_cli.folder import WEIGHTS, read_config, read_shape, read_tokenizers, read_weights
from tfm_cli.text.tokenizer import Tokenizer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BEGIN, END, NAMES, PAD

if TYPE_CHECKING:
    from ctranslate2 import specs


Weights = Mapping[str, np.ndarray]


def convert(folder: Path, output: Path, quantization: str = "float32") -> None:
    """Write a model folder's network and vocabulary into the existing folder ``output`` for CTranslate2.

    Raises:
        Unsuited: CTranslate2 has no such network.
        TfmError: the model is none, or is damaged.
    """
    config = read_config(folder)
    if config["family"] != "autoregressive":
        raise Unsuited(
            f"CTranslate2 writes from left to right, and this model is of the family {config['family']}",
            where=str(folder),
        )
    shape, tokenizers = read_shape(config, folder), read_tokenizers(config, folder)
    from safetensors.numpy import load_file

    weights = _Taken(read_weights(folder / WEIGHTS, load_file), folder / WEIGHTS)
    spec = _specification(shape, weights)
    weights.check_all_taken()
    spec.register_source_vocabulary(_vocabulary(tokenizers.source))
    spec.register_target_vocabulary(_vocabulary(tokenizers.target))
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = NAMES[BEGIN], NAMES[END], NAMES[PAD]
    spec.config.decoder_start_token = NAMES[BEGIN]
    spec.config.add_source_eos = True
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(output))
    about = {"quantization": quantization, "positions": None if shape.positions == "rotary" else POSITIONS}
    (output / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def sinusoids(length: int, dim: int) -> np.ndarray:
    """The table [length, D] that `tfm_cli.transformer.positions.sinusoids` adds: sine and cosine take turns."""
    rate = np.exp(np.arange(0, dim, 2, dtype=np.float64) * (-math.log(10000.0) / dim))
    angle = np.arange(length, dtype=np.float64)[:, None] * rate
    return np.stack((np.sin(angle), np.cos(angle)), axis=-1).reshape(length, dim).astype(np.float32)


class _Taken:
    """Named weights, of which each must be used: one that is left over is a part of the network that was not converted."""

    def __init__(self, weights: Weights, where: Path) -> None:
        self.weights, self.where = weights, where
        self.taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.weights

    def __getitem__(self, name: str) -> np.ndarray:
        self.taken.add(name)
        if name not in self.weights:
            raise TfmError(f"the weights do not fit the configuration ({name})", where=str(self.where))
        return self.weights[name]

    def check_all_taken(self) -> None:
        if rest := sorted(self.weights.keys() - self.taken):
            raise Unsuited(f"CTranslate2 has no place for {rest[0]}", where=str(self.where))


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(i) for i in range(tokenizer.vocab_size)]


def _specification(shape: Shape, weights: _Taken) -> "specs.TransformerSpec":
    """The network as CTranslate2 describes it, all weights in place."""
    from ctranslate2 import specs

    style: dict[str, Any] = {
        "pre_norm": shape.norm == "pre",
        "activation": {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}[shape.activation],
    }
    if shape.positions == "rotary":
        # All of a head's width turns, its first half paired with its second.
        style |= {"rotary_dim": 0, "rotary_interleave": False}
    encoder = specs.TransformerEncoderSpec(shape.encoder_layers, shape.heads, **style)
    decoder = specs.TransformerDecoderSpec(shape.decoder_layers, shape.heads, **style)
    for side, stack in (("source", encoder), ("target", decoder)):
        if shape.positions != "rotary":
            stack.position_encodings.encodings = _positions(shape, side, weights)
        stack.scale_embeddings = True  # by sqrt(D)
    target = weights["network.target_embedding.weight"]
    source = target if shape.tie == "all" else weights["network.source_embedding.weight"]
    encoder.embeddings[0].weight, decoder.embeddings.weight = source, target
    decoder.projection.weight = weights["network.output.weight"] if shape.tie == "none" else target
    decoder.start_from_zero_embedding = False  # BEGIN has a trained row
    for name, stack in (("encoder", encoder), ("decoder", decoder)):
        if shape.norm == "pre":
            _norm(stack.layer_norm, weights, f"network.{name}.norm")
        for i, layer in enumerate(stack.layer):
            _layer(layer, weights, f"network.{name}.layers.{i}")
    return specs.TransformerSpec(encoder, decoder)


def _positions(shape: Shape, side: str, weights: _Taken) -> np.ndarray:
    """The table [POSITIONS, D] that is added to embeddings."""
    if shape.positions == "sinusoidal":
        return sinusoids(POSITIONS, shape.dim)
    table = weights[f"network.{side}_positions.weight"][:POSITIONS]
    # Positions past the last one share it, as in `tfm_cli.transformer.positions.Learned`.
    return np.pad(table, ((0, POSITIONS - len(table)), (0, 0)), mode="edge")


def _layer(spec: Any, weights: _Taken, name: str) -> None:
    attention = spec.self_attention
    _norm(attention.layer_norm, weights, f"{name}.attention_residual.norm")
    _linear(attention.linear[0], weights, f"{name}.attention.query", f"{name}.attention.key_value")
    _linear(attention.linear[1], weights, f"{name}.attention.output")
    if hasattr(spec, "attention"):
        cross = spec.attention
        _norm(cross.layer_norm, weights, f"{name}.cross_residual.norm")
        for linear, part in zip(cross.linear, ("query", "key_value", "output"), strict=True):
            _linear(linear, weights, f"{name}.cross.{part}")
    _norm(spec.ffn.layer_norm, weights, f"{name}.ffn_residual.norm")
    _linear(spec.ffn.linear_0, weights, f"{name}.ffn.inner")
    _linear(spec.ffn.linear_1, weights, f"{name}.ffn.outer")


def _norm(spec: Any, weights: _Taken, name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _linear(spec: Any, weights: _Taken, *names: str) -> None:
    """One projection, or several over the same input that CTranslate2 keeps in one matrix, side by side."""
    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    spec.bias = np.concatenate([weights[f"{name}.bias"] for name in names])
