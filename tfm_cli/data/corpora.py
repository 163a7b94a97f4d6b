"""Where sentence pairs come from: two text files, or a table that the `datasets` library reads."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from tfm_cli.data.options import PreprocessOptions, TableOptions
from tfm_cli.errors import TfmError
from tfm_cli.text.corpus import COMPRESSED, STDIN, check_exists, count_lines, read_pairs

# What a table's splits are called, by what they are for.
SPLITS = {"train": ("train",), "valid": ("validation", "valid", "val", "dev"), "test": ("test",)}
_READERS: Mapping[str, tuple[str, dict[str, Any]]] = {
    ".parquet": ("parquet", {}),
    ".json": ("json", {}),
    ".jsonl": ("json", {}),
    ".ndjson": ("json", {}),
    ".arrow": ("arrow", {}),
    # Else "NA" and "null" would be read as no text at all, and a lone \r as the end of a line; the \r of \r\n is taken
    # off the last column below. A tab-separated file knows no quotes.
    ".csv": ("csv", {"keep_default_na": False, "lineterminator": "\n"}),
    ".tsv": ("csv", {"keep_default_na": False, "lineterminator": "\n", "sep": "\t", "quoting": 3}),
}
_LANGUAGE = re.compile(r"[a-z]{2}([-_][A-Za-z0-9]{2,8})*")


class Corpus(ABC):
    """Sentence pairs that can be read again."""

    name: str
    languages: tuple[str | None, str | None] = (None, None)

    @abstractmethod
    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs in order, a few in memory at a time."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Changes when the content does."""

    @abstractmethod
    def size(self) -> int | None:
        """How many pairs, where that is quickly told."""


@dataclass
class FilePair(Corpus):
    """Line i of one file with line i of the other."""

    source: str
    target: str
    errors: str = "strict"

    def __post_init__(self) -> None:
        for path in (self.source, self.target):
            if path == STDIN or (Path(path).exists() and not Path(path).is_dir() and not Path(path).is_file()):
                raise TfmError(
                    "a pipe cannot be read twice",
                    where=path,
                    fix="Give a file; .gz, .xz and .zst are read as they are.",
                )
            check_exists(path)
        self.name = f"{self.source} and {self.target}"
        codes = _language(self.source), _language(self.target)
        self.languages = codes if codes[0] != codes[1] else (None, None)

    def pairs(self) -> Iterator[tuple[str, str]]:
        return read_pairs(self.source, self.target, self.errors)

    def fingerprint(self) -> str:
        return _hash_files([Path(self.source), Path(self.target)])

    def size(self) -> int:
        return count_lines(self.source)


@dataclass
class Table(Corpus):
    """One split of a table. ``columns`` name two columns of text, or ``languages`` two keys of a column `translation`."""

    name: str
    rows: Any
    content: str
    columns: tuple[str, str] | None
    languages: tuple[str | None, str | None]

    def pairs(self) -> Iterator[tuple[str, str]]:
        for rows in self._batches():
            if self.columns:
                sides = rows[self.columns[0]], rows[self.columns[1]]
            else:
                both = [row or {} for row in rows["translation"]]
                sides = [row.get(self.languages[0]) for row in both], [row.get(self.languages[1]) for row in both]
            for source, target in zip(*sides, strict=True):
                yield _text(source), _text(target)

    def fingerprint(self) -> str:
        return self.content

    def size(self) -> int | None:
        return len(self.rows) if hasattr(self.rows, "__len__") else None

    def _batches(self) -> Iterator[Mapping[str, Any]]:
        try:
            yield from self.rows.iter(batch_size=1000)
        except Exception as error:  # each of the library's readers raises errors of its own
            raise TfmError(f"the table cannot be read: {_first_line(error)}", where=self.name) from error


def open_corpora(options: PreprocessOptions) -> dict[str, Corpus]:
    """The corpora named by ``options``, as train, valid and test; train is always among them.

    Files for validation or test take the place of a table's own split.

    Raises:
        TfmError: one side is missing, a file does not exist, a table lacks a column or split, or there is training text
            in both.
    """
    if options.dataset and (options.source or options.target):
        raise TfmError(
            "there is training text in files and in a table",
            where="--dataset",
            fix="Leave out --source and --target, or it.",
        )
    corpora = open_table(options) if options.dataset else {}
    for role, prefix in (("train", ""), ("valid", "valid_"), ("test", "test_")):
        source, target = getattr(options, f"{prefix}source"), getattr(options, f"{prefix}target")
        if bool(source) != bool(target):
            given, missing = ("source", "target") if source else ("target", "source")
            name = prefix.replace("_", "-")
            raise TfmError(f"--{name}{given} needs --{name}{missing} beside it")
        if source:
            corpora[role] = FilePair(source, target, options.errors)
    if "train" not in corpora:
        raise TfmError("there is nothing to train on", fix="Give --source and --target, or --dataset.")
    return corpora


