"""Files into lines and sentence pairs.

Only ``\\n`` and ``\\r\\n`` end a line. Python's own text mode and `str.splitlines` also break at U+2028, U+0085, form feeds and
more, which would shift every later pair; so files are read as bytes and decoded line by line.
"""

import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import zip_longest
from pathlib import Path
from typing import IO

from tfm_cli.errors import TfmError

STDIN = "-"
COMPRESSED = (".gz", ".xz", ".zst")


def read_lines(path: str | Path, errors: str = "strict") -> Iterator[str]:
    """The lines of a UTF-8 file (or UTF-16 with a byte order mark), without their ends; memory holds one line at a time.

    Args:
        path: a file, also ``.gz``, ``.xz`` or ``.zst``; ``-`` is standard input.
        errors: ``strict``, or ``replace`` to read U+FFFD where bytes are not valid.

    Raises:
        TfmError: the file is missing, damaged, or not UTF-8; the last names the line and the byte, both counted from where
            the decompressed text begins.
    """
    name = _name(path)
    with _opened(path) as stream, _damage(name):
        head = stream.peek(3)[:3]
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            yield from _utf16_lines(stream, name, errors)
        else:
            stream.read(3 if head == codecs.BOM_UTF8 else 0)
            yield from _utf8_lines(stream, name, errors, start=3 if head == codecs.BOM_UTF8 else 0)


def read_pairs(source: str | Path, target: str | Path, errors: str = "strict") -> Iterator[tuple[str, str]]:
    """Line i of ``source`` with line i of ``target``.

    Raises:
        TfmError: as `read_lines`; or one file is longer than the other, naming both and their lines.
    """
    if str(source) == str(target) == STDIN:
        raise TfmError("source and target cannot both be standard input", fix="Give two files.")
    pairs = zip_longest(read_lines(source, errors), read_lines(target, errors))
    for both, (left, right) in enumerate(pairs):
        if left is None or right is None:
            longer = both + 1 + sum(1 for _ in pairs)
            counts = (both, longer) if left is None else (longer, both)
            raise unaligned(source, counts[0], target, counts[1])
        yield left, right


def unaligned(first: str | Path, lines: int, second: str | Path, others: int) -> TfmError:
    """The error for two files that belong together line by line and have different numbers of ``lines``."""
    return TfmError(
        f"{_name(first)} has {lines:,} lines and {_name(second)} has {others:,}",
        fix="Line n of one must belong to line n of the other: look for a line that is missing, or broken in two.",
    )


def count_lines(path: str | Path) -> int:
    """How many lines `read_lines` would give, without decoding them where that can be spared."""
    with _opened(path) as stream, _damage(str(path)):
        if stream.peek(2).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return sum(1 for _ in read_lines(path, "replace"))
        return sum(1 for _ in stream)


def longest_line(path: str | Path) -> int:
    """The bytes of the longest line in UTF-8; 0 for what is no file and can be read but once."""
    return max((len(line.encode()) for line in read_lines(path, "replace")), default=0) if Path(path).is_file() else 0


def check_exists(path: str | Path) -> None:
    """Raise a `TfmError` that helps when ``path`` is no file to read."""
    path = Path(path)
    if path.is_dir():
        raise TfmError("this is a folder, where a text file is needed", where=str(path))
    if path.exists():
        return
    folder = path.parent
    if not folder.is_dir():
        raise TfmError(f"no such file, and no folder {folder}", where=str(path))
    near = get_close_matches(path.name, [entry.name for entry in folder.iterdir() if entry.is_file()], 3)
    raise TfmError("no such file", where=str(path), fix=f"Did you mean {' or '.join(near)}?" if near else "")


def _name(path: str | Path) -> str:
    return "standard input" if str(path) == STDIN else str(path)


def _utf8_lines(stream: IO[bytes], name: str, errors: str, start: int) -> Iterator[str]:
    offset = start
    for number, raw in enumerate(stream, 1):
        try:
            # A stray \r before the end of a line is left over from a conversion, and would become a token.
            yield raw.rstrip(b"\r\n").decode("utf-8", errors)
        except UnicodeDecodeError as error:
            raise TfmError(
                f"byte {offset + error.start:,} (0x{raw[error.start]:02x}) is not valid UTF-8",
                where=f"{name}, line {number:,}",
                fix="Convert the file to UTF-8, or read on with --errors replace.",
            ) from None
        offset += len(raw)


def _utf16_lines(stream: IO[bytes], name: str, errors: str) -> Iterator[str]:
    number = 0
    try:
        for line in io.TextIOWrapper(stream, "utf-16", errors, newline="\n"):
            yield line.rstrip("\r\n")
            number += 1
    except UnicodeError as error:
        raise TfmError(
            f"not valid UTF-16: {getattr(error, 'reason', error)}",
            where=f"{name}, after line {number:,}",
            fix="Convert the file to UTF-8, or read on with --errors replace.",
        ) from None


@contextmanager
def _opened(path: str | Path) -> Iterator[io.BufferedReader]:
    """The bytes of a file, decompressed by what its name ends with."""
    if str(path) == STDIN:
        stdin = sys.stdin.buffer
        # Never a second buffer around one that there is: it would wait for more than the next line.
        yield stdin if isinstance(stdin, io.BufferedReader) else io.BufferedReader(stdin)  # type: ignore[arg-type]
        return
    check_exists(path)
    path = Path(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise TfmError(f"cannot be read: {error.strerror}", where=str(path)) from None
    with file:
        if path.suffix == ".gz":
            yield io.BufferedReader(gzip.GzipFile(fileobj=file))
        elif path.suffix == ".xz":
            yield io.BufferedReader(lzma.LZMAFile(file))  # noqa: SIM115  (`file` is closed, and this holds nothing else)
        elif path.suffix == ".zst":
            from pyarrow.lib import CompressedInputStream  # zstandard's own stream takes a cut-off file for a whole one

            yield io.BufferedReader(CompressedInputStream(file, "zstd"))
        else:
            yield file


@contextmanager
def _damage(name: str) -> Iterator[None]:
    """What a decompressor raises, as a `TfmError`."""
    try:
        yield
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        suffix = Path(name).suffix
        if suffix not in COMPRESSED:
            raise
        raise TfmError(
            f"not a whole {suffix} file ({error})", where=name, fix="It may be cut short or damaged; fetch it again."
        ) from None
