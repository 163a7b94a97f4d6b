import io
import json
import sys
from pathlib import Path

import pytest

from tfm_cli.cli import app

REFERENCE = ["Who am I?", "There are three books on the table.", "She goes to the library by bus every day."]
HYPOTHESIS = ["Who am I?", "There are three books on a table.", "She goes to the library every day."]


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("test.en", REFERENCE)
    write("out.txt", HYPOTHESIS)
    write("other.txt", ["Who?", "Three books are on the table.", "She goes by bus."])


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def evaluate(*words: str) -> int:
    return app.run(["eval", *words])


def test_scores_with_signatures_stand_on_stdout(capsys):
    assert evaluate("--hypothesis", "out.txt", "--reference", "test.en", "--bleu", "--no-confidence") == 0
    shown = capsys.readouterr()
    header, score, blank, signature = shown.out.splitlines()
    assert header.split() == ["metric", "score", "95", "%", "interval"]
    assert score.split()[0] == "BLEU"
    assert 50 < float(score.split()[1]) < 100
    assert blank == ""
    assert signature.startswith("BLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert shown.err == ""


def test_all_three_metrics_by_default_and_the_same_as_sacrebleu(capsys):
    from sacrebleu import BLEU, CHRF, TER

    assert evaluate("--hypothesis", "out.txt", "--reference", "test.en", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    expected = [metric.corpus_score(HYPOTHESIS, [REFERENCE]).score for metric in (BLEU(), CHRF(), TER())]
    assert [score["metric"] for score in found["scores"]] == ["BLEU", "chrF", "TER"]
    assert [score["value"] for score in found["scores"]] == pytest.approx(expected)
    assert (found["sentences"], found["language"], found["comparisons"]) == (3, "en", [])


def test_several_references_are_counted(capsys):
    assert evaluate("--hypothesis", "out.txt", "--reference", "test.en", "other.txt", "test.en", "--chrf") == 0
    assert "chrF: nrefs:3|" in capsys.readouterr().out


def test_two_systems_are_compared(capsys):
    assert evaluate("--hypothesis", "out.txt", "--compare", "other.txt", "--reference", "test.en", "--bleu") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["BLEU", "out.txt"] in [row[:2] for row in rows]
    assert [row[-1] for row in rows if row[1:2] == ["out.txt"]] == ["baseline"]
    assert [0 <= float(row[-1]) <= 1 for row in rows if row[1:2] == ["other.txt"]] == [True]


@pytest.mark.parametrize(
    ("words", "tokenizer"),
    [
        ("--reference test.zh", "zh"),
        ("--reference test.en --target-lang zh", "zh"),
        ("--reference test.zh --target-lang en", "13a"),
        ("--reference test.zh --tokenize char", "char"),
    ],
)
def test_the_language_picks_the_tokenizer(words, tokenizer, capsys):
    write("test.zh", REFERENCE)
    assert evaluate("--hypothesis", "out.txt", "--bleu", *words.split()) == 0
    assert f"|tok:{tokenizer}|" in capsys.readouterr().out


def test_the_project_names_language_and_files(capsys):
    text = '[project]\ntarget-lang = "zh"\n[preprocess]\ntest-source = "test.xx"\ntest-target = "test.en"\n'
    Path("tfm.toml").write_text(text, encoding="utf-8")
    assert evaluate("--hypothesis", "out.txt", "--bleu") == 0
    assert "|tok:zh|" in capsys.readouterr().out


def test_standard_input_can_be_scored(capsys, monkeypatch):
    text = "".join(f"{line}\n" for line in REFERENCE).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    assert evaluate("--hypothesis", "-", "--reference", "test.en", "--bleu", "--quiet") == 0
    assert "100.00" in capsys.readouterr().out


@pytest.fixture
def model(tmp_path):
    """An untrained model whose card says that it writes Chinese."""
    save(tmp_path / "run", seed=1)


def save(folder, seed):
    import torch

    from tfm_cli.model import Model, build_family, save_model
    from tfm_cli.text.options import TokenizerOptions
    from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
    from tfm_cli.transformer.shape import Shape

    torch.manual_seed(seed)
    tokenizer = Tokenizer.train(REFERENCE, TokenizerOptions(vocab_size=320))
    shape = Shape(dim=8, ffn_dim=8, heads=2, encoder_layers=1, decoder_layers=1)
    family = build_family("autoregressive", shape, tokenizer.vocab_size, tokenizer.vocab_size)
    about = {"source_language": "en", "target_language": "zh"}
    save_model(folder, Model(family, "autoregressive", Tokenizers(tokenizer), about=about))


def test_a_model_translates_the_source_and_its_card_tells_the_language(model, capsys):
    write("source.en", [REFERENCE[0], "", REFERENCE[2]])
    words = "--source source.en --reference test.en --output kept.txt --beam 1 --max-length-ratio 1 --json"
    assert evaluate(*words.split()) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["system"], found["language"], found["sentences"]) == ("run", "zh", 3)
    kept = Path("kept.txt").read_text(encoding="utf-8").split("\n")
    assert len(kept) == 4
    assert kept[1] == ""
    assert "Translations kept in kept.txt." in shown.err
    assert evaluate("--hypothesis", "kept.txt", "--reference", "test.en", "--target-lang", "zh", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"] == found["scores"]


def test_several_models_translate_as_an_ensemble(model, capsys):
    save(Path("two"), seed=6)
    words = ["--model", "run", "two", "--beam", "2", "--max-length-ratio", "1"]
    assert evaluate("--source", "test.en", "--reference", "test.en", "--output", "kept.txt", "--json", *words) == 0
    assert json.loads(capsys.readouterr().out)["system"] == "run + two"
    assert app.run(["translate", "--input", "test.en", "--output", "both.txt", *words]) == 0
    assert app.run(["translate", "--input", "test.en", "--output", "one.txt", *words[:2], *words[3:]]) == 0
    assert Path("kept.txt").read_text() == Path("both.txt").read_text() != Path("one.txt").read_text()


def test_warnings_of_one_kind_are_counted_after_the_first_few(model, capsys):
    write("source.en", REFERENCE * 3)
    write("reference.en", REFERENCE * 3)
    words = "--source source.en --reference reference.en --beam 1 --max-length-ratio 1"
    assert evaluate(*words.split()) == 0
    said = capsys.readouterr().err
    assert said.count("did not end by itself") == 5
    assert "warning: translations that did not end by themselves, all told: 9." in said


def test_the_source_is_held_against_the_reference_before_anything_is_translated(model, capsys):
    write("source.en", REFERENCE[:2])
    assert evaluate("--source", "source.en", "--reference", "test.en") == 2
    assert "error: source.en has 2 lines and test.en has 3." in capsys.readouterr().err


def test_files_of_different_length_are_named_with_their_counts(capsys):
    write("short.txt", HYPOTHESIS[:2])
    for words in (
        "--hypothesis short.txt --reference test.en",
        "--hypothesis out.txt --compare short.txt --reference test.en",
    ):
        assert evaluate(*words.split()) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert "short.txt" in shown.err
        assert "2 lines" in shown.err or "has 2" in shown.err
        assert "3" in shown.err


def test_tokenised_text_is_warned_of(capsys):
    write("tokens.txt", [line.replace(".", " .").replace("?", " ?") for line in HYPOTHESIS])
    assert evaluate("--hypothesis", "tokens.txt", "--reference", "test.en") == 0
    assert "warning: tokens.txt looks tokenised" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "error: eval needs --reference and --source. There is no tfm.toml here;"),
        ("--hypothesis out.txt", "error: eval needs --reference. "),
        ("--hypothesis gone.txt --reference test.en", "error: gone.txt: no such file"),
        ("--source test.en --reference test.en --model gone", "error: gone: there is no such model folder"),
        (
            "--hypothesis out.txt --reference test.en --n-best 2",
            "error: --n-best: a score is of one translation a line.",
        ),
        ("--hypothesis out.txt --reference test.en --tokenize 13b", "error: --tokenize: '13b' is not one of 13a"),
    ],
)
def test_what_is_missing_is_said(words, message, capsys):
    assert evaluate(*words.split()) == 2
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.parametrize(
    "words",
    [
        "--hypothesis out.txt --reference test.en --output test.en",
        "--hypothesis out.txt --reference test.en --output ./out.txt",
        "--hypothesis out.txt --reference test.en --compare other.txt --output other.txt",
        "--source link.en --reference out.txt --output test.en",
    ],
)
def test_no_input_is_overwritten(words, capsys):
    Path("link.en").symlink_to("test.en")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    assert evaluate(*words.split()) == 2
    assert "the output would overwrite an input" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


