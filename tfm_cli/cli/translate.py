"""`tfm translate`: lines in, lines out."""

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.families import decoding
from tfm_cli.cli.machine import MachineOptions, is_compiled
from tfm_cli.cli.render import Screen
from tfm_cli.cli.rerank import open_ranked
from tfm_cli.cli.translate_options import TranslateOptions
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.files import check_no_input, written
from tfm_cli.text.corpus import check_exists, count_lines, longest_line, read_lines, read_pairs, unaligned

if TYPE_CHECKING:
    from tfm_cli.translator import AnyDecodeOptions, Batching, TextHypothesis, Translation, Translator

_SHOWN = 5  # warnings of each kind that are shown at once


def run(settings: Settings, screen: Screen) -> None:
    """Translate, or score, every line of the input."""
    options = settings[TranslateOptions]
    _check_files(options)
    if options.score is not None:
        _refuse_search(settings)
    search = decoding(settings, options.model)
    job = Job(_load(settings, search, screen), options, search)
    # A bar and the translations would write over each other on one terminal.
    is_bare = job.is_conversation or (options.output == "-" and sys.stdout.isatty())
    progress = nullcontext() if is_bare else screen.progress("Translating", unit="lines")
    with (
        closing(Warnings(screen, options.max_source_tokens)) as warnings,
        written(options.output) as stream,
        progress as meter,
    ):
        for text in job.scores(warnings) if options.score is not None else job.translations(warnings):
            stream.write(text + "\n")
            stream.flush()
            if meter is not None:
                meter.advance()


@dataclass(frozen=True)
class Job:
    """What is to be done, with what."""

    translator: "Translator"
    options: TranslateOptions
    search: "AnyDecodeOptions"

    @property
    def batching(self) -> "Batching":
        from tfm_cli.translator import Batching

        return Batching(batch_size(self.options), self.options.batch_tokens, max_source=self.options.max_source_tokens)

    @property
    def is_conversation(self) -> bool:
        """Whether each line is asked for."""
        return is_conversation(self.options)

    def translations(self, warnings: "Warnings") -> Iterator[str]:
        """The output for each line of the input: one line of text, or several with ``n_best``."""
        options = self.options
        lines = read_lines(options.input, options.errors)
        prefixes = read_lines(options.target_prefix, options.errors) if options.target_prefix is not None else None
        lines = _prompted(lines) if self.is_conversation else lines
        found = self.translator.stream(
            lines, self.search, self.batching, prefixes, warnings.unfinished, warnings.cut, self.shows_numbers
        )
        for translation in found:
            yield self.write(translation)

    @property
    def shows_numbers(self) -> bool:
        """Whether more is written than the best translation's text."""
        return self.options.format == "jsonl" or self.options.scores or self.search.n_best > 1

    def write(self, translation: "Translation") -> str:
        """A translation in the format asked for."""
        if self.options.format == "jsonl":
            return as_json(translation, self.options.scores)
        if self.shows_numbers:
            return as_ranking(translation)
        return as_text(translation)

    def scores(self, warnings: "Warnings") -> Iterator[str]:
        """The score of each line of ``options.score`` as a translation of the same line of the input."""
        options = self.options
        pairs = read_pairs(options.input, options.score or "", options.errors)
        scored = self.translator.score(pairs, self.search, self.batching, on_cut=warnings.cut)
        for line, found in enumerate(scored, 1):
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
    score, log_prob = _finite([found.score, found.log_prob])
    numbers: dict[str, object] = {"score": score, "log_prob": log_prob, "finished": found.finished}
    if with_tokens:
        numbers |= {"tokens": found.tokens, "token_log_probs": _finite(found.token_log_probs)}
    return numbers


