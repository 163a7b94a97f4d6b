"""What a run tells about itself, and to whom: a log file, TensorBoard, a screen."""

import json
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from tfm_cli.errors import TfmError
from tfm_cli.training.validation import ValidationReport


@dataclass(frozen=True)
class StartReport:
    """What a run is about to do; ``notes`` say why where it found something out by itself."""

    parameters: int
    pairs: int
    left_out: int
    batches: int
    device: str
    precision: str
    threads: int
    processes: int
    batch_tokens: int
    resumed_at: int
    limits: str
    has_end: bool
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class StepReport:
    """Means since the last report; ``nll`` is nats per target token; ``tokens_per_second`` counts real target tokens."""

    step: int
    epoch: float
    loss: float
    nll: float
    rate: float
    norm: float
    tokens_per_second: float
    seconds: float
    fraction: float


class Watcher(Protocol):
    """Receives a run's events."""

    def started(self, report: StartReport) -> None: ...
    def ticked(self, step: int, epoch: float, fraction: float) -> None:
        """After every update; cheap."""

    def stepped(self, report: StepReport) -> None: ...
    def validated(self, report: ValidationReport) -> None: ...
    def warned(self, message: str) -> None: ...
    def closed(self) -> None: ...


class Watchers:
    """Several watchers as one."""

    def __init__(self, watchers: Iterable[Watcher]) -> None:
        self.all = list(watchers)

    def started(self, report: StartReport) -> None:
        for watcher in self.all:
            watcher.started(report)

    def ticked(self, step: int, epoch: float, fraction: float) -> None:
        for watcher in self.all:
            watcher.ticked(step, epoch, fraction)

    def stepped(self, report: StepReport) -> None:
        for watcher in self.all:
            watcher.stepped(report)

    def validated(self, report: ValidationReport) -> None:
        for watcher in self.all:
            watcher.validated(report)

    def warned(self, message: str) -> None:
        for watcher in self.all:
            watcher.warned(message)

    def closed(self) -> None:
        for watcher in self.all:
            watcher.closed()


class JsonLines:
    """One JSON object per event in ``log.jsonl``; a resumed run goes on in the same file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def _write(self, event: str, values: dict[str, Any]) -> None:
        line = {"event": event, "time": round(time.time(), 3), **values}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def started(self, report: StartReport) -> None:
        self._write("start", asdict(report))

    def ticked(self, step: int, epoch: float, fraction: float) -> None:
        pass

    def stepped(self, report: StepReport) -> None:
        self._write("step", asdict(report))

    def validated(self, report: ValidationReport) -> None:
        self._write("validation", asdict(report))

    def warned(self, message: str) -> None:
        self._write("warning", {"message": message})

    def closed(self) -> None:
        pass


class TensorBoard:
    """The same figures as curves."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise TfmError(
                "TensorBoard is not installed", where="--tensorboard", fix="pip install 'tfm-cli[tensorboard]'"
            ) from error
        self._open = lambda: SummaryWriter(str(folder))
        self.writer: Any = None

    def started(self, report: StartReport) -> None:
        self.writer = self._open()

    def ticked(self, step: int, epoch: float, fraction: float) -> None:
        pass

    def stepped(self, report: StepReport) -> None:
        for name in ("loss", "nll", "rate", "norm", "tokens_per_second"):
            self.writer.add_scalar(f"train/{name}", getattr(report, name), report.step)

    def validated(self, report: ValidationReport) -> None:
        for name, value in {"loss": report.loss, **report.scores}.items():
            self.writer.add_scalar(f"validation/{name}", value, report.step)
        text = "\n\n".join(f"{s.source}  \n{s.reference}  \n**{s.hypothesis}**" for s in report.samples)
        self.writer.add_text("validation/samples", text, report.step)

    def warned(self, message: str) -> None:
        pass

    def closed(self) -> None:
        if self.writer is not None:  # a watcher before this one may have failed at the start
            self.writer.close()