def test_bytes_that_are_not_utf8_stop_or_are_replaced(capsys):
    Path("out.txt").write_bytes(b"Who am I?\n\xff\nNo.\n")
    words = ["--hypothesis", "out.txt", "--reference", "test.en", "--json"]
    assert evaluate(*words) == 2
    assert "read on with --errors replace." in capsys.readouterr().err
    assert evaluate(*words, "--errors", "replace") == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 3


def test_without_files_the_test_pairs_of_the_data_folder_are_scored(model, capsys):
    write("source.zh", HYPOTHESIS)
    words = "--source source.zh --target test.en --test-source source.zh --test-target test.en --tokenizer run --valid-size 0"
    assert app.run(["preprocess", *words.split(), "--quiet"]) == 0
    assert evaluate("--json", "--beam", "1", "--target-lang", "en", "--output", "kept.txt") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sentences"], found["references"]) == (3, ["data (test)"])
    assert evaluate("--hypothesis", "kept.txt", "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["language"], again["scores"]) == ("en", found["scores"])
    assert evaluate("--hypothesis", "kept.txt", "--reference", "test.en", "--json") == 0
    assert json.loads(capsys.readouterr().out)["scores"] == found["scores"]
    assert evaluate("--source", "source.zh") == 2
    assert "eval needs --reference." in capsys.readouterr().err


def test_models_are_named_without_an_option(model, capsys):
    assert app.run(["info", "run"]) == 0
    assert "en → zh" in capsys.readouterr().out
    assert app.run(["average", "run", "run"]) == 2
    assert "or give it as options, such as --output run-average/." in capsys.readouterr().err
    assert app.run(["average", "run", "run", "--output", "out.txt"]) == 2
    assert capsys.readouterr().err == "error: out.txt: the output is a file. Name a folder by --output.\n"
    assert app.run(["average", "run", "run", "--output", "mean"]) == 0
    assert app.run(["info", "mean"]) == 0
    assert "averaged from  run, run" in capsys.readouterr().out
