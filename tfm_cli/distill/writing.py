"""The data folder: every training pair with the teacher's translation, or its own where that is of no use."""

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tfm_cli.data import cleaning
from tfm_cli.data.dataset import ABOUT, DataFolder
from tfm_cli.data.storage import Encoded, SplitWriter
from tfm_cli.distill.plan import Plan
from tfm_cli.distill.shards import WHOLE, Answer, chunks
from tfm_cli.transformer.special import END


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


def write_train(
    path: Path,
    data: DataFolder,
    kept: np.ndarray,
    more: Sequence[str],
    answers: Iterator[Answer],
    report: DistillReport,
) -> SplitWriter:
    """All training pairs in their order, then those of ``more``; ``report`` counts what became of them."""
    with SplitWriter.open(path, texts=False) as writer:
        for begin, end in chunks(len(kept)):
            writer.write(list(_pairs(data, range(begin, end), kept, answers, report)))
        for begin, end in chunks(len(more)):
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


def write_rest(folder: Path, data: DataFolder, plan: Plan, train: SplitWriter, report: DistillReport) -> None:
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
