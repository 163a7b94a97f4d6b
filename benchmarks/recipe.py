"""Run an example's recipe from text to scores, and tell wall time and peak memory of each command.

    python benchmarks/recipe.py examples/multi30k FOLDER-WITH-THE-CORPUS

The commands run in a copy of the example below benchmarks/work/, each in a process of its own, so that the time counts from
process start. ``--swap`` trains the other direction. The result is a Markdown table on stdout.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch

import tfm_cli

STEPS = ("train-tokenizer", "preprocess", "train", "eval")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--swap", action="store_true", help="translate the other way round")
    arguments = parser.parse_args()
    work = Path(__file__).parent / "work" / (arguments.example.name + ("-swapped" if arguments.swap else ""))
    shutil.rmtree(work, ignore_errors=True)
    (work / "work").mkdir(parents=True)
    for file in arguments.corpus.glob("*.gz"):
        shutil.copy(file, work / "work")
    project = (arguments.example / "tfm.toml").read_text(encoding="utf-8")
    (work / "tfm.toml").write_text(swapped(project) if arguments.swap else project, encoding="utf-8")
    print(
        f"tfm {tfm_cli.__version__}, torch {torch.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores\n"
    )
    print("| command | wall, s | peak memory, MB |\n| --- | --- | --- |")
    whole = time.monotonic()
    scores = ""
    for step in STEPS:
        seconds, megabytes, output = run(step, work)
        scores = output or scores
        print(f"| tfm {step} | {seconds:.1f} | {megabytes:.0f} |", flush=True)
    print(f"| all | {time.monotonic() - whole:.1f} | |\n\n{scores}")


def swapped(project: str) -> str:
    """The project file with source and target exchanged."""
    lines = []
    for line in project.splitlines():
        if line.startswith(("source", "valid-source", "test-source")):
            line = line.replace("source", "target", 1)
        elif line.startswith(("target", "valid-target", "test-target")):
            line = line.replace("target", "source", 1)
        lines.append(line)
    return "\n".join(lines) + "\n"


def run(step: str, folder: Path) -> tuple[float, float, str]:
    """One command's wall seconds, peak resident megabytes and stdout; its stderr goes to a log beside."""
    began = time.monotonic()
    with (folder / f"{step}.log").open("w") as log, (folder / f"{step}.out").open("w") as out:
        process = subprocess.Popen([sys.executable, "-m", "tfm_cli", step], cwd=folder, stdout=out, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"tfm {step} failed:\n{(folder / f'{step}.log').read_text()}")
    return time.monotonic() - began, usage.ru_maxrss / 1024, (folder / f"{step}.out").read_text()


if __name__ == "__main__":
    main()
