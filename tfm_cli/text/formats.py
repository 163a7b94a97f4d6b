"""Translation memories and catalogues into translation units: which formats are read, and by what.

TMX and XLIFF are in `xml_units`; here are tab-separated text and gettext's PO.
"""

import gettext
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfm_cli.errors import TfmError
from tfm_cli.text.corpus import check_exists, read_lines
from tfm_cli.text.encodings import MEND, marked_encoding, undecodable
from tfm_cli.text.units import Unit, clean, normal
from tfm_cli.text.xml_units import read_tmx, read_xliff

SEVERAL = 3  # the number whose plural form is taken: two has one of its own in some languages, often without a figure


@dataclass(frozen=True)
class Format:
    """What a kind of file is called and what reads it."""

    name: str
    read: Callable[[Path], Iterator[Unit]]


def find_files(paths: Iterable[str | Path]) -> list[Path]:
    """The files to read: those named, and those of a known ending in the folders named, sorted; each once.

    Raises:
        TfmError: a path does not exist, a file's ending is not known, or a folder holds nothing to read.
    """
    found: dict[Path, Path] = {}
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(each for each in path.rglob("*") if _is_readable(each, path))
            if not inside:
                raise TfmError("no file to read in this folder", where=str(path), fix=_KNOWN)
        else:
            check_exists(path)
            if path.suffix.lower() not in FORMATS:
                raise TfmError("the format of this file is not known", where=str(path), fix=_KNOWN)
            inside = [path]
        for each in inside:
            found.setdefault(each.resolve(), each)
    return list(found.values())


def format_of(path: Path) -> Format:
    """By the ending of the name."""
    return FORMATS[path.suffix.lower()]


def read_tsv(path: Path) -> Iterator[Unit]:
    """The lines of tab-separated text that hold any text: the source, and its translation where there is one.

    Raises:
        TfmError: the file is not UTF-8 (or UTF-16 with a byte order mark), or a line has a third column.
    """
    try:
        for number, line in enumerate(read_lines(path), 1):
            columns = [clean(column) for column in line.split("\t")]
            if any(columns[2:]):
                what = f"{len(columns)} columns, where two are needed"
                raise TfmError(what, where=f"{path}, line {number:,}", fix=MEND)
            if any(columns):
                yield [(None, text) for text in (*columns, "")[:2]]
    except TfmError as error:
        raise TfmError(error.what, where=error.where, fix=MEND) from None


def read_po(path: Path) -> Iterator[Unit]:
    """The entries of a PO file. Obsolete ones are left out; the translation of a fuzzy one counts as none.

    An entry with plural forms is two units: the singular, and the plural with the form for several.

    Raises:
        TfmError: polib is not installed, or the file is damaged; the latter names the line.
    """
    try:
        import polib
    except ModuleNotFoundError:
        fix = "Install it with: pip install 'tfm-cli[formats]'"
        raise TfmError("PO files are read by polib, which is not installed", where=str(path), fix=fix) from None
    encoding = ""
    try:
        with path.open("rb") as file:
            encoding = marked_encoding(file.read(3)) or polib.detect_encoding(str(path))
        # By its name: text would be split at U+2028 and the like too.
        catalogue = polib.pofile(str(path), encoding=encoding)
    except UnicodeError:
        raise undecodable(path, encoding) from None
    except OSError as error:
        place = re.search(r"\(line (\d+)\)(?:: (.+))?", str(error))
        if error.strerror or not place:
            raise TfmError(f"cannot be read: {error.strerror or error}", where=str(path)) from None
        what = f"damaged PO ({place[2] or 'not expected here'})"
        raise TfmError(what, where=f"{path}, line {int(place[1]):,}", fix=MEND) from None
    language = normal(catalogue.metadata.get("Language", "")) or None
    one, several = _plural_forms(catalogue.metadata.get("Plural-Forms", ""))
    for entry in catalogue:
        if entry.obsolete:
            continue
        texts = [(entry.msgid, entry.msgstr_plural.get(one, "") if entry.msgid_plural else entry.msgstr)]
        if entry.msgid_plural:
            texts.append((entry.msgid_plural, entry.msgstr_plural.get(several, "")))
        for source, target in texts:
            if source.strip():
                yield [(None, clean(source)), (language, "" if entry.fuzzy else clean(target))]


def _plural_forms(header: str) -> tuple[int, int]:
    """Which plural form is for one and which for several, by the header's formula; the first two without one."""
    formula = re.search(r"plural\s*=\s*([^;]+)", header)
    try:
        form: Callable[[int], Any] = gettext.c2py(formula[1].strip()) if formula else lambda n: n > 1
        return int(form(1)), int(form(SEVERAL))
    except (ValueError, ZeroDivisionError, RecursionError):
        return 0, 1


def _is_readable(path: Path, folder: Path) -> bool:
    """Hidden files are none of the user's: macOS leaves a ._name.tmx beside name.tmx."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return not hidden and path.suffix.lower() in FORMATS and path.is_file()


_TMX, _XLIFF, _PO, _TSV = (
    Format("TMX", read_tmx),
    Format("XLIFF", read_xliff),
    Format("PO", read_po),
    Format("TSV", read_tsv),
)
FORMATS = {
    ".tmx": _TMX,
    **dict.fromkeys((".xlf", ".xliff", ".sdlxliff", ".mqxliff", ".mxliff"), _XLIFF),
    ".po": _PO,
    **dict.fromkeys((".tsv", ".tab"), _TSV),
}
_KNOWN = f"Known are {', '.join(FORMATS)}."
