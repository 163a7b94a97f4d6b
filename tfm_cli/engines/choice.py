"""Which engine runs a model: what CTranslate2 can do, said in one place."""

import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.ctranslate2 import POSITIONS, PRECISIONS
from tfm_cli.folder import read_config

ENGINES = ("auto", "torch", "ctranslate2")


@dataclass(frozen=True)
class Wish:
    """What is to be done. ``longest`` is the longest source in tokens; ``prefixed`` whether beginnings are forced."""

    folders: Sequence[str]
    options: Any
    precision: str = "float32"
    longest: int = 1000
    prefixed: bool = False


def is_installed() -> bool:
    return find_spec("ctranslate2") is not None


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
    if wish.precision not in ("auto", *PRECISIONS):
        return f"computes in {' or '.join(PRECISIONS)} here, not in {wish.precision}"
    return _obstacle_to_search(wish.options, wish)


def _obstacle_to_search(options: DecodeOptions, wish: Wish) -> str | None:
    if options.sample:
        return "draws other samples"
    if options.no_repeat_ngram:
        return "forbids repetitions before the softmax, not behind it"
    if options.min_length_ratio:
        return "forbids an early end before the softmax, not behind it"
    if wish.prefixed and options.beam > 1:
        return "leaves a forced prefix out of the score"
    longest = max(wish.longest + 1, int(wish.longest * options.max_length_ratio) + 1 + options.max_length_extra)
    if longest > POSITIONS:
        return f"is given {POSITIONS:,} positions, and sentences may have {longest:,}"
    return None
