"""The machine on which something was measured, in words: a speed without it means nothing."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tfm_cli.engines.engine import Setup
from tfm_cli.version import VERSION

PACKAGES = ("torch", "ctranslate2")


def machine(alone: Sequence[Setup], together: Sequence[Setup]) -> dict[str, str | int]:
    """Processor, device, threads, number type and versions; the setups are those for one sentence and for many."""
    every = (*alone, *together)
    about: dict[str, str | int] = {
        "processor": processor(),
        "device": " and ".join(sorted({each.device for each in every})),
        "threads": max(each.workers * each.threads for each in every),
        "alone": _shares(alone),
        "together": _shares(together),
        "precision": " and ".join(sorted({each.precision for each in every})),
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
    threads = f"{about['alone']} threads alone, {about['together']} in batches"
    versions = ", ".join(f"{name} {about[name]}" for name in ("tfm", *PACKAGES, "python") if name in about)
    return f"{about['processor']}; {about['device']}, {about['precision']}, {threads}; {versions}"


def _shares(setups: Sequence[Setup]) -> str:
    """Batches at once x threads of each, by the engine where engines differ in it."""
    shares = {each.engine: f"{each.workers} x {each.threads}" for each in setups}
    if len(set(shares.values())) == 1:
        return next(iter(shares.values()))
    return ", ".join(f"{engine} {share}" for engine, share in shares.items())


def processor() -> str:
    """Its name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return (named[0] if named else "") or platform.processor() or platform.machine()
