"""All that a command shows. Everything goes to stderr except results: stdout holds those and nothing else."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tfm_cli.errors import TfmError

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_SECONDS = 10.0  # between progress lines where stderr is no terminal


class Screen:
    """Where a command speaks: `say` for everyone, `detail` with --verbose, `warn` always, `result` to stdout.

    Text is shown as it is: brackets in a file's name are no markup.
    """

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        self.quiet, self.verbose = quiet, verbose
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether a person is looking, not a log file."""
        return self._console.is_terminal

    def say(self, text: str = "", style: str = "") -> None:
        if not self.quiet:
            self._print(text, style)

    def detail(self, text: str) -> None:
        if self.verbose and not self.quiet:
            self._print(text, "dim")

    def warn(self, text: str) -> None:
        self._print(text, label="warning", label_style="bold yellow")

    def complain(self, text: str, label: str = "error") -> None:
        self._print(text, label=label, label_style="bold red")

    def next_step(self, command: str, why: str = "") -> None:
        """Say which command comes next: ``next_step("tfm preprocess", "clean and encode the pairs")``."""
        if not self.quiet:
            line = Text.assemble("\nNext: ", (command, "bold cyan"), (f"  ({why})" if why else "", "dim"))
            self._console.print(line, soft_wrap=True)

    def result(self, text: str) -> None:
        """Write one line to stdout at once."""
        with self._bar_put_aside():
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], title: str = "", result: bool = False
    ) -> None:
        """A small table; columns of numbers stand right-aligned. ``result`` sends it to stdout."""
        if self.quiet and not result:
            return
        texts = [[_cell(value) for value in row] for row in rows]
        stream: TextIO = sys.stdout if result else sys.stderr
        right = [bool(texts) and all(_is_number(row[i]) for row in texts) for i in range(len(columns))]
        with self._bar_put_aside():
            if stream.isatty():
                table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
                for name, is_number in zip(columns, right, strict=True):
                    table.add_column(
                        name, justify="right" if is_number else "left", header_style="bold", overflow="fold"
                    )
                for row in texts:
                    table.add_row(*(Text(text) for text in row))
                Console(file=stream, highlight=False).print(table)
            else:
                lines = [title] if title else []
                lines += _aligned([list(columns), *texts], right)
                stream.write("".join(f"{line}\n" for line in lines))
                stream.flush()

    @contextmanager
    def progress(self, description: str, total: int | None = None, unit: str = "") -> Iterator["Meter"]:
        """Show how far a long step is: a bar on a terminal, else a line every ten seconds; it is gone at the end.

        Example:
            with screen.progress("Translating", total=len(lines), unit="lines") as meter:
                meter.advance(32)
        """
        if self.quiet or not self._console.is_terminal or self._bar is not None:
            yield Meter(description, total, unit, None if self.quiet else self._print)
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        end = [BarColumn(), TextColumn("{task.percentage:>3.0f}%")] if total else [SpinnerColumn(), TimeElapsedColumn()]
        columns = [TextColumn("{task.description}"), *end, TextColumn("{task.fields[note]}", style="dim")]
        if total:
            columns.append(TimeRemainingColumn())
        # Rich would otherwise catch what is written to stdout and send it to stderr.
        bar = Progress(*columns, console=self._console, transient=True, redirect_stdout=False, redirect_stderr=False)
        with bar:
            self._bar = bar
            try:
                yield Meter(description, total, unit, None, bar)
            finally:
                self._bar = None

    def ask(self, question: str, default: str = "", choices: Sequence[str] = ()) -> str:
        """Ask for one line on a terminal; an empty answer is the default."""
        hint = f" ({'/'.join(choices)})" if choices else ""
        preset = f" [{default}]" if default else ""
        while True:
            self._console.print(Text.assemble((question, "bold"), hint, (preset, "cyan"), ": "), end="", soft_wrap=True)
            line = sys.stdin.readline()
            if not line:
                raise TfmError("no answer: the input ended", fix="Give the values as options instead.")
            answer = line.strip() or default
            if not choices or answer in choices:
                return answer
            self.warn(f"{answer!r} is not one of {', '.join(choices)}")

    def _print(self, text: str, style: str = "", label: str = "", label_style: str = "") -> None:
        line = Text.assemble((f"{label}: ", label_style), (text, style)) if label else Text(text, style)
        # On a terminal words are kept whole; in a log a message is one line, however long.
        self._console.print(line, soft_wrap=not self._console.is_terminal)

    @contextmanager
    def _bar_put_aside(self) -> Iterator[None]:
        bar = self._bar if sys.stdout.isatty() else None
        if bar:
            bar.stop()
        try:
            yield
        finally:
            if bar:
                bar.start()


class Meter:
    """Counts what is done and shows it, with the rate and the time left."""

    def __init__(
        self,
        description: str,
        total: int | None,
        unit: str,
        say: Callable[[str], None] | None,
        bar: "Progress | None" = None,
    ) -> None:
        self.done = 0
        self._description, self._total, self._unit, self._say, self._bar = description, total, unit, say, bar
        self._start = self._shown = time.monotonic()
        self._task = bar.add_task(description, total=total, note="") if bar else None

    def advance(self, n: int = 1, note: str = "") -> None:
        """Count ``n`` more; ``note`` stands beside the rate until the next call."""
        self.reach(self.done + n, self._total, note)

    def reach(self, done: int, total: int | None, note: str = "", before: int = 0) -> None:
        """Say that ``done`` of ``total`` are there now, ``before`` of them from an earlier sitting."""
        self.done, self._total = done, total
        now = time.monotonic()
        rate = (done - before) / max(now - self._start, 1e-9)
        pace = f"{_short(done)}{f'/{_short(total)}' if total else ''} {self._unit}".rstrip()
        text = ", ".join(part for part in (pace, f"{_short(rate)}/s", note) if part)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, total=total, note=text)
        elif self._say and now - self._shown >= PLAIN_SECONDS:
            self._shown = now
            # The first of a batch comes long after the start, and the others right behind it: that is no rate yet.
            is_known = total and done - before >= total / 50
            left = f", {_duration((total - done) / rate)} left" if total and is_known else ""
            self._say(f"{self._description}: {text}{left}")


def _cell(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "").rstrip("%"))
    except ValueError:
        return text in ("", "-")
    return True


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(right))]
    lines = []
    for row in rows:
        pads = [" " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True)]
        cells = [pad + text if is_right else text + pad for text, pad, is_right in zip(row, pads, right, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return lines


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.1f}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
