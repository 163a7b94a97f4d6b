"""Sequence-level knowledge distillation (Kim and Rush 2016, section 3.2): training pairs whose targets a teacher wrote.

A teacher says the same thing in the same words each time, and a student that writes all words at once learns that far better
than the many ways of people. What is written is a data folder like that of `preprocess`: the same sources, tokenizer,
validation and test pairs. The teacher's answers are kept in shards beside the output until it is whole, so that a second start
goes on after the last of them.
"""

import json
import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.data import cleaning
from tfm_cli.data.dataset import ABOUT, DataFolder, is_current, replacing
from tfm_cli.data.storage import Encoded, Split, SplitWriter
from tfm_cli.errors import TfmError
from tfm_cli.transformer.special import END
from tfm_cli.translator import Batching, Translator

SHARD = 1024  # sources between two savings

Progress = Callable[[int, int, int], None]
"""Called with the sources translated so far, all of them, and how many of the former an earlier start had translated."""


@dataclass(frozen=True)
class Plan:
    """What decides every pair that is written; two starts with equal plans write the same folder.

    ``teacher`` is the fingerprint of the model, ``originals`` the share of pairs that are kept as they are, drawn by ``seed``.
    """

    teacher: str
    search: DecodeOptions
    precision: str = "float32"
    originals: float = 0.0
    seed: int = 1

    def fingerprint(self, data: DataFolder) -> str:
        """SHA-256 over the plan and the data."""
        content = json.dumps({"data": data.fingerprint, **asdict(self)}, sort_keys=True)
        return sha256(content.encode()).hexdigest()


@dataclass
class DistillReport:
    """What became of the ``pairs``: ``distilled`` have the teacher's translation, ``originals`` were to be kept as they are.

    The rest kept its own translation, since the teacher's was ``empty``, was ``cut`` where it would not end, or was ``unfit``:
    of a length that the data's cleaning drops. ``translated`` and ``seconds`` are of this start, ``resumed`` of earlier ones.
    """

    pairs: int = 0
    distilled: int = 0
    originals: int = 0
    empty: int = 0
    cut: int = 0
    unfit: int = 0
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


def distill(
    data: DataFolder,
    translator: Translator,
    output: Path,
    plan: Plan,
    batch_tokens: int = 1024,
    on_progress: Progress | None = None,
) -> DistillReport:
    """Write the data folder ``output``, whole or not at all; what stands there is replaced.

    The teacher may have another tokenizer than the data: it reads and writes text.

    Raises:
        TfmError: the data have no training pairs.
    """
    if data.train is None or not len(data.train):
        raise TfmError("there are no training pairs", where=str(data.folder), fix="Run `tfm preprocess` again.")
    kept = drawn(len(data.train), plan.originals, plan.seed)
    shards = _Shards(output, plan.fingerprint(data))
    report = DistillReport(pairs=len(data.train), originals=int(kept.sum()))
    wanted = np.flatnonzero(~kept)
    batching = Batching(tokens=batch_tokens, buffer=SHARD, max_source=int(data.train.lengths[:, 0].max()))
    began, done = time.perf_counter(), 0
    for number, rows in enumerate(_chunks(wanted)):
        if number in shards:
            report.resumed += len(rows)
        else:
            sources = data.tokenizers.source.decode_batch(source for source, _ in data.train.pairs(rows))
            found = translator.stream(sources, plan.search, batching, with_scores=False)
            shards.write(number, [(each.text, each.hypotheses[0].finished) for each in found])
            report.translated += len(rows)
        done += len(rows)
        if on_progress:
            on_progress(done, len(wanted), report.resumed)
    report.seconds = time.perf_counter() - began
    with replacing(output) as folder:
        writer = _write_train(folder / "train.arrow", data, kept, shards, report)
        _write_rest(folder, data, plan, writer, report)
    shards.remove()
    return report


def drawn(pairs: int, share: float, seed: int) -> np.ndarray:
    """Which of the pairs are kept as they are: ``round(share * pairs)`` of them, [pairs] bool, the same on every machine."""
    kept = np.zeros(pairs, bool)
    kept[random.Random(seed).sample(range(pairs), round(share * pairs))] = True
    return kept


def _chunks(rows: np.ndarray) -> Iterator[np.ndarray]:
    return (rows[begin : begin + SHARD] for begin in range(0, len(rows), SHARD))


class _Shards:
    """A hidden folder beside the output, named by the plan, so that another model or beam never goes on from it."""

    def __init__(self, output: Path, fingerprint: str) -> None:
        output = output.resolve()
        self.folder = output.parent / f".{output.name}-distilling-{fingerprint[:16]}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, number: int) -> bool:
        return self._file(number).is_file()

    def write(self, number: int, answers: Sequence[tuple[str, bool]]) -> None:
        """Keep translations, and whether each ended by itself; whole or not at all."""
        fresh = self.folder / f"{number}.part"
        fresh.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        fresh.replace(self._file(number))

    def answers(self) -> Iterator[tuple[str, bool]]:
        """Every translation in the order of the sources."""
        number = 0
        while number in self:
            yield from json.loads(self._file(number).read_text(encoding="utf-8"))
            number += 1

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"


def _write_train(path: Path, data: DataFolder, kept: np.ndarray, shards: _Shards, report: DistillReport) -> SplitWriter:
    """All training pairs in their order; ``report`` counts what became of them."""
    split, answers = data.train, shards.answers()
    assert split is not None
    with SplitWriter.open(path, texts=False) as writer:
        for rows in _chunks(np.arange(len(split))):
            writer.write(list(_pairs(split, rows.tolist(), kept, answers, data, report)))
    return writer


def _pairs(
    split: Split,
    rows: Sequence[int],
    kept: np.ndarray,
    answers: Iterator[tuple[str, bool]],
    data: DataFolder,
    report: DistillReport,
) -> Iterator[Encoded]:
    found = [("", True) if kept[row] else next(answers) for row in rows]
    encoded = data.tokenizers.target.encode_batch([text for text, _ in found])
    limits = data.info["options"]["max_length"], data.info["options"]["max_ratio"]
    for row, pair, (text, finished), ids in zip(rows, split.pairs(rows), found, encoded, strict=True):
        source, target = (side.tolist() for side in pair)
        if not kept[row]:
            if not finished:
                report.cut += 1
            elif not text.strip():
                report.empty += 1
            elif cleaning.lengths(len(source), len(ids) + 1, *limits):
                report.unfit += 1
            else:
                report.distilled += 1
                target = [*ids, END]
        yield Encoded("", "", source, target)


def _write_rest(folder: Path, data: DataFolder, plan: Plan, train: SplitWriter, report: DistillReport) -> None:
    """Tokenizer, validation and test pairs, and ``data.json``, which tells what was done."""
    data.tokenizers.save(folder)
    splits: dict[str, Any] = {role: dict(about) for role, about in data.info["splits"].items()}
    for role in splits.keys() - {"train"}:
        shutil.copy(data.folder / f"{role}.arrow", folder / f"{role}.arrow")
    splits["train"] |= {"source_tokens": train.source_tokens, "target_tokens": train.target_tokens}
    counts = {name: value for name, value in asdict(report).items() if name not in ("translated", "resumed", "seconds")}
    about = data.info | {
        "fingerprint": plan.fingerprint(data),
        "splits": splits,
        "distilled": {"from": data.fingerprint, "plan": asdict(plan), "report": counts},
    }
    (folder / ABOUT).write_text(json.dumps(about, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
