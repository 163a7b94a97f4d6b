"""Train one example's recipe with and without single options, in turn, and score each on the validation text.

    python benchmarks/ablation.py examples/multi30k FOLDER-WITH-THE-CORPUS --minutes 10

Every variant gets the same minutes, or with --epochs the same text, whatever else the machine is doing. Variants stand in
`VARIANTS`; name some after --only. Scores are those of the validation text with beam 5, so that no choice is made on the test
text. The result is a Markdown table on stdout.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

VARIANTS: dict[str, list[str]] = {
    "as it is": [],
    "Adam, rate 2e-3": ["--optimizer", "adam", "--learning-rate", "2e-3", "--warmup-steps", "300"],
    "post-norm, as in the paper": ["--norm", "post"],
    "no moving average": ["--ema", "0"],
    "dropout 0.3": ["--dropout", "0.3"],
    "R-Drop 5": ["--r-drop", "5"],
    "dropout 0.3, R-Drop 5": ["--dropout", "0.3", "--r-drop", "5"],
    "updates of 1,024 tokens": ["--batch-tokens", "1024"],
    "updates of 4,096 tokens": ["--batch-tokens", "4096"],
    "deep encoder, shallow decoder": ["--encoder-layers", "5", "--decoder-layers", "1"],
    "source embedding of its own": ["--tie", "decoder"],
    "two vocabularies": ["--data", "work/data-two", "--tie", "decoder"],
    "rotary positions": ["--positions", "rotary"],
    "width 256, 3+3 layers": ["--preset", "small"],
}
# What a variant needs before it can be trained.
BEFORE: dict[str, list[list[str]]] = {
    "two vocabularies": [
        ["train-tokenizer", "--separate", "--output", "work/tokenizer-two"],
        ["preprocess", "--tokenizer", "work/tokenizer-two", "--output", "work/data-two"],
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--epochs", type=int, help="in place of minutes")
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    arguments = parser.parse_args()
    work = Path(__file__).parent / "work" / f"ablation-{arguments.example.name}"
    shutil.rmtree(work, ignore_errors=True)
    (work / "work").mkdir(parents=True)
    for file in arguments.corpus.glob("*.gz"):
        shutil.copy(file, work / "work")
    shutil.copy(arguments.example / "tfm.toml", work)
    for step in ("train-tokenizer", "preprocess"):
        tfm(work, step)
    valid = [work / "work" / f"val.{side}.gz" for side in languages(work)]
    print("| variant | BLEU | chrF | epochs | minutes |\n| --- | --- | --- | --- | --- |")
    end = ["--max-minutes", str(arguments.minutes)]
    if arguments.epochs:
        project = (work / "tfm.toml").read_text(encoding="utf-8")
        (work / "tfm.toml").write_text(re.sub("(?m)^max-minutes.*$", "", project), encoding="utf-8")
        end = ["--max-epochs", str(arguments.epochs)]
    for number, name in enumerate(arguments.only):
        run = f"run{number}"
        for words in BEFORE.get(name, []):
            tfm(work, *words)
        tfm(work, "train", "--output", run, *end, *VARIANTS[name])
        files = ["--source", str(valid[0].resolve()), "--reference", str(valid[1].resolve())]
        scores = json.loads(tfm(work, "eval", "--model", run, *files, "--bleu", "--chrf", "--json"))
        about = json.loads((work / run / "config.json").read_text())["about"]
        found = {score["metric"]: score["value"] for score in scores["scores"]}
        print(
            f"| {name} | {found['BLEU']:.2f} | {found['chrF']:.2f} | {about['epochs']} | {about['minutes']} |",
            flush=True,
        )


def languages(work: Path) -> tuple[str, str]:
    import tomllib

    project = tomllib.loads((work / "tfm.toml").read_text(encoding="utf-8"))["project"]
    return project["source-lang"], project["target-lang"]


def tfm(work: Path, *words: str) -> str:
    """Run one command in ``work``; its stdout."""
    done = subprocess.run([sys.executable, "-m", "tfm_cli", *words], cwd=work, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"tfm {' '.join(words)} failed:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
