"""`tfm translate`: lines in, lines out."""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.render import Screen
from tfm_cli.cli.translate_options import TranslateOptions
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.text.corpus import check_exists, read_lines, read_pairs

if TYPE_CHECKING:
    from tfm_cli.translator import Batching, TextHypothesis, Translation, Translator, Warn

_SHOWN = 5  # warnings of one run that are shown


def run(settings: Settings, screen: Screen) -> None:
    """Translate, or score, every line of the input."""
    options, search = settings[TranslateOptions], settings[DecodeOptions]
    _check_files(options)
    job = Job(_load(options, screen), options, search)
    warnings = Warnings(screen)
    # A bar and the translations would write over each other on one terminal.
    is_bare = job.is_conversation or (options.output == "-" and sys.stdout.isatty())
    progress = nullcontext() if is_bare else screen.progress("Translating", unit="lines")
    with _output(options.output) as stream, progress as meter:
        for text in job.scores(warnings) if options.score is not None else job.translations(warnings):
            stream.write(text + "\n")
            stream.flush()
            if meter is not None:
                meter.advance()
    warnings.close()


@dataclass(frozen=True)
class Job:
    """What is to be done, with what."""

    translator: "Translator"
    options: TranslateOptions
    search: DecodeOptions

    @property
    def batching(self) -> "Batching":
        from tfm_cli.translator import Batching

        size = 1 if self.is_conversation else self.options.batch_size
        return Batching(size, self.options.batch_tokens, max_source=self.options.max_source_tokens)

    @property
    def is_conversation(self) -> bool:
        """Whether a person types the lines: each is then asked for and answered at once."""
        return self.options.input == "-" and sys.stdin.isatty()

    def translations(self, warn: "Warn") -> Iterator[str]:
        """The output for each line of the input: one line of text, or several with ``n_best``."""
        options = self.options
        lines = read_lines(options.input, options.errors)
        prefixes = read_lines(options.target_prefix, options.errors) if options.target_prefix is not None else None
        lines = _prompted(lines) if self.is_conversation else lines
        for translation in self.translator.stream(lines, self.search, self.batching, prefixes, warn):
            yield self.write(translation)

    def write(self, translation: "Translation") -> str:
        """A translation in the format asked for."""
        if self.options.format == "jsonl":
            return as_json(translation, self.options.scores)
        if self.options.scores or self.search.n_best > 1:
            return as_ranking(translation)
        return as_text(translation)

    def scores(self, warn: "Warn") -> Iterator[str]:
        """The score of each line of ``options.score`` as a translation of the same line of the input."""
        options = self.options
        pairs = read_pairs(options.input, options.score or "", options.errors)
        for line, found in enumerate(self.translator.score(pairs, self.search, self.batching, warn), 1):
            number = {"line": line, **_numbers(found, options.scores)}
            yield json.dumps(number, ensure_ascii=False) if options.format == "jsonl" else f"{found.score:.6f}"


def as_text(translation: "Translation") -> str:
    """The best translation, on one line whatever it holds."""
    return _one_line(translation.text)


def as_ranking(translation: "Translation") -> str:
    """Every hypothesis on a line as Moses writes them: ``index ||| hypothesis ||| score``, the index from 0."""
    return "\n".join(
        f"{translation.line - 1} ||| {_one_line(found.text)} ||| {found.score:.6f}" for found in translation.hypotheses
    )


def as_json(translation: "Translation", with_tokens: bool = False) -> str:
    """All of a translation as one JSON object; ``with_tokens`` adds each token's log-probability."""
    hypotheses = [{"text": found.text, **_numbers(found, with_tokens)} for found in translation.hypotheses]
    content = {"line": translation.line, "source": translation.source, "translations": hypotheses}
    return json.dumps(content, ensure_ascii=False)


def _numbers(found: "TextHypothesis", with_tokens: bool) -> dict[str, object]:
    # JSON has no infinity: the score of what cannot be scored is null.
    score, log_prob = (number if math.isfinite(number) else None for number in (found.score, found.log_prob))
    numbers: dict[str, object] = {"score": score, "log_prob": log_prob, "finished": found.finished}
    if with_tokens:
        numbers |= {"tokens": found.tokens, "token_log_probs": found.token_log_probs}
    return numbers


def _one_line(text: str) -> str:
    return re.sub(r"[\r\n]+", " ", text)


def _prompted(lines: Iterable[str]) -> Iterator[str]:
    """Ask for each line on stderr."""
    remaining = iter(lines)
    while True:
        print("> ", end="", file=sys.stderr, flush=True)
        line = next(remaining, None)
        if line is None:
            print(file=sys.stderr)
            return
        yield line


class Warnings:
    """Shows the first few warnings of a run and counts the others."""

    def __init__(self, screen: Screen) -> None:
        self.screen, self.count = screen, 0

    def __call__(self, message: str) -> None:
        self.count += 1
        if self.count <= _SHOWN:
            self.screen.warn(message)

    def close(self) -> None:
        if self.count > _SHOWN:
            self.screen.warn(f"{self.count - _SHOWN:,} more of these.")


def _check_files(options: TranslateOptions) -> None:
    files = [name for name in (options.input, options.score, options.target_prefix) if name not in (None, "-")]
    for name in files:
        check_exists(name)
        if Path(options.output).exists() and Path(options.output).samefile(name):
            raise TfmError("the output would overwrite an input", where="--output", fix="Name another file.")


@contextmanager
def _output(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdout
        return
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        file = Path(path).open("w", encoding="utf-8", newline="\n")  # noqa: SIM115  (closed below)
    except OSError as error:
        raise TfmError(f"cannot be written: {error.strerror}", where=path) from None
    with file:
        yield file


def _load(options: TranslateOptions, screen: Screen) -> "Translator":
    from tfm_cli.device import set_threads
    from tfm_cli.translator import Translator

    threads = set_threads(options.threads)
    translator = Translator.load(options.model, options.device, options.precision)
    screen.detail(f"Model: {', '.join(options.model)}; {translator.device}, {options.precision}, {threads} threads.")
    return translator
