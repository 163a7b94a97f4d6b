"""What ``auto`` picks."""

from itertools import pairwise
from pathlib import Path

import pytest

from tfm_cli.cli.app import run
from tfm_cli.recipes import RECIPES, preset, recipe, vocabulary
from tfm_cli.training.options import LearningOptions, RunOptions
from tfm_cli.transformer.shape import PRESETS, Shape

LIMITS = {"max_minutes": None, "max_steps": None, "max_epochs": None}


def test_more_pairs_get_a_larger_network_and_vocabulary_and_less_dropout():
    for small, large in pairwise(RECIPES):
        assert small.below < large.below
        assert small.vocabulary <= large.vocabulary
        assert PRESETS[small.size]["dim"] <= PRESETS[large.size]["dim"]
        assert small.learning["dropout"] >= large.learning["dropout"]
        assert small.learning["batch_tokens"] <= large.learning["batch_tokens"]
    assert recipe(9_999) is RECIPES[0]
    assert recipe(10_000) is RECIPES[1]
    assert recipe(10**9) is RECIPES[-1]


@pytest.mark.parametrize("each", RECIPES)
def test_every_recipe_is_made_of_options_of_train(each):
    fields = Shape.__dataclass_fields__.keys() | LearningOptions.__dataclass_fields__.keys()
    assert each.values.keys() <= fields
    assert each.size in RunOptions.__dataclass_fields__["preset"].metadata["spec"].choices
    assert each.why in str(each)


def test_a_vocabulary_has_room_for_every_character():
    assert vocabulary(30_000, 90) == 8_000
    assert vocabulary(30_000, 9_000) > 10_000


def test_adam_alone_learns_at_rates_of_its_own():
    for pairs in (1, 20_000, 60_000, 200_000, 10**9):
        adam, muon = (recipe(pairs, name).values for name in ("adam", "muon"))
        assert adam.keys() == muon.keys()
        assert adam["learning_rate"] < muon["learning_rate"]
        assert adam["warmup_steps"] > muon["warmup_steps"]


def test_a_named_preset_without_data_is_a_shape_and_no_more():
    assert preset({"preset": "base", "data": "nowhere", **LIMITS}) == PRESETS["base"]
    assert preset({"preset": "baze", "data": "nowhere", **LIMITS}) == {}


@pytest.mark.parametrize("optimizer", ["muon", "adam"])
@pytest.mark.parametrize("size", PRESETS)
@pytest.mark.parametrize("pairs", [1, 20_000, 60_000, 200_000, 10**9])
def test_a_named_network_learns_by_the_pairs_at_a_rate_that_it_bears(pairs: int, size: str, optimizer: str):
    by_pairs, named = recipe(pairs, optimizer), recipe(pairs, optimizer, size)
    assert named.values.items() >= PRESETS[size].items()
    assert named.learning["batch_tokens"] == by_pairs.learning["batch_tokens"]
    assert named.learning["learning_rate"] <= by_pairs.learning["learning_rate"]
    if PRESETS[size]["dim"] <= PRESETS[by_pairs.size]["dim"]:
        assert named.learning == by_pairs.learning
    else:
        slowest = recipe(10**9 if size in ("base", "big") else 20_000, optimizer)
        assert named.learning["learning_rate"] <= slowest.learning["learning_rate"]


def test_what_was_picked_is_told_and_ones_own_options_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    for language, words in (("zh", "我 是 王 明"), ("en", "I am Wang Ming")):
        lines = [" ".join(words.split()[i % 4 :]) for i in range(40)]
        Path(f"train.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert run(["train-tokenizer", "--source", "train.zh", "--target", "train.en", "--vocab-size", "300"]) == 0
    assert run(["preprocess", "--source", "train.zh", "--target", "train.en", "--tokenizer", "tokenizer"]) == 0
    capsys.readouterr()
    shape = ["--dim", "16", "--ffn-dim", "16", "--heads", "2"]
    assert run(["train", "--max-steps", "2", "--dropout", "0.2", "--samples", "0", *shape]) == 0
    told = capsys.readouterr().err
    assert "pairs: network 'tiny', dropout 0.3" in told
    assert "Yours stay: dim, ffn-dim, heads, dropout." in told


def test_a_pipe_cannot_pick_its_vocabulary(capsys: pytest.CaptureFixture[str]):
    assert run(["train-tokenizer", "--input", "-"]) == 2
    assert "--vocab-size: the text of a pipe" in capsys.readouterr().err


def test_auto_vocabulary_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("one two three\n" * 20, encoding="utf-8")
    assert run(["train-tokenizer", "--input", "a.txt", "--output", "t"]) == 0
    assert "A vocabulary of 2,000 tokens for 10 pairs with 8 different characters." in capsys.readouterr().err
