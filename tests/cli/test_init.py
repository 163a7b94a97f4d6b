import gzip
import io
import sys
import tomllib
from pathlib import Path

import pytest

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli import app
from tfm_cli.cli.init import Counted, guess_language, propose
from tfm_cli.cli.options import InitOptions
from tfm_cli.config import Project


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.zh").write_text("我\n你\n", encoding="utf-8")
    Path("train.en").write_text("I\nyou\n", encoding="utf-8")
    Path("short.en").write_text("I\n", encoding="utf-8")
    return tmp_path


def init(*words: str) -> int:
    return app.run(["init", *words])


def written() -> dict:
    return tomllib.loads(Path("tfm.toml").read_text(encoding="utf-8"))


def test_a_project_file_is_written_that_loads_again(capsys):
    assert init("--source", "train.zh", "--target", "train.en") == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "Next: tfm train-tokenizer" in shown.err
    assert written() == {
        "project": {"source-lang": "zh", "target-lang": "en"},
        "train-tokenizer": {"vocab-size": 2000},
        "preprocess": {"source": "train.zh", "target": "train.en"},
        "train": {"preset": "auto"},
        "translate": {},
    }
    Project.load("tfm.toml").check({each.name: each.sections for each in app.COMMANDS})


def test_the_keys_left_as_comments_are_right_too():
    assert init("--source", "train.zh", "--target", "train.en") == 0
    lines = Path("tfm.toml").read_text(encoding="utf-8").splitlines()
    opened = [line[2:] if line.startswith("# ") and " = " in line and "stands" not in line else line for line in lines]
    opened = [line for line in opened if not line.startswith(("Network size", "Single options"))]
    Path("all.toml").write_text("\n".join(opened), encoding="utf-8")
    project = Project.load("all.toml").check({each.name: each.sections for each in app.COMMANDS})
    assert project.tables["preprocess"]["valid-source"] == "valid.de"
    assert project.tables["train"]["max-minutes"] == 60
    assert project.tables["translate"]["beam"] == DecodeOptions().beam


def test_everything_given_is_written():
    words = "--source train.zh --target train.en --valid-source train.zh --valid-target train.en --test-source train.zh"
    words += " --test-target train.en --source-lang cmn --target-lang eng --preset big --vocab-size 500"
    assert init(*words.split()) == 0
    assert written()["project"] == {"source-lang": "cmn", "target-lang": "eng"}
    assert written()["train"]["preset"] == "big"
    assert written()["train-tokenizer"]["vocab-size"] == 500
    assert written()["preprocess"]["test-target"] == "train.en"


def test_a_file_that_is_there_stays_unless_forced(capsys):
    Path("tfm.toml").write_text("mine", encoding="utf-8")
    assert init("--source", "train.zh", "--target", "train.en") == 2
    assert (
        capsys.readouterr().err == "error: tfm.toml: there is already a project file here. Replace it with --force.\n"
    )
    assert Path("tfm.toml").read_text(encoding="utf-8") == "mine"
    assert init("--source", "train.zh", "--target", "train.en", "--force") == 0
    assert "train" in written()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--source train.zh --target short.en", "train.zh has 2 lines and short.en has 1. "),
        ("--source train.zh --target gone.en", "gone.en: no such file"),
        ("--source train.zh", "init needs --source and --target. "),
        ("--source train.zh --target train.en --valid-source train.zh", "the validation text lacks its other side. "),
        ("--source train.zh --target train.en --preset huge", "--preset: 'huge' is not one of"),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_written(words, message, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert init(*words.split()) == 2
    assert f"error: {message}" in capsys.readouterr().err
    assert not Path("tfm.toml").exists()


def test_compressed_text_is_counted():
    Path("train.zh.gz").write_bytes(gzip.compress("我\n你\n".encode()))
    assert init("--source", "train.zh.gz", "--target", "train.en") == 0
    assert written()["project"]["source-lang"] == "zh"


def test_on_a_terminal_it_asks(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    answers = ["gone.zh", "train.zh", "train.en", "", "eng", "", "train.zh", "train.en", "small"]
    monkeypatch.setattr(sys, "stdin", Terminal("".join(f"{answer}\n" for answer in answers)))
    assert init() == 0
    assert written()["project"] == {"source-lang": "zh", "target-lang": "eng"}
    assert written()["preprocess"] == {
        "source": "train.zh",
        "target": "train.en",
        "test-source": "train.zh",
        "test-target": "train.en",
    }
    assert written()["train"] == {"preset": "small"}
    assert "warning: gone.zh: no such file" in capsys.readouterr().err


def test_a_broken_project_file_above_does_not_stand_in_the_way(files, monkeypatch):
    Path("tfm.toml").write_text("[", encoding="utf-8")
    Path("below").mkdir()
    monkeypatch.chdir("below")
    assert init("--source", "../train.zh", "--target", "../train.en") == 0
    assert written()["preprocess"]["source"] == "../train.zh"


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.zh", "zh"),
        ("a/train.de.gz", "de"),
        ("train.pt-BR.txt", "pt-BR"),
        ("corpus.zho_Hans", "zho_Hans"),
        ("train.txt", None),
        ("train", None),
        ("v1.0", None),
        (None, None),
    ],
)
def test_languages_are_guessed_from_endings(name, language):
    assert guess_language(name) == language


def test_more_text_gets_a_larger_vocabulary():
    proposed = [propose(InitOptions(), Counted(pairs)) for pairs in (10, 30_000, 100_000, 10**7)]
    assert [each.vocab_size for each in proposed] == [2_000, 8_000, 16_000, 32_000]
    assert {each.preset for each in proposed} == {"auto"}


def test_the_vocabulary_has_room_for_every_character_and_some_words(capsys):
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 2500)]
    Path("train.zh").write_text("".join(f"{a}{b}\n" for a, b in zip(characters[::2], characters[1::2], strict=True)))
    Path("train.en").write_text("yes\n" * 1250)
    assert init("--source", "train.zh", "--target", "train.en") == 0
    assert written()["train-tokenizer"]["vocab-size"] == 4300  # 2,503 characters + 261 + 1,500
    assert app.run(["train-tokenizer", "--quiet"]) == 0
    assert propose(InitOptions(vocab_size=300), Counted(1250, characters=2503)).vocab_size == 300
