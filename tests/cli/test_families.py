"""Families on the command line: train, translate, score and show each; what one cannot obey is refused in one line."""

import json
from pathlib import Path

import pytest

from tests.toys import make_data, reverse, sentences, write_lines
from tfm_cli.cli import app
from tfm_cli.families import FAMILIES

OTHERS = [name for name in FAMILIES if name != "autoregressive"]
SIZE = ["--dim", "32", "--ffn-dim", "64", "--encoder-layers", "1", "--decoder-layers", "1", "--threads", "1"]
MACHINE = ["--device", "cpu", "--precision", "float32", "--batch-tokens", "256", "--max-steps", "12"]
DECODING = {
    "oneshot": [],
    "ctc": [],
    "dag": ["--paths", "viterbi"],
    "maskpredict": ["--iterations", "2", "--length-beam", "3", "--length-scale", "0.5"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, a test set, and a model of every family beside them."""
    folder = tmp_path_factory.mktemp("families")
    make_data(folder, reverse)
    write_lines(folder / "test.xx", sentences(12, seed=4))
    write_lines(folder / "test.yy", [reverse(line) for line in sentences(12, seed=4)])
    for name in FAMILIES:
        words = ["train", "--family", name, "--data", str(folder / "data"), "--output", str(folder / name)]
        assert app.run([*words, *SIZE, *MACHINE, "--quiet"]) == 0
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", OTHERS)
def test_translate_gives_a_line_for_a_line(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["translate", "--model", str(folder / name), "--input", str(folder / "test.xx"), "--device", "cpu"]
    assert app.run([*words, *DECODING[name]]) == 0
    together = capsys.readouterr().out
    assert together.count("\n") == 12
    assert app.run([*words, *DECODING[name], "--batch-size", "1"]) == 0
    assert capsys.readouterr().out == together


@pytest.mark.parametrize("name", OTHERS)
def test_eval_and_info_know_the_family(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy")]
    assert app.run(["eval", "--model", str(folder / name), *test, "--device", "cpu", "--json"]) == 0
    assert {score["metric"] for score in json.loads(capsys.readouterr().out)["scores"]} >= {"BLEU"}
    assert app.run(["info", str(folder / name)]) == 0
    assert f"family          {name}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", OTHERS)
def test_given_translations_are_scored_or_refused(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["translate", "--model", str(folder / name), "--input", str(folder / "test.xx"), "--device", "cpu"]
    code = app.run([*words, "--score", str(folder / "test.yy"), "--format", "jsonl", "--scores"])
    said = capsys.readouterr()
    if name == "maskpredict":
        assert code == 2
        assert "--score: a maskpredict model gives a whole translation no probability" in said.err
        assert said.out == ""
    else:
        assert code == 0
        assert all(json.loads(line)["score"] < 0 for line in said.out.splitlines())


REFUSED = [
    (
        "maskpredict",
        ["--beam", "4"],
        "--beam",
        "the autoregressive family, and the model is maskpredict. Such a model takes --length-beam.",
    ),
    ("oneshot", ["--beam", "4"], "--beam", "the autoregressive family, and the model is oneshot. Leave it out."),
    (
        "ctc",
        ["--beam", "4"],
        "--beam",
        "the autoregressive family, and the model is ctc. Such a model takes --ctc-beam.",
    ),
    ("ctc", ["--n-best", "2"], "--n-best", "the autoregressive family, and the model is ctc. Leave it out."),
    (
        "ctc",
        ["--length-scale", "2"],
        "--length-scale",
        "the oneshot, dag and maskpredict families, and the model is ctc",
    ),
    ("dag", ["--seed", "2"], "--seed", "the autoregressive family, and the model is dag"),
    ("dag", ["--iterations", "4"], "--iterations", "the maskpredict family, and the model is dag"),
    (
        "autoregressive",
        ["--length-beam", "3"],
        "--length-beam",
        "the oneshot and maskpredict families, and the model is autoregressive. Such a model takes --beam.",
    ),
    ("oneshot", ["--length-scale", "2"], "--length-scale", "this model writes until END and predicts no length"),
    ("maskpredict", ["--target-prefix", "test.yy"], "--target-prefix", "a prefix needs a model that writes from left"),
]


@pytest.mark.parametrize(("name", "given", "where", "why"), REFUSED, ids=[f"{r[0]} {r[1][0]}" for r in REFUSED])
def test_what_a_family_cannot_obey_is_refused_by_translate(
    folder: Path, name: str, given: list[str], where: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(folder / word) if word.startswith("test.") else word for word in given]
    words = ["translate", "--model", str(folder / name), "--input", str(folder / "test.xx"), "--device", "cpu"]
    assert app.run([*words, *given, "--quiet"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith(f"error: {where}: ") and why in said.err


@pytest.mark.parametrize(
    ("name", "given", "where"),
    [
        ("autoregressive", ["--glancing"], "--glancing"),
        ("autoregressive", ["--no-glancing"], "--glancing"),
        ("oneshot", ["--upsample", "2"], "--upsample"),
        ("ctc", ["--label-smoothing", "0.1"], "--label-smoothing"),
        ("dag", ["--cap", "100"], "--cap"),
        ("maskpredict", ["--valid-beam", "4"], "--valid-beam"),
        ("maskpredict", ["--length", "predict"], "--length"),
        ("oneshot", ["--length-weight", "0.5"], "--length-weight"),
        ("oneshot", ["--positions", "rotary"], "--positions rotary"),
        ("oneshot", ["--glancing-start", "0.7"], "--glancing-start"),
    ],
)
def test_what_a_family_cannot_obey_is_refused_by_train(
    folder: Path, name: str, given: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--family", name, "--data", str(folder / "data"), "--output", "fresh", *SIZE, *MACHINE]
    assert app.run([*words, *given, "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {where}: ")
    assert not Path("fresh").exists()


def test_a_refusal_names_the_file_and_table_where_the_option_stands(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tfm.toml").write_text("[translate]\nbeam = 4\n")
    words = ["--model", str(folder / "ctc"), "--device", "cpu"]
    assert app.run(["translate", *words, "--input", str(folder / "test.xx")]) == 2
    assert "tfm.toml: [translate] beam: this is an option of the autoregressive family" in capsys.readouterr().err


def test_eval_translates_as_translate_would(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("tfm.toml").write_text("[translate]\niterations = 1\nlength-scale = 2.0\n")
    model = ["--model", str(folder / "maskpredict"), "--device", "cpu"]
    assert app.run(["translate", *model, "--input", str(folder / "test.xx"), "--output", "translated"]) == 0
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy")]
    assert app.run(["eval", *model, *test, "--output", "scored"]) == 0
    assert Path("scored").read_text() == Path("translated").read_text()


def test_the_seed_of_the_intervals_is_no_option_of_a_family(folder: Path) -> None:
    test = ["--source", str(folder / "test.xx"), "--reference", str(folder / "test.yy"), "--seed", "7"]
    assert app.run(["eval", "--model", str(folder / "dag"), *test, "--device", "cpu", "--quiet"]) == 0


def test_models_that_write_all_at_once_make_no_ensemble(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--model", str(folder / "oneshot"), str(folder / "oneshot"), "--device", "cpu"]
    assert app.run(["translate", *both, "--input", str(folder / "test.xx")]) == 2
    assert "cannot join an ensemble" in capsys.readouterr().err


def test_resumes_with_the_settings_it_was_begun_with(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--family", "oneshot", "--data", str(folder / "data"), "--output", "run", *SIZE, *MACHINE]
    assert app.run([*words, "--length", "predict", "--glancing", "--quiet"]) == 0
    resumed = ["train", "--data", str(folder / "data"), "--output", "run", "--resume", "--max-steps", "14"]
    assert app.run([*resumed, "--device", "cpu", "--threads", "1"]) == 0
    config = json.loads(Path("run/config.json").read_text())
    assert config["family"] == "oneshot"
    assert (config["settings"]["length"], config["settings"]["glancing"]) == ("predict", True)


def test_what_was_typed_outlasts_the_project_file_when_a_run_is_resumed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tfm.toml").write_text("[train]\ndropout = 0.1\nmax-steps = 4\nlog-every = 2\n", encoding="utf-8")
    words = ["train", "--data", str(folder / "data"), "--output", "typed", "--device", "cpu", "--threads", "1"]
    assert app.run([*words, "--preset", "tiny", "--dropout", "0.3", "--max-steps", "2", "--quiet"]) == 0
    Path("tfm.toml").write_text("[train]\ndropout = 0.1\nmax-steps = 4\nlog-every = 1\n", encoding="utf-8")
    assert app.run([*words, "--resume", "--max-steps", "3"]) == 0
    told = capsys.readouterr().err.replace("\n", " ")
    assert "--dropout stays 0.3, as it was typed; tfm.toml: [train] dropout (0.1) gives way to it." in told
    assert "--max-steps stays" not in told
    kept = json.loads(Path("typed/training.json").read_text())
    assert (kept["shape"]["dropout"], kept["validation"]["log_every"], kept["max_steps"]) == (0.3, 1, 3)


@pytest.mark.parametrize("other", ["--overwrite", "--init-from"])
def test_what_contradicts_resume_is_refused(other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["train", "--resume", other, *(["teacher"] if other == "--init-from" else [])]) == 2
    assert capsys.readouterr().err.startswith(f"error: {other}:")


def test_what_was_taken_from_a_teacher_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "--family", "oneshot", "--data", str(folder / "data"), "--output", "student", *SIZE, *MACHINE]
    assert app.run([*words, "--init-from", str(folder / "autoregressive")]) == 0
    weights = json.loads((folder / "autoregressive" / "config.json").read_text())["parameters"]
    assert f"({weights:,} of {weights:,} weights)" in capsys.readouterr().err.replace("\n", " ")
