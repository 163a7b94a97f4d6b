"""Training speed of tfm beside its peers, on one machine, in turn within one run.

    sh benchmarks/peers/install.sh eole huggingface joeynmt
    python benchmarks/train.py FOLDER-WITH-THE-CORPUS [MORE FOLDERS] [--growth]

FOLDER holds ``train.de`` and ``train.en``, or the same with .gz. In every round each contender trains in a fresh process, and its
speed is read off its own log between two moments: start-up and the first updates are left out. All have the same network
(`contenders`) and vocabularies of 8,000; tfm has its own tokenizer and the peers share one, so tokens are not quite the same and
sentences/s stand beside tokens/s: tokens/s over the corpus's mean target tokens a sentence. ``--growth`` adds the first corpus
repeated to 1.6 million pairs. Markdown goes to stdout; the same and every round to ``benchmarks/work/train/results.json``.
"""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from contenders import Contender, Preparation, Settings, peer, prepare_tfm, tfm
from corpus import Text, encode, repeated, unpack
from measuring import Pace, measure
from products import step_flops

HERE = Path(__file__).resolve().parent
WORK = HERE / "work" / "train"
YARDSTICK = "eole float32"


@dataclass(frozen=True)
class Result:
    """One contender in one round; ``share`` is that of the machine's own rate of matrix products (tfm only)."""

    name: str
    pace: Pace
    sentences_per_second: float
    epoch_tokens: int
    share: float | None
    matmul_gflops: float | None


