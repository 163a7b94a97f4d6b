"""`tfm bench`: a row a model, the same figures as JSON and picture, and what does not fit refused."""

import json
from pathlib import Path

import pytest
import torch

from tests.toys import TINY, make_data, reverse, sentences, write_lines
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli import app
from tfm_cli.cli.bench import COLUMNS
from tfm_cli.cli.machine import MachineOptions, open_set_up, torch_shares
from tfm_cli.cli.render import Screen
from tfm_cli.data.dataset import DataFolder
from tfm_cli.engines.choice import Wish
from tfm_cli.errors import TfmError
from tfm_cli.model import Model, build_family, save_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of fresh weights, and a test set."""
    folder = tmp_path_factory.mktemp("bench")
    tokenizers = DataFolder.load(make_data(folder, reverse, pairs=40, valid=4)).tokenizers
    for name in ("autoregressive", "ctc", "maskpredict", "oneshot"):
        torch.manual_seed(1)
        size = tokenizers.source.vocab_size
        save_model(folder / name, Model(build_family(name, TINY, size, size), name, tokenizers))
    write_lines(folder / "test.xx", sentences(5, seed=4))
    write_lines(folder / "test.yy", [reverse(line) for line in sentences(5, seed=4)])
    write_lines(folder / "short.yy", ["ba"])
    write_lines(folder / "fast.yy", [reverse(line) for line in sentences(4, seed=4)])
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
    assert "4 sentences, 1 round. " in said.out and "cpu, float32, 1 x 1 threads alone, 1 x 1 in batches" in said.out
    assert "passes: runs of the decoder" in said.err
    content = json.loads(Path("b.json").read_text())
    assert [each["name"] for each in content["models"]] == names
    assert content["models"][2]["passes"] <= 2 < content["models"][0]["passes"]
    assert set(content["models"][0]["by_batch"]) == {"16", "64", "256"}
    assert content["machine"]["threads"] == 1
    assert Path("b.svg").read_text().count("<circle") == 3


def test_a_judge_gives_a_row_more_to_each_model_that_has_candidates(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = str(folder / "autoregressive")
    more = ["--model", str(folder / "ctc"), "--beam", "1", "--ctc-beam", "4", "--rerank", judge, "--json", "b.json"]
    assert bench(folder, *more) == 0
    assert f"{folder}/maskpredict without a judge: there is one candidate" in capsys.readouterr().err
    found = {each["name"].removeprefix(f"{folder}/"): each for each in json.loads(Path("b.json").read_text())["models"]}
    assert list(found) == ["autoregressive beam 1", "maskpredict", "ctc ctc-beam 4", f"ctc ctc-beam 4 rerank {judge}"]
    assert [found[name]["passes"] for name in list(found)[2:]] == [1, 2]


@pytest.mark.parametrize(
    ("words", "reference", "why"),
    [
        (["--paths", "viterbi"], "test.yy", "--paths: none of the models is of a family that obeys it (dag)"),
        (["--rerank", "nowhere", "--length-beam", "2"], "test.yy", "nowhere: there is no such model folder"),
        (["--rerank", "nowhere"], "test.yy", "--rerank: there is one candidate, nothing to choose from"),
        ([], "short.yy", "has 5 lines and "),
        (["--sentences", "3"], "fast.yy", "has 5 lines and "),  # line by line as far as they are taken
        (["--workers", "2"], "test.yy", "--workers: 2 workers cannot share 1 threads"),
        (["--json", "one", "--picture", "./one"], "test.yy", "--picture ./one: --json goes to the same file"),
        (["--picture", "file/b.svg"], "test.yy", "--picture file/b.svg: "),
        (["--json", "."], "test.yy", "--json .: this is a folder"),
        (["--json", "test.xx"], "test.yy", "/test.xx: the output would overwrite an input"),
        (["--rounds", "0"], "test.yy", "--rounds: 0 is below"),
    ],
)
def test_what_does_not_fit_is_refused(
    folder: Path, words: list[str], reference: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()
    words = [str(folder / word) if word == "test.xx" else word for word in words]
    assert bench(folder, *words, reference=reference) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and why in said.err
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_length_is_asked_of_those_that_predict_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    oneshot = ["--model", str(folder / "oneshot"), "--length-beam", "3"]
    assert bench(folder, *oneshot, "--beam", "1", "--sentences", "2") == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("  ")[0] for row in rows[2:4]] == [f"{folder}/maskpredict length-beam 3", f"{folder}/oneshot"]
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy")]
    assert app.run(["bench", *oneshot, *test]) == 2
    assert f"--length-beam: {folder}/oneshot writes until END and predicts no length" in capsys.readouterr().err


def test_batches_share_the_threads_as_those_of_translate_do(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfm_cli.device.torch.set_num_threads", lambda count: None)  # which are this process's
    words = ["--model", str(folder / "maskpredict"), "--engine", "torch", "--device", "cpu", "--threads", "4"]
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy"), "--sentences", "2"]
    for given, told in (([], "4 x 1"), (["--workers", "2"], "2 x 2")):
        assert app.run(["bench", *words, *test, "--rounds", "1", "--json", "b.json", *given]) == 0
        assert f"1 x 4 threads alone, {told} in batches" in capsys.readouterr().out
        together = json.loads(Path("b.json").read_text())["models"][0]["together"]
        assert f"{together['workers']} x {together['threads']}" == told


def test_several_workers_are_refused_on_a_gpu() -> None:
    with pytest.raises(TfmError, match="one batch at a time"):
        torch_shares(torch.device("cuda"), MachineOptions(workers=2))


def test_int8_has_one_thread_for_one_sentence_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfm_cli.cli.machine._is_for_torch", lambda *_: False)
    monkeypatch.setattr("tfm_cli.engines.ctranslate2.load", lambda *_: (None, None))
    monkeypatch.setenv("OMP_NUM_THREADS", "6")
    for given, one_by_one, shares in (({}, True, (1, 1)), ({"threads": 3}, True, (1, 3)), ({}, False, (6, 1))):
        machine = MachineOptions(precision="int8", **given)
        setup = open_set_up(Wish(["run"], DecodeOptions(), "int8"), machine, Screen(quiet=True), one_by_one)[1]
        assert (setup.engine, setup.precision, setup.workers, setup.threads) == ("ctranslate2", "int8", *shares)


def test_a_source_that_is_not_read_whole_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_lines(Path("long.xx"), ["ba " * 1100, "ba"])
    write_lines(Path("long.yy"), ["ba", "ba"])
    words = ["--model", str(folder / "oneshot"), "--engine", "torch", "--device", "cpu", "--threads", "1"]
    assert app.run(["bench", *words, "--source", "long.xx", "--reference", "long.yy", "--rounds", "1", "--quiet"]) == 0
    told = f"warning: {folder}/oneshot: 1 of 2 sentences are cut to 1,000 tokens.\n"
    assert capsys.readouterr().err == told


def test_without_files_and_test_pairs_both_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", str(folder / "maskpredict"), "--data", str(folder / "data")]
    assert app.run(["bench", *words]) == 2
    assert "bench needs --source and --reference" in capsys.readouterr().err
