"""Which options are whose: a family is told those that it obeys, and any other that the user gave is refused."""

from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry, obeyed_by, that_obey
from tfm_cli.folder import read_config
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions, NonAutoregressiveOptions
from tfm_cli.training.options import LearningOptions, ValidationOptions

# Sections with options that not every family obeys.
SECTIONS = (
    LearningOptions,
    ValidationOptions,
    NonAutoregressiveOptions,
    DecodeOptions,
    NonAutoregressiveDecodeOptions,
)


def refuse_others(settings: Settings, family: str, able: Collection[str]) -> None:
    """Hold what the user gave against what the family of the model obeys.

    Of the options that this very model obeys, ``able``, one of like name is proposed in place of the refused one.

    Raises:
        TfmError: naming an option that belongs to other families.
    """
    own = family_entry(family).obeys
    for name in settings.given(*SECTIONS):
        if name in own or not (others := that_obey(name)):
            continue
        listed = f"{', '.join(others[:-1])} and {others[-1]}" if len(others) > 1 else others[0]
        families = "families" if len(others) > 1 else "family"
        near = [option for option in sorted(able) if option.endswith(f"_{name}") or name.endswith(f"_{option}")]
        alike = " or ".join(f"--{option.replace('_', '-')}" for option in near)
        raise TfmError(
            f"this is an option of the {listed} {families}, and the model is {family}",
            where=settings.place(name),
            fix=f"Such a model takes {alike}." if alike else "Leave it out.",
        )


def refuse_unused_weight(settings: Settings, family: str, length: str) -> None:
    """Refuse a weight of the length's loss in a oneshot model whose ``length``, as it is settled, is not predicted."""
    if family == "oneshot" and length == "cap" and "length_weight" in settings.given(NonAutoregressiveOptions):
        raise TfmError(
            "the length has no loss where it is not predicted",
            where=settings.place("length_weight"),
            fix="Add --length predict, or leave it out.",
        )


def decoding(settings: Settings, models: Sequence[str]) -> DecodeOptions | NonAutoregressiveDecodeOptions:
    """The options by which the first of these model folders translates, any other that was given refused.

    What another command's table says may be meant for another model: where this one does not obey it, it has its default.
    """
    if not models:
        raise TfmError("no model is named", where="--model")
    config = read_config(Path(models[0]))
    own = obeyed_by(config["family"], config["settings"])
    refuse_others(settings, config["family"], own)
    options = settings[family_entry(config["family"]).decode_options]
    linked = [f for f in fields(options) if settings.origin(f.name) == "link"]
    defaults: dict[str, Any] = {f.name: f.default for f in linked if f.name not in own}
    return replace(options, **defaults)
