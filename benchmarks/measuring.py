"""Run a training for a while and read off its log how fast it went; nothing in here knows which tool it is."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

LONGEST_START = 20 * 60.0  # seconds from the command to its first update
_POLL = 0.5  # seconds


@dataclass(frozen=True)
class Update:
    """One update of the weights: when it was done, in seconds of the tool's own clock, and its real target tokens."""

    time: float
    tokens: float


@dataclass(frozen=True)
class Pace:
    """What one process showed.

    ``cores`` is the processor time it got in the window over the time that passed: below its threads where it had to share them.
    ``peak_mb`` adds up the high-water marks (VmHWM) of all its processes until the window closed, start-up included;
    ``start`` is seconds from the command to the first update, ``load`` the machine's load average before it.
    """

    tokens_per_second: float
    tokens_per_update: float
    updates: int
    seconds: float
    cores: float
    start: float
    peak_mb: float
    load: float


def measure(
    command: list[str],
    folder: Path,
    environment: dict[str, str],
    log: Path,
    read: Callable[[Iterable[str]], list[Update]],
    span: tuple[float, float],
) -> Pace:
    """Start ``command`` in ``folder``, watch it through the window and kill it.

    ``span`` is (warm-up, window) in seconds: the window opens with the first update that ends warm-up seconds after the very
    first one. ``log`` is the file that ``read`` understands; the command's own output goes to ``folder/output.log``.
    """
    output = folder / "output.log"
    load, began, peak = os.getloadavg()[0], time.monotonic(), 0.0
    processor: list[tuple[float, float]] = []
    with output.open("w") as file:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        start = None
        try:
            while True:
                time.sleep(_POLL)
                pids = _tree(process.pid)
                peak = max(peak, sum(map(_high_water_mark, pids)))
                processor.append((time.monotonic(), sum(map(_processor_seconds, pids))))
                updates = read(_lines(log))
                if updates and start is None:
                    start = time.monotonic() - began
                if (window := _window(updates, *span)) is not None:
                    break
                if process.poll() is not None or (start is None and time.monotonic() - began > LONGEST_START):
                    sys.exit(f"error: no steady training: {' '.join(command)}\n{_tail(output)}")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    seconds = window[-1].time - window[0].time
    tokens = sum(update.tokens for update in window[1:])
    count = len(window) - 1
    cores = _cores(processor, seconds)
    return Pace(tokens / seconds, tokens / count, count, seconds, cores, start, peak / 1024, load)


def run(command: list[str], folder: Path, environment: dict[str, str], output: Path) -> tuple[float, float]:
    """Run ``command`` to its end: wall seconds and peak resident megabytes."""
    began = time.monotonic()
    with output.open("w") as file:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"error: {' '.join(command)} failed:\n{_tail(output)}")
    return time.monotonic() - began, usage.ru_maxrss / 1024


def _window(updates: list[Update], warm_up: float, seconds: float) -> list[Update] | None:
    """The updates of the window, the one that opens it in front; None while it is open."""
    if not updates:
        return None
    opened = [update for update in updates if update.time >= updates[0].time + warm_up]
    for i, update in enumerate(opened):
        if update.time >= opened[0].time + seconds:
            return opened[: i + 1]
    return None


def _cores(samples: list[tuple[float, float]], seconds: float) -> float:
    """Processor time over time in the last ``seconds`` of samples (time, processor seconds until then)."""
    end, used = samples[-1]
    begin, before = min(samples[:-1], key=lambda sample: abs(sample[0] - (end - seconds)))
    return (used - before) / (end - begin)


def _lines(log: Path) -> list[str]:
    """The whole lines of a log that may not be there yet, or be written to at this moment."""
    if not log.exists():
        return []
    return log.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]


def _tail(log: Path, lines: int = 8) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _tree(pid: int) -> list[int]:
    """A process and all below it."""
    pids = [pid]
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                pids += _tree(int(child))
    return pids


def _high_water_mark(pid: int) -> int:
    """Peak resident kilobytes of one process; 0 where it is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return 0


def _processor_seconds(pid: int) -> float:
    """User and system time of one process, with that of its children which have ended; 0 where it is gone."""
    with contextlib.suppress(OSError):
        # The name in brackets may hold blanks; the fields behind it are numbered from 3.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0
