"""How much memory there is, and what to do where it does not suffice."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# How allocators say it: torch on a GPU, cuBLAS, torch on a CPU, MPS.
_COMPLAINTS = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "can't allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on whatever device."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(complaint in str(error) for complaint in _COMPLAINTS)


class Gauge:
    """What is free at the time it is made, and how much further the use of memory then rises."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.free = _free_on_gpu(device) if device.type == "cuda" else free_memory() if device.type == "cpu" else None
        """Bytes; None where it cannot be told: beside CUDA only Linux does."""
        self._base = 0
        if self.free is not None:
            self._base = self._used()
            self._forget_peak()

    def peak(self, act: Callable[[], None]) -> int:
        """Bytes by which the use of memory rises during ``act`` over what it was when the gauge was made."""
        self._forget_peak()
        act()
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device) - self._base
        return _of_process("VmHWM") - self._base

    def _used(self) -> int:
        return torch.cuda.memory_allocated(self.device) if self.device.type == "cuda" else _of_process("VmRSS")

    def _forget_peak(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return
        try:
            (PROC / "self" / "clear_refs").write_text("5")
        except OSError:  # a kernel without it
            self.free = None


def free_memory() -> int | None:
    """Bytes that this process may still take: of the machine's, and of the container's or job's; None where Linux is not."""
    try:
        lines = (PROC / "meminfo").read_text().splitlines()
        machine = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    return min([machine, *_left_in_groups()])


def _left_in_groups() -> Iterator[int]:
    """What each control group of this process, of either version, and each group around it still grants."""
    try:
        lines = (PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":
            root, limit, usage = CGROUPS, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit, usage = CGROUPS / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        # In a container the name may be one outside of it; what holds for it then stands at the root.
        group = root / name.strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(root) and (left := _left(folder, limit, usage)) is not None:
                yield left


def _left(folder: Path, limit: str, usage: str) -> int | None:
    try:
        granted, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    if not granted.isdigit():  # "max"
        return None
    # Files read a while ago count as used and are given up when there is need.
    reclaimable = int(stat.get("total_inactive_file", stat.get("inactive_file", 0)))
    return max(0, int(granted) - used + reclaimable)


def _free_on_gpu(device: torch.device) -> int:
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + unused


def _of_process(name: str) -> int:
    for line in (PROC / "self" / "status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
