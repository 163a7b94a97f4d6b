"""Which device, float type and number of threads to work with."""

import ctypes
import os
import sys

import torch

from tfm_cli.errors import TfmError
from tfm_cli.threads import thread_count

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bfloat16")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of malloc.h


def pick_device(name: str, local_rank: int | None = None) -> torch.device:
    """``auto`` takes CUDA, then MPS, then the CPU. One of several processes on a machine takes the GPU of its ``local_rank``.

    Raises:
        TfmError: where a device is named that this machine lacks.
    """
    device = _named_device(name)
    if local_rank is None or device.type != "cuda":
        return device
    if device.index is not None and device.index != local_rank:
        raise TfmError(
            f"process {local_rank} on this machine takes the GPU of that number, not {device}",
            where="--device",
            fix="Use --device cuda, and CUDA_VISIBLE_DEVICES to choose among GPUs.",
        )
    if local_rank >= (count := torch.cuda.device_count()):
        raise TfmError(
            f"this machine has {count} GPUs, and process {local_rank} (counted from 0) finds none left",
            where="--device",
            fix=f"Start torchrun with --nproc-per-node {count}.",
        )
    return torch.device("cuda", local_rank)


def _named_device(name: str) -> torch.device:
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return torch.device(next(device for device in ("cuda", "mps", "cpu") if there[device]))
    kind = name.split(":")[0]
    if kind not in there:
        raise TfmError(f"no device is called {name!r}", where="--device", fix=f"Choose from {', '.join(DEVICES)}.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise TfmError(
            f"no device is called {name!r}", where="--device", fix="A number may follow, as in cuda:1."
        ) from error
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if not there[kind] or (device.index or 0) >= count:
        raise TfmError(f"this machine has no usable device {name}", where="--device", fix="Use --device auto or cpu.")
    return device


def precision_name(name: str, device: torch.device) -> str:
    """``auto`` is bfloat16 where the hardware multiplies it natively, float32 elsewhere (emulation is slower)."""
    if name == "auto":
        return "bfloat16" if has_native_bfloat16(device) else "float32"
    return name


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """The float type that `precision_name` names."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[precision_name(name, device)]


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether ``device`` has bfloat16 matrix units: a GPU from Ampere on, a CPU with AVX512-BF16 or AMX."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    if device.type == "cpu":
        probes = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
        return any(probe is not None and probe() for probe in probes)
    return False


def cpp_compiler() -> str:
    """The C++ compiler that torch calls where it generates code for a CPU."""
    return os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(sys.platform, "g++")


def complaint(error: Exception) -> str:
    """What Dynamo, Inductor or the compiler has to say, on one line: the compiler's own words where there are any."""
    lines = str(error).strip().split("\n")
    why = next((line.strip() for line in lines if "error:" in line), lines[0])
    return f"{type(error).__name__}: {why}"


def set_threads(count: int | None, processes: int = 1) -> int:
    """Set the CPU threads of torch to `thread_count` of the two. Returns them."""
    count = thread_count(count, processes)
    # Threads inherit this when they start, so it comes first. Adam's moments of rare words decay into denormal numbers, on
    # which a CPU is many times slower.
    torch.set_flush_denormal(True)
    torch.set_num_threads(count)
    _keep_freed_memory()
    return count


def _keep_freed_memory() -> None:
    """Let glibc reuse the arrays of one step in the next: it would give large ones back, and the kernel zero them anew."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library
        return
    mallopt(_M_MMAP_THRESHOLD, 1 << 30)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
