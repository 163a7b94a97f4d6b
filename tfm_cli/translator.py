"""Text in, text out: what ``tfm translate`` and Python users call."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.choice import check_engine
from tfm_cli.engines.engine import Engine, Sentences
from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.text.tokenizer import Tokenizers
from tfm_cli.threads import thread_count
from tfm_cli.transformer.hypothesis import Hypothesis
from tfm_cli.transformer.special import END

AnyDecodeOptions: TypeAlias = DecodeOptions | NonAutoregressiveDecodeOptions
Warn = Callable[[str], None]
OnCut = Callable[[int, str], None]  # a line's number, and a message that names it
T = TypeVar("T")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TextHypothesis:
    """One translation; see `tfm_cli.transformer.hypothesis.Hypothesis` for the numbers. ``tokens`` are the pieces of ``text``."""

    text: str
    score: float
    log_prob: float
    tokens: list[str]
    token_log_probs: list[float]
    finished: bool = True


@dataclass(frozen=True)
class Translation:
    """The answer to one line, hypotheses best first; ``line`` counts from 1."""

    line: int
    source: str
    hypotheses: list[TextHypothesis]

    @property
    def text(self) -> str:
        """The best hypothesis."""
        return self.hypotheses[0].text


@dataclass(frozen=True)
class Batching:
    """How lines become batches. None of it changes a translation, except that a longer line than ``max_source`` is cut.

    ``buffer`` lines are read, sorted by length, put into batches of at most ``tokens`` source tokens (padding counted) and
    ``size`` sentences, and answered in their order. With ``size`` = 1 each line is answered before the next is read.
    """

    size: int | None = None
    tokens: int = 1024
    buffer: int = 2048
    max_source: int = 1000


class _Item(NamedTuple):
    """A line, or a line and its translation, as ids; ``target`` is a forced prefix or the translation to score."""

    line: int
    text: str
    source: list[int]
    target: list[int]


class Translator:
    """An engine that runs a model, or several that decode together, with the model's tokenizers.

    Example:
        translator = Translator.load("run/")
        translator.translate(["我是谁"], beam=4)
    """

    def __init__(self, engine: Engine, tokenizers: Tokenizers) -> None:
        self.engine, self.tokenizers = engine, tokenizers

    @classmethod
    def load(
        cls,
        folder: str | Path | Sequence[str | Path],
        device: str = "auto",
        precision: str = "float32",
        threads: int | None = None,
        engine: str = "torch",
        compile: bool = False,
    ) -> "Translator":
        """Load a model folder; several make an ensemble, whose models must have one and the same tokenizer.

        Args:
            device: cpu, cuda, mps, or auto for the best one here.
            precision: float32, bfloat16, auto, or int8 on a CPU; for ctranslate2 float32 or int8.
            threads: CPU threads; of torch they are left as they are where it is None.
            engine: torch; or ctranslate2, which runs one autoregressive model on the CPU, a batch a thread.
            compile: for a model that writes all words at once, on the CPU: run batches of one line by generated code, which is
                made once, with a C++ compiler, and kept in the user's cache.

        Raises:
            TfmError: a folder is no model, or models do not go together, or the engine does not take them.
        """
        folders = [folder] if isinstance(folder, str | Path) else list(folder)
        check_engine(engine, device, len(folders), compile)
        if engine == "ctranslate2":
            from tfm_cli.engines import ctranslate2

            return cls(*ctranslate2.load(folders[0], precision, workers=thread_count(threads), threads=1))
        from tfm_cli.device import set_threads
        from tfm_cli.engines import pytorch

        if threads is not None:
            set_threads(threads)
        return cls(*pytorch.load(folders, device, precision, compile=compile))

    @property
    def family(self) -> Any:
        """The model itself, which only the torch engine has."""
        return self.engine.family  # type: ignore[attr-defined]

    def translate(self, lines: Iterable[str], options: AnyDecodeOptions | None = None, **overrides: Any) -> list[str]:
        """The best translation of each line; ``overrides`` are fields of the family's options, such as ``beam=4``."""
        options = options or self._options
        unknown = sorted(overrides.keys() - {f.name for f in fields(options)})
        if unknown:
            raise TfmError(
                "this model's family has no such option",
                where=unknown[0],
                fix=f"It takes those of {type(options).__name__}.",
            )
        return [translation.text for translation in self.stream(lines, replace(options, **overrides))]

    def stream(
        self,
        lines: Iterable[str],
        options: AnyDecodeOptions | None = None,
        batching: Batching | None = None,
        prefixes: Iterable[str] | None = None,
        warn: Warn | None = None,
        on_cut: OnCut | None = None,
        with_scores: bool = True,
    ) -> Iterator[Translation]:
        """Translations in the order of ``lines``, of which at most a buffer is held in memory.

        An empty line has an empty translation, and the model is not asked.

        Args:
            prefixes: the beginning of each line's translation, which is forced.
            warn: told of each line that was too long, or whose translation did not end by itself.
            on_cut: told of each line that was too long, in place of ``warn``.
            with_scores: False where no number of a hypothesis is looked at, which some engines then spare.

        Raises:
            TfmError: there are not as many prefixes as lines.
        """
        options, batching = options or self._options, batching or Batching()
        warn = warn or _ignore
        items = self._encoded(_with_prefixes(lines, prefixes), batching.max_source, on_cut or _telling(warn))

        def decode(batch: list[_Item]) -> list[list[Hypothesis]]:
            targets = [item.target for item in batch] if prefixes is not None else None
            return self.engine.decode(_sentences(batch, targets), options, with_scores)

        for item, found in _in_order(items, decode, batching, self.engine.workers):
            hypotheses = [self._text(hypothesis) for hypothesis in found or [_EMPTY]]
            if not hypotheses[0].finished:
                tokens = len(hypotheses[0].tokens)
                warn(f"line {item.line:,}: the translation did not end by itself and was cut at {tokens:,} tokens.")
            yield Translation(item.line, item.text, hypotheses)

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        options: AnyDecodeOptions | None = None,
        batching: Batching | None = None,
        warn: Warn | None = None,
        on_cut: OnCut | None = None,
    ) -> Iterator[TextHypothesis]:
        """Each pair's translation as a hypothesis, scored as `stream` would have scored it; in order, a buffer at a time.

        A pair with an empty source has no score: its log-probability is 0 where the translation is empty too, else -inf.
        ``warn`` and ``on_cut`` as in `stream`; a given translation is never told to lack an end.
        """
        options, batching = options or self._options, batching or Batching()
        items = self._encoded(pairs, batching.max_source, on_cut or _telling(warn or _ignore))

        def score(batch: list[_Item]) -> list[Hypothesis]:
            return self.engine.score(_sentences(batch, [[*item.target, END] for item in batch]), options)

        for item, found in _in_order(items, score, batching, self.engine.workers):
            if found is None:
                found = replace(_EMPTY, log_prob=_IMPOSSIBLE, score=_IMPOSSIBLE) if item.target else _EMPTY
            yield self._text(found)

    @property
    def _options(self) -> AnyDecodeOptions:
        """What holds where a caller gives no options."""
        return self.engine.default_options

    def _encoded(self, pairs: Iterable[tuple[str, str]], limit: int, on_cut: OnCut) -> Iterator[_Item]:
        for line, (text, target) in enumerate(pairs, 1):
            source = self.tokenizers.source.encode(text) if text.strip() else []
            if len(source) > limit:
                on_cut(line, f"line {line:,}: {len(source):,} tokens are too many; only the first {limit:,} are read.")
                source = source[:limit]
            yield _Item(line, text, [*source, END] if source else [], self.tokenizers.target.encode(target))

    def _text(self, hypothesis: Hypothesis) -> TextHypothesis:
        target = self.tokenizers.target
        return TextHypothesis(
            target.decode(hypothesis.tokens),
            hypothesis.score,
            hypothesis.log_prob,
            [target.token(i) for i in hypothesis.tokens],
            hypothesis.token_log_probs,
            hypothesis.finished,
        )


