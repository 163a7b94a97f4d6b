"""How each tool is told to train the benchmark's network, and how its log is read.

The network is the same everywhere: 3+3 layers, width 256, feed-forward 1024, 4 heads, tied embeddings, label smoothing 0.1,
Adam (0.9, 0.98) to a peak of 1e-3 in 400 updates, clipped at 1. So is dropout at 0.1 on embeddings and sub-layers; what a tool
drops besides is its own habit (`ATTENTION_DROPOUT`; eole and JoeyNMT also drop inside the feed-forward layers).
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from string import Template

from corpus import ENVIRONMENTS, PEERS, Lengths, Text
from measuring import Update, run

# Each tool's default. JoeyNMT has one rate for all dropout of a layer.
ATTENTION_DROPOUT = {"tfm": 0.0, "eole": 0.1, "huggingface": 0.0, "joeynmt": 0.1}
_VOCABULARY = 8000
# Run where the checkout under test comes first on the path, so that it is the one that counts.
_LENGTHS = """
import json, sys
from tfm_cli.data.dataset import DataFolder
print(json.dumps(DataFolder.load(sys.argv[1]).train.lengths.tolist()))
"""


@dataclass(frozen=True)
class Settings:
    """What all contenders are told: the token budget of an update, CPU threads, and attention dropout (None: their own)."""

    batch_tokens: int
    threads: int
    attention_dropout: float | None = None

    def dropout(self, tool: str) -> float:
        return ATTENTION_DROPOUT[tool] if self.attention_dropout is None else self.attention_dropout

    def environment(self, path: Path | None = None) -> dict[str, str]:
        """Of a process; ``path`` comes first where Python looks for packages."""
        own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        threads = {name: str(self.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        return {**own, **threads, "HF_HUB_OFFLINE": "1", **({"PYTHONPATH": str(path)} if path else {})}


@dataclass(frozen=True)
class Contender:
    """A tool in one float type, ready to be started in ``folder``."""

    tool: str
    precision: str
    command: list[str]
    folder: Path
    environment: dict[str, str]
    log: Path
    read: Callable[[Iterable[str]], list[Update]]
    lengths: Lengths

    @property
    def name(self) -> str:
        return f"{self.tool} {self.precision}"


@dataclass(frozen=True)
class Preparation:
    """What tfm needed before training: seconds and peak megabytes of each command, and the lengths of what it made."""

    data: Path
    lengths: Lengths
    costs: dict[str, tuple[float, float]]


def prepare_tfm(text: Text, work: Path, checkout: Path, settings: Settings) -> Preparation:
    """Tokenizer and encoded pairs by the commands of the tfm in ``checkout``."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    environment = settings.environment(checkout)
    files = [str(text.folder / f"train.{language}") for language in text.languages]
    tokenizer = ["--input", *files, "--vocab-size", str(_VOCABULARY), "--output", "tokenizer"]
    pairs = [
        "--source",
        files[0],
        "--target",
        files[1],
        "--tokenizer",
        "tokenizer",
        "--output",
        "data",
        "--valid-size",
        "0",
    ]
    costs = {}
    for command, options in (("train-tokenizer", tokenizer), ("preprocess", pairs)):
        line = [sys.executable, "-m", "tfm_cli", command, *options]
        costs[command] = run(line, work, environment, work / f"{command}.log")
    run([sys.executable, "-c", _LENGTHS, "data"], work, environment, work / "lengths.json")
    lengths = Lengths.of(json.loads((work / "lengths.json").read_text()))
    return Preparation(work / "data", lengths, costs)


def tfm(prepared: Preparation, precision: str, work: Path, checkout: Path, settings: Settings) -> Contender:
    """`tfm train` of ``checkout``."""
    folder = _fresh(work / f"tfm-{precision}")
    options = {
        "data": prepared.data,
        "output": folder / "run",
        "preset": "small",
        "optimizer": "adam",
        "dropout": 0.1,
        "attention-dropout": settings.dropout("tfm"),
        "batch-tokens": settings.batch_tokens,
        "precision": precision,
        "threads": settings.threads,
        "log-every": 1,
    }
    command = [sys.executable, "-m", "tfm_cli", "train", *(f"--{name}={value}" for name, value in options.items())]
    log = folder / "run" / "log.jsonl"
    return Contender(
        "tfm", precision, command, folder, settings.environment(checkout), log, _read_tfm, prepared.lengths
    )


