"""Several processes that train one model, as a user starts them: one run, one message, nothing lost."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.toys import trainer
from tfm_cli.training.checkpoint import TENSORS
from tfm_cli.transformer.shape import Shape

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="signals"),
    pytest.mark.skipif(not torch.distributed.is_available(), reason="this torch has no torch.distributed"),
]

LEARNING = {"batch_tokens": 128, "learning_rate": 5e-3, "warmup_steps": 50, "schedule": "inverse-sqrt"}
NETWORK = {"dim": 32, "ffn_dim": 64, "heads": 4, "encoder_layers": 1, "decoder_layers": 1}
COMMON = {
    **LEARNING,
    **NETWORK,
    "device": "cpu",
    "precision": "float32",
    "threads": 1,
    "valid_every": 1000,
    "valid_sentences": 2,
    "samples": 0,
    "patience": 0,
    "log_every": 1,
}


def command(data: Path, output: Path, *words: str, launcher: tuple[str, ...] = (), **options: object) -> list[str]:
    """Two processes that train; ``launcher`` are torchrun's own options."""
    named = {"data": data, "output": output, **COMMON, **options}
    listed = [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    logs = ("--log-dir", str(output.with_name(f"{output.name}-logs")))  # else left behind in the system's folder
    return [*start, *logs, *launcher, "-m", "tfm_cli", "train", *listed, *words]


def run(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words, **options), stderr=subprocess.PIPE, text=True, timeout=300)  # type: ignore[arg-type]


def errors(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith(("error:", "interrupted:"))]


def state(output: Path) -> dict[str, torch.Tensor]:
    return load_file(max((output / "checkpoints").glob("step-*")) / TENSORS)


def losses(output: Path) -> list[float]:
    events = [json.loads(line) for line in (output / "log.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "step"]


@contextmanager
def running(output: Path, after: int, *words: object, **options: object) -> Iterator[subprocess.Popen[str]]:
    """A run of two processes that has done ``after`` steps."""
    with subprocess.Popen(command(*words, **options), stderr=subprocess.PIPE, text=True) as launched:  # type: ignore[arg-type]
        log, deadline = output / "log.jsonl", time.monotonic() + 200
        while not (log.exists() and len(losses(output)) >= after):
            assert launched.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield launched


def process(launched: subprocess.Popen[str], rank: int) -> int:
    """The id of the process with this rank."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            environment = (folder / "environ").read_bytes().split(b"\0")
        except (OSError, ValueError):
            continue
        if parent == launched.pid and b"RANK=%d" % rank in environment:
            return int(folder.name)
    raise AssertionError(f"no process has rank {rank}")


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


def test_two_processes_learn_what_one_learns_that_accumulates_two(reverse_data: Path, tmp_path: Path) -> None:
    """The last update of an epoch has a batch for one of them only."""
    done = run(reverse_data, tmp_path / "two", max_epochs=2, dropout=0, accumulate=1)
    assert done.returncode == 0, done.stderr
    assert "1 threads in each of 2 processes." in done.stderr
    one = trainer(
        reverse_data,
        tmp_path / "one",
        Shape(dropout=0.0, **NETWORK),  # type: ignore[arg-type]
        {**LEARNING, "accumulate": 2},
        {"valid_every": 1000, "valid_sentences": 2, "log_every": 1},
        max_epochs=2,
    )
    assert len(one.feed.plan.batches) % 2 == 1
    one.run()
    first, second = state(tmp_path / "one"), state(tmp_path / "two")
    assert first["step"] == second["step"]
    for name in ("master", "average", "exp_avg"):
        assert torch.allclose(first[name], second[name], rtol=0, atol=1e-5), name
    assert losses(tmp_path / "two") == pytest.approx(losses(tmp_path / "one"), abs=1e-5)


def test_a_run_of_two_is_resumed_bit_by_bit_and_by_another_number_with_a_word(
    reverse_data: Path, tmp_path: Path
) -> None:
    """Dropout on: each process draws its own, and goes on drawing it."""
    assert run(reverse_data, tmp_path / "whole", max_steps=6).returncode == 0
    assert run(reverse_data, tmp_path / "cut", max_steps=3).returncode == 0
    assert run(reverse_data, tmp_path / "cut", "--resume", max_steps=6).returncode == 0
    whole, cut = state(tmp_path / "whole"), state(tmp_path / "cut")
    assert whole.keys() == cut.keys() >= {"rng.cpu", "rng.cpu.1"}
    assert not torch.equal(whole["rng.cpu"], whole["rng.cpu.1"])
    assert all(torch.equal(tensor, cut[name]) for name, tensor in whole.items())
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")
    words = command(reverse_data, tmp_path / "cut", "--resume", max_steps=7)
    alone = [sys.executable, *words[words.index("tfm_cli") - 1 :]]
    done = subprocess.run(alone, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    assert "this run had 2 processes before and has 1 from now on: an update takes 1 batches." in done.stderr


@needs_proc
@pytest.mark.parametrize("rank", [0, 1])
def test_when_one_is_killed_the_other_ends_with_one_message(reverse_data: Path, tmp_path: Path, rank: int) -> None:
    with running(tmp_path, 3, reverse_data, tmp_path, max_steps=100_000) as launched:
        os.kill(process(launched, rank), signal.SIGKILL)
        _, stderr = launched.communicate(timeout=100)
    assert launched.returncode != 0
    assert len(errors(stderr)) == 1, stderr
    assert f"rank {1 - rank}: another process of this run has ended" in errors(stderr)[0]
    assert "stopping" not in stderr


@needs_proc
def test_a_group_that_is_started_again_goes_on_by_itself(reverse_data: Path, tmp_path: Path) -> None:
    options = {"max_steps": 60, "valid_every": 5, "launcher": ("--max-restarts", "1")}
    with running(tmp_path, 7, reverse_data, tmp_path, **options) as launched:
        os.kill(process(launched, 1), signal.SIGKILL)
        _, stderr = launched.communicate(timeout=200)
    assert launched.returncode == 0, stderr
    assert "Going on from step " in stderr
    assert state(tmp_path)["step"] == 60
    assert stderr.count("Done after 60 steps") == 1


def test_a_restart_does_not_go_on_with_a_run_that_this_one_has_not_begun(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path, max_steps=1, validation={"valid_sentences": 2}).run()
    before = (tmp_path / "log.jsonl").read_text()
    done = run(reverse_data, tmp_path, max_steps=5, launcher=("--max-restarts", "1"))
    assert done.returncode != 0
    assert len(errors(done.stderr)) == 2, "one for each start"
    assert all("a run stands here already" in error for error in errors(done.stderr))
    assert (tmp_path / "log.jsonl").read_text() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_the_launcher_saves(reverse_data: Path, tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, 3, reverse_data, tmp_path, max_steps=100_000) as launched:
        launched.send_signal(number)
        _, stderr = launched.communicate(timeout=100)
    assert len(errors(stderr)) == 1, stderr
    steps = json.loads((tmp_path / "config.json").read_text())["about"]["steps"]
    assert errors(stderr) == [f"interrupted: stopped at step {steps:,}; saved, continue with --resume"]
    assert state(tmp_path)["step"] == steps


def test_a_mistake_is_told_once(tmp_path: Path) -> None:
    done = run(tmp_path / "nothing", tmp_path / "run")
    assert done.returncode != 0
    assert len(errors(done.stderr)) == 1, done.stderr
    assert "nothing" in errors(done.stderr)[0]
    assert not (tmp_path / "run").exists()
