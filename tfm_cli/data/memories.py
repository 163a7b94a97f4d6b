"""Translation memories into the text files that training reads, line by line."""

import tempfile
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TextIO

import numpy as np

from tfm_cli.data.cleaning import Seen, hashed
from tfm_cli.errors import TfmError
from tfm_cli.files import written
from tfm_cli.text.formats import format_of
from tfm_cli.text.units import LanguagePair, Unit, primary

TEST = "test"
Progress = Callable[[int], None]
_STEP = 1000  # units between two calls of a `Progress`
_CHOOSE = "Name the two by --source-lang and --target-lang."


@dataclass
class Survey:
    """What a first look through the files tells: the languages of the texts, and which files are damaged."""

    languages: Counter[str] = field(default_factory=Counter)
    sources: set[str] = field(default_factory=set)  # what the files call their source
    unnamed: list[Path] = field(default_factory=list)  # files that do not say their languages
    broken: dict[Path, TfmError] = field(default_factory=dict)


@dataclass
class FileReport:
    """What came out of one file. ``pairs`` were new, ``duplicates`` had been read before."""

    path: Path
    format: str
    pairs: int = 0
    untranslated: int = 0
    duplicates: int = 0
    is_broken: bool = False


@dataclass
class ImportReport:
    """What was read and written; ``variants`` counts the codes that were taken as source and as target."""

    files: list[FileReport] = field(default_factory=list)
    train: int = 0
    test: int = 0
    variants: tuple[Counter[str], Counter[str]] = field(default_factory=lambda: (Counter(), Counter()))
    languages: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Outputs:
    """The files to write: ``train`` always, ``test`` beside it where pairs are set apart."""

    train: tuple[Path, Path]
    test: tuple[Path, Path]

    @classmethod
    def at(cls, prefix: Path, source: str, target: str) -> "Outputs":
        """``text/train`` -> ``text/train.de``, ``text/train.en``, ``text/test.de``, ``text/test.en``."""
        train, test = (
            (prefix.with_name(f"{name}.{source}"), prefix.with_name(f"{name}.{target}")) for name in (prefix.name, TEST)
        )
        return cls(train, test)


def survey(files: Iterable[Path], skip_broken: bool, on_progress: Progress) -> Survey:
    """Read all ``files`` once for their languages.

    Raises:
        TfmError: a file is damaged, unless ``skip_broken``.
    """
    found = Survey()
    for path in files:
        languages, sources, is_named = Counter[str](), set[str](), True
        try:
            for unit in _read(path, on_progress):
                languages.update(_codes(unit))
                is_named = is_named and unit[0][0] is not None
                sources.update(code for code, _ in unit[:1] if code)
        except TfmError as error:
            if not skip_broken:
                raise
            found.broken[path] = error
            continue
        found.languages += languages
        found.sources |= sources
        if not is_named:
            found.unnamed.append(path)
    return found


def choose_languages(found: Survey, source: str | None, target: str | None) -> tuple[str, str]:
    """Source and target, where the files hold two languages and no more. One may be given, as a normal code.

    Raises:
        TfmError: there are other than two, a file does not say its languages, or the files do not agree on the source.
    """
    if found.unnamed:
        name = format_of(found.unnamed[0]).name
        raise TfmError(f"this {name} file does not say its languages", where=str(found.unnamed[0]), fix=_CHOOSE)
    names = {primary(code) for code in found.languages}
    if len(names) == 1:  # en-us and en-gb are two as well
        names = set(found.languages)
    given = {code if code in names else primary(code) for code in (source, target) if code}
    if len(names) != 2 or not given <= names:
        raise TfmError(f"the files hold {listed(found.languages)}", fix=_CHOOSE)
    if not given:
        firsts = {code if code in names else primary(code) for code in found.sources} & names
        if len(firsts) != 1:
            what = f"the files hold {listed(found.languages)}, and do not agree on which is the source"
            raise TfmError(what, fix=_CHOOSE)
        given, source = firsts, firsts.copy().pop()
    other = (names - given).pop()
    return (source, other) if source else (other, target or "")


def listed(languages: Mapping[str, int]) -> str:
    """Codes with the number of their texts, the most first: ``en (1,203), de (1,190)``."""
    rows = sorted(languages.items(), key=lambda row: (-row[1], row[0]))
    return ", ".join(f"{code} ({count:,})" for code, count in rows) or "no text in a named language"


