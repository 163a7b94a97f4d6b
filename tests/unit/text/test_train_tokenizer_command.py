from pathlib import Path

import pytest

from tfm_cli.cli.app import run
from tfm_cli.text.tokenizer import Tokenizers


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.zh").write_text("我是王明。\n你是谁？\n我们是王明。\n" * 5, encoding="utf-8")
    (tmp_path / "train.en").write_text("I am Wang Ming.\nWho are you?\nWe are Wang Ming.\n" * 5, encoding="utf-8")
    return tmp_path


def test_it_writes_a_tokenizer_and_says_what_it_does(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train-tokenizer", "--input", "train.zh", "train.en"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    tokenizers = Tokenizers.load(folder / "tokenizer")
    assert tokenizers.shared and f"Vocabulary: {tokenizers.source.vocab_size:,} tokens" in err
    figures = {line.split()[0]: line.split()[1:] for line in err.splitlines() if line.startswith("train.")}
    sentences = (folder / "train.en").read_text().splitlines()
    per_word = sum(map(len, tokenizers.source.encode_batch(sentences))) / sum(len(s.split()) for s in sentences)
    assert figures["train.en"] == [f"{per_word:.2f}", "word"]
    assert figures["train.zh"][1] == "character"
    assert "·" in err and "Next: tfm preprocess" in err


def test_a_different_tokenizer_is_not_replaced_unasked(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = ["train-tokenizer", "--input", "train.zh", "train.en"]
    other = ["train-tokenizer", "--input", "train.en"]
    assert run(first) == 0 and run(first) == 0
    before = (folder / "tokenizer" / "tokenizer.json").read_bytes()
    assert run(other) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (folder / "tokenizer" / "tokenizer.json").read_bytes() == before
    assert run([*other, "--overwrite"]) == 0
    assert (folder / "tokenizer" / "tokenizer.json").read_bytes() != before
    assert [path.name for path in (folder / "tokenizer").iterdir()] == ["tokenizer.json"]


def test_two_vocabularies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["train-tokenizer", "--separate", "--source", "train.zh", "--target", "train.en"]) == 0
    tokenizers = Tokenizers.load(folder / "tokenizer")
    assert not tokenizers.shared
    assert all(tokenizers.source.token(i) != "M" for i in range(tokenizers.source.vocab_size))
    assert run(["train-tokenizer", "--separate", "--source", "train.zh"]) == 2
    assert run(["train-tokenizer"]) == 2
    assert "--separate: two vocabularies need two texts" in capsys.readouterr().err
