"""`tfm init`: a commented tfm.toml from a look at the user's files."""

import re
import sys
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from string import Template

from tfm_cli.cli.options import InitOptions
from tfm_cli.cli.render import Screen
from tfm_cli.config import FILE_NAME, Settings
from tfm_cli.errors import TfmError
from tfm_cli.files import write_whole
from tfm_cli.keys import toml_value
from tfm_cli.options import AUTO
from tfm_cli.recipes import vocabulary
from tfm_cli.text.corpus import check_exists, count_lines, read_lines, unaligned
from tfm_cli.transformer.shape import PRESETS

EXAMPLES = {
    "source_lang": "de",
    "target_lang": "en",
    "valid_source": "valid.de",
    "valid_target": "valid.en",
    "test_source": "test.de",
    "test_target": "test.en",
}
SETS = (
    ("training", "source", "target"),
    ("validation", "valid_source", "valid_target"),
    ("test", "test_source", "test_target"),
)


@dataclass(frozen=True)
class Counted:
    """How many pairs each of a project's sets holds, and how many different characters the training text has."""

    training: int = 0
    validation: int = 0
    test: int = 0
    characters: int = 0


def run(settings: Settings, screen: Screen) -> None:
    """Ask or take the options, look at the files, write ``tfm.toml``."""
    options = settings[InitOptions]
    path = Path(FILE_NAME)
    if path.exists() and not options.force:
        raise TfmError("there is already a project file here", where=str(path), fix="Replace it with --force.")
    if not (options.source and options.target):
        if not sys.stdin.isatty():
            raise TfmError("init needs --source and --target", fix="Give the two files with the training text.")
        options = _asked(options, screen)
    counted = count(options)
    options = propose(options, counted)
    write_whole(path, render(options))

    rows = [(name, getattr(counted, name), *_files(options, *names)) for name, *names in SETS if getattr(counted, name)]
    screen.table(("set", "pairs", "source", "target"), [(name, f"{pairs:,}", *files) for name, pairs, *files in rows])
    screen.say(f"\nWrote {path}: vocabulary of {options.vocab_size:,} tokens, network {options.preset!r}.")
    if not options.source_lang or not options.target_lang:
        screen.warn(f"the languages could not be told from the files' endings; write them under [project] in {path}.")
    if not counted.validation:
        screen.say("No validation text is named, so `tfm preprocess` will hold some training pairs out for it.")
    screen.next_step("tfm train-tokenizer", "learns the vocabulary")


def count(options: InitOptions) -> Counted:
    """The pairs in each set; a `TfmError` where a file is missing or two do not match."""
    counts: dict[str, int] = {}
    characters: set[str] = set()
    for name, source, target in SETS:
        files = getattr(options, source), getattr(options, target)
        if not any(files):
            continue
        if not all(files):
            absent = (target if files[0] else source).replace("_", "-")
            raise TfmError(f"the {name} text lacks its other side", fix=f"Give --{absent} too.")
        lines = [_count(file, characters) if name == "training" else count_lines(file) for file in files]
        if lines[0] != lines[1]:
            raise unaligned(files[0], lines[0], files[1], lines[1])
        if not lines[0]:
            raise TfmError("the file is empty", where=files[0])
        counts[name] = lines[0]
    return Counted(**counts, characters=len(characters))


def propose(options: InitOptions, counted: Counted) -> InitOptions:
    """Fill what the user left open: sizes by the number of pairs and of characters, languages by the files' endings."""
    return replace(
        options,
        vocab_size=options.vocab_size or vocabulary(counted.training, counted.characters),
        preset=options.preset or AUTO,
        source_lang=options.source_lang or guess_language(options.source),
        target_lang=options.target_lang or guess_language(options.target),
    )


def guess_language(path: str | None) -> str | None:
    """The language code a file's name ends with: ``zh`` for train.zh, train.zh.gz and train.zh.txt."""
    for suffix in reversed(Path(path or "").suffixes):
        if suffix in (".gz", ".xz", ".zst", ".txt", ".bz2", ".tok"):
            continue
        return suffix[1:] if re.fullmatch(r"\.[a-z]{2,3}([-_][A-Za-z]{2,4})?", suffix) else None
    return None


def render(options: InitOptions) -> str:
    """The text of a project file; a key without a value stands there as a comment with an example."""
    template = resources.files("tfm_cli.cli").joinpath("template.toml").read_text(encoding="utf-8")
    lines = []
    for line in template.splitlines():
        name = re.search(r"\$\{(\w+)\}", line)
        value = getattr(options, name[1]) if name else None
        if name and value is None:
            line, value = f"# {line}", EXAMPLES[name[1]]
        lines.append(Template(line).substitute({name[1]: toml_value(value)}) if name else line)
    return "\n".join(lines) + "\n"


def _asked(options: InitOptions, screen: Screen) -> InitOptions:
    screen.say("A few questions; an empty answer takes what stands in brackets.\n")
    answers: dict[str, str | None] = {
        "source": options.source or _ask_file(screen, "Training text, source language"),
        "target": options.target or _ask_file(screen, "Training text, target language"),
    }
    for name in ("source", "target"):
        known = getattr(options, f"{name}_lang")
        guess = guess_language(answers[name]) or ""
        answers[f"{name}_lang"] = known or screen.ask(f"{name.capitalize()} language", guess) or None
    for name, source, target in SETS[1:]:
        if getattr(options, source) or getattr(options, target):
            continue
        answers[source] = _ask_file(screen, f"{name.capitalize()} text, source language (optional)", optional=True)
        if answers[source]:
            answers[target] = _ask_file(screen, f"{name.capitalize()} text, target language")
    options = replace(options, **answers)  # type: ignore[arg-type]
    return replace(options, preset=options.preset or screen.ask("Network size", AUTO, (AUTO, *PRESETS)))


def _ask_file(screen: Screen, question: str, optional: bool = False) -> str | None:
    while True:
        answer = screen.ask(question)
        if not answer and optional:
            return None
        try:
            check_exists(answer or "")
            return answer
        except TfmError as error:
            screen.warn(str(error) if answer else "a file is needed.")


def _count(path: str, characters: set[str]) -> int:
    """The lines of a file; its characters join ``characters``."""
    number = 0
    for line in read_lines(path, "replace"):
        characters.update(line)
        number += 1
    return number


def _files(options: InitOptions, source: str, target: str) -> tuple[str, str]:
    return getattr(options, source), getattr(options, target)
