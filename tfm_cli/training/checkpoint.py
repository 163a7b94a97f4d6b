"""Checkpoints: complete model folders with the state of the training beside, written whole or not at all."""

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tfm_cli.errors import TfmError
from tfm_cli.model import Model, read_weights, saving, write_model
from tfm_cli.training.validation import ValidationReport

STATE, TENSORS = "training.json", "training.safetensors"
MAKE_ROOM = "Make room, then continue with --resume."


@dataclass
class Progress:
    """Where a run stands: enough, with the tensors, to go on as if it had never stopped.

    ``batch`` counts the batches of this epoch that are done, of a plan made with ``batch_tokens`` and ``multiple``; ``seconds``
    is training time, sittings added up, and ``validation_seconds`` what the last validation, at ``looked_step``, took;
    ``halved`` and ``unfit`` are what memory did not suffice for (see `Learner`).
    """

    step: int = 0
    epoch: int = 0
    batch: int = 0
    tokens: int = 0
    skipped: int = 0
    halved: int = 0
    unfit: int = 0
    batch_tokens: int = 0
    multiple: int = 0
    seconds: float = 0.0
    validation_seconds: float = 0.0
    looked_step: int = 0
    best: float | None = None
    best_by: str = ""
    best_step: int = 0
    bad_validations: int = 0
    scores: dict[str, float] = field(default_factory=dict)

    def judge(self, report: ValidationReport, best_by: str) -> bool:
        """Take in the figures of a validation; whether this is the best model so far."""
        best_by = best_by if report.scores else "loss"
        if self.best_by != best_by:  # figures of different names are not compared
            self.best, self.best_by = None, best_by
        figure = report.figure(best_by)
        if not math.isfinite(figure) or (self.best is not None and figure <= self.best):
            self.bad_validations += 1
            return False
        self.best, self.best_step, self.bad_validations = figure, self.step, 0
        self.scores = {"loss": report.loss, **report.scores}
        return True


class Checkpoints:
    """The folder ``checkpoints`` of a run: one subfolder per kept step."""

    def __init__(self, run: Path, keep: int) -> None:
        self.folder, self.keep = run / "checkpoints", keep

    def steps(self) -> list[int]:
        """Steps with a checkpoint, oldest first."""
        return sorted(int(path.name.removeprefix("step-")) for path in self.folder.glob("step-*[0-9]") if path.is_dir())

    def path(self, step: int) -> Path:
        return self.folder / f"step-{step:08d}"

    def save(
        self,
        model: Model,
        weights: dict[str, Tensor],
        progress: Progress,
        tensors: dict[str, Tensor],
        run: dict[str, Any],
    ) -> Path:
        """Write the checkpoint of ``progress.step``, then delete what is neither among the newest nor the best.

        A crash at any moment leaves the earlier checkpoints as they were: files go to a temporary folder, reach the disk,
        and get their name last.

        Raises:
            TfmError: the weights are not finite, or the disk does not take it; nothing is left of it there.
        """
        final = self.path(progress.step)
        partial = self.folder / f".partial-{final.name}"
        try:
            with saving("the checkpoint", final, MAKE_ROOM):
                self.folder.mkdir(parents=True, exist_ok=True)
                for leftover in self.folder.glob(".partial-*"):
                    shutil.rmtree(leftover)
                write_model(partial, model, weights)
                save_file(tensors, partial / TENSORS)
                state = {"progress": asdict(progress), "run": run}
                (partial / STATE).write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
                _flush(partial)
                old = self.folder / f".partial-{final.name}-old"
                if final.exists():
                    final.rename(old)
                partial.rename(final)
                shutil.rmtree(old, ignore_errors=True)
                _flush_folder(self.folder)
        except TfmError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        self._rotate(progress.step, progress.best_step)
        return final

    def _rotate(self, newest: int, best: int) -> None:
        # What is newer than the step just saved was damaged, or the run would have gone on from there.
        sound = [step for step in self.steps() if step <= newest]
        for step in {*self.steps()} - {*sound[-self.keep :], best}:
            shutil.rmtree(self.path(step))

    def newest(self, warn: Callable[[str], None]) -> tuple[Progress, dict[str, Tensor], dict[str, Any]]:
        """The newest checkpoint that can be read; a damaged one is passed over with a warning.

        Raises:
            TfmError: where none can be.
        """
        for step in reversed(self.steps()):
            try:
                state = json.loads((self.path(step) / STATE).read_text(encoding="utf-8"))
                return Progress(**state["progress"]), read_weights(self.path(step) / TENSORS), state["run"]
            except (TfmError, OSError, ValueError, KeyError, TypeError) as error:
                warn(f"checkpoint {self.path(step)} cannot be read ({error}); trying the one before.")
        raise TfmError("there is no checkpoint to resume from", where=str(self.folder), fix="Train without --resume.")


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The states of the random generators that a run on ``device`` draws from, as tensors."""
    state = {"rng.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["rng.cuda"] = torch.cuda.get_rng_state(device)
    return state


def restore_random_state(tensors: dict[str, Tensor], device: torch.device, rank: int = 0) -> bool:
    """Undo what has been drawn since `random_state`; False where ``tensors`` know nothing of this ``rank``.

    In a checkpoint the names of rank 0 are bare, and those of rank r end in ``.r``.
    """
    end = f".{rank}" if rank else ""
    if f"rng.cpu{end}" not in tensors:
        return False
    torch.set_rng_state(tensors[f"rng.cpu{end}"])
    if f"rng.cuda{end}" in tensors and device.type == "cuda":
        torch.cuda.set_rng_state(tensors[f"rng.cuda{end}"], device)
    return True


def seed_of_rank(seed: int, rank: int) -> int:
    """A seed by which each rank draws dropout of its own."""
    return seed + 1_000_003 * rank


def _flush(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("r+b") as file:
            os.fsync(file.fileno())
    _flush_folder(folder)


def _flush_folder(folder: Path) -> None:
    if os.name != "posix":  # a folder cannot be opened elsewhere
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
