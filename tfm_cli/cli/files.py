"""Writing a small file whole or not at all, and never over what is read."""

from collections.abc import Iterable
from pathlib import Path

from tfm_cli.errors import TfmError


def check_no_input(output: str | Path, inputs: Iterable[str | None]) -> None:
    """Raise a `TfmError` where ``output`` is one of the files in ``inputs``, by whatever path."""
    output = Path(output)
    for path in inputs:
        if path and output.exists() and Path(path).exists() and output.samefile(path):
            raise TfmError("the output would overwrite an input", where=f"--output {output}", fix="Name another file.")


def write_whole(path: str | Path, text: str) -> None:
    """Write UTF-8 text beside ``path`` first and move it there, so that no half file is ever seen."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    try:
        fresh.write_text(text, encoding="utf-8", newline="\n")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