def main() -> None:
    arguments = parse()
    # What is being measured has its own session, and is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    settings = Settings(arguments.batch_tokens, arguments.threads, arguments.attention_dropout)
    report = {
        "machine": machine(arguments.tfm),
        "options": {k: str(v) for k, v in vars(arguments).items()},
        "corpora": [],
    }
    print(f"{report['machine']}\n")
    texts = [
        unpack(corpus, (arguments.source_lang, arguments.target_lang), WORK / corpus.name)
        for corpus in arguments.corpus
    ]
    if arguments.peers:
        for text in texts:
            encode(text, arguments.peers[0].partition(":")[0])
    if arguments.growth:
        texts.append(repeated(texts[0], arguments.growth, texts[0].folder.parent))
    for text in texts:
        prepared = prepare_tfm(text, text.folder.with_name(f"{text.folder.name}-tfm"), arguments.tfm, settings)
        rounds = compete(text, prepared, arguments, settings)
        name = f"{text.folder.parent.name}, {text.pairs:,} pairs"
        print(f"{table(name, rounds)}\n\n{preparation(prepared)}\n", flush=True)
        entry = {"corpus": name, "preparation": prepared.costs, "rounds": [list(map(asdict, one)) for one in rounds]}
        report["corpora"].append(entry)
        (WORK / "results.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    def words(value: str) -> list[str]:
        return [word for word in value.split(",") if word]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=45, help="of steady training that count")
    parser.add_argument("--warm-up", type=float, default=10, help="seconds after the first update that do not count")
    parser.add_argument("--peers", type=words, default=words("eole,huggingface,joeynmt"), help="or TOOL:bfloat16")
    parser.add_argument("--precision", type=words, default=words("float32,bfloat16"), help="of tfm")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--attention-dropout", type=float, help="for all who know it (default: each tool's own)")
    parser.add_argument("--source-lang", default="de")
    parser.add_argument("--target-lang", default="en")
    parser.add_argument("--tfm", type=Path, default=HERE.parent, help="another checkout of tfm to measure")
    parser.add_argument(
        "--growth", type=int, nargs="?", const=1_600_000, metavar="PAIRS", help="repeat the first corpus (1,600,000)"
    )
    arguments = parser.parse_args()
    arguments.tfm = arguments.tfm.resolve()
    return arguments


def machine(checkout: Path) -> str:
    """What was measured, and on what."""
    facts = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next(
        (line.partition(": ")[2].strip() for line in facts if line.startswith("model name")), "unknown processor"
    )
    described = subprocess.run(
        ["git", "-C", str(checkout), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    cores = len(os.sched_getaffinity(0))
    version = f"Python {platform.python_version()}; {time.strftime('%Y-%m-%d')}"
    return f"tfm {described or 'without git'}; {cpu}, {cores} cores; {version}"


def compete(text: Text, prepared: Preparation, arguments: argparse.Namespace, settings: Settings) -> list[list[Result]]:
    """The rounds; in each, every contender once."""
    work = text.folder.with_name(f"{text.folder.name}-runs")
    makers = [partial(peer, name, text, work, settings) for name in arguments.peers]
    makers += [partial(tfm, prepared, precision, work, arguments.tfm, settings) for precision in arguments.precision]
    rounds = []
    for number in range(1, arguments.rounds + 1):
        results = []
        for make in makers:
            result = attempt(make(), settings, (arguments.warm_up, arguments.seconds))
            results.append(result)
            pace = result.pace
            print(
                f"{text.folder.parent.name} round {number} {result.name}: {pace.tokens_per_second:,.0f} tokens/s, "
                f"load {pace.load:.1f} before",
                file=sys.stderr,
                flush=True,
            )
        rounds.append(results)
    return rounds


def attempt(contender: Contender, settings: Settings, span: tuple[float, float]) -> Result:
    """One process of ``contender``, and the machine's rate of products just before it."""
    lengths, rate = contender.lengths, None
    if contender.tool == "tfm":
        line = [sys.executable, str(HERE / "products.py"), contender.precision, str(settings.batch_tokens)]
        done = subprocess.run(line, env=settings.environment(), capture_output=True, text=True, check=True)
        rate = float(done.stdout)
    pace = measure(contender.command, contender.folder, contender.environment, contender.log, contender.read, span)
    share = step_flops(lengths, pace.tokens_per_second) / (1e9 * rate) if rate else None
    sentences = pace.tokens_per_second * lengths.pairs / lengths.target
    return Result(contender.name, pace, sentences, lengths.target, share, rate)


def table(name: str, rounds: list[list[Result]]) -> str:
    """Medians over the rounds; ratios are formed within a round first."""
    lines = [
        f"{name}; medians of {len(rounds)} rounds:\n",
        "| tool | target tokens/s | sentences/s | x eole, tokens | x eole, sentences | tokens an update | tokens an epoch "
        "| cores it got | peak memory, MB | start, s | matmul, GFLOP/s | share of it |",
        "|" + " --- |" * 12,
    ]
    for column in zip(*rounds, strict=True):
        yardsticks = [next((r for r in one if r.name == YARDSTICK), None) for one in rounds]
        pairs = [(result, yardstick) for result, yardstick in zip(column, yardsticks, strict=True) if yardstick]
        tokens = [r.pace.tokens_per_second / y.pace.tokens_per_second for r, y in pairs]
        sentences = [r.sentences_per_second / y.sentences_per_second for r, y in pairs]
        cells = [
            column[0].name,
            middle([r.pace.tokens_per_second for r in column]),
            middle([r.sentences_per_second for r in column]),
            middle(tokens, ".2f"),
            middle(sentences, ".2f"),
            middle([r.pace.tokens_per_update for r in column]),
            f"{column[0].epoch_tokens:,}",
            middle([r.pace.cores for r in column], ".2f"),
            middle([r.pace.peak_mb for r in column]),
            middle([r.pace.start for r in column], ".1f"),
            middle([r.matmul_gflops for r in column]),
            middle([r.share for r in column], ".0%"),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def middle(values: list[float | None], form: str = ",.0f") -> str:
    there = [value for value in values if value is not None]
    return format(median(there), form) if there else "-"


def preparation(prepared: Preparation) -> str:
    costs = (f"tfm {name}: {seconds:.1f} s, {peak:.0f} MB" for name, (seconds, peak) in prepared.costs.items())
    return "; ".join(costs) + "."


if __name__ == "__main__":
    main()
