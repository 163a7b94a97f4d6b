"""Several processes that train one model: who they are, and what they tell each other.

`World` is a process alone, which has nobody to tell. `Ranks` are the processes that torchrun, or whatever sets the same
environment variables, has started; rank 0 speaks, validates and writes for all.
"""

import atexit
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar
from uuid import uuid4

import torch
import torch.distributed as dist
from torch import Tensor

from tfm_cli.device import pick_device
from tfm_cli.errors import Interrupted, TfmError

T = TypeVar("T")
LAUNCHED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
FOR_MEETING = timedelta(minutes=15)  # machines start at different times
FOR_PARTING = 20.0  # seconds
FOR_RANK_0 = timedelta(
    hours=3
)  # which validates and saves while the others wait; a death is noticed at once all the same


class World:
    """One process alone."""

    rank, size = 0, 1
    local_rank: int | None = None  # the number on this machine, by which a GPU is picked; None: nobody to share it with
    local_size = 1

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    @property
    def is_launched(self) -> bool:
        """Whether a launcher watches over this process, as it does over one of several."""
        return self.local_rank is not None

    def add_up(self, tensor: Tensor) -> None:
        """Replace ``tensor``, on any device, by its sum over all ranks: bit by bit the same everywhere."""

    def exchange(self, figures: Sequence[float]) -> list[float]:
        """The sum of each figure over all ranks, in float64; no GPU is waited for."""
        return list(figures)

    def least(self, number: int) -> int:
        """The smallest of the ranks' numbers."""
        return number

    def share(self, value: T) -> T:
        """Rank 0's value, which JSON can write; the others wait for it, as long as rank 0 takes."""
        return value

    def spread(self, tensor: Tensor) -> None:
        """Replace ``tensor``, contiguous on the CPU, by rank 0's."""

    def share_tensors(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Rank 0's tensors, on the CPU."""
        return tensors

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all ranks in their order, each of the same shape and type; on the CPU."""
        return [tensor]

    def has_begun(self, output: str) -> bool:
        """Whether this job has itself begun the run in the folder ``output``: then it has been started again."""
        return False

    def begins(self, output: str) -> None:
        """Remember that for the next start."""

    def give_up(self) -> None:
        """End this process at once, from any thread, after `SIGTERM`."""


class Ranks(World):
    """The processes of a launcher, by the variables that it set.

    ``store`` is the launcher's table of keys and values. It outlives a restart, and with it what the processes before have
    written there: so each start of the group agrees on a name of its own, under which its keys stand.
    """

    def __init__(self) -> None:
        env = os.environ
        self.rank, self.size = int(env["RANK"]), int(env["WORLD_SIZE"])
        self.local_rank = int(env.get("LOCAL_RANK", 0))
        self.local_size = int(env.get("LOCAL_WORLD_SIZE", 1))
        hosts_it = env.get("TORCHELASTIC_USE_AGENT_STORE") != "True" and self.rank == 0
        self._job = dist.TCPStore(  # type: ignore[attr-defined]
            env["MASTER_ADDR"],
            int(env["MASTER_PORT"]),
            is_master=hosts_it,
            timeout=FOR_MEETING,
            wait_for_workers=False,
        )
        self._store = dist.PrefixStore(f"tfm/{self._meet()}", self._job)  # type: ignore[attr-defined]

    def _meet(self) -> str:
        """A name for this start of the group that no earlier one had, the same on all ranks.

        Each calls rank 0 by a fresh name and waits to be answered under it; whoever called before and died answers no more.
        """
        job, deadline = self._job, time.monotonic() + FOR_MEETING.total_seconds()
        mine = uuid4().hex
        if self.rank > 0:
            job.set(f"tfm/call/{self.rank}", mine)
            job.wait([f"tfm/answer/{mine}"], FOR_MEETING)
            name = str(job.get(f"tfm/answer/{mine}").decode())
            job.set(f"tfm/{name}/here/{self.rank}", "")
            return name
        missing = set(range(1, self.size))
        while missing:
            for rank in missing:
                if job.check([f"tfm/call/{rank}"]):
                    job.set(f"tfm/answer/{job.get(f'tfm/call/{rank}').decode()}", mine)
            missing = {rank for rank in missing if not job.check([f"tfm/{mine}/here/{rank}"])}
            if time.monotonic() > deadline:
                raise TfmError(
                    f"of {self.size} processes {len(missing)} have not come within {FOR_MEETING}",
                    fix="Start torchrun on every machine, with the same --nnodes and --rdzv-endpoint.",
                )
            time.sleep(0.02)
        return mine

    def connect(self, device: str) -> None:
        """Join the group that adds up gradients (NCCL between GPUs, gloo between CPUs) and the one that waits for rank 0."""
        place = pick_device(device, self.local_rank)
        if place.type not in ("cpu", "cuda"):
            raise TfmError(
                f"several processes cannot share the device {place.type}",
                where="--device",
                fix="Use cpu, or train in one process.",
            )
        about: dict[str, Any] = {"store": self._store, "rank": self.rank, "world_size": self.size}
        if place.type == "cuda":
            torch.cuda.set_device(place)
            dist.init_process_group("nccl", device_id=place, **about)
        else:
            dist.init_process_group("gloo", timeout=FOR_RANK_0, **about)
        self._control = dist.new_group(backend="gloo", timeout=FOR_RANK_0)

    def add_up(self, tensor: Tensor) -> None:
        with self._together():
            dist.all_reduce(tensor)

    def exchange(self, figures: Sequence[float]) -> list[float]:
        sums = torch.tensor(figures, dtype=torch.float64)
        with self._together():
            dist.all_reduce(sums, group=self._control)
        return [float(figure) for figure in sums]

    def least(self, number: int) -> int:
        smallest = torch.tensor(number)
        with self._together():
            dist.all_reduce(smallest, dist.ReduceOp.MIN, group=self._control)
        return int(smallest)

    def share(self, value: T) -> T:
        text = torch.tensor(list(json.dumps(value).encode()) if self.is_first else [], dtype=torch.uint8)
        length = torch.tensor(len(text))
        self.spread(length)
        if not self.is_first:
            text = torch.empty(int(length), dtype=torch.uint8)
        self.spread(text)
        told: T = json.loads(bytes(text.tolist()))
        return told

    def spread(self, tensor: Tensor) -> None:
        with self._together():
            dist.broadcast(tensor, 0, group=self._control)

    def share_tensors(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        about = {name: (list(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()}
        about = self.share(about)
        shared = {}
        for name, (shape, dtype) in about.items():
            tensor = (
                tensors[name].cpu().contiguous() if self.is_first else torch.empty(shape, dtype=getattr(torch, dtype))
            )
            self.spread(tensor)
            shared[name] = tensor
        return shared

    def gather(self, tensor: Tensor) -> list[Tensor]:
        mine = tensor.cpu().contiguous()
        everyone = [torch.empty_like(mine) for _ in range(self.size)]
        with self._together():
            dist.all_gather(everyone, mine, group=self._control)
        return everyone

    @contextmanager
    def _together(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # torch has no other class for a peer that is gone
            raise TfmError(
                "another process of this run has ended or cannot be reached",
                where=f"rank {self.rank}",
                fix="What it last said stands above; --resume goes on from the last checkpoint.",
            ) from error

    def has_begun(self, output: str) -> bool:
        return bool(self._job.check([f"tfm/begun/{output}"]))

    def begins(self, output: str) -> None:
        self._job.set(f"tfm/begun/{output}", "")

    def speaks(self) -> bool:
        """Whether this rank is the first to tell why all end; the others then say nothing."""
        try:
            return int(self._store.add("told", 1)) == 1
        except RuntimeError:  # the launcher itself is gone
            return True

    def give_up(self) -> None:
        if self.speaks():
            sys.stderr.write(
                "error: the launcher has ended this run (SIGTERM), mostly because another process died. "
                "--resume goes on from the last checkpoint.\n"
            )
            sys.stderr.flush()
        os._exit(1)

    def leave(self) -> None:
        """Wait until nobody is in the middle of anything; rank 0, which may keep the store, goes last."""
        with suppress(RuntimeError):  # whoever kept the store has gone: then all are done
            self._store.add("done", 1)
            self._await("done", self.size)
            if self.rank:
                self._store.add("gone", 1)
            else:
                self._await("gone", self.size - 1)

    def _await(self, key: str, count: int) -> None:
        deadline = time.monotonic() + FOR_PARTING
        while self._store.add(key, 0) < count and time.monotonic() < deadline:
            time.sleep(0.02)


@contextmanager
def joined(device: str) -> Iterator[World]:
    """The world of this process: its launcher's, or none. Of all that fails on several ranks, one message comes out."""
    if not all(os.environ.get(name) for name in LAUNCHED):
        yield World()
        return
    ranks = Ranks()
    try:
        ranks.connect(device)
        yield ranks
    except BaseException as error:
        _end_at_once(_exit_code(error))
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher is about to send it; the message comes first
        if not ranks.speaks():
            os._exit(_exit_code(error))
        if isinstance(error, TfmError) and ranks.rank and not error.where.startswith("rank "):
            where = f"rank {ranks.rank}" + (f", {error.where}" if error.where else "")
            raise TfmError(error.what, where=where, fix=error.fix) from error
        raise
    ranks.leave()
    _end_at_once(0)


def _end_at_once(code: int) -> None:
    """Let the interpreter, when it ends, not take the groups apart: gloo then hangs or aborts now and then, destroyed or not."""

    def end() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    atexit.register(end)


def _exit_code(error: BaseException) -> int:
    if isinstance(error, Interrupted | KeyboardInterrupt):
        return 130
    return 2 if isinstance(error, TfmError) else 1
