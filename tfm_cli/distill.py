"""Sequence-level knowledge distillation (Kim and Rush 2016, section 3.2): training pairs whose targets a teacher wrote.

A teacher says the same thing in the same words each time, and a student that writes all words at once learns that far better
than the many ways of people. What is written is a data folder like that of `preprocess`: the same sources, tokenizer,
validation and test pairs. The teacher's answers are kept in shards beside the output until it is whole, so that a second start
goes on after the last of them.
"""

import json
import random
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.data import cleaning
from tfm_cli.data.dataset import ABOUT, DataFolder, is_current, replacing
from tfm_cli.data.storage import Encoded, SplitWriter
from tfm_cli.errors import TfmError
from tfm_cli.transformer.special import END
from tfm_cli.translator import Batching, Translator

SHARD = 1024  # sources between two savings
WHOLE, CUT, LONG = "whole", "cut", "long"

Answer = tuple[str, str]
"""A translation, which is ``WHOLE``, or was ``CUT`` since it would not end, or is of the beginning of a source too ``LONG``."""

Progress = Callable[[int, int, int], None]
"""Called with the sources translated so far, all of them, and how many of the former an earlier start had translated."""


@dataclass(frozen=True)
class Plan:
    """What decides every pair that is written; two starts with equal plans write the same folder.

    In int8 on torch nearly so: there a sentence's numbers depend a little on its batch. ``teacher`` is the fingerprint of the
    model, run by ``engine`` in ``precision``, the number type itself and never "auto"; ``originals`` is the share of pairs
    that are kept as they are, drawn by ``seed``; ``monolingual`` is the fingerprint of the `Monolingual` text.
    """

    teacher: str
    search: DecodeOptions
    engine: str = "torch"
    precision: str = "float32"
    originals: float = 0.0
    seed: int = 1
    monolingual: str = ""

    def fingerprint(self, data: DataFolder) -> str:
        """SHA-256 over the plan and the data."""
        content = json.dumps({"data": data.fingerprint, **asdict(self)}, sort_keys=True)
        return sha256(content.encode()).hexdigest()


