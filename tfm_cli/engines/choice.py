"""Which engine runs a model: what CTranslate2 can do, said in one place."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfm_cli.engines.ctranslate2 import POSITIONS, PRECISIONS, obstacle_to_search
from tfm_cli.errors import TfmError
from tfm_cli.folder import read_config

ENGINES = ("torch", "ctranslate2")
LEAST = (4, 8)  # the version of CTranslate2 that tfm was written for
ABSENT = "the package ctranslate2 is not installed"
INSTALL = "pip install -U 'tfm-cli[fast]'"
_NO_CODE = "has kernels of its own, and generates no code"


@dataclass(frozen=True)
class Wish:
    """What is to be done.

    ``longest`` is the longest source in tokens, ``longest_target`` the longest translation that is given, or its beginning;
    ``prefixed`` whether beginnings are forced, ``compile`` whether code is generated.
    """

    folders: Sequence[str]
    options: Any
    precision: str = "float32"
    longest: int = 1000
    prefixed: bool = False
    longest_target: int = 0
    compile: bool = False


def trouble() -> str | None:
    """Why CTranslate2 cannot be used at all, found out by loading it; None where it can."""
    try:
        import ctranslate2

        if ctranslate2.__file__ is None:  # a folder of that name that happens to be here
            return ABSENT
        version, _ = ctranslate2.__version__, ctranslate2.Translator  # which a build without its compiled part lacks
        is_old = tuple(int(part) for part in version.split(".")[:2]) < LEAST
    except ModuleNotFoundError as error:
        return ABSENT if error.name == "ctranslate2" else f"the package ctranslate2 does not load ({error})"
    except Exception as error:  # whatever a broken package does
        return f"the package ctranslate2 does not load ({error})"
    return f"the package ctranslate2 is {version}, older than {'.'.join(map(str, LEAST))}" if is_old else None


def check_engine(engine: str, device: str, models: int, compile: bool = False) -> None:
    """See that an engine named in Python is one, is here, and runs so many models on that device, by generated code or not.

    Raises:
        TfmError: it is not so.
    """
    fix = "Use engine='torch'."
    if engine not in ENGINES:
        raise TfmError(f"there is no engine {engine!r}, only {' and '.join(ENGINES)}", where="engine")
    if engine == "torch":
        return
    if compile:
        raise TfmError(f"CTranslate2 {_NO_CODE}", where="compile", fix=fix)
    if models != 1:
        raise TfmError("CTranslate2 runs one model, not an ensemble", where="engine", fix=fix)
    if device not in ("auto", "cpu"):
        raise TfmError(f"CTranslate2 runs on the CPU here, not on {device}", where="device", fix=fix)
    if reason := trouble():
        raise TfmError(reason, where="engine", fix=f"{INSTALL}, or use engine='torch'.")


def obstacle_to_code(folders: Sequence[str | Path], precision: str) -> tuple[str, str] | None:
    """Why no code can be generated for models, and what to do; None where it can, as far as that is seen without torch."""
    if len(folders) != 1:
        return "code is generated for one model, not for an ensemble", "Name one --model"
    if read_config(Path(folders[0]))["family"] == "autoregressive":
        what = "code is generated for models that write all words at once, and this one writes from left to right"
        return what, f"CTranslate2 makes such models fast: {INSTALL}"
    if precision == "int8":
        return "generated code computes in float32 or bfloat16, not in int8", "Use --precision bfloat16"
    return None


def is_cpu(device: str) -> bool:
    """Whether torch would run on the CPU, judged without torch: ``auto`` means a GPU where there is one."""
    if device != "auto":
        return device == "cpu"
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return False
    from ctranslate2 import get_cuda_device_count

    try:
        return bool(get_cuda_device_count() == 0)
    except RuntimeError:  # a driver that is too old, or none
        return True


def obstacle(wish: Wish) -> str | None:
    """What of a wish CTranslate2 cannot fulfil, or not as torch does it: the end of "CTranslate2 ..."; None if nothing."""
    if len(wish.folders) > 1:
        return "runs one model, not an ensemble"
    family = read_config(Path(wish.folders[0]))["family"]
    if family != "autoregressive":
        return f"writes from left to right, and this model is of the family {family}"
    if wish.compile:
        return _NO_CODE
    if wish.precision not in ("auto", *PRECISIONS):
        return f"computes in {' or '.join(PRECISIONS)} here, not in {wish.precision}"
    if reason := obstacle_to_search(wish.options, wish.prefixed):
        return reason
    translation = int(wish.longest * wish.options.max_length_ratio) + 1 + wish.options.max_length_extra
    longest = max(wish.longest + 1, wish.longest_target + 1, translation)
    if longest > POSITIONS:
        return f"is given {POSITIONS:,} positions, and sentences may have {longest:,}"
    return None
