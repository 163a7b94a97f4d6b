"""The figures of a benchmark: what is counted is counted right, and models take turns."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.toys import TINY, reverse, sentences
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.bench.machine import machine, sentence
from tfm_cli.bench.measure import Figures, Opened, System, measure, repeats, steps
from tfm_cli.bench.picture import picture
from tfm_cli.engines.engine import Setup
from tfm_cli.engines.pytorch import TorchEngine
from tfm_cli.model import build_family
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.translator import TextHypothesis, Translation, Translator

TEXT = sentences(6, seed=2)
SETUP = Setup("ctranslate2", "cpu", "float32", 1, 1)
FIGURES = Figures(
    "run beam 5", "autoregressive", SETUP, SETUP, 30.0, 50.0, 40.0, 60.0, 25.0, 64, 12.5, 3.0, 0.98, {64: 25.0}
)


class Scripted(Translator):
    """Reverses words, and notes each call as the name it was given and the size of its batches."""

    def __init__(self, name: str, calls: list[tuple[str, int]]) -> None:
        self.name, self.calls = name, calls

    def stream(self, lines, options=None, batching=None, prefixes=None, warn=None, on_cut=None, with_scores=True):
        self.calls.append((self.name, batching.size))
        for number, line in enumerate(lines, 1):
            words = reverse(line).split()
            yield Translation(number, line, [TextHypothesis(" ".join(words), 0.0, 0.0, words, [])])


def test_models_take_turns_and_right_answers_score_full() -> None:
    calls: list[tuple[str, int]] = []
    told: list[None] = []
    systems = []
    for name in ("a", "b"):
        opened = Opened(Scripted(name, calls), SETUP)
        systems.append(System(name, "autoregressive", DecodeOptions(), opened, opened))
    found = measure(systems, TEXT, [reverse(line) for line in TEXT], None, 2, (4, 6), lambda: told.append(None))
    one_round = [("a", 1), ("b", 1), ("a", 4), ("b", 4), ("a", 6), ("b", 6)]
    assert calls[-12:] == [*one_round, *one_round]
    assert len(told) == steps(2, 2, 2)
    for each in found:
        assert each.bleu == pytest.approx(100) and each.chrf == pytest.approx(100) and each.length_ratio == 1
        assert each.passes == pytest.approx(sum(len(line.split()) + 1 for line in TEXT) / len(TEXT))
        assert set(each.by_batch) == {4, 6} and each.per_second == each.by_batch[each.batch] == max(
            each.by_batch.values()
        )
        assert 0 < each.milliseconds <= each.milliseconds_p90


def test_torch_has_the_threads_of_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[tuple[str, int]] = []
    monkeypatch.setattr("tfm_cli.device.set_threads", lambda count: turns.append(("threads", count)))
    alone, together = Setup("torch", "cpu", "float32", 1, 8), Setup("torch", "cpu", "float32", 4, 2)
    scripted = Scripted("a", turns)
    systems = [System("a", "autoregressive", DecodeOptions(), Opened(scripted, alone), Opened(scripted, together))]
    (found,) = measure(systems, TEXT, TEXT, None, 2, (4,))
    assert turns[-8:] == [("threads", 8), ("a", 1), ("threads", 2), ("a", 4)] * 2
    assert (found.alone, found.together) == (alone, together)


def test_empty_sentences_cost_nothing_and_count_in_the_quality_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))
    monkeypatch.setattr("tfm_cli.bench.measure.time.perf_counter", lambda: float(next(clock)))
    found = []
    for text in (TEXT, ["", *TEXT[:3], " ", *TEXT[3:], ""]):
        calls: list[tuple[str, int]] = []
        opened = Opened(Scripted("a", calls), SETUP)
        systems = [System("a", "autoregressive", DecodeOptions(), opened, opened)]
        found += measure(systems, text, [reverse(line) for line in text], None, 2, (4,))
    plain, mixed = found
    assert (mixed.milliseconds, mixed.milliseconds_p90) == (1000, 1000)  # of a clock that moves when it is looked at
    assert (mixed.passes, mixed.per_second) == (plain.passes, plain.per_second)


@pytest.mark.parametrize(
    ("family", "options", "passes"),
    [
        ("ctc", {}, lambda length: 1),
        ("maskpredict", {"iterations": 1, "length_beam": 3}, lambda length: 1),
        # One of two tokens and none of one is written a third time.
        ("maskpredict", {"iterations": 3}, lambda length: min(length, 3)),
    ],
)
def test_passes_are_counted_where_the_decoder_runs(
    family: str, options: dict[str, Any], passes: Callable[[int], int]
) -> None:
    tokenizer = Tokenizer.train(sentences(80, seed=7), TokenizerOptions(vocab_size=290))
    torch.manual_seed(1)
    engine = TorchEngine(build_family(family, TINY, tokenizer.vocab_size, tokenizer.vocab_size).eval())
    translator = Translator(engine, Tokenizers(tokenizer))
    search = NonAutoregressiveDecodeOptions(**options)
    opened = Opened(translator, SETUP)
    text = [*TEXT, ""]
    (found,) = measure([System("x", family, search, opened, opened)], text, text, None, 1, (4,))
    lengths = [len(each.hypotheses[0].tokens) for each in translator.stream(TEXT, search)]
    assert found.passes == sum(map(passes, lengths)) / len(TEXT)
    assert not engine.family.network.decoder._forward_hooks


@given(st.lists(st.lists(st.sampled_from("ab"), max_size=6), max_size=5))
def test_repeats_are_tokens_like_the_one_before(rows: list[list[str]]) -> None:
    slow = sum(row[i] == row[i - 1] for row in rows for i in range(1, len(row)))
    assert repeats(rows) == pytest.approx(1000 * slow / max(sum(len(row) for row in rows), 1))


def test_the_picture_has_a_point_and_a_name_for_each_model() -> None:
    names = ["ar <beam 5>", "nat & co", "third"]
    figures = [replace(FIGURES, name=name, milliseconds=10.0**i, bleu=20.0 + i) for i, name in enumerate(names)]
    root = ElementTree.fromstring(picture(figures, "a machine"))
    space = "{http://www.w3.org/2000/svg}"
    points = [(float(c.get("cx", "")), float(c.get("cy", ""))) for c in root.iter(f"{space}circle")]
    assert points == sorted(points) and len(points) == 3
    assert [y for _, y in points] == sorted((y for _, y in points), reverse=True)  # better is higher
    assert {*names, "a machine"} <= {text.text for text in root.iter(f"{space}text")}
    assert all(0 <= x <= 760 and 0 <= y <= 460 for x, y in points)


def test_one_model_makes_a_picture_too() -> None:
    assert picture([FIGURES], "a machine").count("<circle") == 1


def test_the_machine_is_told_in_words() -> None:
    many = Setup("torch", "cpu", "float32", 4, 2)
    about = machine([SETUP], [many])
    assert about["torch"] == torch.__version__.split("+")[0] or str(about["torch"]).startswith(torch.__version__[:4])
    assert about["threads"] == 8
    assert "cpu, float32, 1 x 1 threads alone, 4 x 2 in batches;" in sentence(about)
    both = machine([SETUP, replace(many, workers=1, threads=8)], [many, replace(many, device="cuda:0")])
    assert "cpu and cuda:0, float32, ctranslate2 1 x 1, torch 1 x 8 threads alone, 4 x 2 in batches;" in sentence(both)
    assert f"python {about['python']}" in sentence(about)
