"""The engine that is CTranslate2: one left-to-right model on a CPU, without torch.

It searches by the rule of `tfm_cli.autoregressive.search`, so in float32 it writes the same translations. Where the two rules
part, what is done about it is said at the place.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.engine import Sentences
from tfm_cli.engines.store import FOR_CTRANSLATE2, Unsuited, discard
from tfm_cli.errors import TfmError
from tfm_cli.folder import read_config, read_tokenizers
from tfm_cli.text.tokenizer import Tokenizer, Tokenizers
from tfm_cli.transformer.hypothesis import Hypothesis
from tfm_cli.transformer.special import BEGIN, BLANK, END, MASK, NAMES, PAD

PRECISIONS = {"float32": "float32", "int8": "int8_float32"}  # what a user calls them, and what CTranslate2 does
POSITIONS = 2048  # that a converted network tells apart: enough for every sentence that default options let through
CONTROLS = [[NAMES[i]] for i in (PAD, BEGIN, MASK, BLANK)]  # never written; what `suppress_sequences` takes
_NO_PENALTY = 1e-30


class CTranslate2Engine:
    """A folder that `tfm_cli.engines.convert.convert` wrote, loaded; ``compute_type`` is CTranslate2's.

    ``threads`` compute each of the ``workers`` batches that are translated at once.
    """

    def __init__(
        self, folder: Path, tokenizers: Tokenizers, compute_type: str = "float32", workers: int = 1, threads: int = 1
    ) -> None:
        import ctranslate2

        self.workers = workers
        self._translator = ctranslate2.Translator(
            str(folder), compute_type=compute_type, inter_threads=workers, intra_threads=threads
        )
        self._source, self._target = _tokens(tokenizers.source), _tokens(tokenizers.target)
        self._ids = {token: i for i, token in enumerate(self._target)}

    @property
    def default_options(self) -> DecodeOptions:
        return DecodeOptions()

    def decode(self, batch: Sentences, options: DecodeOptions, with_scores: bool = True) -> list[list[Hypothesis]]:
        """See `tfm_cli.engines.engine.Engine`.

        Raises:
            TfmError: an option that is only torch's, or a sentence of more than `POSITIONS` tokens.
        """
        prefixes = batch.targets or [[]] * len(batch.sources)
        if reason := obstacle_to_search(options, any(prefixes)):
            raise TfmError(f"CTranslate2 {reason}", where="the options of the search", fix="Use the engine torch.")
        caps = [_cap(source, prefix, options) for source, prefix in zip(batch.sources, prefixes, strict=True)]
        _check_lengths(batch, caps)
        # CTranslate2 has one cap for a whole call, this rule one for each sentence. Under the smallest cap every search that
        # ends before it is what it would be under its own; the few others are searched again, like caps together.
        found = self._search(batch.sources, prefixes, min(caps), options)
        again: dict[int, list[int]] = {}
        for i, (hypotheses, cap) in enumerate(zip(found, caps, strict=True)):
            if cap > min(caps) and max(len(h.tokens) + h.finished for h in hypotheses) >= min(caps):
                again.setdefault(cap, []).append(i)
        for cap, places in again.items():
            redone = self._search([batch.sources[i] for i in places], [prefixes[i] for i in places], cap, options)
            for i, hypotheses in zip(places, redone, strict=True):
                found[i] = hypotheses
        found = [hypotheses[: options.n_best] for hypotheses in found]
        return self._with_scores(batch.sources, found, options) if with_scores else found

    def score(self, batch: Sentences, options: DecodeOptions) -> list[Hypothesis]:
        _check_lengths(batch, [len(target) for target in batch.targets or []])
        targets = [target[:-1] for target in batch.targets or []]
        log_probs = self._token_log_probs(batch.sources, targets)
        return [_hypothesis(target, terms, True, options) for target, terms in zip(targets, log_probs, strict=True)]

    def _search(
        self, sources: Sequence[list[int]], prefixes: Sequence[list[int]], cap: int, options: DecodeOptions
    ) -> list[list[Hypothesis]]:
        """Every hypothesis that the search of each sentence ended with, at most ``beam``."""
        answers = self._translator.translate_batch(
            _written(self._source, sources),
            target_prefix=_written(self._target, prefixes, 0) if any(prefixes) else None,
            beam_size=options.beam,
            # As many as there are, since the length of each tells whether the cap was reached.
            num_hypotheses=options.beam,
            # At exactly 0 CTranslate2 stops at the first hypothesis that it cannot better, with fewer than n of them.
            length_penalty=options.length_penalty or _NO_PENALTY,
            max_decoding_length=cap,
            min_decoding_length=0,
            max_input_length=0,
            suppress_sequences=CONTROLS,
            # Lengths that count END, as this rule's do.
            return_end_token=True,
            return_scores=True,
        )
        return [
            [self._read(tokens, score, options) for tokens, score in zip(a.hypotheses, a.scores, strict=True)]
            for a in answers
        ]

    def _read(self, tokens: list[str], score: float, options: DecodeOptions) -> Hypothesis:
        finished = tokens[-1] == NAMES[END]
        log_prob = score * len(tokens) ** options.length_penalty
        ids = [self._ids[token] for token in (tokens[:-1] if finished else tokens)]
        return Hypothesis(ids, score, log_prob, [], finished)

    def _with_scores(
        self, sources: Sequence[list[int]], found: list[list[Hypothesis]], options: DecodeOptions
    ) -> list[list[Hypothesis]]:
        """The same with exact numbers: a search of CTranslate2 shares out the probability of control tokens among the rest."""
        pairs = [(source, h.tokens) for source, hypotheses in zip(sources, found, strict=True) for h in hypotheses]
        log_probs = iter(self._token_log_probs([source for source, _ in pairs], [tokens for _, tokens in pairs]))
        scored = [
            [_hypothesis(h.tokens, next(log_probs), h.finished, options) for h in hypotheses] for hypotheses in found
        ]
        return [sorted(hypotheses, key=lambda h: h.score, reverse=True) for hypotheses in scored]

    def _token_log_probs(self, sources: Sequence[list[int]], targets: Sequence[list[int]]) -> list[list[float]]:
        """Log-probability of each target token and of END behind them."""
        scored = self._translator.score_batch(
            _written(self._source, sources),
            _written(self._target, targets, 0),
            max_batch_size=_SCORED,
            batch_type="tokens",
            max_input_length=0,
        )
        return [result.log_probs for result in scored]


def load(
    folder: str | Path,
    precision: str,
    workers: int,
    threads: int,
    tell: Callable[[str], None] | None = None,
) -> tuple[CTranslate2Engine, Tokenizers]:
    """A model folder's network, converted if it has not been; see `tfm_cli.engines.store.Form`."""
    folder = Path(folder)
    if precision not in PRECISIONS:
        raise Unsuited(f"CTranslate2 computes in {' or '.join(PRECISIONS)} here, not in {precision}", where=str(folder))
    tokenizers = read_tokenizers(read_config(folder), folder)
    for _ in range(2):
        kept = FOR_CTRANSLATE2.kept(folder, precision, tell or (lambda message: None))
        try:
            return CTranslate2Engine(kept, tokenizers, PRECISIONS[precision], workers, threads), tokenizers
        except RuntimeError as error:  # a file there is missing or damaged: made anew, once
            discard(kept)
            trouble = str(error)
    raise Unsuited(f"what is kept of it cannot be loaded ({trouble})", where=str(folder))


