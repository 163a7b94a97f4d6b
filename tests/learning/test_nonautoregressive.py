"""The one-pass and the few-pass family learn to copy and to reverse: a few thousand weights, seconds on a CPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toys import make_data, reverse, sentences, trainer
from tfm_cli.transformer.shape import Shape
from tfm_cli.translator import Translator

SMALL = Shape(dim=64, ffn_dim=128, heads=4, encoder_layers=1, decoder_layers=1, dropout=0.0)
CASES: dict[str, tuple[str, dict[str, Any], Callable[[str], str]]] = {
    "oneshot reverses": ("oneshot", {}, reverse),
    "oneshot with glancing copies": ("oneshot", {"glancing": True}, str),
    "oneshot with predicted length reverses": ("oneshot", {"length": "predict", "glancing": True}, reverse),
    "maskpredict reverses": ("maskpredict", {}, reverse),
    "maskpredict copies": ("maskpredict", {}, str),
}


@pytest.mark.parametrize(("name", "given", "task"), CASES.values(), ids=CASES)
def test_learns_the_task(tmp_path: Path, name: str, given: dict[str, Any], task: Callable[[str], str]) -> None:
    data = make_data(tmp_path, task, pairs=3000)
    learning = {"batch_tokens": 512, "schedule": "linear", "ema": 0.99}
    trainer(
        data,
        tmp_path / "run",
        SMALL,
        family=name,
        nonautoregressive=given,
        max_steps=400,
        learning=learning,
        validation={"valid_every": 200},
    ).run()
    unseen = sentences(3124)[-100:]
    hypotheses = Translator.load(tmp_path / "run", device="cpu").translate(unseen)
    right = sum(h == task(s) for h, s in zip(hypotheses, unseen, strict=True))
    assert right >= 90, list(zip(unseen, hypotheses, strict=True))[:5]
