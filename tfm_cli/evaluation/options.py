"""What `evaluate` can be asked for."""

from dataclasses import dataclass

from tfm_cli.options import option

# sacrebleu's tokenizers but two: "none" would score tokenised text, and "spm" is an old name of flores101.
TOKENIZERS = ("13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "flores101", "flores200", "spBLEU-1K")


@dataclass(frozen=True)
class EvaluateOptions:
    """The metrics wanted and how they are computed. With no metric asked for, all three are computed."""

    bleu: bool = option(False, "Compute BLEU (all three metrics when none is asked for).")
    chrf: bool = option(False, "Compute chrF.")
    ter: bool = option(False, "Compute TER.")
    tokenize: str | None = option(
        None,
        "sacreBLEU tokenizer for BLEU; chosen by the target language when not given. "
        "The flores and spBLEU tokenizers are downloaded when first used.",
        choices=TOKENIZERS,
    )
    lowercase: bool = option(False, "Ignore case in BLEU and chrF (TER always does, as in sacreBLEU).")
    confidence: bool = option(True, "Give 95 % confidence intervals by bootstrap resampling.")
    bootstrap_samples: int = option(1000, "Number of bootstrap resamples; 0 for no interval.", minimum=0)
    # sacrebleu's own default; and its paired test takes 0 for "no seed".
    seed: int = option(12345, "Seed of the bootstrap resampling.", minimum=1)