@dataclass(frozen=True)
class Monolingual:
    """More text in the source language, whose translations join the pairs (Zhou and Keung 2020): distinct ``lines``.

    ``dropped`` counts lines that were empty, repeated, or sources of the validation or test text.
    """

    lines: Sequence[str] = ()
    dropped: int = 0

    @classmethod
    def of(cls, lines: Iterable[str], data: DataFolder) -> "Monolingual":
        """What is of use among ``lines`` beside ``data``."""
        known = {source for split in (data.valid, data.test) if split is not None for source, _ in split.texts()}
        kept: dict[str, None] = {}
        count = 0
        for line in lines:
            count += 1
            if line.strip() and line not in known:
                kept[line] = None
        return cls(tuple(kept), count - len(kept))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the lines; empty without any."""
        return sha256("\n".join(self.lines).encode()).hexdigest() if self.lines else ""


@dataclass
class DistillReport:
    """What became of the ``pairs``: ``distilled`` have the teacher's translation, ``originals`` were to be kept as they are.

    The rest kept its own translation, since the teacher's was ``empty``, was ``cut`` where it would not end, or was ``unfit``:
    of a length that the data's cleaning drops; or since the source was too ``long`` for the teacher. Beside them stand
    ``added`` pairs of monolingual text, of which ``unadded`` lines had no good translation. ``translated`` and ``seconds`` are
    of this start, ``resumed`` of earlier ones.
    """

    pairs: int = 0
    distilled: int = 0
    originals: int = 0
    empty: int = 0
    cut: int = 0
    unfit: int = 0
    long: int = 0
    added: int = 0
    unadded: int = 0
    translated: int = field(default=0, compare=False)
    resumed: int = field(default=0, compare=False)
    seconds: float = field(default=0.0, compare=False)

    @property
    def rate(self) -> float:
        """Sentences a second that this start translated."""
        return self.translated / max(self.seconds, 1e-9)


def is_distilled(data: DataFolder, output: Path, plan: Plan) -> bool:
    """Whether ``output`` is what this plan writes."""
    return is_current(output, plan.fingerprint(data))


def longest_read(data: DataFolder) -> int:
    """Tokens of the longest source that a teacher is given whole: any of the data's, counted by the data's tokenizer.

    Another tokenizer may make many more of it; of what is longer, only a part would be translated.
    """
    own = int(data.train.lengths[:, 0].max()) if data.train is not None and len(data.train) else 0
    return max(own, Batching().max_source)


def distill(
    data: DataFolder,
    translator: Translator,
    output: Path,
    plan: Plan,
    batch_tokens: int = 1024,
    on_progress: Progress | None = None,
    monolingual: Monolingual | None = None,
) -> DistillReport:
    """Write the data folder ``output``, whole or not at all; what stands there is replaced.

    The teacher may have another tokenizer than the data: it reads and writes text. The pairs of ``monolingual``, whose
    fingerprint is the plan's, come after those of the data.

    Raises:
        TfmError: the data have no training pairs.
    """
    more = monolingual.lines if monolingual else ()
    if data.train is None or not len(data.train):
        raise TfmError("there are no training pairs", where=str(data.folder), fix="Run `tfm preprocess` again.")
    kept = drawn(len(data.train), plan.originals, plan.seed)
    shards = _Shards(output, plan.fingerprint(data))
    report = DistillReport(pairs=len(data.train), originals=int(kept.sum()))
    wanted = np.flatnonzero(~kept)
    batching = Batching(tokens=batch_tokens, buffer=SHARD, max_source=longest_read(data))
    began, total = time.perf_counter(), len(wanted) + len(more)
    for number, (begin, end) in enumerate(_chunks(total)):
        if shards.read(number, end - begin) is not None:
            report.resumed += end - begin
        else:
            rows, lines = wanted[begin:end], more[max(begin - len(wanted), 0) : max(end - len(wanted), 0)]
            sources = data.tokenizers.source.decode_batch(source for source, _ in data.train.pairs(rows))
            shards.write(number, _answers(translator, [*sources, *lines], plan, batching))
            report.translated += end - begin
        if on_progress:
            on_progress(end, total, report.resumed)
    report.seconds = time.perf_counter() - began
    with replacing(output) as folder:
        answers = shards.answers(end - begin for begin, end in _chunks(total))
        writer = _write_train(folder / "train.arrow", data, kept, more, answers, report)
        _write_rest(folder, data, plan, writer, report)
    shards.remove()
    return report


def drawn(pairs: int, share: float, seed: int) -> np.ndarray:
    """Which of the pairs are kept as they are: ``round(share * pairs)`` of them, [pairs] bool, the same on every machine."""
    kept = np.zeros(pairs, bool)
    kept[random.Random(seed).sample(range(pairs), round(share * pairs))] = True
    return kept


def _chunks(count: int) -> Iterator[tuple[int, int]]:
    """Beginning and end of each shard's part of so many."""
    return ((begin, min(begin + SHARD, count)) for begin in range(0, count, SHARD))


def _answers(translator: Translator, sources: Sequence[str], plan: Plan, batching: Batching) -> list[Answer]:
    long: set[int] = set()
    found = translator.stream(
        sources, plan.search, batching, on_cut=lambda line, message: long.add(line), with_scores=False
    )
    return [(each.text, LONG if each.line in long else WHOLE if each.hypotheses[0].finished else CUT) for each in found]


