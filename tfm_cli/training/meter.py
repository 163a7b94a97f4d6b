"""The sums behind a log line."""

import time

import torch

from tfm_cli.training.distributed import World
from tfm_cli.transformer.batch import LossReport


class Meter:
    """What has been learnt since the last log line. Losses are added up on their device, so that no step waits for them."""

    def __init__(self, device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        self._sums = torch.zeros(2, dtype=exact, device=device)
        self.tokens = 0
        self._began = time.monotonic()

    def add(self, report: LossReport) -> None:
        """The loss and the negative log-likelihood of one micro-batch of this rank."""
        self._sums += torch.stack((report.sum, report.parts.get("nll", report.sum))).detach()

    def pause(self, seconds: float) -> None:
        """Leave out time that went elsewhere."""
        self._began += seconds

    def reset(self) -> None:
        self._sums.zero_()
        self.tokens, self._began = 0, time.monotonic()

    def read(self, world: World) -> tuple[float, float, float]:
        """Loss and nll of all ranks per token, and tokens per second; ``tokens`` are those of all ranks. Then from zero again."""
        world.add_up(self._sums)
        loss, nll = self._sums.tolist()
        tokens, seconds = self.tokens, time.monotonic() - self._began
        self.reset()
        return loss / max(tokens, 1), nll / max(tokens, 1), tokens / max(seconds, 1e-9)
