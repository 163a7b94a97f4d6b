from pathlib import Path

import pytest

from tfm_cli.cli.app import run

PREPROCESS = ["preprocess", "--source", "train.zh", "--target", "train.en"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.zh").write_text("".join(f"我是{i}号。\n" for i in range(100)) + "\n", encoding="utf-8")
    (tmp_path / "train.en").write_text("".join(f"I am number {i}.\n" for i in range(101)), encoding="utf-8")
    assert run(["train-tokenizer", "--input", "train.zh", "train.en", "--quiet"]) == 0
    return tmp_path


def test_it_says_what_became_of_the_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    test = ["--test-source", "train.zh", "--test-target", "train.en"]
    assert run([*PREPROCESS, *test]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "101 pairs read and encoded into data/" in err
    assert "Dropped 1 of 101 training pairs: 1 one side is empty." in err
    assert "2 of them are held out for validation" in err
    assert "98 of 101 test sources occur in the training text too, so their scores flatter the model" in err
    assert "1 test pairs have an empty side" in err
    assert "tokens, zh" in err and "Next: tfm train" in err
    assert run([*PREPROCESS, *test]) == 0
    assert "data/ is up to date" in capsys.readouterr().err


def test_quiet_says_nothing_and_mistakes_exit_with_2(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PREPROCESS, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    (folder / "train.en").write_text("short\n")
    assert run(PREPROCESS) == 2
    assert "train.zh has 101 lines and train.en has 1" in capsys.readouterr().err


def test_validation_pairs_that_are_too_long_are_counted_and_kept(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "valid.zh").write_text(f"你好。\n{'你好。' * 200}\n", encoding="utf-8")
    (folder / "valid.en").write_text("Hello.\nHello, hello.\n", encoding="utf-8")
    assert run([*PREPROCESS, "--valid-source", "valid.zh", "--valid-target", "valid.en"]) == 0
    shown = capsys.readouterr().err
    assert (
        "warning: 1 validation pairs are longer than 250 tokens (--max-length); they are kept, and will count in scores, "
        "but the validation loss leaves the longest out" in shown
    )