def peer(name: str, text: Text, work: Path, settings: Settings) -> Contender:
    """Another toolkit, from its own environment; ``name`` is TOOL or TOOL:PRECISION."""
    tool, _, precision = name.partition(":")
    precision = precision or "float32"
    folder = _fresh(work / f"{tool}-{precision}")
    configuration, read = _PEERS[tool]
    binaries = ENVIRONMENTS / tool / "bin"
    mixed = precision == "bfloat16"
    values = {
        "text": text.folder,
        "run": folder,
        "source": text.languages[0],
        "target": text.languages[1],
        "batch_tokens": settings.batch_tokens,
        "attention_dropout": settings.dropout(tool),
        "bucket": min(text.lengths.pairs, 262_144),
        "compute": "bf16" if mixed else "fp32",
        "mixed": str(mixed).lower(),
        # A batch of Hugging Face's Trainer is a number of sentences: as many as hold the tokens on average.
        "sentences": round(settings.batch_tokens * text.lengths.pairs / text.lengths.target),
    }
    written = folder / configuration
    written.write_text(
        Template((PEERS / configuration).read_text(encoding="utf-8")).substitute(values), encoding="utf-8"
    )
    command = {
        "eole": [str(binaries / "eole"), "train", "-config", str(written)],
        "joeynmt": [str(binaries / "python"), "-m", "joeynmt", "train", str(written)],
        "huggingface": [str(binaries / "python"), str(PEERS / "huggingface.py"), str(written)],
    }[tool]
    log = folder / "output.log"
    return Contender(tool, precision, command, folder, settings.environment(), log, read, text.lengths)


def _fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _read_tfm(lines: Iterable[str]) -> list[Update]:
    """Of log.jsonl, which tells tokens per second since the line before."""
    steps = [event for event in map(json.loads, lines) if event["event"] == "step"]
    updates, before = [], 0.0
    for step in steps:
        updates.append(Update(step["seconds"], step["tokens_per_second"] * (step["seconds"] - before)))
        before = step["seconds"]
    return updates


def _read_eole(lines: Iterable[str]) -> list[Update]:
    """``bsz`` is source tokens / target tokens / sentences of the update."""
    found = (re.match(r"\[(.*?) INFO\] Step .* bsz: +\d+/ *(\d+)/", line) for line in lines)
    return [Update(_clock(match[1]), int(match[2])) for match in found if match]


def _read_huggingface(lines: Iterable[str]) -> list[Update]:
    """Of our own script: ``update TIME TOKENS``."""
    return [Update(*map(float, line.split()[1:])) for line in lines if line.startswith("update ")]


def _read_joeynmt(lines: Iterable[str]) -> list[Update]:
    """It tells tokens per second since the line before, and so they are multiplied by that time."""
    found = (re.match(r"(\S+ \S+) .* Step: .* Tokens per Sec: *(\d+)", line) for line in lines)
    speeds = [(_clock(match[1]), int(match[2])) for match in found if match]
    before = [speeds[0][0], *(time for time, _ in speeds)] if speeds else []
    return [Update(time, speed * (time - then)) for (time, speed), then in zip(speeds, before, strict=False)]


def _clock(written: str) -> float:
    return datetime.strptime(written, "%Y-%m-%d %H:%M:%S,%f").timestamp()


_PEERS: dict[str, tuple[str, Callable[[Iterable[str]], list[Update]]]] = {
    "eole": ("eole.yaml", _read_eole),
    "huggingface": ("huggingface.json", _read_huggingface),
    "joeynmt": ("joeynmt.yaml", _read_joeynmt),
}
