"""`tfm train`: the screen of a run."""

import time
from contextlib import ExitStack
from dataclasses import fields, replace
from typing import TYPE_CHECKING, TypeVar

from tfm_cli.cli.families import refuse_others, refuse_unused_weight
from tfm_cli.cli.render import Meter, Screen
from tfm_cli.config import Settings
from tfm_cli.data.dataset import DataFolder
from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry
from tfm_cli.nonautoregressive.options import NonAutoregressiveOptions
from tfm_cli.recipes import recipe
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.transformer.shape import Shape

T = TypeVar("T")

if TYPE_CHECKING:
    from tfm_cli.training.distributed import World
    from tfm_cli.training.trainer import Outcome
    from tfm_cli.training.validation import ValidationReport
    from tfm_cli.training.watching import StartReport, StepReport


def run(settings: Settings, screen: Screen) -> None:
    """Train, and say what came of it."""
    began = time.monotonic()
    from tfm_cli.training.distributed import joined
    from tfm_cli.training.setup import Sitting, prepare

    _refuse_contradictions(settings)
    with joined(settings[RunOptions].device) as world:
        options, learning, validation, shape, nonautoregressive = _sections(settings, world, screen)
        refuse_others(settings, options.family, family_entry(options.family).obeys)
        refuse_unused_weight(settings, options.family, nonautoregressive.length)
        sitting = Sitting([ScreenWatcher(screen)], began, world, settings.typed())
        trainer = prepare(options, learning, validation, shape, nonautoregressive, sitting)
        if world.is_first and not trainer.progress.step:
            _tell_recipe(settings, screen)
        if world.is_first and not trainer.progress.step and (start := trainer.model.about.get("initialised_from")):
            screen.say(f"Starting from {start}.")
        try:
            outcome = trainer.run()
        finally:
            trainer.watcher.closed()
    if world.is_first:
        _close(outcome, options, screen)


def _refuse_contradictions(settings: Settings) -> None:
    """What is typed beside --resume is meant; in a project file it may stand there for the run's beginning."""
    typed = set(settings.typed())
    if "resume" not in typed:
        return
    for name, reason in (
        ("overwrite", "a run is continued or deleted, not both"),
        ("init_from", "a run that is continued starts from its own weights"),
    ):
        if name in typed:
            raise TfmError(reason, where=settings.place(name), fix="Leave out it or --resume.")


def _tell_recipe(settings: Settings, screen: Screen) -> None:
    """What ``--preset`` picked, and what the user's own options keep from it."""
    pairs = DataFolder.load(settings[RunOptions].data).pairs
    picked = recipe(pairs, settings[LearningOptions].optimizer, settings[RunOptions].preset)
    given = settings.given(Shape, LearningOptions)
    own = [name.replace("_", "-") for name in given if name in picked.values]
    kept = f" Yours stay: {', '.join(own)}." if own else ""
    screen.say(f"Recipe for {pairs:,} pairs: {picked}.{kept}")


def _sections(
    settings: Settings, world: "World", screen: Screen
) -> tuple[RunOptions, LearningOptions, ValidationOptions, Shape, NonAutoregressiveOptions]:
    """The options; where a run is resumed, what is not given is as it was, and so is what was once typed and is not now."""
    from tfm_cli.training.standing import TYPED, saved_options

    run, learning, validation = settings[RunOptions], settings[LearningOptions], settings[ValidationOptions]
    sections = run, learning, validation, settings[Shape], settings[NonAutoregressiveOptions]
    if not run.resume:
        return sections
    saved = world.share(saved_options(run.output) if world.is_first else {})
    kept = {name: value for name, value in saved.items() if settings.origin(name) in ("default", "preset")}
    written = settings.as_dict()
    for name in saved.get(TYPED, ()):
        if settings.origin(name) == "file" and name in saved:
            kept[name], option = saved[name], name.replace("_", "-")
            if world.is_first and written[option] != saved[name]:
                place = settings.place(name)
                screen.say(
                    f"--{option} stays {saved[name]}, as it was typed; {place} ({written[option]}) gives way to it."
                )

    def as_it_was(section: T) -> T:
        return replace(section, **{f.name: kept[f.name] for f in fields(section) if f.name in kept})  # type: ignore[type-var, arg-type]

    run, learning, validation, shape, nonautoregressive = sections
    return (
        as_it_was(run),
        as_it_was(learning),
        as_it_was(validation),
        as_it_was(shape),
        as_it_was(nonautoregressive),
    )


