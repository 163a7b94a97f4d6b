"""The five commands on a table instead of text files."""

import json
from pathlib import Path

import pytest

from tests.toys import reverse, sentences
from tfm_cli.cli import app

PROJECT = """
[project]
source-lang = "xx"
target-lang = "yy"
[train-tokenizer]
vocab-size = 320
[preprocess]
dataset = "pairs"
source-column = "left"
target-column = "right"
[train]
device = "cpu"
precision = "float32"
threads = 1
dim = 16
ffn-dim = 16
encoder-layers = 1
decoder-layers = 1
batch-tokens = 256
max-steps = 2
valid-every = 2
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    (tmp_path / "tfm.toml").write_text(PROJECT)
    (tmp_path / "pairs").mkdir()
    made = sentences(80)
    for name, part in {"train": made[:60], "validation": made[60:70], "test": made[70:]}.items():
        rows = "".join(f"{line},{reverse(line)}\n" for line in part)
        (tmp_path / "pairs" / f"{name}.csv").write_text(f"left,right\n{rows}")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")  # the table is named from the folder of tfm.toml
    return tmp_path


def test_the_five_commands_need_nothing_but_the_table(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("train-tokenizer", "preprocess", "train"):
        assert app.run([command]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().err
    assert "(train), source" in shown and "(train), target" in shown
    assert app.run(["eval", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 10
    (project / "input.txt").write_text(f"{sentences(1)[0]}\n")
    assert app.run(["translate", "--input", str(project / "input.txt"), "--beam", "1", "--quiet"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


def test_a_table_gives_the_vocabulary_that_its_text_gives(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["train-tokenizer"]) == 0
    lines = sentences(80)[:60]
    (project / "left").write_text("".join(f"{line}\n" for line in lines))
    (project / "right").write_text("".join(f"{reverse(line)}\n" for line in lines))
    texts = ["--input", str(project / "left"), str(project / "right")]
    assert app.run(["train-tokenizer", *texts, "--output", "other"]) == 0
    written = [folder / "tokenizer.json" for folder in (project / "tokenizer", Path("other"))]
    assert written[0].read_bytes() == written[1].read_bytes()
    assert app.run(["train-tokenizer", "--separate", "--output", "two"]) == 0
    assert sorted(path.name for path in Path("two").iterdir()) == ["source.tokenizer.json", "target.tokenizer.json"]
    capsys.readouterr()
    assert app.run(["train-tokenizer", *texts, "--dataset", "../pairs"]) == 2
    assert "--dataset: there is text in files and in a table. Leave out --input, or it." in capsys.readouterr().err
