"""`tfm distill`: a teacher's data folder that `tfm train` reads."""

import json
from pathlib import Path

import pytest
import torch

from tests.toys import TINY, make_data, reverse
from tfm_cli.cli import app
from tfm_cli.data.dataset import DataFolder
from tfm_cli.model import Model, build_family, save_model

SIZE = ["--dim", "16", "--ffn-dim", "32", "--encoder-layers", "1", "--decoder-layers", "1", "--threads", "1"]
MACHINE = ["--device", "cpu", "--threads", "1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, a teacher and a model that is none, of fresh weights."""
    folder = tmp_path_factory.mktemp("distill")
    tokenizers = DataFolder.load(make_data(folder, reverse, pairs=40, valid=4)).tokenizers
    for name in ("autoregressive", "ctc"):
        torch.manual_seed(1)
        size = tokenizers.source.vocab_size
        save_model(folder / name, Model(build_family(name, TINY, size, size), name, tokenizers))
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def distill(folder: Path, *words: str, model: str = "autoregressive", output: str = "kd") -> int:
    given = ["--model", str(folder / model), "--data", str(folder / "data"), "--output", output, *MACHINE]
    return app.run(["distill", *given, *words])


def test_a_student_trains_on_what_the_teacher_wrote(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert distill(folder, "--beam", "2", "--originals", "0.25") == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "40 pairs in kd/ in " in said.err and "10 kept as they were" in said.err
    about = json.loads(Path("kd/data.json").read_text())
    assert about["distilled"]["plan"]["search"]["beam"] == 2
    words = ["train", "--data", "kd", "--output", "student", "--family", "ctc", *SIZE, "--max-steps", "2"]
    assert app.run([*words, "--device", "cpu", "--precision", "float32", "--batch-tokens", "256", "--quiet"]) == 0
    assert (Path("student") / "config.json").is_file()


def test_a_second_time_does_nothing_and_another_beam_needs_a_word(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert distill(folder, "--beam", "1") == 0
    before = Path("kd/data.json").read_bytes()
    capsys.readouterr()
    assert distill(folder, "--beam", "1") == 0
    assert "is up to date" in capsys.readouterr().err
    assert distill(folder, "--beam", "2") == 2
    why = "error: kd: there are other data already. Name another --output, or add --overwrite.\n"
    assert capsys.readouterr().err.endswith(why)
    assert Path("kd/data.json").read_bytes() == before
    assert distill(folder, "--beam", "2", "--overwrite", "--quiet") == 0
    assert Path("kd/data.json").read_bytes() != before


def test_auto_is_what_it_stands_for_and_another_engine_is_another_plan(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfm_cli.device.has_native_bfloat16", lambda device: False)
    assert distill(folder, "--beam", "1", "--engine", "torch", "--precision", "auto") == 0
    plan = json.loads(Path("kd/data.json").read_text())["distilled"]["plan"]
    assert (plan["engine"], plan["precision"]) == ("torch", "float32")
    assert distill(folder, "--beam", "1", "--engine", "torch", "--precision", "float32") == 0
    assert "is up to date" in capsys.readouterr().err
    assert distill(folder, "--beam", "1", "--engine", "torch", "--precision", "int8") == 2
    monkeypatch.setattr("tfm_cli.device.has_native_bfloat16", lambda device: True)
    assert distill(folder, "--beam", "1", "--engine", "torch", "--precision", "auto") == 2


def test_what_is_no_teacher_or_no_output_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert distill(folder, model="ctc") == 2
    assert "a teacher writes from left to right, and this model is ctc" in capsys.readouterr().err
    assert distill(folder, "--overwrite", output=str(folder / "data")) == 2
    assert "data: these are the data themselves. Name another folder.\n" in capsys.readouterr().err
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("dear")
    assert distill(folder, "--overwrite", output="mine") == 2
    assert "the folder holds other files (letter.txt)" in capsys.readouterr().err
    assert sorted(path.name for path in Path().iterdir()) == ["mine"]
