"""Text -> a folder of encoded pairs, and that folder read again.

A folder holds ``data.json`` (format version, fingerprint, languages, report), ``train.arrow``, ``valid.arrow`` and
``test.arrow`` as far as there are such pairs, and the tokenizer. It appears whole or not at all.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from tfm_cli.data.build import Builder, PreprocessReport, Progress, SplitReport
from tfm_cli.data.corpora import Corpus, open_corpora
from tfm_cli.data.options import PreprocessOptions
from tfm_cli.data.storage import Split
from tfm_cli.errors import TfmError
from tfm_cli.options import check
from tfm_cli.text.tokenizer import FILES, Tokenizers

FORMAT = 1
ABOUT = "data.json"
ROLES = ("train", "valid", "test")
OURS = {ABOUT, *(f"{role}.arrow" for role in ROLES), *FILES}


class DataFolder:
    """What `preprocess` wrote. Splits that were not given are None."""

    def __init__(self, folder: Path, info: dict[str, Any]) -> None:
        self.folder, self.info = folder, info
        self.fingerprint: str = info["fingerprint"]
        self.source_language: str | None = info["source_language"]
        self.target_language: str | None = info["target_language"]

    @classmethod
    def load(cls, folder: str | Path) -> "DataFolder":
        """Open a folder; its splits are mapped into memory when first asked for.

        Raises:
            TfmError: it is missing, incomplete, or of a newer format.
        """
        folder = Path(folder)
        info = _about(folder)
        if info is None:
            what = "this folder was not written by tfm preprocess" if folder.is_dir() else "no such folder"
            raise TfmError(what, where=str(folder), fix="`tfm preprocess` makes one.")
        if info["format"] > FORMAT:
            raise TfmError(
                f"this folder has format {info['format']}, and this version of tfm knows up to {FORMAT}",
                where=str(folder),
                fix="Update tfm, or run `tfm preprocess` again.",
            )
        missing = [f"{role}.arrow" for role in info["splits"] if not (folder / f"{role}.arrow").is_file()]
        if missing:
            raise TfmError(f"{missing[0]} is missing", where=str(folder), fix="Run `tfm preprocess` again.")
        return cls(folder, info)

    @property
    def pairs(self) -> int:
        """Training pairs, told without opening them."""
        return int(self.info["splits"].get("train", {}).get("pairs", 0))

    @cached_property
    def tokenizers(self) -> Tokenizers:
        """What the pairs were encoded with; a `TfmError` where another tokenizer has been put in its place."""
        tokenizers = Tokenizers.load(self.folder)
        if tokenizers.fingerprint != self.info["tokenizer_fingerprint"]:
            raise TfmError(
                "the tokenizer is not the one that these pairs were encoded with",
                where=str(self.folder),
                fix="`tfm preprocess --overwrite` encodes them anew.",
            )
        return tokenizers

    @cached_property
    def train(self) -> Split | None:
        return self._split("train")

    @cached_property
    def valid(self) -> Split | None:
        return self._split("valid")

    @cached_property
    def test(self) -> Split | None:
        return self._split("test")

    def report(self) -> PreprocessReport:
        """What `preprocess` reported when it wrote this folder."""
        report = PreprocessReport(**self.info["report"])
        report.splits = {role: SplitReport(**split) for role, split in self.info["splits"].items()}
        return report

    def _split(self, role: str) -> Split | None:
        if role not in self.info["splits"]:
            return None
        path = self.folder / f"{role}.arrow"
        try:
            return Split(path)
        except (OSError, ValueError) as error:  # Arrow's own errors descend from these
            raise TfmError(
                f"the file is damaged ({error})", where=str(path), fix="`tfm preprocess --overwrite` makes it anew."
            ) from None


def preprocess(options: PreprocessOptions, on_progress: Progress | None = None) -> PreprocessReport:
    """Clean and encode the pairs into ``options.output``; do nothing where that holds them already.

    Raises:
        TfmError: the text cannot be read or paired, nothing is left of it, or the output is no folder of ours. Whatever was
            in the output then stays as it was.
    """
    check(options)
    began = time.perf_counter()
    output = Path(options.output)
    check_replaceable(output)
    tokenizers = Tokenizers.load(options.tokenizer)
    corpora = open_corpora(options)
    codes = corpora["train"].languages
    languages = options.source_lang or codes[0], options.target_lang or codes[1]
    fingerprint = _fingerprint(options, corpora, tokenizers, languages)
    if is_current(output, fingerprint) and not options.overwrite:
        report = DataFolder.load(output).report()
        report.changed, report.seconds = False, time.perf_counter() - began
        return report

    with replacing(output) as folder:
        report = Builder(folder, tokenizers, options, on_progress or (lambda role, done, total: None)).build(corpora)
        report.source_language, report.target_language = languages
        report.seconds = time.perf_counter() - began
        tokenizers.save(folder)
        facts = asdict(report)
        info = {
            "format": FORMAT,
            "fingerprint": fingerprint,
            "tokenizer_fingerprint": tokenizers.fingerprint,
            "source_language": languages[0],
            "target_language": languages[1],
            "splits": facts.pop("splits"),
            "report": facts,
            "options": asdict(options),
        }
        (folder / ABOUT).write_text(json.dumps(info, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    return report


def _fingerprint(
    options: PreprocessOptions, corpora: dict[str, Corpus], tokenizers: Tokenizers, languages: Iterable[str | None]
) -> str:
    # Where the pairs are read from and written to does not change them.
    elsewhere = {"dataset", "overwrite", *(f.name for f in fields(options) if f.metadata["spec"].is_path)}
    content = {
        "format": FORMAT,
        "tokenizers": tokenizers.fingerprint,
        "languages": list(languages),
        "corpora": {role: corpus.fingerprint() for role, corpus in corpora.items()},
        "options": {name: value for name, value in asdict(options).items() if name not in elsewhere},
    }
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _about(folder: Path) -> dict[str, Any] | None:
    try:
        info = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) and "format" in info else None


def is_current(folder: Path, fingerprint: str) -> bool:
    """Whether a data folder is there, whole, and of this fingerprint."""
    info = _about(folder)
    if info is None or info.get("fingerprint") != fingerprint:
        return False
    return all((folder / f"{role}.arrow").is_file() for role in info["splits"])


def check_replaceable(output: Path) -> None:
    """Raise a `TfmError` where ``output`` holds anything but a data folder."""
    if output.is_file():
        raise TfmError("the output is a file", where=str(output), fix="Name a folder by --output.")
    there = {entry.name for entry in output.iterdir()} if output.is_dir() else set()
    foreign = sorted(there - OURS) or (sorted(there) if _about(output) is None else [])
    if foreign:
        raise TfmError(
            f"the folder holds other files ({foreign[0]}), which would be lost",
            where=str(output),
            fix="Name a new or empty folder by --output.",
        )


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """A new folder beside ``output`` that takes its place at the end, or vanishes where something goes wrong."""
    output = output.resolve()
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix=f".{output.name}-", dir=output.parent))
    try:
        umask = os.umask(0)
        os.umask(umask)
        fresh.chmod(0o777 & ~umask)
        yield fresh
        if output.exists():
            old = fresh.with_name(f"{fresh.name}-old")
            output.rename(old)
            fresh.rename(output)
            shutil.rmtree(old)
        else:
            fresh.rename(output)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
