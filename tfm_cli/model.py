"""A model folder <-> objects.

A folder holds all that is needed to translate, anywhere: ``config.json`` (format version, family, shape, languages, scores,
versions), ``model.safetensors``, the tokenizer, and ``README.md``, the card that a person reads. No pickle is ever loaded.
"""

import json
import platform
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry
from tfm_cli.folder import CARD as CARD
from tfm_cli.folder import CONFIG as CONFIG
from tfm_cli.folder import FORMAT, read_shape, read_tokenizers
from tfm_cli.folder import WEIGHTS as WEIGHTS
from tfm_cli.folder import read_config as read_config
from tfm_cli.folder import read_weights as read_arrays
from tfm_cli.text.tokenizer import Tokenizers
from tfm_cli.transformer.family import Family
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.version import VERSION


@dataclass
class Model:
    """A family with its tokenizers and what is known about it.

    ``settings`` are the family's own arguments, such as label smoothing; ``about`` is free-form and JSON-able: languages,
    data fingerprint, scores, training configuration.
    """

    family: Family
    family_name: str
    tokenizers: Tokenizers
    settings: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> Shape:
        return self.family.network.shape

    @property
    def parameters(self) -> int:
        return sum(p.numel() for p in self.family.parameters())

    def weights(self) -> dict[str, Tensor]:
        """Named float32 tensors on the CPU, a tied matrix once."""
        return {name: p.detach().float().cpu().contiguous() for name, p in self.family.named_parameters()}


def build_family(
    name: str, shape: Shape, source_vocab: int, target_vocab: int, settings: Mapping[str, Any] | None = None
) -> Family:
    """A family with fresh weights drawn from torch's global random state."""
    family: Family = family_entry(name).load()(Transformer(shape, source_vocab, target_vocab), **(settings or {}))
    return family


def save_model(
    folder: str | Path,
    model: Model,
    weights: Mapping[str, Tensor] | None = None,
    fix: str = "Make room, or name another folder.",
) -> None:
    """Write a model folder, each file whole or not at all; other files in the folder stay.

    ``weights`` take the place of the family's own, for averages; ``fix`` is the advice where the disk does not take them.

    Raises:
        TfmError: the weights are not finite, or the folder cannot be written.
    """
    with saving("the model", folder, fix):
        write_model(folder, model, weights)


