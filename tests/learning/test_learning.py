"""A toolkit must be able to learn: tasks of a few seconds that a correct one cannot fail."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.toys import make_data, reverse, sentences, trainer
from tfm_cli.transformer.shape import Shape
from tfm_cli.translator import Translator

SMALL = Shape(dim=64, ffn_dim=128, heads=4, encoder_layers=1, decoder_layers=1, dropout=0.0)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("task", [str, reverse], ids=["copy", "reverse"])
def test_learns_the_task(tmp_path: Path, task: Callable[[str], str], optimizer: str) -> None:
    data = make_data(tmp_path, task, pairs=3000)
    learning = {"batch_tokens": 512, "schedule": "linear", "ema": 0.99, "optimizer": optimizer}
    trainer(data, tmp_path / "run", SMALL, max_steps=500, learning=learning, validation={"valid_every": 250}).run()
    unseen = sentences(3124)[-100:]
    hypotheses = Translator.load(tmp_path / "run", device="cpu").translate(unseen)
    right = sum(h == task(s) for h, s in zip(hypotheses, unseen, strict=True))
    assert right >= 90, list(zip(unseen, hypotheses, strict=True))[:5]


def test_twenty_pairs_by_heart_with_the_default_recipe(tmp_path: Path) -> None:
    """The plateau on which every sentence gets one translation is left by the default learning options."""
    targets = iter(sentences(44, seed=9))
    data = make_data(tmp_path, lambda _: next(targets), pairs=20)
    defaults = {"batch_tokens": 2048, "learning_rate": 1e-3, "warmup_steps": 400}
    shape = replace(SMALL, dropout=0.1)
    trainer(data, tmp_path / "run", shape, max_steps=800, learning=defaults, validation={"valid_every": 400}).run()
    pairs = [(tmp_path / f"train.{side}").read_text().splitlines() for side in ("xx", "yy")]
    run = max((tmp_path / "run" / "checkpoints").glob("step-*"))
    assert Translator.load(run, device="cpu").translate(pairs[0]) == pairs[1]
