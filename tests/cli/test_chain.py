"""The five commands as a user types them, from text files to scores."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.toys import reverse, sentences, write_lines
from tfm_cli.cli import app

PROJECT = """
[project]
source-lang = "xx"
target-lang = "yy"
[train-tokenizer]
vocab-size = 320
[preprocess]
source = "train.xx"
target = "train.yy"
valid-source = "valid.xx"
valid-target = "valid.yy"
test-source = "test.xx"
test-target = "test.yy"
[train]
preset = "small"
device = "cpu"
precision = "float32"
threads = 1
dim = 32
ffn-dim = 64
encoder-layers = 1
decoder-layers = 1
batch-tokens = 256
learning-rate = 5e-3
warmup-steps = 50
max-steps = 60
valid-every = 30
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has gone through the first three commands, typed with nothing more."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "tfm.toml").write_text(PROJECT)
    made = sentences(260)
    for name, part in {"train": made[40:], "valid": made[:20], "test": made[20:40]}.items():
        write_lines(folder / f"{name}.xx", part)
        write_lines(folder / f"{name}.yy", [reverse(line) for line in part])
    for command in ("train-tokenizer", "preprocess", "train"):
        done = tfm(folder, command)
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
    return folder


def tfm(folder: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tfm_cli", *words]
    return subprocess.run(command, cwd=folder, input=stdin, capture_output=True, text=True, encoding="utf-8")


def test_each_step_says_which_comes_next(project: Path) -> None:
    again = tfm(project, "train-tokenizer").stderr, tfm(project, "preprocess").stderr
    assert "Next: tfm preprocess" in again[0]
    assert "Next: tfm train" in again[1]


def test_training_leaves_a_model_folder_and_its_log(project: Path) -> None:
    names = {path.name for path in (project / "run").iterdir()}
    assert {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "README.md",
        "log.jsonl",
        "training.json",
        "checkpoints",
    } == names
    events = [json.loads(line) for line in (project / "run" / "log.jsonl").read_text().splitlines()]
    events = [event for event in events if event["event"] != "warning"]
    assert [event["event"] for event in events] == ["start", "validation", "step", "validation"]
    assert events[-1]["scores"].keys() == {"BLEU", "chrF"}
    card = (project / "run" / "README.md").read_text()
    assert "xx → yy" in card
    assert "validation BLEU" in card


def test_translate_gives_a_line_for_a_line_and_nothing_else(project: Path) -> None:
    done = tfm(project, "translate", stdin="ba be\n\nbi bo bu")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert len(lines) == 4
    assert lines[1] == lines[3] == ""
    assert lines[0]
    assert tfm(project, "translate", stdin="").stdout == ""


def test_translate_from_a_subfolder_finds_the_project(project: Path) -> None:
    (project / "deep").mkdir(exist_ok=True)
    done = tfm(project / "deep", "translate", "--beam", "1", stdin="ba be\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1


def test_eval_prints_scores_with_signatures(project: Path) -> None:
    done = tfm(project, "eval", "--bleu")
    assert done.returncode == 0, done.stderr
    assert "BLEU" in done.stdout
    assert "tok:13a" in done.stdout
    assert "chrF" not in done.stdout


def test_eval_refuses_files_of_different_length(project: Path) -> None:
    write_lines(project / "short.yy", ["ba"])
    done = tfm(project, "eval", "--hypothesis", "short.yy", "--reference", "test.yy")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "short.yy" in done.stderr and "test.yy" in done.stderr and "20" in done.stderr


def test_info_and_average(project: Path) -> None:
    done = tfm(project, "info")
    assert done.returncode == 0, done.stderr
    assert "xx → yy" in done.stdout
    assert json.loads(tfm(project, "info", "--json").stdout)["shape"]["dim"] == 32
    done = tfm(project, "average", "--model", "run", "--output", "averaged")
    assert done.returncode == 0, done.stderr
    assert "averaged from" in tfm(project, "info", "--model", "averaged").stdout
    assert tfm(project, "average", "--model", "run", "--output", "averaged").returncode == 2
    assert tfm(project, "translate", "--model", "averaged", stdin="ba be\n").returncode == 0


def test_a_standing_run_is_refused_in_one_line(project: Path) -> None:
    done = tfm(project, "train")
    assert done.returncode == 2
    assert done.stderr == (
        "error: run: a run stands here already. "
        "Continue it with --resume, delete it with --overwrite, or name another --output.\n"
    )


def test_a_newline_inside_one_file_stops_before_anything_is_written(project: Path, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.xx", ["ba", "be"])
    write_lines(tmp_path / "a.yy", ["ba", "be", "bi"])
    words = ["--source", "a.xx", "--target", "a.yy", "--tokenizer", str(project / "tokenizer")]
    done = tfm(tmp_path, "preprocess", *words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "2" in done.stderr and "3" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_saves_exits_130_and_resume_goes_on(project: Path) -> None:
    command = [sys.executable, "-m", "tfm_cli", "train", "--output", "cut", "--max-steps", "100000", "--log-every", "5"]
    running = subprocess.Popen(command, cwd=project, stderr=subprocess.PIPE, text=True)
    log = project / "cut" / "log.jsonl"
    deadline = time.monotonic() + 60
    while not (log.exists() and '"step"' in log.read_text()):
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "--resume" in stderr.splitlines()[-1]
    steps = json.loads((project / "cut" / "config.json").read_text())["about"]["steps"]
    done = tfm(project, "train", "--output", "cut", "--resume", "--max-steps", str(steps + 5))
    assert done.returncode == 0, done.stderr
    assert f"Going on from step {steps:,}." in done.stderr


def test_what_is_missing_is_named_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.run(["preprocess"]) == 2
    error = capsys.readouterr().err
    assert "--source" in error and "--target" in error and error.count("\n") == 1
