"""How a room declares its options: frozen dataclasses whose fields carry their own help and bounds.

The same field is a key in ``tfm.toml``, an option of a command and an argument in Python; its name, help, default and limits
are written once, where the code that obeys it lives. This module imports nothing heavy, so that ``tfm --help`` stays quick.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

from tfm_cli.errors import TfmError

AUTO = "auto"


@dataclass(frozen=True)
class Spec:
    """What a field says about itself besides its type and default."""

    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    metavar: str | None = None
    short: str | None = None  # a one-letter option such as "-m"
    is_path: bool = False  # relative to tfm.toml's folder when it is written there
    may_be_path: bool = False  # the same where such a file or folder exists; any other text is a name
    positional: bool = False  # may also be written without its name
    group: str = "Options"  # the heading it stands under in --help
    required: bool = False
    example: str | None = None  # shown where it is required and missing
    words: tuple[str, ...] = ()  # that may stand in place of a number, such as "auto"


def option(default: Any, help: str, **spec: Any) -> Any:
    """Declare a dataclass field as an option; ``spec`` holds further fields of `Spec`. A list as default is copied."""
    metadata = {"spec": Spec(help, **spec)}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def check(options: object) -> None:
    """Hold every field of ``options`` against its bounds and choices.

    Raises:
        TfmError: naming the option, its value and what is allowed.
    """
    for f in fields(options):  # type: ignore[arg-type]
        spec: Spec | None = f.metadata.get("spec")
        value = getattr(options, f.name)
        if spec is None or value is None:
            continue
        name = "--" + f.name.replace("_", "-")
        if spec.choices and value not in spec.choices:
            near = get_close_matches(str(value), spec.choices, 1)
            hint = f"Did you mean {near[0]}?" if near else ""
            raise TfmError(f"{value!r} is not one of {', '.join(spec.choices)}", where=name, fix=hint)
        if spec.words and isinstance(value, str) and value not in spec.words:
            raise TfmError(f"{value!r} is neither a number nor {' or '.join(spec.words)}", where=name)
        for number in value if isinstance(value, Sequence) and not isinstance(value, str) else [value]:
            if isinstance(number, bool) or not isinstance(number, int | float):
                continue
            if not math.isfinite(number):
                raise TfmError(f"a finite number is needed, not {number}", where=name)
            if spec.minimum is not None and number < spec.minimum:
                raise TfmError(f"{number} is below the smallest value allowed, {spec.minimum:g}", where=name)
            if spec.maximum is not None and number > spec.maximum:
                raise TfmError(f"{number} is above the largest value allowed, {spec.maximum:g}", where=name)
