"""Translate a file with each engine, in turn, whole processes from raw text to raw text, and tell how long each took.

    python benchmarks/decode.py MODEL INPUT --beam 5 --threads 1 --rounds 5 [--eole EOLE-MODEL BPE-MODEL]

MODEL is a model folder, INPUT a file of sentences. Contenders: `tfm translate` on torch in float32, bfloat16 and int8, on
CTranslate2 in float32 and int8, and a bare script around CTranslate2 (bare_ctranslate2.py) on the same weights with the batch
that suits it best, found in a first round. ``--eole`` adds eole, by a model of its own at the same shape and the sentencepiece
model of its text; its input is encoded beforehand, which costs it nothing, and is translated 64 lines at a time. With
``--eole-length`` each of its translations has so many tokens, so that a model which has hardly been trained will do. Each is
also run on one line, which is the time to start and load; "lines/s" leaves that out. Numbers are medians; CPU seconds are those
of the process and do not see what else the machine was doing. The result is a Markdown table on stdout.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import ctranslate2
import torch
from corpus import ENVIRONMENTS

import tfm_cli

BARE = Path(__file__).with_name("bare_ctranslate2.py")
BATCHES = (256, 512, 1024, 2048, 4096)  # tokens, tried for the bare script


@dataclass
class Contender:
    """A command that reads a file and writes one, and what its runs took: (wall seconds, CPU seconds)."""

    name: str
    command: Callable[[Path, Path], list[str]]
    whole: list[tuple[float, float]] = field(default_factory=list)
    start: list[tuple[float, float]] = field(default_factory=list)
    megabytes: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("input", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch-size", type=int, help="for tfm, 1 for a line at a time")
    parser.add_argument("--eole", type=Path, nargs=2, metavar=("MODEL", "BPE"), help="a peer, and how its text is cut")
    parser.add_argument("--eole-length", type=int, help="tokens of each translation of eole's")
    parser.add_argument("--skip", nargs="*", default=[], help="contenders to leave out, by a part of their name")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        contenders = [c for c in made(arguments, Path(folder)) if not any(part in c.name for part in arguments.skip)]
        one = Path(folder) / "one.txt"
        one.write_text(arguments.input.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
        if arguments.eole:
            contenders.append(eole(arguments, (arguments.input, one)))
        load = os.getloadavg()[0]
        for turn in range(arguments.rounds + 1):
            for contender in contenders:
                for file, kept in ((arguments.input, contender.whole), (one, contender.start)):
                    wall, cpu, megabytes = run(contender.command(file, Path(folder) / "out.txt"), arguments.threads)
                    if lines_of(Path(folder) / "out.txt") != lines_of(file):
                        sys.exit(
                            f"{contender.name} wrote {lines_of(Path(folder) / 'out.txt')} lines for {lines_of(file)}"
                        )
                    if turn:  # the first converts, and warms the file cache
                        kept.append((wall, cpu))
                        contender.megabytes = max(contender.megabytes, megabytes)
    report(contenders, arguments, load)


def made(arguments: argparse.Namespace, folder: Path) -> list[Contender]:
    """All contenders; the exports for the bare script are written to ``folder``."""
    size = ["--batch-size", str(arguments.batch_size)] if arguments.batch_size else []

    def tfm(*words: str) -> Callable[[Path, Path], list[str]]:
        start = [
            sys.executable,
            "-m",
            "tfm_cli",
            "translate",
            "--model",
            str(arguments.model),
            "--device",
            "cpu",
            "--quiet",
        ]
        fixed = [*start, "--beam", str(arguments.beam), *size, *words]
        return lambda source, target: [*fixed, "--input", str(source), "--output", str(target)]

    contenders = [
        Contender("tfm, torch", tfm("--engine", "torch")),
        Contender("tfm, torch bfloat16", tfm("--engine", "torch", "--precision", "bfloat16")),
        Contender("tfm, torch int8", tfm("--engine", "torch", "--precision", "int8")),
        Contender("tfm, ctranslate2", tfm("--engine", "ctranslate2")),
        Contender("tfm, ctranslate2 int8", tfm("--engine", "ctranslate2", "--precision", "int8")),
    ]
    for kind in ("float32", "int8_float32"):
        name = f"bare ctranslate2{' int8' if kind.startswith('int8') else ''}"
        if not any(part in name for part in arguments.skip):
            contenders.append(best_bare(name, kind, arguments, folder))
    return contenders


def best_bare(name: str, kind: str, arguments: argparse.Namespace, folder: Path) -> Contender:
    """The bare script with the batch that took it the least CPU time."""
    export = folder / kind
    words = ["export", str(arguments.model), "--output", str(export), "--quantization", kind, "--quiet"]
    subprocess.run([sys.executable, "-m", "tfm_cli", *words], check=True, stdout=subprocess.DEVNULL)

    def bare(batch: int) -> Callable[[Path, Path], list[str]]:
        options = ["--beam", str(arguments.beam), "--batch-tokens", str(batch), "--workers", str(arguments.threads)]
        start = [sys.executable, str(BARE), str(export)]
        return lambda source, target: [*start, str(source), str(target), *options, "--compute-type", kind]

    taken = {batch: run(bare(batch)(arguments.input, folder / "out.txt"), arguments.threads)[1] for batch in BATCHES}
    best = min(taken, key=taken.__getitem__)
    return Contender(f"{name}, batches of {best}", bare(best))


def eole(arguments: argparse.Namespace, files: tuple[Path, ...]) -> Contender:
    """eole on ``files``, which are encoded beforehand; what it writes stays encoded."""
    (model, bpe), length = arguments.eole, arguments.eole_length
    home = ENVIRONMENTS / "eole" / "bin"
    code = (
        "import sys, sentencepiece as s; m = s.SentencePieceProcessor(model_file=sys.argv[1]);"
        "[print(*m.encode(line.rstrip(chr(10)), out_type=str)) for line in sys.stdin]"
    )
    encoded = {}
    for file in files:
        encoded[file] = model / f"{file.name}.bpe"
        with file.open("rb") as source, encoded[file].open("wb") as target:
            subprocess.run([home / "python", "-c", code, str(bpe)], stdin=source, stdout=target, check=True)
    start = [str(home / "eole"), "predict", "--model_path", str(model), "--beam_size", str(arguments.beam)]
    options = ["--batch_size", str(arguments.batch_size or 64), "--batch_type", "sents"]
    options += ["--max_length", str(length or 100), "--min_length", str(length or 0)]
    return Contender(
        "eole", lambda source, target: [*start, *options, "--src", str(encoded[source]), "--output", str(target)]
    )


def lines_of(file: Path) -> int:
    return len(file.read_text(encoding="utf-8").removesuffix("\n").split("\n"))


def run(command: list[str], threads: int) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak resident megabytes of a process with so many threads."""
    began = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    told = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} failed:\n{told}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def report(contenders: list[Contender], arguments: argparse.Namespace, load: float) -> None:
    lines = lines_of(arguments.input)
    versions = f"tfm {tfm_cli.__version__}, torch {torch.__version__}, CTranslate2 {ctranslate2.__version__}"
    print(f"{versions}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f} before;")
    print(
        f"{lines:,} lines, beam {arguments.beam}, threads {arguments.threads}, medians of {arguments.rounds} rounds\n"
    )
    print("| | wall, s | CPU, s | start: wall, s | start: CPU, s | lines/s (wall) | lines/s (CPU) | peak memory, MB |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for contender in contenders:
        wall, cpu = (statistics.median(each[i] for each in contender.whole) for i in (0, 1))
        start_wall, start_cpu = (statistics.median(each[i] for each in contender.start) for i in (0, 1))
        rates = f"{lines / (wall - start_wall):.0f} | {lines / (cpu - start_cpu):.0f}"
        times = f"{wall:.2f} | {cpu:.2f} | {start_wall:.2f} | {start_cpu:.2f}"
        print(f"| {contender.name} | {times} | {rates} | {contender.megabytes:.0f} |")


if __name__ == "__main__":
    main()
