"""The one table of families: where each is written, which options it obeys. Nothing heavy is imported before one is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.options import OBEYS, OF_PREDICTED_LENGTH, NonAutoregressiveDecodeOptions


@dataclass(frozen=True)
class Entry:
    """A family by its place, "module:class", the class of its decode options, and the names of the options it obeys.

    These are fields of `LearningOptions`, `ValidationOptions`, `NonAutoregressiveOptions` and of the decode options; an option
    that stands in no family's entry is obeyed by all.
    """

    place: str
    decode_options: type[DecodeOptions] | type[NonAutoregressiveDecodeOptions]
    obeys: frozenset[str]

    def load(self) -> Any:
        """The class."""
        module, name = self.place.split(":")
        return getattr(import_module(module), name)


def _non_autoregressive(name: str, place: str) -> Entry:
    return Entry(f"tfm_cli.nonautoregressive.{place}", NonAutoregressiveDecodeOptions, OBEYS[name])


FAMILIES: Mapping[str, Entry] = {
    "autoregressive": Entry(
        "tfm_cli.autoregressive.family:Autoregressive",
        DecodeOptions,
        frozenset({"label_smoothing", "r_drop", "valid_beam", *(f.name for f in fields(DecodeOptions))}),
    ),
    "oneshot": _non_autoregressive("oneshot", "oneshot:OneShot"),
    "ctc": _non_autoregressive("ctc", "ctc:Ctc"),
    "dag": _non_autoregressive("dag", "dag:Dag"),
    "maskpredict": _non_autoregressive("maskpredict", "maskpredict:MaskPredict"),
}


def family_entry(name: str) -> Entry:
    """The entry of the family called ``name``."""
    if name not in FAMILIES:
        raise TfmError(f"no family is called {name!r}", where="--family", fix=f"There are {', '.join(FAMILIES)}.")
    return FAMILIES[name]


def obeyed_by(family: str, settings: Mapping[str, Any]) -> frozenset[str]:
    """The options that a model of these settings obeys: one that writes until END predicts no length."""
    own = family_entry(family).obeys
    return own - OF_PREDICTED_LENGTH if family == "oneshot" and settings.get("length", "cap") == "cap" else own


def that_obey(option: str) -> list[str]:
    """The names of the families that obey an option; none where all do."""
    return [name for name, entry in FAMILIES.items() if option in entry.obeys]