_EMPTY = Hypothesis([], 0.0, 0.0, [])
_IMPOSSIBLE = float("-inf")


def _ignore(message: str) -> None:
    pass


def _telling(warn: Warn) -> OnCut:
    return lambda line, message: warn(message)


def _sentences(batch: Sequence[_Item], targets: list[list[int]] | None) -> Sentences:
    return Sentences([item.source for item in batch], targets, [item.line for item in batch])


def _with_prefixes(lines: Iterable[str], prefixes: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    """Lines with their prefixes, read one by one."""
    if prefixes is None:
        yield from ((line, "") for line in lines)
        return
    remaining = iter(prefixes)
    number = 0
    for number, line in enumerate(lines, 1):
        prefix = next(remaining, None)
        if prefix is None:
            raise TfmError(
                f"line {number:,} has no prefix, there are only {number - 1:,}",
                fix="Give one line for each, empty or not.",
            )
        yield line, prefix
    if next(remaining, None) is not None:
        raise TfmError(f"there are more prefixes than the {number:,} lines", fix="Give one line for each.")


def _in_order(
    items: Iterable[_Item], process: Callable[[list[_Item]], list[Answer]], batching: Batching, workers: int
) -> Iterator[tuple[_Item, Answer | None]]:
    """Each item with its answer, in order; None for an item without source, about which ``process`` is not asked.

    ``process`` is called from as many threads as there are ``workers``.
    """
    items = iter(items)
    while buffer := list(islice(items, 1 if batching.size == 1 else batching.buffer)):
        asked = [item for item in buffer if item.source]
        share = -(-sum(len(item.source) for item in asked) // workers)
        # A few lines, which one batch could hold, are work for every worker.
        batches = list(
            _batches(asked, replace(batching, tokens=min(batching.tokens, share)) if workers > 1 else batching)
        )
        answers: dict[int, Answer] = {}
        for batch, answered in zip(batches, _map(process, batches, workers), strict=True):
            answers.update(zip((item.line for item in batch), answered, strict=True))
        for item in buffer:
            yield item, answers.get(item.line)


def _map(function: Callable[[T], Answer], values: Sequence[T], workers: int) -> Iterator[Answer]:
    """``map``, with several calls at once where there are several workers; at an error or Ctrl-C no further one begins."""
    if min(workers, len(values)) <= 1:
        yield from map(function, values)
        return
    pool = ThreadPoolExecutor(workers)
    try:
        yield from pool.map(function, values)
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(items: list[_Item], batching: Batching) -> Iterator[list[_Item]]:
    """Items of like length together, the longest first: memory that suffices for the first batch suffices for all."""
    ranked = sorted(items, key=lambda item: (len(item.source), len(item.target)), reverse=True)
    while ranked:
        size = max(1, batching.tokens // len(ranked[0].source))
        size = min(size, batching.size or size)
        yield ranked[:size]
        ranked = ranked[size:]
