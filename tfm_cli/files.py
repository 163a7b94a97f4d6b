"""Writing a file whole or not at all, and never over what is read."""

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tfm_cli.errors import TfmError


def check_no_input(output: str | Path, inputs: Iterable[str | None]) -> None:
    """Raise a `TfmError` where ``output`` is one of the files in ``inputs``, by whatever path."""
    output = Path(output)
    for path in inputs:
        if path and output.exists() and Path(path).exists() and output.samefile(path):
            raise TfmError("the output would overwrite an input", where=f"--output {output}", fix="Name another file.")


@contextmanager
def written(path: str | Path) -> Iterator[TextIO]:
    """A stream whose UTF-8 text is in the file ``path`` once all is written; where that fails, the file is as it was.

    ``-`` is stdout. That, and what is no regular file (a pipe, a device), is written to at once.

    Raises:
        TfmError: ``path`` cannot be written.
    """
    if path == "-":
        yield sys.stdout
        return
    final = Path(path)
    is_whole = final.is_file() or not final.exists()
    if is_whole:
        final = final.resolve()  # what a link points to is replaced, not the link
    fresh = final.with_name(f".{final.name}.new") if is_whole else final
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        file = fresh.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise TfmError(f"cannot be written: {error.strerror}", where=str(path)) from None
    try:
        with file:
            yield file
        if is_whole:
            if final.exists():
                shutil.copymode(final, fresh)
            fresh.replace(final)
    finally:
        if is_whole:
            fresh.unlink(missing_ok=True)


def write_whole(path: str | Path, text: str) -> None:
    """Write a small text to the file ``path``; see `written`."""
    with written(path) as stream:
        stream.write(text)
