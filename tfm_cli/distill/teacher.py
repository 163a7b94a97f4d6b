"""The teacher at work: shard after shard of translations, then the folder of all pairs."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tfm_cli.data.dataset import DataFolder, replacing
from tfm_cli.distill.monolingual import Monolingual
from tfm_cli.distill.plan import Plan
from tfm_cli.distill.shards import CUT, LONG, WHOLE, Answer, Shards, chunks
from tfm_cli.distill.writing import DistillReport, write_rest, write_train
from tfm_cli.errors import TfmError
from tfm_cli.translator import Batching, Translator

Progress = Callable[[int, int, int], None]
"""Called with the sources translated so far, all of them, and how many of the former an earlier start had translated."""


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
    shards = Shards(output, plan.fingerprint(data))
    report = DistillReport(pairs=len(data.train), originals=int(kept.sum()))
    wanted = np.flatnonzero(~kept)
    batching = Batching(tokens=batch_tokens, max_source=longest_read(data))
    began, total = time.perf_counter(), len(wanted) + len(more)
    for number, (begin, end) in enumerate(chunks(total)):
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
        writer = write_train(folder / "train.arrow", data, kept, more, shards.answers(total), report)
        write_rest(folder, data, plan, writer, report)
    shards.remove()
    return report


def drawn(pairs: int, share: float, seed: int) -> np.ndarray:
    """Which of the pairs are kept as they are: ``round(share * pairs)`` of them, [pairs] bool, the same on every machine."""
    kept = np.zeros(pairs, bool)
    kept[random.Random(seed).sample(range(pairs), round(share * pairs))] = True
    return kept


def _answers(translator: Translator, sources: Sequence[str], plan: Plan, batching: Batching) -> list[Answer]:
    long: set[int] = set()
    found = translator.stream(
        sources, plan.search, batching, on_cut=lambda line, message: long.add(line), with_scores=False
    )
    return [(each.text, LONG if each.line in long else WHOLE if each.hypotheses[0].finished else CUT) for each in found]
