"""The training loop: batches in, updates, validations and checkpoints out. It knows no family, only `Family.loss`."""

import copy
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tfm_cli.data.batching import Plan, collate, plan
from tfm_cli.data.storage import Split
from tfm_cli.errors import Interrupted, TfmError
from tfm_cli.model import Model, save_model
from tfm_cli.training.checkpoint import Checkpoints, Progress, random_state, restore_random_state
from tfm_cli.training.optim import FlatWeights, MixedPrecisionAdam, learning_rate
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.training.validation import ValidationReport, Validator
from tfm_cli.training.watching import StartReport, StepReport, Watcher
from tfm_cli.transformer.batch import Batch

MAX_BROKEN_STEPS = 10
VALIDATION_SHARE = 0.05
LONGEST_WITHOUT_SAVING = 15 * 60.0  # seconds


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    reason: str
    progress: Progress


@dataclass
class Meter:
    """Sums since the last log line."""

    loss: float = 0.0
    nll: float = 0.0
    tokens: int = 0
    began: float = 0.0


class Interrupt:
    """Turns the first Ctrl-C (or SIGTERM) into a flag; a second one interrupts at once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.asked, self._say = False, say

    def _ask(self, number: int, frame: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self._say("stopping: this step is finished and everything saved. Ctrl-C once more stops at once, unsaved.")

    def __enter__(self) -> "Interrupt":
        self._old: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._old = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


class Trainer:
    """One run over one data set.

    ``model`` holds fresh weights; ``run`` is the resolved configuration, kept with every checkpoint;
    ``began`` is the moment on `time.monotonic` from which ``max_minutes`` counts.
    """

    def __init__(
        self,
        model: Model,
        train: Split,
        validator: Validator | None,
        options: tuple[RunOptions, LearningOptions, ValidationOptions],
        *,
        device: torch.device,
        dtype: torch.dtype,
        run: dict[str, Any],
        watcher: Watcher,
        began: float | None = None,
    ) -> None:
        self.options, self.learning, self.watching = options
        self.model, self.train, self.validator, self.run_configuration = model, train, validator, run
        self.device, self.watcher = device, watcher
        self.began = time.monotonic() if began is None else began
        self.output = Path(self.options.output)
        self.checkpoints = Checkpoints(self.output, self.watching.keep)
        self.family = model.family.to(device)
        averaged = copy.deepcopy(self.family).eval()
        self.optimizer = MixedPrecisionAdam(self.family, self.learning, dtype)
        self.family.to(dtype=dtype).train()
        FlatWeights(averaged).bind(self.optimizer.average)
        self.averaged = averaged
        # oneDNN compiles a kernel for every new shape of a bfloat16 product, which costs more than the product.
        self.multiple = 2 if dtype == torch.bfloat16 else 1
        self.progress = Progress()
        self.earlier_seconds = 0.0
        self.plan = self._plan(0)
        self.meter = Meter()
        self.last_validation: ValidationReport | None = None
        self.last_looked_at = 0.0
        self.saved_step = -1
        self.broken_in_a_row = 0

    # -- where the run stands

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + time.monotonic() - self.began

    @property
    def epoch(self) -> float:
        return self.progress.epoch + self.progress.batch / max(1, len(self.plan.batches))

    @property
    def fraction(self) -> float:
        """The share of the run that has passed, by whichever limit is nearest; 0 without a limit."""
        options, shares = self.options, [0.0]
        if options.max_steps:
            shares.append(self.progress.step / options.max_steps)
        if options.max_epochs:
            shares.append(self.epoch / options.max_epochs)
        if options.max_minutes:
            # The closing validation belongs to the budget.
            closing = 1.1 * self.last_validation.seconds if self.last_validation else 0.0
            shares.append((self.seconds + closing) / (60 * options.max_minutes))
        return min(1.0, max(shares))

    def ended(self) -> str | None:
        """Why the run is over, or None."""
        options = self.options
        if options.max_steps and self.progress.step >= options.max_steps:
            return f"{self.progress.step:,} steps"
        if options.max_epochs and self.progress.epoch >= options.max_epochs:
            return f"{self.progress.epoch} epochs"
        if options.max_minutes and self.fraction >= 1:
            return f"{options.max_minutes:g} minutes"
        if self.watching.patience and self.progress.bad_validations >= self.watching.patience:
            return f"no better model in {self.watching.patience} validations"
        return None

    # -- the loop

    def resume(self) -> None:
        """Take up the newest readable checkpoint."""
        self.progress, tensors, _ = self.checkpoints.newest(self.watcher.warned)
        self.optimizer.load(tensors, self.progress.step - self.progress.skipped)
        restore_random_state(tensors, self.device)
        self.saved_step = self.progress.step
        self.earlier_seconds = self.progress.seconds
        self.plan = self._plan(self.progress.epoch)

    def run(self) -> Outcome:
        """Train until a limit is reached.

        Raises:
            Interrupted: after Ctrl-C, everything saved.
            TfmError: where the loss stays non-finite.
        """
        self.watcher.started(self._start_report())
        self.meter = Meter(began=time.monotonic())
        self.last_looked_at = self.seconds
        with Interrupt(self.watcher.warned) as interrupt:
            reason = self.ended()
            while reason is None and not interrupt.asked:
                for group in self._groups():
                    self._update(group)
                    at_end = self.progress.batch >= len(self.plan.batches)
                    if at_end:
                        self._next_epoch()
                    if self._look_due(at_end):
                        self._look()
                    reason = self.ended()
                    if reason or interrupt.asked:
                        break
            if interrupt.asked:
                self._save()
                raise Interrupted(f"stopped at step {self.progress.step:,}; saved, continue with --resume")
            if self.saved_step != self.progress.step:
                self._look()
        return Outcome(reason or "", self.progress)

    def _plan(self, epoch: int) -> Plan:
        made = plan(self.train.lengths, self.learning.batch_tokens, self.options.seed, epoch, multiple=self.multiple)
        if not made.batches:
            raise TfmError(
                f"no sentence pair fits into {self.learning.batch_tokens} tokens",
                where="--batch-tokens",
                fix="Raise it.",
            )
        return made

    def _next_epoch(self) -> None:
        self.progress.epoch += 1
        self.progress.batch = 0
        self.plan = self._plan(self.progress.epoch)

    def _groups(self) -> Iterator[list[Batch]]:
        """The rest of this epoch, ``accumulate`` batches at a time, made one ahead in a thread."""
        rest = self.plan.batches[self.progress.batch :]
        size = self.learning.accumulate

        def make(begin: int) -> list[Batch]:
            return [collate(self.train.pairs(indices), self.multiple) for indices in rest[begin : begin + size]]

        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(make, 0)
            for begin in range(0, len(rest), size):
                group = coming.result()
                coming = ahead.submit(make, begin + size)
                yield [batch.to(self.device) for batch in group]

    def _update(self, group: list[Batch]) -> None:
        """One update from the batches of ``group``, weighted by their real target tokens."""
        progress, tokens = self.progress, 0
        for batch in group:
            report = self.family(batch, self.fraction)
            report.sum.backward()
            self.optimizer.collect()
            tokens += report.count
            self.meter.loss += float(report.sum.detach())
            self.meter.nll += float(report.parts.get("nll", report.sum.detach()))
        rate = learning_rate(progress.step + 1, self.fraction, self.learning)
        progress.step += 1
        progress.batch += len(group)
        norm = self.optimizer.update(rate, 1 / max(tokens, 1))
        progress.tokens += tokens
        self.meter.tokens += tokens
        self._check(norm)
        self.watcher.ticked(progress.step, self.epoch, self.fraction)
        if progress.step % self.watching.log_every == 0 and math.isfinite(norm):
            self._log(rate, norm)

    def _check(self, norm: float) -> None:
        if math.isfinite(norm):
            self.broken_in_a_row = 0
            return
        self.progress.skipped += 1
        self.broken_in_a_row += 1
        self.watcher.warned(f"step {self.progress.step:,}: the gradient is not finite; the step was skipped.")
        self.meter = Meter(began=time.monotonic())
        if self.broken_in_a_row >= MAX_BROKEN_STEPS:
            self._save()  # the weights are those of the last sound step
            raise TfmError(
                f"{MAX_BROKEN_STEPS} steps in a row had a gradient that is not finite",
                where=f"step {self.progress.step}",
                fix="Resume with a lower --learning-rate, or --precision float32.",
            )

    def _log(self, rate: float, norm: float) -> None:
        meter, now = self.meter, time.monotonic()
        report = StepReport(
            step=self.progress.step,
            epoch=round(self.epoch, 3),
            loss=meter.loss / max(meter.tokens, 1),
            nll=meter.nll / max(meter.tokens, 1),
            rate=rate,
            norm=norm,
            tokens_per_second=meter.tokens / max(now - meter.began, 1e-9),
            seconds=self.seconds,
            fraction=self.fraction,
        )
        self.watcher.stepped(report)
        self.meter = Meter(began=now)

    # -- validation and saving

    def _look_due(self, epoch_ended: bool) -> bool:
        """Whether it is time to validate and save; once that is known to be dear, it is kept below its share of the time."""
        if self.watching.valid_every and self.validator:
            return self.progress.step % self.watching.valid_every == 0
        since = self.seconds - self.last_looked_at
        cost = self.last_validation.seconds if self.last_validation else 0.0
        worth_it = self.validator is not None and epoch_ended and since >= cost * (1 / VALIDATION_SHARE - 1)
        return worth_it or since > max(LONGEST_WITHOUT_SAVING, cost)

    def _look(self) -> None:
        """Validate, where there is something to validate on, and save."""
        paused = time.monotonic()
        if self.validator is not None:
            self._validate(self.validator)
        self._save()
        self.last_looked_at = self.seconds
        self.meter.began += time.monotonic() - paused

    def _validate(self, validator: Validator) -> None:
        progress, watching = self.progress, self.watching
        report = validator.measure(self.averaged, self.device, progress.step, self.epoch, watching.samples)
        best_by = watching.best_by if report.scores else "loss"
        if progress.best_by != best_by:  # figures of different names are not compared
            progress.best, progress.best_by = None, best_by
        figure = report.figure(best_by)
        is_best = math.isfinite(figure) and (progress.best is None or figure > progress.best)
        report = replace(report, is_best=is_best)
        self.last_validation = report
        if is_best:
            progress.best, progress.best_step, progress.bad_validations = figure, progress.step, 0
            progress.scores = {"loss": report.loss, **report.scores}
        else:
            progress.bad_validations += 1
        self.watcher.validated(report)
        if report.all_equal:
            self.watcher.warned(
                "every validation sentence gets the same translation: the model has not yet learned to read the source. "
                "Early on this is usual; later, lower --learning-rate or lengthen --warmup-steps."
            )

    def _save(self) -> None:
        """A checkpoint; and the model folder, where this is the best model, or the only one yet."""
        progress = self.progress
        if self.saved_step == progress.step:
            return
        progress.seconds = self.seconds
        weights = self.optimizer.weights.named(self.optimizer.average)
        self.model.about |= {
            "steps": progress.step,
            "epochs": round(self.epoch, 2),
            "minutes": round(self.seconds / 60, 1),
        }
        validated = (
            self.last_validation if self.last_validation and self.last_validation.step == progress.step else None
        )
        self.model.about["scores"] = {"loss": validated.loss, **validated.scores} if validated else {}
        tensors = self.optimizer.state() | random_state(self.device)
        self.checkpoints.save(self.model, weights, progress, tensors, self.run_configuration)
        if progress.best_step in (progress.step, 0):
            save_model(self.output, self.model, weights)
        self.saved_step = progress.step

    def _start_report(self) -> StartReport:
        options = self.options
        limits = [
            f"{options.max_minutes:g} minutes" if options.max_minutes else "",
            f"{options.max_steps:,} steps" if options.max_steps else "",
            f"{options.max_epochs} epochs" if options.max_epochs else "",
            f"{self.watching.patience} validations without a better model"
            if self.watching.patience and self.validator
            else "",
        ]
        return StartReport(
            parameters=self.model.parameters,
            pairs=len(self.train),
            left_out=self.plan.left_out,
            batches=len(self.plan.batches),
            device=str(self.device),
            precision=str(self.optimizer.working.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            resumed_at=self.progress.step,
            limits=" or ".join(limit for limit in limits if limit),
            has_end=options.has_end,
        )
