"""What a run saves, and how it is taken up again: by all ranks at once, of which rank 0 alone touches the disk."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tfm_cli.model import save_model
from tfm_cli.training.checkpoint import (
    MAKE_ROOM,
    Checkpoints,
    Progress,
    random_state,
    restore_random_state,
    seed_of_rank,
)
from tfm_cli.training.distributed import World
from tfm_cli.training.learner import Learner
from tfm_cli.training.validation import ValidationReport


class Saver:
    """The checkpoints of one run, the newest ``keep`` and the best, and the model folder ``output``, which has the best model.

    ``run`` is the resolved configuration, kept with every checkpoint.
    """

    def __init__(self, output: Path, keep: int, learner: Learner, world: World, run: dict[str, Any]) -> None:
        self.output, self.learner, self.world, self.run = output, learner, world, run
        self.checkpoints = Checkpoints(output, keep)

    def save(self, progress: Progress, epoch: float, validation: ValidationReport | None) -> None:
        """A checkpoint; and the model folder, where this is the best model, or the only one yet.

        ``validation`` is the last one, which may be of an earlier step.

        Raises:
            TfmError: on rank 0, where the weights are not finite or the disk does not take them.
        """
        states = {
            name if rank == 0 else f"{name}.{rank}": state
            for name, mine in random_state(self.learner.device).items()
            for rank, state in enumerate(self.world.gather(mine))
        }
        if self.world.is_first:
            self._write(progress, epoch, validation, states)
        self.world.share(None)  # nobody leaves before all is written

    def _write(
        self, progress: Progress, epoch: float, validation: ValidationReport | None, states: dict[str, Tensor]
    ) -> None:
        model, weights = self.learner.model, self.learner.weights
        validated = validation if validation and validation.step == progress.step else None
        model.about |= {
            "steps": progress.step,
            "epochs": round(epoch, 2),
            "minutes": round(progress.seconds / 60, 1),
            "scores": {"loss": validated.loss, **validated.scores} if validated else {},
            "signatures": validated.signatures if validated else {},
            "validation_sentences": validated.sentences if validated else 0,
        }
        # The model first: a run that is killed between the two goes on before this step and writes both again.
        if progress.best_step in (progress.step, 0):
            save_model(self.output, model, weights, MAKE_ROOM)
        self.checkpoints.save(model, weights, progress, self.learner.optimizer.state() | states, self.run)

    def restore(self, seed: int, warn: Callable[[str], None]) -> Progress:
        """Put back weights, moments and random states of the newest readable checkpoint; where it stands.

        A rank that there was not when it was saved draws by ``seed``.

        Raises:
            TfmError: there is no checkpoint that can be read.
        """
        state: dict[str, Any] = {}
        tensors: dict[str, Tensor] = {}
        if self.world.is_first:
            newest, tensors, _ = self.checkpoints.newest(warn)
            state = asdict(newest)
        progress = Progress(**self.world.share(state))
        tensors = self.world.share_tensors(tensors)
        self.learner.optimizer.load(tensors, progress.step - progress.skipped)
        if not restore_random_state(tensors, self.learner.device, self.world.rank):
            torch.manual_seed(seed_of_rank(seed + progress.step, self.world.rank))
        return progress