@contextmanager
def saving(what: str, where: str | Path, fix: str) -> Iterator[None]:
    """What keeps ``what`` from being written, such as a full disk, as a `TfmError`."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise TfmError(f"{what} cannot be saved ({error})", where=str(where), fix=fix) from error


def write_model(folder: str | Path, model: Model, weights: Mapping[str, Tensor] | None = None) -> None:
    """`save_model` as a part of something larger that is being saved: an `OSError` or `SafetensorError` passes."""
    folder = Path(folder)
    named = dict(weights) if weights is not None else model.weights()
    broken = [name for name, tensor in named.items() if not torch.isfinite(tensor).all()]
    if broken:
        raise TfmError(f"the weights are not finite ({broken[0]})", where=str(folder), fix="Nothing was written.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".saving-") as temporary:
        fresh = Path(temporary)
        save_file(named, fresh / WEIGHTS)
        model.tokenizers.save(fresh)
        config = describe(model)
        (fresh / CARD).write_text(card(config), encoding="utf-8")
        (fresh / CONFIG).write_text(json.dumps(config, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        # The configuration comes last: a folder without one is not yet a model.
        for file in sorted(fresh.iterdir(), key=lambda file: file.name == CONFIG):
            file.replace(folder / file.name)


def load_model(folder: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Model:
    """Read a model folder, ready to translate (evaluation mode).

    Raises:
        TfmError: where the folder is no model, of a newer format, damaged, or its tokenizer is another model's.
    """
    folder = Path(folder)
    config = read_config(folder)
    shape = read_shape(config, folder)
    tokenizers = read_tokenizers(config, folder)
    family = build_family(
        config["family"], shape, tokenizers.source.vocab_size, tokenizers.target.vocab_size, config["settings"]
    )
    restore(family, read_weights(folder / WEIGHTS), folder / WEIGHTS)
    family.to(device=device, dtype=dtype).eval()
    return Model(family, config["family"], tokenizers, config["settings"], config["about"])


def average_models(folders: Sequence[Path]) -> tuple[Model, dict[str, Tensor]]:
    """The first model with the mean of all models' weights, formed in float64.

    Raises:
        TfmError: where shape, family, its settings or tokenizer differ.
    """
    first = read_config(folders[0])
    for folder in folders[1:]:
        config = read_config(folder)
        for name in ("family", "shape", "settings", "tokenizer_fingerprint"):
            if config[name] != first[name]:
                raise TfmError(
                    f"its {name.replace('_', ' ')} is not that of {folders[0]}",
                    where=str(folder),
                    fix="Average models of one run.",
                )
    model = load_model(folders[0])
    total = {name: tensor.double() for name, tensor in model.weights().items()}
    for folder in folders[1:]:
        weights = read_weights(folder / WEIGHTS)
        restore(model.family, weights, folder / WEIGHTS)
        for name, tensor in weights.items():
            total[name] += tensor.double()
    return model, {name: (tensor / len(folders)).float() for name, tensor in total.items()}


def read_weights(file: Path) -> dict[str, Tensor]:
    """Tensors of a safetensors file, on the CPU."""
    return read_arrays(file, load_file)


def restore(family: Family, weights: Mapping[str, Tensor], where: Path) -> None:
    """Put named tensors into a family; a tied matrix stands once."""
    own = dict(family.named_parameters())
    wrong = sorted(own.keys() ^ weights.keys()) or [name for name in own if own[name].shape != weights[name].shape]
    if wrong:
        raise TfmError(
            f"the weights do not fit the configuration ({wrong[0]})", where=str(where), fix="Copy both again."
        )
    with torch.no_grad():
        for name, parameter in own.items():
            parameter.copy_(weights[name])


def take_weights(model: Model, folder: Path) -> int:
    """Start ``model`` from another one: every weight whose name and shape fit. Returns how many numbers were taken.

    Raises:
        TfmError: the other model has another tokenizer, so that its embeddings mean other words, or nothing in it fits.
    """
    config = read_config(folder)
    if config["tokenizer_fingerprint"] != model.tokenizers.fingerprint:
        raise TfmError(
            "this model has another tokenizer than the data",
            where=str(folder),
            fix="Start from a model that was trained on data of the same tokenizer.",
        )
    own, other = dict(model.family.named_parameters()), read_weights(folder / WEIGHTS)
    fitting = [name for name in own if name in other and own[name].shape == other[name].shape]
    if not fitting:
        raise TfmError(
            "none of its weights fits this network", where=str(folder), fix="Give both networks the same width."
        )
    with torch.no_grad():
        for name in fitting:
            own[name].copy_(other[name])
    return sum(own[name].numel() for name in fitting)


def describe(model: Model) -> dict[str, Any]:
    """What ``config.json`` says."""
    return {
        "format": FORMAT,
        "family": model.family_name,
        "shape": asdict(model.shape),
        "settings": model.settings,
        "parameters": model.parameters,
        "vocabulary": {
            "source": model.tokenizers.source.vocab_size,
            "target": model.tokenizers.target.vocab_size,
            "shared": model.tokenizers.shared,
        },
        "tokenizer_fingerprint": model.tokenizers.fingerprint,
        "about": model.about,
        "versions": {"tfm": VERSION, "torch": torch.__version__, "python": platform.python_version()},
    }


def card(config: Mapping[str, Any]) -> str:
    """The model card, Markdown for a person."""
    about = config["about"]
    languages = f"{about.get('source_language') or '?'} → {about.get('target_language') or '?'}"
    shape, vocabulary = config["shape"], config["vocabulary"]
    lines = [
        f"# Translation model {languages}",
        "",
        f"A Transformer of the {config['family']} family, trained with tfm {config['versions']['tfm']}.",
        "",
        "```",
        "tfm translate --model . < input.txt > output.txt",
        "```",
        "",
        "| | |",
        "| --- | --- |",
        f"| parameters | {config['parameters']:,} |",
        f"| shape | {shape['encoder_layers']} encoder and {shape['decoder_layers']} decoder layers, width {shape['dim']}, "
        f"feed-forward {shape['ffn_dim']}, {shape['heads']} heads, {shape['norm']}-norm, {shape['positions']} positions |",
        f"| vocabulary | {vocabulary['source']:,}"
        + (" shared |" if vocabulary["shared"] else f" source, {vocabulary['target']:,} target |"),
    ]
    lines += [
        f"| {name.replace('_', ' ')} | {value} |"
        for name, value in about.items()
        if isinstance(value, str | int | float)
    ]
    signatures = about.get("signatures", {})
    for name, value in about.get("scores", {}).items():
        # A bar would end the table's cell.
        signature = f" ({signatures[name].replace('|', ', ')})" if name in signatures else ""
        lines.append(f"| validation {name} | {value:.2f}{signature} |")
    return "\n".join(lines) + "\n"