class _Shards:
    """A hidden folder beside the output, named by the plan, so that another model or beam never goes on from it.

    Its name tells how much a shard holds too: with another `SHARD`, other sources would have the same numbers.
    """

    def __init__(self, output: Path, fingerprint: str) -> None:
        output = output.resolve()
        self._prefix = f".{output.name}-distilling-"
        self.folder = output.parent / f"{self._prefix}{fingerprint[:16]}-{SHARD}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, number: int, count: int) -> list[Answer] | None:
        """The ``count`` answers of a shard; None where it is missing, or damaged by a crash of the machine."""
        try:
            answers = [(text, fate) for text, fate in json.loads(self._file(number).read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return None
        are_ours = all(isinstance(text, str) and fate in (WHOLE, CUT, LONG) for text, fate in answers)
        return answers if are_ours and len(answers) == count else None

    def write(self, number: int, answers: Sequence[Answer]) -> None:
        """Keep answers, whole or not at all."""
        fresh = self.folder / f"{number}.part"
        fresh.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        fresh.replace(self._file(number))

    def answers(self, counts: Iterable[int]) -> Iterator[Answer]:
        """Every answer in the order of the sources, from shards of so many."""
        for number, count in enumerate(counts):
            answers = self.read(number, count)
            assert answers is not None
            yield from answers

    def remove(self) -> None:
        """Delete these shards, and those that other plans for the same output left behind."""
        ours = re.compile(re.escape(self._prefix) + r"[0-9a-f]{16}(-[0-9]+)?")
        for folder in self.folder.parent.iterdir():
            if ours.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"


def _write_train(
    path: Path,
    data: DataFolder,
    kept: np.ndarray,
    more: Sequence[str],
    answers: Iterator[Answer],
    report: DistillReport,
) -> SplitWriter:
    """All training pairs in their order, then those of ``more``; ``report`` counts what became of them."""
    with SplitWriter.open(path, texts=False) as writer:
        for begin, end in _chunks(len(kept)):
            writer.write(list(_pairs(data, range(begin, end), kept, answers, report)))
        for begin, end in _chunks(len(more)):
            writer.write(list(_added(data, more[begin:end], answers, report)))
    return writer


def _pairs(
    data: DataFolder, rows: Sequence[int], kept: np.ndarray, answers: Iterator[Answer], report: DistillReport
) -> Iterator[Encoded]:
    """Pairs of the data with the teacher's translation, or with their own where it is of no use."""
    assert data.train is not None
    found = [("", WHOLE) if kept[row] else next(answers) for row in rows]
    encoded = data.tokenizers.target.encode_batch([text for text, _ in found])
    for row, pair, answer, ids in zip(rows, data.train.pairs(rows), found, encoded, strict=True):
        source, target = (side.tolist() for side in pair)
        if not kept[row]:
            fate = _fate(answer, len(source), len(ids) + 1, data)
            setattr(report, fate, getattr(report, fate) + 1)
            if fate == "distilled":
                target = [*ids, END]
        yield Encoded("", "", source, target)


def _added(
    data: DataFolder, lines: Sequence[str], answers: Iterator[Answer], report: DistillReport
) -> Iterator[Encoded]:
    """Pairs of more lines with the teacher's translation; a line without a good one is left out."""
    found = [next(answers) for _ in lines]
    sources = data.tokenizers.source.encode_batch(lines)
    targets = data.tokenizers.target.encode_batch([text for text, _ in found])
    for answer, source, target in zip(found, sources, targets, strict=True):
        if _fate(answer, len(source) + 1, len(target) + 1, data) == "distilled":
            report.added += 1
            yield Encoded("", "", [*source, END], [*target, END])
        else:
            report.unadded += 1


def _fate(answer: Answer, source: int, target: int, data: DataFolder) -> str:
    """What an answer counts as in a `DistillReport`, given the pair's lengths in tokens with END."""
    text, fate = answer
    if fate != WHOLE:
        return fate
    if not text.strip():
        return "empty"
    limits = data.info["options"]["max_length"], data.info["options"]["max_ratio"]
    return "unfit" if cleaning.lengths(source, target, *limits) else "distilled"


def _write_rest(folder: Path, data: DataFolder, plan: Plan, train: SplitWriter, report: DistillReport) -> None:
    """Tokenizer, validation and test pairs, and ``data.json``, which tells what was done."""
    data.tokenizers.save(folder)
    splits: dict[str, Any] = {role: dict(about) for role, about in data.info["splits"].items()}
    for role in splits.keys() - {"train"}:
        shutil.copy(data.folder / f"{role}.arrow", folder / f"{role}.arrow")
    splits["train"] |= {
        "pairs": train.pairs,
        "source_tokens": train.source_tokens,
        "target_tokens": train.target_tokens,
    }
    counts = {name: value for name, value in asdict(report).items() if name not in ("translated", "resumed", "seconds")}
    about = data.info | {
        "fingerprint": plan.fingerprint(data),
        "splits": splits,
        "distilled": {"from": data.fingerprint, "plan": asdict(plan), "report": counts},
    }
    (folder / ABOUT).write_text(json.dumps(about, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
