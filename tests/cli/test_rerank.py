"""`--rerank` on the command line: the judge's choice and numbers, and the reasons for which it is refused."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.toys import TINY, make_data, reverse, sentences, write_lines
from tfm_cli.cli import app
from tfm_cli.cli.machine import MachineOptions
from tfm_cli.cli.render import Screen
from tfm_cli.cli.rerank import open_ranked
from tfm_cli.data.dataset import DataFolder
from tfm_cli.engines.choice import Wish
from tfm_cli.model import Model, build_family, save_model
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "autoregressive": ("autoregressive", {}),
    "maskpredict": ("maskpredict", {}),
    "oneshot": ("oneshot", {}),
    "predict": ("oneshot", {"length": "predict"}),
    "ctc": ("ctc", {}),
    "dag": ("dag", {}),
}


def write_model(folder: Path, tokenizers: Tokenizers, family: str, settings: dict[str, Any]) -> None:
    """A model of fresh weights."""
    torch.manual_seed(4)
    size = tokenizers.source.vocab_size
    save_model(folder, Model(build_family(family, TINY, size, size, settings), family, tokenizers, settings))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of one tokenizer, a judge of another, and a test set."""
    folder = tmp_path_factory.mktemp("rerank")
    tokenizers = DataFolder.load(make_data(folder, reverse, pairs=60)).tokenizers
    for name, (family, settings) in MODELS.items():
        write_model(folder / name, tokenizers, family, settings)
    other = Tokenizer.train(sentences(50, seed=9), TokenizerOptions(vocab_size=300))
    write_model(folder / "other", Tokenizers(other, other), "autoregressive", {})
    write_lines(folder / "test.xx", sentences(5, seed=4))
    write_lines(folder / "test.yy", [reverse(line) for line in sentences(5, seed=4)])
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def words(folder: Path, model: str, judge: str, *more: str) -> list[str]:
    common = ["--model", str(folder / model), "--device", "cpu", "--threads", "1", "--quiet"]
    return [*common, "--rerank", str(folder / judge), *more]


@pytest.mark.parametrize(
    ("model", "beam"), [("maskpredict", "--length-beam"), ("predict", "--length-beam"), ("ctc", "--ctc-beam")]
)
def test_the_numbers_are_the_judges(folder: Path, model: str, beam: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = [beam, "4", "--scores", "--format", "jsonl", "--input", str(folder / "test.xx")]
    assert app.run(["translate", *words(folder, model, "autoregressive", *more)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["line"] for each in found] == [1, 2, 3, 4, 5]
    for each in found:
        (best,) = each["translations"]
        # The mean over tokens and END: the writer's own score leaves END out.
        assert best["score"] == pytest.approx(best["log_prob"] / (len(best["tokens"]) + 1))
        assert len(best["token_log_probs"]) == len(best["tokens"]) + 1


def test_eval_takes_it_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy"), "--json"]
    given = words(folder, "maskpredict", "autoregressive", "--length-beam", "3", *test)
    assert app.run(["eval", *given]) == 0
    assert json.loads(capsys.readouterr().out)["sentences"] == 5


@pytest.mark.parametrize(
    ("model", "judge", "more", "why"),
    [
        ("ctc", "autoregressive", [], "--rerank: there is one candidate, nothing to choose from. Add --ctc-beam"),
        ("dag", "autoregressive", [], "--rerank: the model is dag, which writes one candidate only"),
        ("autoregressive", "autoregressive", [], "--rerank: an autoregressive model ranks its hypotheses itself"),
        ("oneshot", "autoregressive", [], "--rerank: this model writes until END"),
        (
            "predict",
            "autoregressive",
            [],
            "--rerank: there is one candidate, nothing to choose from. Add --length-beam",
        ),
        ("predict", "ctc", ["--length-beam", "3"], "a judge writes from left to right, and "),
        ("predict", "other", ["--length-beam", "3"], "other has another tokenizer than"),
        (
            "predict",
            "autoregressive",
            ["--length-beam", "3", "--score", "test.yy"],
            "--rerank: --score searches nothing",
        ),
    ],
)
def test_what_has_no_candidates_or_no_judge_is_refused(
    folder: Path, model: str, judge: str, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [str(folder / word) if word == "test.yy" else word for word in more]
    given = words(folder, model, judge, *more, "--input", str(folder / "test.xx"))
    assert app.run(["translate", *given]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert why in said.err


def evaluated(folder: Path, model: str, *more: str) -> int:
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy"), "--json"]
    return app.run(["eval", "--model", str(folder / model), "--device", "cpu", "--threads", "1", *test, *more])


def project(table: str, *lines: str) -> None:
    Path("tfm.toml").write_text("\n".join([f"[{table}]", *lines, ""]), encoding="utf-8")


@pytest.mark.parametrize("model", ["autoregressive", "dag", "oneshot"])
def test_what_translate_has_a_judge_for_is_no_error_in_eval_of_another_model(
    folder: Path, model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = folder / "autoregressive"
    project("translate", f'rerank = "{judge}"', "length-beam = 3")
    assert evaluated(folder, "maskpredict") == 0
    assert "Without" not in capsys.readouterr().err
    assert evaluated(folder, model) == 0
    assert "Without tfm.toml: [translate] rerank: " in capsys.readouterr().err
    assert evaluated(folder, model, "--rerank", str(judge)) == 2
    assert capsys.readouterr().err.startswith("error: --rerank: ")


def test_a_judge_in_the_commands_own_table_is_refused_there_and_can_be_unset(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project("eval", f'rerank = "{folder / "autoregressive"}"')
    assert evaluated(folder, "dag") == 2
    said = capsys.readouterr().err
    assert said.startswith("error: tfm.toml: [eval] rerank: the model is dag") and '--rerank ""' in said
    assert evaluated(folder, "dag", "--rerank", "") == 0


def test_scoring_goes_past_a_judge_in_the_project_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project("translate", f'rerank = "{folder / "autoregressive"}"', "length-beam = 3")
    files = ["--input", str(folder / "test.xx"), "--score", str(folder / "test.yy")]
    words = ["translate", "--model", str(folder / "predict"), "--device", "cpu", "--threads", "1", *files]
    assert app.run(words) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_code_is_generated_for_the_writer_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    wishes: list[Wish] = []

    def opened(wish: Wish, *given: object) -> SimpleNamespace:
        wishes.append(wish)
        return SimpleNamespace(engine=SimpleNamespace(workers=1), tokenizers=None)

    monkeypatch.setattr("tfm_cli.cli.rerank.open_translator", opened)
    monkeypatch.setattr("tfm_cli.cli.rerank.obstacle_to_judge", lambda *given: None)
    settings = {MachineOptions: MachineOptions()}
    open_ranked(Wish(["writer"], None, compile=True), "judge", settings, Screen(quiet=True))  # type: ignore[arg-type]
    assert [(wish.folders, wish.compile) for wish in wishes] == [(["writer"], True), (["judge"], False)]
