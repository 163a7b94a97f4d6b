"""The one pass over a corpus that cleans, encodes, holds out and counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from tfm_cli.data import cleaning
from tfm_cli.data.corpora import Corpus
from tfm_cli.data.holdout import HoldOut
from tfm_cli.data.options import PreprocessOptions
from tfm_cli.data.storage import Encoded, SplitWriter
from tfm_cli.errors import TfmError
from tfm_cli.text.tokenizer import Tokenizers
from tfm_cli.transformer.special import END

CHUNK = 4096  # pairs encoded at a time

Progress = Callable[[str, int, int | None], None]
"""Called with the split, pairs done so far, and their total where it is known."""


@dataclass
class SplitReport:
    """What one split holds; ``leaked`` of its pairs have a source that is trained on, ``long`` exceed the longest length."""

    pairs: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    empty: int = 0
    leaked: int = 0
    long: int = 0


@dataclass
class PreprocessReport:
    """What became of every training pair: ``read`` = the sum of ``dropped`` + ``held_out`` + the pairs in ``splits["train"]``."""

    read: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(cleaning.REASONS, 0))
    held_out: int = 0
    splits: dict[str, SplitReport] = field(default_factory=dict)
    source_language: str | None = None
    target_language: str | None = None
    changed: bool = True
    seconds: float = 0.0

    @property
    def kept(self) -> int:
        """Pairs that passed the cleaning, for training or held out."""
        return self.read - sum(self.dropped.values())


class Builder:
    """Fills a folder, with a chunk of pairs in memory at a time."""

    def __init__(self, folder: Path, tokenizers: Tokenizers, options: PreprocessOptions, progress: Progress) -> None:
        self.folder, self.tokenizers, self.options, self.progress = folder, tokenizers, options, progress
        self.report = PreprocessReport()
        self.trained_on: dict[str, bool] = {}  # each validation and test source: does it occur in the training text?

    def build(self, corpora: dict[str, Corpus]) -> PreprocessReport:
        sources = {role: self._write_aside(role, corpora[role]) for role in ("valid", "test") if role in corpora}
        self.trained_on = dict.fromkeys((text for texts in sources.values() for text in texts), False)
        wanted = 0 if "valid" in corpora else self.options.valid_size
        held = HoldOut(wanted, self.options.seed)
        with SplitWriter.open(self.folder / "train.arrow", texts=False) as writer:
            for pairs in self._kept(corpora["train"]):
                self._write_train(writer, held.pass_on(pairs))
            valid, rest = held.finish()
            self._write_train(writer, rest)
        self._check_something_left(corpora["train"].name, wanted or 0)
        splits = {"train": _summary(writer)}
        if valid:
            with SplitWriter.open(self.folder / "valid.arrow", texts=True) as writer:
                writer.write(valid)
            splits["valid"], self.report.held_out = _summary(writer), len(valid)
        self.report.splits = splits | self.report.splits
        for role, texts in sources.items():
            self.report.splits[role].leaked = sum(map(self.trained_on.__getitem__, texts))
        return self.report

    def _write_aside(self, role: str, corpus: Corpus) -> list[str]:
        """Write validation or test pairs, every one of them; their sources."""
        sources, empty, long = [], 0, 0
        with SplitWriter.open(self.folder / f"{role}.arrow", texts=True) as writer:
            for pairs in self._chunks(role, corpus):
                encoded = self._encode(pairs)
                writer.write(encoded)
                long += sum(max(len(each.source), len(each.target)) > self.options.max_length for each in encoded)
                sources += [source for source, _ in pairs]
                empty += sum(cleaning.empty(*pair) is not None for pair in pairs)
        if not sources:
            raise TfmError("there is no sentence in it", where=corpus.name)
        self.report.splits[role] = _summary(writer, empty, long)
        return sources

    def _kept(self, corpus: Corpus) -> Iterator[list[Encoded]]:
        """The training pairs that pass every rule; the others are counted."""
        seen = cleaning.Seen()
        dropped, options = self.report.dropped, self.options
        for chunk in self._chunks("train", corpus):
            self.report.read += len(chunk)
            pairs = []
            for pair in chunk:
                reason = cleaning.empty(*pair)
                if reason is None and options.deduplicate and not seen.add(cleaning.hashed(*pair)):
                    reason = cleaning.REPEATED
                if reason:
                    dropped[reason] += 1
                else:
                    pairs.append(pair)
            kept = []
            for encoded in self._encode(pairs):
                sizes = len(encoded.source), len(encoded.target)
                reason = cleaning.lengths(*sizes, options.max_length, options.max_ratio)
                if reason:
                    dropped[reason] += 1
                else:
                    kept.append(encoded)
            yield kept

    def _encode(self, pairs: list[tuple[str, str]]) -> list[Encoded]:
        sources = self.tokenizers.source.encode_batch([source for source, _ in pairs])
        targets = self.tokenizers.target.encode_batch([target for _, target in pairs])
        for ids in (*sources, *targets):
            ids.append(END)
        return [Encoded(*pair, *ids) for pair, *ids in zip(pairs, sources, targets, strict=True)]

    def _write_train(self, writer: SplitWriter, pairs: list[Encoded]) -> None:
        for pair in pairs:
            if pair.source_text in self.trained_on:
                self.trained_on[pair.source_text] = True
        writer.write(pairs)

    def _chunks(self, role: str, corpus: Corpus) -> Iterator[list[tuple[str, str]]]:
        pairs, total, done = corpus.pairs(), corpus.size(), 0
        while chunk := list(islice(pairs, CHUNK)):
            yield chunk
            done += len(chunk)
            self.progress(role, done, total)

    def _check_something_left(self, name: str, wanted: int) -> None:
        report = self.report
        if report.kept == 0:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.dropped.items() if count)
            raise TfmError(f"none of the {report.read:,} pairs is left ({reasons or 'no text'})", where=name)
        if wanted >= report.kept:
            raise TfmError(
                f"holding out {wanted:,} of {report.kept:,} pairs leaves none to train on", where="--valid-size"
            )


def _summary(writer: SplitWriter, empty: int = 0, long: int = 0) -> SplitReport:
    return SplitReport(writer.pairs, writer.source_tokens, writer.target_tokens, empty, long=long)
