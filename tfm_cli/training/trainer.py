"""The training loop: batches in, updates, validations and checkpoints out. It knows no family, only `Learner.learn`."""

import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tfm_cli.errors import Interrupted, TfmError
from tfm_cli.training.checkpoint import Progress
from tfm_cli.training.feeding import Feed, Group
from tfm_cli.training.interrupt import Interrupt
from tfm_cli.training.learner import Learner
from tfm_cli.training.limits import Limits
from tfm_cli.training.meter import Meter
from tfm_cli.training.optim import learning_rate
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.training.rhythm import Rhythm
from tfm_cli.training.saving import Saver
from tfm_cli.training.validation import ValidationReport, Validator
from tfm_cli.training.watching import StartReport, StepReport, Watcher

MAX_BROKEN_STEPS = 10


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    reason: str
    progress: Progress


class Trainer:
    """One run over one data set, or one rank of it: all ranks go through the same steps, and only rank 0 looks and writes.

    ``run`` is the resolved configuration, kept with every checkpoint; ``began`` is the moment on `time.monotonic` from which
    ``max_minutes`` counts; ``notes`` are told at the start. ``seconds`` is what rank 0's clock said after the last step, so
    that all ranks decide alike.
    """

    def __init__(
        self,
        learner: Learner,
        feed: Feed,
        validator: Validator | None,
        options: tuple[RunOptions, LearningOptions, ValidationOptions],
        *,
        run: dict[str, Any],
        watcher: Watcher,
        began: float | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.options, self.learning, self.watching = options
        self.learner, self.feed, self.world, self.validator = learner, feed, feed.world, validator
        self.model, self.family, self.optimizer = learner.model, learner.family, learner.optimizer
        self.watcher, self.notes = watcher, notes
        self.began = time.monotonic() if began is None else began
        self.limits = Limits(self.options, self.watching.patience)
        self.saver = Saver(Path(self.options.output), self.watching.keep, learner, self.world, run)
        self.progress = Progress()
        self.earlier_seconds = self.seconds = 0.0
        self.meter = Meter(learner.device)
        self.last_validation: ValidationReport | None = None
        self.rhythm = Rhythm(self.limits, self.watching.valid_every, validator is not None)
        self.saved_step = -1
        self.broken_in_a_row = 0
        self.stopping = False

    # -- where the run stands

    @property
    def clock(self) -> float:
        """Seconds of training by this process's clock, sittings added up."""
        return self.earlier_seconds + time.monotonic() - self.began

    @property
    def epoch(self) -> float:
        return self.progress.epoch + self.progress.batch / max(1, len(self.feed.plan.batches))

    @property
    def fraction(self) -> float:
        """The share of the run that has passed, by whichever limit is nearest; 0 without a limit."""
        return self.limits.fraction(self.progress, self.epoch, self.seconds + self.rhythm.closing)

    def ended(self) -> str | None:
        """Why the run is over, or None."""
        return self.limits.reason(self.progress, self.seconds + self.rhythm.closing)

    # -- the loop

    def resume(self) -> None:
        """Take up the newest readable checkpoint."""
        self.progress = self.saver.restore(self.options.seed, self.watcher.warned)
        self.saved_step = self.progress.step
        self.earlier_seconds = self.progress.seconds
        self._take_up_epoch()

    def _take_up_epoch(self) -> None:
        """Go on in the epoch's plan; a plan of other batches than those that are done begins at its beginning."""
        progress, plan = self.progress, (self.feed.batch_tokens, self.feed.multiple)
        self.feed.begin(progress.epoch)
        if progress.batch and (progress.batch_tokens, progress.multiple) != plan:
            self.watcher.warned(f"the batches are others than before, so epoch {progress.epoch} starts anew.")
            progress.batch = 0

    def run(self) -> Outcome:
        """Train until a limit is reached.

        Raises:
            Interrupted: after Ctrl-C, everything saved.
            TfmError: where the loss stays non-finite.
        """
        self.watcher.started(self._start_report())
        self.meter.reset()
        self._agree_on_time()
        self.rhythm.cost = self.progress.validation_seconds
        self.rhythm.looked_at = self.rhythm.saved_at = self.seconds
        with Interrupt(self.watcher.warned, self.world.give_up if self.world.is_launched else None) as interrupt:
            reason = self.ended()
            while reason is None and not self.stopping:
                for group in self.feed.groups(self.progress.batch):
                    self._update(group, interrupt)
                    at_end = self.progress.batch >= len(self.feed.plan.batches)
                    if at_end:
                        self._next_epoch()
                    if self.rhythm.look_due(self.progress.step, at_end, self.seconds):
                        self._look()
                    elif self.rhythm.save_due(self.seconds):
                        self._save()
                    reason = self.ended()
                    if self.world.size == 1:  # among several it is told with the next update
                        self.stopping = interrupt.asked
                    if reason or self.stopping:
                        break
            if self.stopping:
                self._save()
                raise Interrupted(f"stopped at step {self.progress.step:,}; saved, continue with --resume")
            if self.progress.looked_step != self.progress.step:
                self._look()
        return Outcome(reason or "", self.progress)

    def _next_epoch(self) -> None:
        self.progress.epoch += 1
        self.progress.batch = 0
        self.feed.begin(self.progress.epoch)

    def _update(self, group: Group, interrupt: Interrupt) -> None:
        """One update from the batches of all ranks, weighted by their real target tokens."""
        progress, learner = self.progress, self.learner
        tokens, halved, unfit = 0, learner.halved, learner.unfit
        for batch in group.mine:
            report = learner.learn(batch, self.fraction)
            self.meter.add(report)
            tokens += report.count
        mine = (tokens, interrupt.asked, learner.halved - halved, learner.unfit - unfit)
        *told, self.seconds = self.world.exchange((*mine, self.clock if self.world.is_first else 0.0))
        tokens, asked, halved, unfit = map(int, told)
        rate = learning_rate(progress.step + 1, self.fraction, self.learning)
        progress.step += 1
        progress.batch += group.count
        norm = learner.update(rate, tokens, self.world)
        progress.tokens += tokens
        self.meter.tokens += tokens
        self.stopping = asked > 0
        self._tell_of_memory(halved, unfit)
        self._check(norm)
        self.watcher.ticked(progress.step, self.epoch, self.fraction)
        if progress.step % self.watching.log_every == 0 and math.isfinite(norm):
            self._log(rate, norm)

    def _tell_of_memory(self, halved: int, unfit: int) -> None:
        progress, advice = self.progress, "A smaller --batch-tokens, with --accumulate to make up for it, is faster."
        if halved and not progress.halved:
            self.watcher.warned(f"memory did not suffice for a batch: such batches are learnt in halves. {advice}")
        if unfit and not progress.unfit:
            self.watcher.warned("memory does not suffice for a single sentence pair: such pairs are left out.")
        progress.halved += halved
        progress.unfit += unfit

    def _check(self, norm: float) -> None:
        if math.isfinite(norm):
            self.broken_in_a_row = 0
            return
        self.progress.skipped += 1
        self.broken_in_a_row += 1
        self.watcher.warned(f"step {self.progress.step:,}: the gradient is not finite; the step was skipped.")
        self.meter.reset()
        if self.broken_in_a_row >= MAX_BROKEN_STEPS:
            self._save()  # the weights are those of the last sound step
            raise TfmError(
                f"{MAX_BROKEN_STEPS} steps in a row had a gradient that is not finite",
                where=f"step {self.progress.step}",
                fix="Resume with a lower --learning-rate, or --precision float32.",
            )

    def _log(self, rate: float, norm: float) -> None:
        loss, nll, speed = self.meter.read(self.world)
        report = StepReport(
            step=self.progress.step,
            epoch=round(self.epoch, 3),
            loss=loss,
            nll=nll,
            rate=rate,
            norm=norm,
            tokens_per_second=speed,
            seconds=self.seconds,
            fraction=self.fraction,
        )
        self.watcher.stepped(report)

    # -- validation and saving

    def _look(self) -> None:
        """Validate, where there is something to validate on, and save; the other ranks wait, and learn what came of it."""
        paused = time.monotonic()
        if self.validator is not None and self.world.is_first:
            self._validate(self.validator)
        self.progress.looked_step = self.progress.step
        self.progress = Progress(**self.world.share(asdict(self.progress)))
        self.rhythm.cost = self.progress.validation_seconds
        self.saved_step = -1  # what was saved of this step did not know of the look
        self._save()
        self._agree_on_time()
        self.rhythm.looked_at = self.seconds
        self.meter.pause(time.monotonic() - paused)

    def _agree_on_time(self) -> None:
        self.seconds = self.world.share(self.clock)

    def _validate(self, validator: Validator) -> None:
        progress, watching = self.progress, self.watching
        report = validator.measure(
            self.learner.averaged, self.learner.device, progress.step, self.epoch, watching.samples
        )
        report = replace(report, is_best=progress.judge(report, watching.best_by))
        self.last_validation, progress.validation_seconds = report, report.seconds
        self.watcher.validated(report)
        if report.all_equal:
            self.watcher.warned(
                "every validation sentence gets the same translation: the model has not yet learned to read the source. "
                "Early on this is usual; later, lower --learning-rate or lengthen --warmup-steps."
            )

    def _save(self) -> None:
        """Once a step, and once more after the look at it."""
        progress = self.progress
        if self.saved_step == progress.step:
            return
        progress.seconds = self.clock
        progress.batch_tokens, progress.multiple = self.feed.batch_tokens, self.feed.multiple
        self.saver.save(progress, self.epoch, self.last_validation)
        self.saved_step, self.rhythm.saved_at = progress.step, self.seconds

    def _start_report(self) -> StartReport:
        return StartReport(
            parameters=self.model.parameters,
            pairs=len(self.feed.split),
            left_out=self.feed.plan.left_out,
            batches=len(self.feed.plan.batches),
            device=str(self.learner.device),
            precision=str(self.learner.dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
            processes=self.world.size,
            batch_tokens=self.feed.batch_tokens,
            resumed_at=self.progress.step,
            limits=str(self.limits if self.validator else replace(self.limits, patience=0)),
            has_end=self.options.has_end,
            notes=self.notes,
        )
