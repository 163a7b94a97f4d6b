"""BLEU, chrF and TER of plain (detokenised) text, by sacreBLEU (Post 2018), each with the signature that reproduces it."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from sacrebleu import BLEU, CHRF, TER
from sacrebleu.metrics.base import Metric
from sacrebleu.significance import PairedTest

from tfm_cli.errors import TfmError
from tfm_cli.evaluation.options import EvaluateOptions
from tfm_cli.options import check

# Languages written without spaces, or with words that spaces do not end; two- and three-letter codes of ISO 639.
_TOKENIZERS = {
    "zh": ("zh", "zho", "chi", "cmn", "yue", "wuu", "hak", "nan", "lzh"),
    "ja-mecab": ("ja", "jpn"),
    "ko-mecab": ("ko", "kor"),
    "char": ("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib", "dz", "dzo"),
}
_TOKENIZER_OF = {language: tokenizer for tokenizer, languages in _TOKENIZERS.items() for language in languages}


@dataclass(frozen=True)
class Score:
    """One metric of one system.

    ``value`` and ``interval`` are on sacreBLEU's scale (percent). The interval is the 95 % one of bootstrap resampling
    (Koehn 2004): the mean of the resamples and, on both sides, half the width of their middle 95 %.
    """

    metric: str
    value: float
    signature: str
    interval: tuple[float, float] | None = None
    details: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Comparison:
    """One metric of one system beside the baseline, by paired bootstrap resampling (Koehn 2004).

    ``p_value`` is the two-sided probability of a difference from the baseline at least this large if the two systems
    were equally good; None for the baseline itself. ``mean`` and ``interval`` (95 %) are those of the resamples.
    """

    metric: str
    system: str
    value: float
    mean: float
    interval: tuple[float, float]
    p_value: float | None
    signature: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def tokenizer_for(language: str | None) -> str:
    """The BLEU tokenizer for a target language: a code such as ``zh``, ``zh-CN``, ``zh_Hans``, ``ja-JP`` or ``tha``."""
    primary = re.split("[-_]", language.strip().lower())[0] if language else ""
    return _TOKENIZER_OF.get(primary, "13a")


def looks_tokenized(hypotheses: Sequence[str]) -> bool:
    """Whether more than half of the non-empty lines end in a full stop that stands apart, as tokenised text does."""
    lines = [line for line in map(str.rstrip, hypotheses) if line]
    return sum(line.endswith((" .", " 。")) for line in lines) > len(lines) / 2


def evaluate(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    options: EvaluateOptions,
    language: str | None,
) -> list[Score]:
    """Score one system; the values are those of the `sacrebleu` command with the settings that the signature tells.

    Args:
        hypotheses: N detokenised lines.
        references: one sequence of N detokenised lines for each reference set.
        language: code of the target language, which picks how text is split into words where `options` does not.

    Raises:
        TfmError: nothing to score, numbers of lines that differ, or a tokenizer that is not installed.
    """
    _check_lengths(hypotheses, references)
    samples = options.bootstrap_samples if options.confidence else 0
    scores = []
    for name, metric in _metrics(options, language).items():
        with _bootstrap_seed(options.seed):
            result = metric.corpus_score(hypotheses, references, n_bootstrap=samples)
        interval = _interval(result._mean, result._ci) if samples > 1 else None
        scores.append(Score(name, float(result.score), str(metric.get_signature()), interval, _details(result)))
    return scores


def compare(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    options: EvaluateOptions,
    language: str | None,
) -> list[Comparison]:
    """Compare systems with the first one, the baseline, by paired bootstrap resampling; metric by metric.

    Args:
        systems: N detokenised hypotheses for each name, at least two names.
        references: as for `evaluate`.

    Raises:
        TfmError: as for `evaluate`; also fewer than two systems or resamples.
    """
    if len(systems) < 2:
        raise TfmError(f"a comparison needs two systems or more, not {len(systems)}")
    if options.bootstrap_samples < 2:
        raise TfmError("a comparison needs at least 2 resamples", where="--bootstrap-samples", fix="1000 is usual.")
    for name, hypotheses in systems.items():
        _check_lengths(hypotheses, references, where=name)

    metrics = _metrics(options, language)
    with _bootstrap_seed(options.seed):
        test = PairedTest(list(systems.items()), metrics, references, "bs", options.bootstrap_samples)
        signatures, table = test()
    results = [column for title, column in table.items() if title != "System"]
    return [
        _comparison(metric, system, result, baseline=column[0], signature=str(signature))
        for metric, column, signature in zip(metrics, results, signatures.values(), strict=True)
        for system, result in zip(systems, column, strict=True)
    ]


def quick_scores(hypotheses: Sequence[str], references: Sequence[str], language: str | None) -> list[Score]:
    """BLEU and chrF against one reference set, without intervals: what validation during training needs."""
    return evaluate(hypotheses, [references], EvaluateOptions(bleu=True, chrf=True, confidence=False), language)


def _check_lengths(hypotheses: Sequence[str], references: Sequence[Sequence[str]], where: str = "") -> None:
    if not hypotheses:
        raise TfmError("there are no hypotheses to score", where=where)
    if not references:
        raise TfmError("there are no references to score against", where=where)
    for number, reference in enumerate(references, start=1):
        if len(reference) != len(hypotheses):
            which = f"reference set {number}" if len(references) > 1 else "the reference"
            raise TfmError(
                f"{len(hypotheses)} hypotheses but {len(reference)} lines in {which}",
                where=where,
                fix="Line n of one must be the translation that line n of the other is held against.",
            )


def _metrics(options: EvaluateOptions, language: str | None) -> dict[str, Metric]:
    check(options)
    by_language = tokenizer_for(language)
    tokenizer = options.tokenize or by_language
    # By default TER takes an unspaced Chinese sentence for one word; this splits it into characters.
    by_character = not {tokenizer, by_language}.isdisjoint({"zh", "ja-mecab"})
    build: dict[str, Callable[[], Metric]] = {
        "BLEU": lambda: _bleu(tokenizer, options.lowercase),
        "chrF": lambda: CHRF(lowercase=options.lowercase),
        "TER": lambda: TER(normalized=by_character, asian_support=by_character),
    }
    asked = {"BLEU": options.bleu, "chrF": options.chrf, "TER": options.ter}
    return {name: _resampling(build[name]()) for name in build if asked[name] or not any(asked.values())}


def _resampling(metric: Metric) -> Metric:
    """Resamples score in numpy's float32, but those of no match in Python's 0.0, and the mean cannot add the two.

    It can add an integer to either.
    """
    compute = metric._compute_score_from_stats

    def compute_addable(stats: Any) -> Any:
        result = compute(stats)
        if type(result.score) is float and result.score.is_integer():
            result.score = int(result.score)
        return result

    metric._compute_score_from_stats = compute_addable  # type: ignore[method-assign]
    return metric


def _bleu(tokenizer: str, lowercase: bool) -> BLEU:
    try:
        # force: sacrebleu's warning of tokenised text is ours to give, see `looks_tokenized`.
        return BLEU(tokenize=tokenizer, lowercase=lowercase, force=True)
    except (ImportError, OSError, RuntimeError) as error:
        what = f"the BLEU tokenizer {tokenizer} could not be loaded: {str(error).strip()}"
        fix = ""
        if tokenizer.endswith("-mecab"):
            what = f"the BLEU tokenizer {tokenizer} needs MeCab and its dictionary"
            fix = f"Install them with: pip install 'tfm-cli[{tokenizer.removesuffix('-mecab')}]'"
        elif isinstance(error, ImportError):
            what = f"the BLEU tokenizer {tokenizer} needs sentencepiece"
            fix = "Install it with: pip install sentencepiece"
        raise TfmError(what, fix=fix) from error


@contextmanager
def _bootstrap_seed(seed: int) -> Iterator[None]:
    """Set the seed where sacrebleu reads it, which is the environment only."""
    before = os.environ.get("SACREBLEU_SEED")
    os.environ["SACREBLEU_SEED"] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ["SACREBLEU_SEED"]
        else:
            os.environ["SACREBLEU_SEED"] = before


def _interval(mean: float, half: float) -> tuple[float, float]:
    return float(mean) - float(half), float(mean) + float(half)  # sacrebleu's may be numpy's float32


def _details(result: Any) -> dict[str, float]:
    if result.name == "BLEU":
        precisions = {f"precision_{n}": float(p) for n, p in enumerate(result.precisions, start=1)}
        return {"brevity_penalty": float(result.bp), "length_ratio": float(result.ratio), **precisions}
    if result.name == "TER":
        return {"edits": float(result.num_edits), "reference_length": float(result.ref_length)}
    return {}


def _comparison(metric: str, system: str, result: Any, *, baseline: Any, signature: str) -> Comparison:
    p_value = None
    if result is not baseline:
        # No difference at all is never significant, yet sacrebleu's p-value for two equal outputs is its smallest.
        p_value = 1.0 if result.score == baseline.score else float(result.p_value)
    interval = _interval(result.mean, result.ci)
    return Comparison(metric, system, float(result.score), float(result.mean), interval, p_value, signature)
