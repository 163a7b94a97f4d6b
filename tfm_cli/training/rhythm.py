"""How often a run looks at itself and saves."""

from dataclasses import dataclass

from tfm_cli.training.limits import Limits

VALIDATION_SHARE = 0.05
LONGEST_WITHOUT_SAVING = 15 * 60.0  # seconds


@dataclass
class Rhythm:
    """When to validate and save, by seconds of training.

    ``every`` is in updates, 0 for once an epoch; ``validates`` says whether there is anything to validate on. A validation that
    took ``cost`` seconds is repeated only so often that it stays below its share of the time.
    """

    limits: Limits
    every: int
    validates: bool
    cost: float = 0.0
    looked_at: float = 0.0
    saved_at: float = 0.0

    @property
    def closing(self) -> float:
        """Seconds that are kept free for the closing validation, which belongs to the run's minutes."""
        return 1.1 * self.cost

    def look_due(self, step: int, epoch_ended: bool, seconds: float) -> bool:
        """Whether it is time to validate and save."""
        if self.limits.seconds_left(seconds + self.cost) < self.closing:
            return False  # no time would be left to train and look once more: the closing look does it
        if self.every and self.validates:
            return step % self.every == 0
        since = seconds - self.looked_at
        worth_it = self.validates and epoch_ended and since >= self.cost * (1 / VALIDATION_SHARE - 1)
        return worth_it or since > max(LONGEST_WITHOUT_SAVING, self.cost)

    def save_due(self, seconds: float) -> bool:
        """Whether a look is too far off to wait with saving."""
        return seconds - max(self.looked_at, self.saved_at) > LONGEST_WITHOUT_SAVING