def open_table(options: TableOptions) -> dict[str, Corpus]:
    """The splits of ``options.dataset``, as train, valid and test; train is always among them.

    Raises:
        TfmError: it cannot be read, or lacks a column or split.
    """
    name = options.dataset
    if not name:
        raise TfmError("no table is named", fix="Give --dataset.")
    corpora: dict[str, Corpus] = {}
    splits, content = _load(name, options.dataset_config)
    if "train" not in splits and len(splits) == 1:
        splits = {"train": next(iter(splits.values()))}
    if "train" not in splits:
        raise TfmError(f"no split named train among {', '.join(splits)}", where=name)
    for role, names in SPLITS.items():
        split = next((each for each in names if each in splits), None)
        if split:
            rows = splits[split]
            digest = content or str(rows._fingerprint)
            corpora[role] = Table(f"{name} ({split})", rows, digest, *_sides(options, name, rows))
    return corpora


def _sides(options: TableOptions, name: str, rows: Any) -> tuple[tuple[str, str] | None, tuple[str | None, str | None]]:
    """Which columns hold the two sides, or which keys of `translation`; and the languages."""
    columns = {name.rstrip("\r"): name for name in rows.column_names or next(iter(rows), {})}
    languages = (options.source_lang, options.target_lang)
    if options.source_column or options.target_column:
        wanted = (options.source_column or "", options.target_column or "")
        for side, column in zip(("source", "target"), wanted, strict=True):
            if column not in columns:
                what = f"there is no column {column!r}" if column else "two columns are needed"
                raise TfmError(what, where=f"--{side}-column", fix=f"{name} has {', '.join(columns)}.")
        return (columns[wanted[0]], columns[wanted[1]]), languages
    if "translation" not in columns:
        raise TfmError(
            "there is no column `translation`",
            where=name,
            fix=f"Name two of {', '.join(columns)} by --source-column and --target-column.",
        )
    first = next(iter(rows), {"translation": None})["translation"]
    keys = sorted(first) if isinstance(first, dict) else []
    for side, language in zip(("source", "target"), languages, strict=True):
        if language not in keys:
            what = f"`translation` holds no {language}" if language else "which language?"
            raise TfmError(what, where=f"--{side}-lang", fix=f"{name} holds {', '.join(keys) or 'no languages'}.")
    return None, languages


def _load(name: str, configuration: str | None) -> tuple[dict[str, Any], str]:
    """Splits by name, and a hash of the files; empty for a data set of the hub, which knows its own."""
    from datasets import load as loading
    from datasets.utils import logging
    from datasets.utils.tqdm import disable_progress_bars

    path = Path(name)
    reader = _reader(path)
    if reader and not path.is_dir():
        check_exists(path)
    logging.set_verbosity_error()
    disable_progress_bars()
    try:
        if path.is_dir() and ((path / "state.json").exists() or (path / "dataset_dict.json").exists()):
            loaded: Any = loading.load_from_disk(str(path))
        elif path.is_dir() and reader:
            loaded = loading.load_dataset(reader[0], data_dir=str(path), streaming=True, **reader[1])
        elif path.is_dir():
            loaded = loading.load_dataset(str(path), configuration, streaming=True)
        elif reader:
            # Streamed from where it is: a copy in the cache would only cost time and disk.
            loaded = loading.load_dataset(reader[0], data_files=str(path), streaming=True, **reader[1])
        else:
            loaded = loading.load_dataset(name, configuration)
    except Exception as error:  # the hub, the network and every reader raise errors of their own
        raise TfmError(f"the data set cannot be loaded: {_first_line(error)}", where=name) from error
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    splits = dict(loaded) if isinstance(loaded, dict) else {"train": loaded}
    return splits, _hash_files(files) if path.exists() else ""


def _reader(path: Path) -> tuple[str, dict[str, Any]] | None:
    """How to read a file of this name, or a folder whose files are all of one kind."""
    if path.is_dir():
        kinds = {suffix for file in path.rglob("*") if file.is_file() and (suffix := _suffix(file)) in _READERS}
        return _READERS[kinds.pop()] if len(kinds) == 1 else None
    return _READERS.get(_suffix(path))


def _suffix(path: Path) -> str:
    return next((suffix for suffix in reversed(path.suffixes) if suffix not in COMPRESSED), "")


def _language(path: str) -> str | None:
    """``train.de`` and ``train.de.gz`` -> ``de``; None where the name does not end like that."""
    name = Path(path).name
    for suffix in COMPRESSED:
        name = name.removesuffix(suffix)
    stem, dot, ending = name.rpartition(".")
    return ending if stem and dot and _LANGUAGE.fullmatch(ending) else None


def _hash_files(files: list[Path]) -> str:
    digest = sha256()
    for path in files:
        with path.open("rb") as file:
            own = sha256()
            while block := file.read(1 << 20):
                own.update(block)
        digest.update(own.digest())
    return digest.hexdigest()


def _text(value: Any) -> str:
    return "" if value is None else str(value).rstrip("\r")


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
