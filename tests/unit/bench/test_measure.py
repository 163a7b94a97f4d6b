"""The figures of a benchmark: what is counted is counted right, and models take turns."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.toys import TINY, reverse, sentences
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.bench.machine import machine, sentence
from tfm_cli.bench.measure import Figures, System, measure, repeats, steps
from tfm_cli.bench.picture import picture
from tfm_cli.engines.pytorch import TorchEngine
from tfm_cli.model import build_family
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.translator import TextHypothesis, Translation, Translator

TEXT = sentences(6, seed=2)
FIGURES = Figures(
    "run beam 5", "autoregressive", "torch", 30.0, 50.0, 40.0, 60.0, 25.0, 64, 12.5, 3.0, 0.98, {64: 25.0}
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
        translator = Scripted(name, calls)
        systems.append(System(name, "autoregressive", "torch", DecodeOptions(), translator, translator))
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


@pytest.mark.parametrize(
    ("family", "options", "passes"), [("ctc", {}, 1), ("maskpredict", {"iterations": 1, "length_beam": 3}, 1)]
)
def test_passes_are_counted_where_the_decoder_runs(family: str, options: dict[str, Any], passes: int) -> None:
    tokenizer = Tokenizer.train(sentences(80, seed=7), TokenizerOptions(vocab_size=290))
    torch.manual_seed(1)
    engine = TorchEngine(build_family(family, TINY, tokenizer.vocab_size, tokenizer.vocab_size).eval())
    translator = Translator(engine, Tokenizers(tokenizer))
    search = NonAutoregressiveDecodeOptions(**options)
    (found,) = measure([System("x", family, "torch", search, translator, translator)], TEXT, TEXT, None, 1, (4,))
    assert found.passes == passes
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
    about = machine("cpu", "float32", 1)
    assert about["torch"] == torch.__version__.split("+")[0] or str(about["torch"]).startswith(torch.__version__[:4])
    assert "cpu, float32, 1 thread;" in sentence(about)
    assert f"python {about['python']}" in sentence(about)
