"""`tfm demo`: the whole chain on a small Chinese-English corpus that comes with the package."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from tfm_cli.cli.options import DemoOptions
from tfm_cli.cli.render import Screen
from tfm_cli.config import FILE_NAME, Settings
from tfm_cli.errors import TfmError
from tfm_cli.files import write_whole

SHOWCASE = "showcase"


def run(settings: Settings, screen: Screen) -> None:
    """Write the corpus and a project file, then run every command as a user would type it."""
    options = settings[DemoOptions]
    folder = Path(options.output)
    _check_free(folder, options.overwrite)
    began = time.monotonic()
    sentences = write_corpus(folder)
    screen.say(f"{sentences:,} Chinese-English sentence pairs and a {FILE_NAME} are now in {folder}/.")
    again = " --overwrite" if options.overwrite else ""
    with _working_in(folder):
        for line in (f"train-tokenizer{again}", "preprocess", f"train{again}", "eval"):
            _type(line, screen)
        _type(f"translate --input {SHOWCASE}.zh --output {SHOWCASE}.en", screen)
        showcase = list(zip(*(_lines(f"{SHOWCASE}.{language}") for language in ("zh", "en")), strict=True))
    screen.say()
    screen.table(("Chinese", "English"), showcase, title="Sentences that are not in the training text")
    screen.say(f"\nDone in {(time.monotonic() - began) / 60:.1f} minutes. Talk to it, in Chinese:")
    screen.say(f"  cd {folder} && tfm translate", style="cyan")
    screen.say("With text of your own, from its folder:")
    screen.say("  tfm init", style="cyan")


def write_corpus(folder: Path) -> int:
    """Write the three sets, the showcase and the project file; the number of sentence pairs."""
    from tfm_cli.demo import grammar

    made = grammar.corpus()
    sets = {"train": made.train, "valid": made.valid, "test": made.test}
    for name, pairs in sets.items():
        write_whole(folder / f"{name}.zh", "".join(f"{pair.source}\n" for pair in pairs))
        write_whole(folder / f"{name}.en", "".join(f"{pair.target}\n" for pair in pairs))
    write_whole(folder / f"{SHOWCASE}.zh", "".join(f"{pair.source}\n" for pair in grammar.SHOWCASE))
    write_whole(folder / FILE_NAME, _project_file())
    return sum(map(len, sets.values()))


def _project_file() -> str:
    return resources.files("tfm_cli.cli").joinpath("demo.toml").read_text(encoding="utf-8")


def _check_free(folder: Path, overwrite: bool) -> None:
    """Only a folder that a demo made, told by the first line of its project file, may be used again."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        first = (folder / FILE_NAME).read_text(encoding="utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError):
        first = ""
    if first != _project_file().partition("\n")[0]:
        raise TfmError(
            "there is something else, which no demo wrote", where=str(folder), fix="Choose another --output."
        )
    if not overwrite:
        raise TfmError("it is already there", where=str(folder), fix="Choose another --output, or use --overwrite.")


def _type(line: str, screen: Screen) -> None:
    """Run one command in this process, after showing it at a prompt."""
    from tfm_cli.cli.app import execute, parse

    screen.say(f"\n$ tfm {line}", style="bold cyan")
    common = [flag for flag, on in (("--quiet", screen.quiet), ("--verbose", screen.verbose)) if on]
    invocation = parse([*line.split(), *common])
    assert not isinstance(invocation, int)
    execute(invocation)


def _lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").split("\n")[:-1]


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
