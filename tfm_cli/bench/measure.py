"""Quality and speed of several models on the same sentences.

Speed is from text to text: tokenizer, network, search and detokenizer. The models take turns, round by round, so that what
slows the machine for a while slows all of them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from tfm_cli.engines.engine import Setup
from tfm_cli.evaluation.metrics import evaluate
from tfm_cli.evaluation.options import EvaluateOptions
from tfm_cli.translator import Batching, Translation, Translator

BATCHES = (16, 64, 256)
WARMING = 3  # sentences translated before anything counts
_UNLIMITED = 1 << 40  # tokens in a batch: its number of sentences is what limits it

Progress = Callable[[], None]
"""Called after each round of each model at each batch size."""


class Opened(NamedTuple):
    """A translator, and with what it works."""

    translator: Translator
    setup: Setup


@dataclass(frozen=True)
class System:
    """A model and how it decodes. ``alone`` translates one sentence at a time, ``together`` many, as `tfm translate` would.

    Where it ``is_judged`` another model reads its candidates, in one pass.
    """

    name: str
    family: str
    options: Any
    alone: Opened
    together: Opened
    is_judged: bool = False


@dataclass(frozen=True)
class Figures:
    """What was measured of one model. Empty sentences, which no model is asked about, count in its quality only.

    Attributes:
        alone, together: with what single sentences were translated, and what batches.
        milliseconds: median time of a sentence in batches of one; ``milliseconds_p90`` is what nine of ten stay below.
        per_second: sentences a second at ``batch``, the size at which there are most; all sizes are in ``by_batch``.
        passes: times that the decoder runs for one sentence, on average, the judge's included. For a left-to-right model the
            tokens of the translation and its end; a beam search may look further before it is sure.
        repeats: tokens in 1,000 that repeat the token before them.
        length_ratio: words of the translations over words of the references, as BLEU counts them.
    """

    name: str
    family: str
    alone: Setup
    together: Setup
    bleu: float
    chrf: float
    milliseconds: float
    milliseconds_p90: float
    per_second: float
    batch: int
    passes: float
    repeats: float
    length_ratio: float
    by_batch: dict[int, float] = field(default_factory=dict)


@dataclass
class _Taken:
    """Seconds of each sentence alone, and of all sentences at each batch size, over the rounds; and what was written."""

    alone: list[float] = field(default_factory=list)
    together: dict[int, list[float]] = field(default_factory=dict)
    written: list[Translation] = field(default_factory=list)
    passes: float = 0.0


def measure(
    systems: Sequence[System],
    sources: Sequence[str],
    references: Sequence[str],
    language: str | None,
    rounds: int = 3,
    batches: Sequence[int] = BATCHES,
    on_progress: Progress | None = None,
) -> list[Figures]:
    """Figures of each system, in their order. ``language`` is the target's, for BLEU's words.

    Quality, passes and repeats are those of the translations in batches of one. One source at least is not empty.
    """
    taken = [_Taken() for _ in systems]
    tell = on_progress or (lambda: None)
    spoken = [source for source in sources if source.strip()]
    for each, system in zip(taken, systems, strict=True):
        for opened, size in ((system.alone, 1), (system.together, WARMING)):
            list(_stream(opened, system, spoken[:WARMING], size))
        each.written, each.passes = _written(system, sources)
        tell()
    for _ in range(rounds):
        for each, system in zip(taken, systems, strict=True):
            each.alone += _seconds_alone(system, spoken)
            tell()
        for size in batches:
            for each, system in zip(taken, systems, strict=True):
                translations = _stream(system.together, system, spoken, size)
                began = time.perf_counter()
                list(translations)
                each.together.setdefault(size, []).append(time.perf_counter() - began)
                tell()
    return [_figures(system, each, references, language) for system, each in zip(systems, taken, strict=True)]


def steps(systems: int, rounds: int, batches: int = len(BATCHES)) -> int:
    """How often `measure` tells of its progress."""
    return systems * (1 + rounds * (1 + batches))


def repeats(tokens: Sequence[Sequence[str]]) -> float:
    """Tokens in 1,000 that repeat the token before them."""
    count = sum(a == b for row in tokens for a, b in pairwise(row))
    return 1000 * count / max(sum(map(len, tokens)), 1)


def _stream(opened: Opened, system: System, lines: Sequence[str], size: int) -> Iterator[Translation]:
    """Translations, none of which is made before it is asked for."""
    translator, setup = opened
    if setup.engine == "torch":  # whose threads belong to the process: each system has its own for its turn
        from tfm_cli.device import set_threads

        set_threads(setup.threads)
    batching = Batching(size, _UNLIMITED, buffer=max(len(lines), 1))
    return translator.stream(lines, system.options, batching, with_scores=False)


def _seconds_alone(system: System, spoken: Sequence[str]) -> list[float]:
    seconds = []
    translations = _stream(system.alone, system, spoken, 1)
    for _ in spoken:
        began = time.perf_counter()
        next(translations)
        seconds.append(time.perf_counter() - began)
    return seconds


def _written(system: System, sources: Sequence[str]) -> tuple[list[Translation], float]:
    """Translations, and passes of the decoder on average for each sentence that is not empty."""
    if system.family == "autoregressive":
        written = list(_stream(system.alone, system, sources, 1))
        best = [each.hypotheses[0] for each in written if each.source.strip()]
        return written, sum(len(each.tokens) + each.finished for each in best) / len(best)
    count = 0

    def counted(*_: object) -> None:
        nonlocal count
        count += 1

    hook = system.alone.translator.family.network.decoder.register_forward_hook(counted)
    try:
        written = list(_stream(system.alone, system, sources, 1))
    finally:
        hook.remove()
    return written, count / sum(bool(each.source.strip()) for each in written) + system.is_judged


def _figures(system: System, taken: _Taken, references: Sequence[str], language: str | None) -> Figures:
    texts = [each.text for each in taken.written]
    options = EvaluateOptions(bleu=True, chrf=True, confidence=False)
    bleu, chrf = evaluate(texts, [references], options, language)
    spoken = sum(bool(each.source.strip()) for each in taken.written)
    by_batch = {size: spoken / float(np.median(seconds)) for size, seconds in taken.together.items()}
    best = max(by_batch, key=by_batch.__getitem__)
    return Figures(
        system.name,
        system.family,
        system.alone.setup,
        system.together.setup,
        bleu.value,
        chrf.value,
        1000 * float(np.median(taken.alone)),
        1000 * float(np.quantile(taken.alone, 0.9)),
        by_batch[best],
        best,
        taken.passes,
        repeats([each.hypotheses[0].tokens for each in taken.written]),
        bleu.details["length_ratio"],
        by_batch,
    )