def _finite(numbers: Sequence[float]) -> list[float | None]:
    return [number if math.isfinite(number) else None for number in numbers]


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
    """Shows the first few warnings of each kind; at the end it counts them, and names every other line that was cut."""

    def __init__(self, screen: Screen, max_source: int) -> None:
        self.screen, self.max_source = screen, max_source
        self._unfinished = self._cut = 0
        self._spans: list[tuple[int, int]] = []  # first and last of the lines in a row whose cut was not shown

    def unfinished(self, message: str) -> None:
        """A translation did not end by itself."""
        self._unfinished += 1
        if self._unfinished <= _SHOWN:
            self.screen.warn(message)

    def cut(self, line: int, message: str) -> None:
        """A line was too long; lines come in their order."""
        self._cut += 1
        if self._cut <= _SHOWN:
            self.screen.warn(message)
        elif self._spans and self._spans[-1][1] == line - 1:
            self._spans[-1] = (self._spans[-1][0], line)
        else:
            self._spans.append((line, line))

    def close(self) -> None:
        """Say what was not shown."""
        if self._unfinished > _SHOWN:
            self.screen.warn(f"translations that did not end by themselves, all told: {self._unfinished:,}.")
        if self._spans:
            lines = "line" if self._cut == _SHOWN + 1 else "lines"
            self.screen.warn(f"also cut to {self.max_source:,} tokens: {lines} {_listed(self._spans)}.")


def _listed(spans: Iterable[tuple[int, int]]) -> str:
    """``7, 9 to 11 and 15``."""
    *others, last = [f"{first:,}" if first == last else f"{first:,} to {last:,}" for first, last in spans]
    return f"{', '.join(others)} and {last}" if others else last


def _check_files(options: TranslateOptions) -> None:
    files = [name for name in (options.input, options.score, options.target_prefix) if name not in (None, "-")]
    for name in files:
        check_exists(name)
    check_no_input(options.output, files)
    beside = options.score or options.target_prefix
    if beside and Path(options.input).is_file() and Path(beside).is_file():
        counts = count_lines(options.input), count_lines(beside)
        if counts[0] != counts[1]:
            raise unaligned(options.input, counts[0], beside, counts[1])


def _refuse_search(settings: Settings) -> None:
    """Refuse typed options of a search that is not made; how a score is formed stays an option."""
    searching = {"rerank", *(f.name for f in fields(DecodeOptions))} - {"length_penalty"}
    for name in settings.typed():
        if name in searching:
            raise TfmError("--score searches nothing", where=settings.place(name), fix="Leave it out.")


def _load(settings: Settings, search: "AnyDecodeOptions", screen: Screen) -> "Translator":
    from tfm_cli.engines.choice import Wish

    settings = _without_idle_workers(settings)
    options, machine = settings[TranslateOptions], settings[MachineOptions]
    prefixed, one_by_one = options.target_prefix is not None, batch_size(options) == 1
    beside = options.score or options.target_prefix
    # Only CTranslate2 has a limit. A token stands for at least one byte, so that the longest line bounds all.
    longest_target = longest_line(beside) if beside and machine.engine != "torch" else 0
    wish = Wish(
        options.model,
        search,
        machine.precision,
        longest=options.max_source_tokens,
        prefixed=prefixed,
        longest_target=longest_target,
        compile=is_compiled(settings, options.model, one_by_one),
    )
    ranker = options.rerank if options.score is None else None
    return open_ranked(wish, ranker, settings, screen, one_by_one)


def _without_idle_workers(settings: Settings) -> Settings:
    """The settings without the project file's workers, where a person or the command line lets lines come one at a time."""
    options = settings[TranslateOptions]
    comes_alone = is_conversation(options) or (options.batch_size == 1 and "batch_size" in settings.typed())
    if not comes_alone or "workers" in settings.typed():
        return settings
    return settings.having(replace(settings[MachineOptions], workers=None))


def batch_size(options: TranslateOptions) -> int | None:
    """Most sentences in a batch: one where a person types the lines, who wants each answered at once."""
    return 1 if is_conversation(options) else options.batch_size


def is_conversation(options: TranslateOptions) -> bool:
    """Whether a person types the lines."""
    return options.input == "-" and sys.stdin.isatty()