def import_pairs(
    files: Iterable[Path],
    languages: LanguagePair,
    outputs: Outputs,
    test: int = 0,
    seed: int = 1,
    broken: Collection[Path] = (),
    on_progress: Progress = lambda done: None,
) -> ImportReport:
    """Read the pairs of ``files`` but the ``broken`` ones, set ``test`` of them apart, and write all that were not repeated.

    Raises:
        TfmError: a file is damaged, there are no pairs, or too few for the test. Then nothing is written.
    """
    report, seen, keys = ImportReport(), Seen(), array("Q")
    with _spool(outputs.train[0]) as spool:
        for path in files:
            count = FileReport(path, format_of(path).name, is_broken=path in broken)
            report.files.append(count)
            for source, target in () if count.is_broken else _pairs(path, languages, count, report, on_progress):
                if not seen.add(hashed(source, target)):
                    count.duplicates += 1
                    continue
                count.pairs += 1
                keys.append(hashed(source, seed=seed))
                spool.write(f"{source}\n{target}\n")
        if not keys:
            what = f"no pairs of {languages.source} and {languages.target}"
            raise TfmError(what, fix=f"The files hold {listed(report.languages)}.")
        apart = set_apart(keys, test)
        report.test = int(apart.sum())
        report.train = len(keys) - report.test
        spool.seek(0)
        _write(spool, apart, outputs)
    return report


def set_apart(keys: Sequence[int], size: int) -> np.ndarray:
    """Which pairs are for testing, as a mask. Pairs of one key, which is that of their source, stay together.

    Raises:
        TfmError: fewer than half would stay, or so many repeat a source that none can be taken.
    """
    if 2 * size > len(keys):
        what = f"{size:,} of {len(keys):,} pairs would leave fewer than half for training"
        raise TfmError(what, where="--test", fix=f"At most {len(keys) // 2:,} can be set apart.")
    groups, counts = np.unique(np.asarray(keys, np.uint64), return_counts=True)
    chosen, missing = [], size
    for key, count in zip(groups, counts, strict=True):  # sorted by key, which is a random order
        if not missing:
            break
        if count <= missing:
            chosen.append(key)
            missing -= count
    if size and not chosen:
        what = "no pairs can be set apart, since each source stands in more than that"
        raise TfmError(what, where=f"--test {size}", fix="Give a larger number, or 0.")
    return np.isin(np.asarray(keys, np.uint64), np.asarray(chosen, np.uint64))


def _pairs(
    path: Path, languages: LanguagePair, count: FileReport, report: ImportReport, on_progress: Progress
) -> Iterator[tuple[str, str]]:
    for unit in _read(path, on_progress):
        report.languages.update(_codes(unit))
        places = languages.pick(unit)
        if places is None or not all(unit[place][1] for place in places):
            count.untranslated += 1
            continue
        for variants, place in zip(report.variants, places, strict=True):
            if code := unit[place][0]:
                variants[code] += 1
        yield unit[places[0]][1], unit[places[1]][1]


def _read(path: Path, on_progress: Progress) -> Iterator[Unit]:
    units = format_of(path).read(path)
    while several := list(islice(units, _STEP)):
        yield from several
        on_progress(len(several))


def _codes(unit: Unit) -> set[str]:
    return {code for code, text in unit if code and text}


def _spool(output: Path) -> TextIO:
    """A file without a name, on the disk that is written to, which is not yet touched: its folder may be still to make."""
    folder = next(each for each in output.absolute().parents if each.is_dir())
    try:
        return tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n", dir=folder)
    except OSError as error:
        raise TfmError(f"cannot be written: {error.strerror}", where=str(folder)) from None


def _write(lines: Iterator[str], apart: np.ndarray, outputs: Outputs) -> None:
    """Deal the lines, of source and target in turn, out to the files; all of these appear at the end."""
    with ExitStack() as stack:
        train = [stack.enter_context(written(path)) for path in outputs.train]
        test = [stack.enter_context(written(path)) for path in outputs.test] if apart.any() else []
        for is_test, source, target in zip(apart.tolist(), lines, lines, strict=True):
            for stream, line in zip(test if is_test else train, (source, target), strict=True):
                stream.write(line)
        for stream in (*train, *test):
            stream.flush()  # a full disk is met here, before the first file is in its place
