"""`tfm bench`: a row a model, the same figures as JSON and picture, and what does not fit refused."""

import json
from pathlib import Path

import pytest
import torch

from tests.toys import TINY, make_data, reverse, sentences, write_lines
from tfm_cli.cli import app
from tfm_cli.cli.bench import COLUMNS
from tfm_cli.data.dataset import DataFolder
from tfm_cli.model import Model, build_family, save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of fresh weights, and a test set."""
    folder = tmp_path_factory.mktemp("bench")
    tokenizers = DataFolder.load(make_data(folder, reverse, pairs=40, valid=4)).tokenizers
    for name in ("autoregressive", "maskpredict"):
        torch.manual_seed(1)
        size = tokenizers.source.vocab_size
        save_model(folder / name, Model(build_family(name, TINY, size, size), name, tokenizers))
    write_lines(folder / "test.xx", sentences(5, seed=4))
    write_lines(folder / "test.yy", [reverse(line) for line in sentences(5, seed=4)])
    write_lines(folder / "short.yy", ["ba"])
    return folder


def bench(folder: Path, *words: str, reference: str = "test.yy") -> int:
    models = ["--model", str(folder / "autoregressive"), str(folder / "maskpredict"), "--engine", "torch"]
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / reference)]
    return app.run(["bench", *models, *test, "--device", "cpu", "--threads", "1", "--rounds", "1", *words])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_row_a_model_and_beam_in_table_json_and_picture(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--beam", "1", "2", "--iterations", "2", "--sentences", "4", "--json", "b.json", "--picture", "b.svg"]
    assert bench(folder, *words) == 0
    said = capsys.readouterr()
    names = [f"{folder}/autoregressive beam 1", f"{folder}/autoregressive beam 2", f"{folder}/maskpredict iterations 2"]
    rows = said.out.splitlines()
    assert rows[0].split() == [word for column in COLUMNS for word in column.split()]
    assert [row.split("  ")[0] for row in rows[1:4]] == names
    assert "4 sentences, 1 round. " in said.out and "cpu, float32, 1 thread" in said.out
    assert "passes: runs of the decoder" in said.err
    content = json.loads(Path("b.json").read_text())
    assert [each["name"] for each in content["models"]] == names
    assert content["models"][2]["passes"] <= 2 < content["models"][0]["passes"]
    assert set(content["models"][0]["by_batch"]) == {"16", "64", "256"}
    assert content["machine"]["threads"] == 1
    assert Path("b.svg").read_text().count("<circle") == 3


@pytest.mark.parametrize(
    ("words", "reference", "why"),
    [
        (["--paths", "viterbi"], "test.yy", "--paths: none of the models is of a family that obeys it (dag)"),
        ([], "short.yy", "has 5 lines and "),
        (["--rounds", "0"], "test.yy", "--rounds: 0 is below"),
    ],
)
def test_what_does_not_fit_is_refused(
    folder: Path, words: list[str], reference: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench(folder, *words, reference=reference) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and why in said.err


def test_without_files_and_test_pairs_both_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", str(folder / "maskpredict"), "--data", str(folder / "data")]
    assert app.run(["bench", *words]) == 2
    assert "bench needs --source and --reference" in capsys.readouterr().err
