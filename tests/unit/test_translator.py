"""Text in, text out, with a model of random weights: what it writes is nonsense, where it writes it is not."""

import itertools
import json
from pathlib import Path

import pytest
import torch

from tfm_cli import Translator
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.translate import as_json, as_ranking, as_text
from tfm_cli.errors import TfmError
from tfm_cli.model import Model, build_family, save_model
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END
from tfm_cli.translator import Batching, TextHypothesis, Translation

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "some", "dogs", "run", "by"]
LINES = [" ".join(WORDS[i % 12] for i in range(n, n + 1 + n % 9)) for n in range(30)]
OPTIONS = DecodeOptions(beam=3, max_length_extra=4, max_length_ratio=1.0)


def saved_model(folder, seed, lines=LINES):
    tokenizer = Tokenizer.train(lines, TokenizerOptions(vocab_size=330))
    torch.manual_seed(seed)
    shape = Shape(dim=16, ffn_dim=16, heads=2, encoder_layers=1, decoder_layers=1, tie="decoder")
    family = build_family("autoregressive", shape, tokenizer.vocab_size, tokenizer.vocab_size)
    with torch.no_grad():
        weight = family.network.target_embedding.weight
        weight.mul_(4)
        weight[5:262] *= 0.1  # rarely single bytes
        weight[END] = weight[300] * 0.8
    save_model(folder, Model(family.eval(), "autoregressive", Tokenizers(tokenizer)))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("models") / "one", seed=1)


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder, device="cpu")


def texts(translations):
    return [translation.text for translation in translations]


def test_the_model_is_worth_testing(translator):
    assert len(set(translator.translate(LINES, OPTIONS))) > 15


@pytest.mark.parametrize("batching", [Batching(1), Batching(3, buffer=7), Batching(64), Batching(tokens=20, buffer=4)])
def test_batches_and_buffers_change_nothing(translator, batching):
    lines = [*LINES[:10], "", *LINES[10:]]
    plain = list(translator.stream(lines, OPTIONS))
    other = list(translator.stream(lines, OPTIONS, batching))
    assert texts(other) == texts(plain)
    for one, two in zip(plain, other, strict=True):
        assert one.line == two.line
        assert one.source == two.source == lines[one.line - 1]
        assert one.hypotheses[0].score == pytest.approx(two.hypotheses[0].score, abs=1e-4)


def test_samples_belong_to_lines_not_to_batches(translator):
    options = DecodeOptions(sample=True, n_best=2, seed=5)
    plain = list(translator.stream(LINES, options))
    other = list(translator.stream(LINES, options, Batching(3, buffer=7)))
    assert [[h.text for h in t.hypotheses] for t in plain] == [[h.text for h in t.hypotheses] for t in other]
    assert len({t.text for t in translator.stream([LINES[8]] * 9, options)}) > 1


def test_empty_lines_stay_empty_and_the_model_is_not_asked(translator, monkeypatch):
    found = translator.translate(["", LINES[0], "   ", "\t", LINES[1]])
    assert [bool(text) for text in found] == [False, bool(found[1]), False, False, bool(found[4])]
    assert len(found) == 5
    monkeypatch.setattr(translator.family, "decode", None)
    assert translator.translate(["", "\u3000"]) == ["", ""]
    assert translator.translate([]) == []


def test_a_line_is_answered_before_the_next_is_read(translator):
    read = []

    def typed():
        for line in LINES[:4]:
            read.append(line)
            yield line

    for count, translation in enumerate(translator.stream(typed(), OPTIONS, Batching(1)), 1):
        assert len(read) == count == translation.line


def test_an_endless_input_takes_a_buffer_at_a_time(translator):
    counter = itertools.count()
    endless = (LINES[next(counter) % 30] for _ in itertools.repeat(None))
    first = list(itertools.islice(translator.stream(endless, OPTIONS, Batching(buffer=10)), 15))
    assert [t.line for t in first] == list(range(1, 16))
    assert next(counter) == 20


def test_a_long_line_is_cut_with_a_warning_and_its_neighbours_are_unchanged(translator):
    warnings = []
    lines = [LINES[3], " ".join(WORDS * 5), LINES[4]]
    found = texts(translator.stream(lines, OPTIONS, Batching(max_source=20), warn=warnings.append))
    assert found[::2] == translator.translate(lines[::2], OPTIONS)
    assert any("line 2" in warning and "20" in warning for warning in warnings)
    assert not any("too many" in warning for warning in warnings if "line 2" not in warning)


