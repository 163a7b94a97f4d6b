"""A model folder read without torch: its file names, its checked configuration, its tokenizers."""

import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from tfm_cli.errors import TfmError
from tfm_cli.text.tokenizer import Tokenizers
from tfm_cli.transformer.shape import Shape
from tfm_cli.version import VERSION

FORMAT = 1
CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"

T = TypeVar("T")
KEYS = {"family", "shape", "settings", "about", "tokenizer_fingerprint", "parameters", "vocabulary", "versions"}


def read_config(folder: Path) -> dict[str, Any]:
    """The checked ``config.json`` of a model folder, without loading a weight."""
    file = folder / CONFIG
    if not folder.is_dir():
        raise TfmError(
            "there is no such model folder", where=str(folder), fix="Train one with `tfm train`, or name it by --model."
        )
    if not file.is_file():
        pickles = [path.name for path in folder.iterdir() if path.suffix in {".pt", ".pth", ".bin", ".ckpt", ".pkl"}]
        if pickles:
            raise TfmError(
                f"{pickles[0]} is a pickle, which could run code when loaded; tfm reads safetensors only",
                where=str(folder),
            )
        raise TfmError(
            f"this is not a model folder, it has no {CONFIG}",
            where=str(folder),
            fix="Name the folder `tfm train` wrote.",
        )
    try:
        config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        version = int(config["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise TfmError(f"the file is damaged ({error})", where=str(file), fix="Copy the model folder again.") from error
    if version > FORMAT:
        raise TfmError(
            f"the model has format {version}, this tfm {VERSION} reads up to {FORMAT}",
            where=str(folder),
            fix="Update tfm: pip install -U tfm-cli.",
        )
    missing = KEYS - config.keys()
    if missing:
        raise TfmError(f"{', '.join(sorted(missing))} is missing", where=str(file), fix="Copy the model folder again.")
    return config


def read_weights(file: Path, load: Callable[[Path], dict[str, T]]) -> dict[str, T]:
    """Arrays of a safetensors file, by one of the library's loaders, which differ in the kind of array."""
    from safetensors import SafetensorError

    try:
        return load(file)
    except FileNotFoundError as error:
        raise TfmError("the weights are missing", where=str(file), fix="Copy the model folder again.") from error
    except (SafetensorError, OSError) as error:
        raise TfmError(
            f"this is no readable safetensors file ({error}); tfm loads no other kind",
            where=str(file),
            fix="Copy it again.",
        ) from error


def read_shape(config: dict[str, Any], folder: Path) -> Shape:
    """The network's shape in a configuration that `read_config` has read."""
    values = config["shape"]
    unknown = values.keys() - {f.name for f in fields(Shape)}
    if unknown:
        raise TfmError(f"unknown shape key {sorted(unknown)[0]!r}", where=str(folder / CONFIG), fix="Update tfm.")
    return Shape(**values)


def read_tokenizers(config: dict[str, Any], folder: Path) -> Tokenizers:
    """The tokenizers of a model folder, which must be those that the model was trained with."""
    tokenizers = Tokenizers.load(folder)
    if tokenizers.fingerprint != config["tokenizer_fingerprint"]:
        raise TfmError(
            "the tokenizer is not the one that this model was trained with",
            where=str(folder),
            fix="Put back the tokenizer files saved with the model.",
        )
    return tokenizers
