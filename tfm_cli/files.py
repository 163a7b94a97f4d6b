"""Writing a file whole or not at all, and never over what is read."""

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tfm_cli.errors import TfmError


def check_no_input(output: str | Path, inputs: Iterable[str | None], option: str = "--output") -> None:
    """Raise a `TfmError` where ``output``, which ``option`` names, is one of the files in ``inputs``, by whatever path."""
    output = Path(output)
    for path in inputs:
        if path and output.exists() and Path(path).exists() and output.samefile(path):
            raise TfmError("the output would overwrite an input", where=f"{option} {output}", fix="Name another file.")


def check_writable(output: str | Path, option: str = "--output") -> None:
    """Raise a `TfmError` where `written` could not write ``output``: before long work, not after it. Nothing is made."""
    if output == "-":
        return
    path = Path(output)
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir():
        what = "this is a folder" if path.is_dir() else f"{folder} is no folder"
    elif os.access(folder, os.W_OK):
        return
    else:
        what = f"no file can be written into {folder}"
    raise TfmError(what, where=f"{option} {output}", fix="Name another file.")


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