def test_cut_lines_are_told_by_number_to_who_asks(translator):
    long = " ".join(WORDS * 5)
    lines, cut, warnings = [long, LINES[0], long], [], []

    def on_cut(line, message):
        assert f"line {line}: " in message
        cut.append(line)

    list(translator.stream(lines, OPTIONS, Batching(max_source=20), warn=warnings.append, on_cut=on_cut))
    pairs = [(line, "cat") for line in lines]
    list(translator.score(pairs, OPTIONS, Batching(max_source=20), warn=warnings.append, on_cut=on_cut))
    assert cut == [1, 3, 1, 3]
    assert not any("too many" in warning for warning in warnings)


def test_a_translation_without_end_is_told(translator):
    warnings = []
    options = DecodeOptions(max_length_ratio=0.0, max_length_extra=1)
    found = list(translator.stream(LINES[:3], options, warn=warnings.append))
    cut = [t.line for t in found if not t.hypotheses[0].finished]
    assert cut
    assert [f"line {line}:" in warning for line, warning in zip(cut, warnings, strict=True)] == [True] * len(cut)


def test_prefixes_are_kept(translator):
    prefixes = ["the cat", "", "some dogs"] * 10
    for translation, prefix in zip(translator.stream(LINES, OPTIONS, prefixes=prefixes), prefixes, strict=True):
        assert translation.text.startswith(prefix)
    found = texts(translator.stream(LINES, OPTIONS, prefixes=prefixes))
    assert found[1::3] == translator.translate(LINES, OPTIONS)[1::3]


@pytest.mark.parametrize(("count", "message"), [(2, "line 3"), (4, "more prefixes")])
def test_as_many_prefixes_as_lines(translator, count, message):
    with pytest.raises(TfmError, match=message):
        list(translator.stream(LINES[:3], OPTIONS, prefixes=[""] * count))


def test_scores_are_those_of_decoding(translator):
    # A forced prefix is text that splits again into the tokens written; a beam as wide as the vocabulary has END behind it.
    options = DecodeOptions(beam=330, n_best=330, length_penalty=0.5, max_length_ratio=0.0, max_length_extra=1)
    same = [
        (translation.source, hypothesis)
        for translation in translator.stream(LINES[:8], options, prefixes=["the cat sat", "some dogs run by"] * 4)
        for hypothesis in translation.hypotheses
        if hypothesis.finished
    ]
    assert [h.text for _, h in same] == ["the cat sat", "some dogs run by"] * 4
    scored = list(translator.score(((source, h.text) for source, h in same), options, Batching(4, buffer=5)))
    assert [s.text for s in scored] == [h.text for _, h in same]
    assert [s.score for s in scored] == pytest.approx([h.score for _, h in same], abs=1e-4)


def test_score_of_nothing(translator):
    empty, impossible, deletion = translator.score([("", ""), ("", "cat"), ("cat", "")])
    assert (empty.log_prob, impossible.log_prob) == (0.0, float("-inf"))
    assert len(deletion.token_log_probs) == 1
    assert deletion.log_prob < 0


def test_options_by_name(translator):
    assert translator.translate(LINES[:5], beam=1) == translator.translate(LINES[:5], DecodeOptions(beam=1))
    with pytest.raises(TfmError, match="beam of 1"):
        translator.translate(LINES[:5], beam=1, n_best=2)


def test_ensembles(translator, folder, tmp_path):
    other = saved_model(tmp_path / "two", seed=2)
    both = Translator.load([folder, other], device="cpu")
    assert both.translate(LINES, OPTIONS) != translator.translate(LINES, OPTIONS)
    twins = Translator.load([folder, folder], device="cpu")
    assert twins.translate(LINES, OPTIONS) == translator.translate(LINES, OPTIONS)
    stranger = saved_model(tmp_path / "three", seed=1, lines=["another language " + line[::-1] for line in LINES])
    with pytest.raises(TfmError, match="another tokenizer"):
        Translator.load([folder, stranger], device="cpu")
    with pytest.raises(TfmError, match="no model"):
        Translator.load([])


def test_a_missing_model_is_named():
    with pytest.raises(TfmError, match="nowhere"):
        Translator.load(Path("nowhere"), device="cpu")


def test_formats():
    hypotheses = [TextHypothesis("a\nb", -0.5, -1.0, ["a", "b"], [-0.5, -0.5]), TextHypothesis("c", -2.0, -4.0, [], [])]
    translation = Translation(3, "x", hypotheses)
    assert as_text(translation) == "a b"
    assert as_ranking(translation).splitlines() == ["2 ||| a b ||| -0.500000", "2 ||| c ||| -2.000000"]
    content = json.loads(as_json(translation))
    assert (content["line"], content["source"], len(content["translations"])) == (3, "x", 2)
    assert content["translations"][0] == {"text": "a\nb", "score": -0.5, "log_prob": -1.0, "finished": True}
    assert json.loads(as_json(translation, with_tokens=True))["translations"][0]["tokens"] == ["a", "b"]
    assert "\n" not in as_json(translation)
