"""Batches on their way from the disk to the device."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch

from tfm_cli.data.batching import Plan, collate, plan
from tfm_cli.data.storage import Split
from tfm_cli.errors import TfmError
from tfm_cli.training.distributed import World
from tfm_cli.transformer.batch import Batch


@dataclass(frozen=True)
class Group:
    """The batches of one update: ``mine`` are this rank's, ``count`` is how many all ranks have."""

    mine: list[Batch]
    count: int


class Feed:
    """The plan of each epoch, and the batches in its order.

    All ranks make the same plan. An update takes ``accumulate`` times as many batches as there are ranks, rank r those at r,
    r + ranks, ...: N ranks learn what one process learns that accumulates N times as many.
    """

    def __init__(
        self,
        split: Split,
        batch_tokens: int,
        accumulate: int,
        seed: int,
        *,
        device: torch.device,
        multiple: int,
        world: World,
    ) -> None:
        self.split, self.batch_tokens, self.seed, self.multiple = split, batch_tokens, seed, multiple
        self.device, self.world = device, world
        self.accumulate = accumulate
        self.plan = self._made(0)

    def begin(self, epoch: int) -> None:
        """Make the plan of ``epoch`` the one that `groups` follows."""
        self.plan = self._made(epoch)

    def _made(self, epoch: int) -> Plan:
        made = plan(self.split.lengths, self.batch_tokens, self.seed, epoch, multiple=self.multiple)
        if not made.batches:
            raise TfmError(
                f"no sentence pair fits into {self.batch_tokens} tokens", where="--batch-tokens", fix="Raise it."
            )
        return made

    def groups(self, done: int) -> Iterator[Group]:
        """The rest of the epoch after ``done`` batches, made one group ahead in a thread."""
        rest = self.plan.batches[done:]
        size = self.accumulate * self.world.size

        def make(begin: int) -> Group:
            batches = rest[begin : begin + size]
            mine = [collate(self.split.pairs(i), self.multiple) for i in batches[self.world.rank :: self.world.size]]
            if self.device.type == "cuda":
                mine = [batch.pin() for batch in mine]
            return Group(mine, len(batches))

        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(make, 0)
            for begin in range(0, len(rest), size):
                group = coming.result()
                coming = ahead.submit(make, begin + size)
                yield Group([batch.to(self.device) for batch in group.mine], group.count)
