"""The machine on which something was measured, in words: a speed without it means nothing."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfm_cli.version import VERSION

PACKAGES = ("torch", "ctranslate2")


def machine(device: str, precision: str, threads: int) -> dict[str, str | int]:
    """Processor, device, threads, number type and versions."""
    about: dict[str, str | int] = {
        "processor": processor(),
        "device": device,
        "threads": threads,
        "precision": precision,
        "tfm": VERSION,
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            about[name] = version(name)
        except PackageNotFoundError:
            continue
    return about


def sentence(about: dict[str, str | int]) -> str:
    """`machine` on one line."""
    threads = f"{about['threads']} thread{'s' if about['threads'] != 1 else ''}"
    versions = ", ".join(f"{name} {about[name]}" for name in ("tfm", *PACKAGES, "python") if name in about)
    return f"{about['processor']}; {about['device']}, {about['precision']}, {threads}; {versions}"


def processor() -> str:
    """Its name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named[0] if named else "") or platform.processor() or platform.machine()