def obstacle_to_search(options: DecodeOptions, prefixed: bool) -> str | None:
    """What of a search CTranslate2 cannot do, or not as torch does it: the end of "CTranslate2 ..."; None if nothing."""
    if options.sample:
        return "draws other samples"
    if options.no_repeat_ngram:
        return "forbids repetitions before the softmax, not behind it"
    if options.min_length_ratio:
        return "forbids an early end before the softmax, not behind it"
    if prefixed and options.beam > 1:
        return "leaves a forced prefix out of the score"
    return None


_SCORED = 2048  # tokens whose logits exist at one time


def _tokens(tokenizer: Tokenizer) -> list[str]:
    return [tokenizer.token(i) for i in range(tokenizer.vocab_size)]


def _written(tokens: list[str], rows: Sequence[list[int]], end: int = 1) -> list[list[str]]:
    """Rows of ids as tokens, without the last ``end`` of each: CTranslate2 adds END itself."""
    return [[tokens[i] for i in row[: len(row) - end]] for row in rows]


def _check_lengths(batch: Sentences, targets: Sequence[int]) -> None:
    """Refuse a sentence that has, or whose translation may have, more tokens than positions; END counts on either side."""
    for line, source, target in zip(batch.lines, batch.sources, targets, strict=True):
        if (longest := max(len(source), target)) > POSITIONS:
            what = f"CTranslate2 is given {POSITIONS:,} positions, and this sentence may take {longest:,}"
            raise TfmError(what, where=f"line {line:,}", fix="Use --engine torch.")


def _cap(source: list[int], prefix: list[int], options: DecodeOptions) -> int:
    """The length at which a translation is cut, END counted, as in `tfm_cli.autoregressive.rules.Rules`."""
    cap = math.ceil((len(source) - 1) * options.max_length_ratio) + options.max_length_extra
    return max(cap, len(prefix) + 1)


def _hypothesis(tokens: list[int], terms: Sequence[float], finished: bool, options: DecodeOptions) -> Hypothesis:
    return Hypothesis.of(tokens, list(terms[: len(tokens) + finished]), finished, options.length_penalty)