def _close(outcome: "Outcome", options: RunOptions, screen: Screen) -> None:
    progress = outcome.progress
    screen.say(
        f"Done after {outcome.reason}: {progress.tokens:,} target tokens in {progress.seconds / 60:.1f} minutes."
    )
    if progress.halved:
        screen.warn(
            f"memory did not suffice for {progress.halved:,} batches, which were learnt in halves"
            + (f", and for {progress.unfit:,} sentence pairs, which were left out" if progress.unfit else "")
            + ". A smaller --batch-tokens needs less."
        )
    if progress.scores:
        scores = ", ".join(f"{name} {value:.2f}" for name, value in progress.scores.items())
        screen.say(f"Best model: step {progress.best_step:,}, validation {scores}.")
    screen.say(f"Model folder: {options.output}")
    screen.next_step(f"tfm translate --model {options.output} < input.txt")


class ScreenWatcher:
    """Shows a run: a bar that moves with every update, a line now and then, a block per validation."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.before = 0
        self._open = ExitStack()
        self._meter: Meter | None = None

    def started(self, report: "StartReport") -> None:
        screen = self.screen
        screen.say(
            f"{report.parameters:,} parameters; {report.pairs:,} pairs in {report.batches:,} batches an epoch; "
            f"{report.device}, {report.precision}, {report.threads} threads"
            + (f" in each of {report.processes} processes." if report.processes > 1 else ".")
        )
        for note in report.notes:
            screen.say(note)
        if report.left_out:
            screen.warn(f"{report.left_out:,} pairs are longer than a batch (--batch-tokens) and are left out.")
        if report.resumed_at:
            screen.say(f"Going on from step {report.resumed_at:,}.")
        screen.say(
            f"Ends after {report.limits}." if report.limits else "Ends when you stop it: Ctrl-C saves and stops."
        )
        self.before = report.resumed_at
        if screen.is_terminal:  # in a log the step lines say the same
            total = 1 if report.has_end else None
            self._meter = self._open.enter_context(screen.progress("Training", total=total, unit="steps"))

    def ticked(self, step: int, epoch: float, fraction: float) -> None:
        if self._meter is not None:
            # Where the clock is the limit, the number of steps is what the pace so far promises.
            total = max(step, round(step / fraction)) if fraction else None
            self._meter.reach(step, total, f"epoch {epoch:.1f}", self.before)

    def stepped(self, report: "StepReport") -> None:
        left = ""
        if 0 < report.fraction < 1:
            left = f"  {report.seconds * (1 - report.fraction) / report.fraction / 60:.0f} min left"
        self.screen.say(
            f"step {report.step:>6,}  epoch {report.epoch:6.2f}  loss {report.loss:6.3f}  nll {report.nll:6.3f}  "
            f"rate {report.rate:.2e}  {report.tokens_per_second:>7,.0f} tokens/s{left}",
            style="dim",
        )

    def validated(self, report: "ValidationReport") -> None:
        scores = "  ".join(f"{name} {value:.2f}" for name, value in report.scores.items())
        best = "  best so far" if report.is_best else ""
        unusable = f" ({report.unusable:,} pairs do not fit)" if report.unusable else ""
        self.screen.say(
            f"validation at step {report.step:,} (epoch {report.epoch:.2f}): nll {report.loss:.3f}{unusable}  {scores}{best}",
            style="bold",
        )
        for sample in report.samples:
            self.screen.say(f"  source      {sample.source}")
            self.screen.say(f"  reference   {sample.reference}")
            self.screen.say(f"  hypothesis  {sample.hypothesis}")

    def warned(self, message: str) -> None:
        self.screen.warn(message)

    def closed(self) -> None:
        self._open.close()
