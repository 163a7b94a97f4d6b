"""Which device, float type and number of threads to work with."""

import os

import torch

from tfm_cli.errors import TfmError

DEVICES = ("auto", "cpu", "cuda", "mps")
PRECISIONS = ("auto", "float32", "bfloat16")


def pick_device(name: str) -> torch.device:
    """``auto`` takes CUDA, then MPS, then the CPU.

    Raises:
        TfmError: where a device is named that this machine lacks.
    """
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


def pick_precision(name: str, device: torch.device) -> torch.dtype:
    """``auto`` takes bfloat16 where the hardware multiplies it natively, float32 elsewhere (emulation is slower)."""
    if name == "auto":
        return torch.bfloat16 if has_native_bfloat16(device) else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether ``device`` has bfloat16 matrix units: a GPU from Ampere on, a CPU with AVX512-BF16 or AMX."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device)[0] >= 8
    if device.type == "cpu":
        probes = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
        return any(probe is not None and probe() for probe in probes)
    return False


def set_threads(count: int | None) -> int:
    """Set the CPU threads of torch: ``count``, else OMP_NUM_THREADS, else the cores this process may use. Returns them."""
    if count is None:
        told = os.environ.get("OMP_NUM_THREADS", "")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = int(told) if told.isdigit() and int(told) > 0 else cores
    # Threads inherit this when they start, so it comes first. Adam's moments of rare words decay into denormal numbers, on
    # which a CPU is many times slower.
    torch.set_flush_denormal(True)
    torch.set_num_threads(count)
    return count
