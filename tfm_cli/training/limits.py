"""When a run ends."""

from dataclasses import dataclass

from tfm_cli.training.checkpoint import Progress
from tfm_cli.training.options import RunOptions


@dataclass(frozen=True)
class Limits:
    """The limits of a run by steps, epochs and the clock, and by validations without a better model (0: none)."""

    options: RunOptions
    patience: int

    def fraction(self, progress: Progress, epoch: float, seconds: float) -> float:
        """The share of the run that has passed, by whichever limit is nearest; 0 without a limit."""
        options, shares = self.options, [0.0]
        if options.max_steps:
            shares.append(progress.step / options.max_steps)
        if options.max_epochs:
            shares.append(epoch / options.max_epochs)
        if options.max_minutes:
            shares.append(seconds / (60 * options.max_minutes))
        return min(1.0, max(shares))

    def reason(self, progress: Progress, seconds: float) -> str | None:
        """Why the run is over, or None."""
        options = self.options
        if options.max_steps and progress.step >= options.max_steps:
            return f"{progress.step:,} steps"
        if options.max_epochs and progress.epoch >= options.max_epochs:
            return f"{progress.epoch} epochs"
        if options.max_minutes and seconds >= 60 * options.max_minutes:
            return f"{options.max_minutes:g} minutes"
        if self.patience and progress.bad_validations >= self.patience:
            return f"no better model in {self.patience} validations"
        return None

    def seconds_left(self, seconds: float) -> float:
        """By the clock; without end where it sets no limit."""
        return 60 * self.options.max_minutes - seconds if self.options.max_minutes else float("inf")

    def __str__(self) -> str:
        options = self.options
        limits = [
            f"{options.max_minutes:g} minutes" if options.max_minutes else "",
            f"{options.max_steps:,} steps" if options.max_steps else "",
            f"{options.max_epochs} epochs" if options.max_epochs else "",
            f"{self.patience} validations without a better model" if self.patience else "",
        ]
        return " or ".join(limit for limit in limits if limit)
