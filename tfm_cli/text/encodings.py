"""What encoding a file is in, and where it is not."""

import codecs
from pathlib import Path

from tfm_cli.errors import TfmError

MEND = "Mend the file, or leave out such files with --skip-broken."
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def marked_encoding(head: bytes) -> str | None:
    """The encoding that a byte order mark at the beginning names, as Python calls it; it takes the mark off."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), None)


def undecodable(path: Path, encoding: str) -> TfmError:
    """The error that names the line where ``path`` is not in ``encoding``."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line = 1
    with path.open("rb") as file:
        try:
            while part := file.readline(1 << 16):
                line += decoder.decode(part).count("\n")
            decoder.decode(b"", final=True)
        except UnicodeError:
            pass
    return TfmError(f"not valid {encoding.removesuffix('-sig').upper()}", where=f"{path}, line {line:,}", fix=MEND)
