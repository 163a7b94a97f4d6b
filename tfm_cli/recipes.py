"""What to train with, by the number of training pairs: the meaning of ``--preset`` and of ``--vocab-size auto``."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfm_cli.errors import TfmError
from tfm_cli.options import AUTO
from tfm_cli.text.tokenizer import RESERVED
from tfm_cli.transformer.shape import PRESETS

LEAST_PIECES = 1_500  # a vocabulary of characters alone learns no words


@dataclass(frozen=True)
class Recipe:
    """For corpora of fewer than ``below`` pairs: a vocabulary in tokens, a network size, how to learn, what differs with Adam
    alone, and why."""

    below: float
    vocabulary: int
    size: str
    learning: Mapping[str, Any]
    adam: Mapping[str, Any]
    why: str

    @property
    def values(self) -> dict[str, Any]:
        """Options of `tfm train` by field name."""
        return {**self.learning, **PRESETS[self.size]}

    def __str__(self) -> str:
        learning = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in self.learning.items())
        return f"network {self.size!r}, {learning}: {self.why}"


RECIPES = (
    Recipe(
        10_000,
        2_000,
        "tiny",
        {"dropout": 0.3, "batch_tokens": 1024, "learning_rate": 5e-3, "warmup_steps": 100},
        {"learning_rate": 2e-3, "warmup_steps": 200},
        "a few thousand pairs are learnt by heart by a larger network",
    ),
    Recipe(
        50_000,
        8_000,
        "mini",
        {"dropout": 0.3, "batch_tokens": 2048, "learning_rate": 5e-3, "warmup_steps": 150},
        {"learning_rate": 2e-3, "warmup_steps": 300},
        "some ten thousand pairs teach a narrow network more, and strong dropout keeps it from learning them by heart",
    ),
    Recipe(
        100_000,
        8_000,
        "small",
        {"dropout": 0.3, "batch_tokens": 2048, "learning_rate": 5e-3, "warmup_steps": 150},
        {"learning_rate": 2e-3, "warmup_steps": 300},
        "more pairs fill a wider network, which still needs strong dropout",
    ),
    Recipe(
        1_000_000,
        16_000,
        "small",
        {"dropout": 0.1, "batch_tokens": 4096, "learning_rate": 3e-3, "warmup_steps": 300},
        {"learning_rate": 1e-3, "warmup_steps": 1000},
        "some hundred thousand pairs need little dropout, and fill larger updates",
    ),
    Recipe(
        float("inf"),
        32_000,
        "base",
        {"dropout": 0.1, "batch_tokens": 8192, "learning_rate": 1e-3, "warmup_steps": 1000},
        {"learning_rate": 7e-4, "warmup_steps": 4000},
        "millions of pairs feed the base network of the paper",
    ),
)


def recipe(pairs: int, optimizer: str = "muon", size: str = AUTO) -> Recipe:
    """The recipe for so many training pairs, with its network or the one called ``size``.

    A larger network than the recipe's bears only the rate of the recipe that it is of.
    """
    found = next(each for each in RECIPES if pairs < each.below)
    if size in (AUTO, found.size):
        return _for_optimizer(found, optimizer)
    own = next((each for each in RECIPES if each.size == size), RECIPES[-1])
    learning, other = (_for_optimizer(each, optimizer).learning for each in (found, own))
    if other["learning_rate"] < learning["learning_rate"]:
        learning = {**learning, **{name: other[name] for name in ("learning_rate", "warmup_steps")}}
    return replace(found, size=size, learning=learning)


def _for_optimizer(found: Recipe, optimizer: str) -> Recipe:
    return replace(found, learning={**found.learning, **found.adam}) if optimizer == "adam" else found


def vocabulary(pairs: int, characters: int) -> int:
    """Tokens for a text of so many pairs: at least one for each of its different characters, and some for words."""
    needed = math.ceil((characters + RESERVED + LEAST_PIECES) / 100) * 100
    return max(recipe(pairs).vocabulary, needed)


def preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the option ``preset`` of `tfm train` stands for, by field name.

    ``values`` are the options settled without it: the data folder decides, and whether the run has an end, towards which the
    rate can fall. A name fixes the network.
    """
    size = values["preset"]
    if size != AUTO and size not in PRESETS:
        return {}  # which is told as the options are checked
    from tfm_cli.data.dataset import DataFolder

    try:
        pairs = DataFolder.load(values["data"]).pairs
    except TfmError:
        # `train` says what is wrong with the folder, after it has looked at the options.
        return dict(PRESETS.get(size, {}))
    has_end = any(values[name] for name in ("max_minutes", "max_steps", "max_epochs"))
    return {**recipe(pairs, values["optimizer"], size).values, "schedule": "linear" if has_end else "inverse-sqrt"}
