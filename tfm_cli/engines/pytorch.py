"""The engine that is torch itself: every family, every option, every device."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from tfm_cli.autoregressive.family import Autoregressive, Ensemble
from tfm_cli.device import pick_device, pick_precision, precision_name
from tfm_cli.engines.choice import obstacle_to_code
from tfm_cli.engines.compiled import use_compiled
from tfm_cli.engines.engine import Sentences
from tfm_cli.engines.int8 import quantise
from tfm_cli.engines.packed import pack
from tfm_cli.errors import TfmError
from tfm_cli.model import Model, load_model
from tfm_cli.text.tokenizer import Tokenizers
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.family import Family
from tfm_cli.transformer.hypothesis import Hypothesis


class TorchEngine:
    """One family, or an ensemble of several, on a device, used by so many threads at once."""

    def __init__(self, family: Family, device: torch.device | str = "cpu", workers: int = 1) -> None:
        self.family, self.device, self.workers = family, torch.device(device), workers

    @property
    def default_options(self) -> Any:
        return self.family.default_options

    def decode(self, batch: Sentences, options: Any, with_scores: bool = True) -> list[list[Hypothesis]]:
        return self.family.decode(pad(batch.sources).to(self.device), options, batch.targets, batch.lines)

    def score(self, batch: Sentences, options: Any) -> list[Hypothesis]:
        return self.family.score(Batch.of(batch.sources, batch.targets or []).to(self.device), options)


def load(
    folders: Sequence[str | Path],
    device: str = "auto",
    precision: str = "float32",
    workers: int = 1,
    compile: bool = False,
    tell: Callable[[str], None] = lambda message: None,
) -> tuple[TorchEngine, Tokenizers]:
    """Read model folders; see `tfm_cli.translator.Translator.load`. ``tell`` is told of what takes long."""
    place, is_int8 = pick_device(device), precision == "int8"
    if is_int8 and place.type != "cpu":
        raise TfmError(f"int8 is for CPUs, and this is {place}", where="--precision int8", fix="Use bfloat16.")
    dtype = torch.float32 if is_int8 else pick_precision(precision, place)
    if compile and (trouble := obstacle_to_code(folders, precision)):
        raise TfmError(trouble[0], where="compile", fix=f"{trouble[1]}.")
    if compile and place.type != "cpu":
        raise TfmError(f"code is generated for CPUs, and this is {place}", where="--device", fix="Use --device cpu.")
    models = [load_model(each, place, dtype) for each in folders]
    if compile:
        use_compiled(models[0].family, Path(folders[0]), precision_name(precision, place), tell)
    if place.type == "cpu":
        for model in models:
            (quantise if is_int8 else pack)(model.family)
    return TorchEngine(_together(models, folders), place, workers), models[0].tokenizers


def _together(models: Sequence[Model], folders: Sequence[str | Path]) -> Family:
    """The one family, or an ensemble of all."""
    if not models:
        raise TfmError("no model is named", where="--model")
    if len(models) == 1:
        return models[0].family
    families: list[Autoregressive] = []
    for model, folder in zip(models, folders, strict=True):
        if not isinstance(model.family, Autoregressive):
            raise TfmError(f"a model of the family {model.family_name} cannot join an ensemble", where=str(folder))
        if model.tokenizers.fingerprint != models[0].tokenizers.fingerprint:
            raise TfmError(
                f"this model has another tokenizer than {folders[0]}",
                where=str(folder),
                fix="An ensemble takes models trained on one data folder.",
            )
        families.append(model.family)
    return Ensemble(families)
