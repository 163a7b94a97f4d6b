"""What a left-to-right search can be asked for."""

from dataclasses import dataclass, fields

from tfm_cli.errors import TfmError
from tfm_cli.options import check, option

GROUP = "Search"
SAMPLING = "Sampling"


@dataclass(frozen=True)
class DecodeOptions:
    """Beam search (``beam`` = 1 is greedy search), or sampling where ``sample`` is set; ``beam`` then plays no part.

    Lengths are in target tokens, END counted, against the S tokens of the source, END not counted: at most
    ``ceil(max_length_ratio * S) + max_length_extra``, at least ``floor(min_length_ratio * S)`` before END may come.
    """

    beam: int = option(5, "Beam size; 1 is greedy search.", minimum=1, maximum=1000, group=GROUP)
    length_penalty: float = option(
        1.0,
        "Rank by log-probability / length^this; 0 ranks by log-probability alone.",
        minimum=0,
        maximum=10,
        group=GROUP,
    )
    n_best: int = option(1, "Translations to give for each line, best first.", minimum=1, maximum=1000, group=GROUP)
    no_repeat_ngram: int = option(
        0, "Never write the same run of this many tokens twice; 0 allows it.", minimum=0, group=GROUP
    )
    max_length_ratio: float = option(2.0, "Longest translation, in tokens per source token.", minimum=0, group=GROUP)
    max_length_extra: int = option(10, "Tokens granted on top of --max-length-ratio.", minimum=1, group=GROUP)
    min_length_ratio: float = option(0.0, "Shortest translation, in tokens per source token.", minimum=0, group=GROUP)
    sample: bool = option(False, "Draw translations at random instead of searching for the best.", group=SAMPLING)
    temperature: float = option(
        1.0, "Below 1 draws likelier tokens more often, above 1 less often.", minimum=0.001, group=SAMPLING
    )
    top_k: int = option(0, "Draw from this many likeliest tokens; 0 for all.", minimum=0, group=SAMPLING)
    top_p: float = option(
        1.0,
        "Draw from the likeliest tokens that hold this share of probability.",
        minimum=0.001,
        maximum=1,
        group=SAMPLING,
    )
    seed: int = option(
        1, "Seed of the draws; a line's draws depend on it and on the line's number.", minimum=0, group=SAMPLING
    )

    def __post_init__(self) -> None:
        check(self)
        if not self.sample:
            defaults = {f.name: f.default for f in fields(self)}
            for name in ("temperature", "top_k", "top_p"):
                if getattr(self, name) != defaults[name]:
                    raise TfmError(
                        "this setting of sampling means nothing to a search",
                        where="--" + name.replace("_", "-"),
                        fix="Add --sample, or leave it out.",
                    )
            if self.n_best > self.beam:
                raise TfmError(
                    f"a beam of {self.beam} cannot give {self.n_best} translations",
                    where="--n-best",
                    fix=f"Use --beam {self.n_best} or more.",
                )
        if self.min_length_ratio > self.max_length_ratio:
            raise TfmError(
                f"the shortest translation allowed ({self.min_length_ratio:g} per source token) is longer than "
                f"the longest ({self.max_length_ratio:g})",
                where="--min-length-ratio",
            )

    @property
    def width(self) -> int:
        """Hypotheses written side by side for one sentence."""
        return self.n_best if self.sample else self.beam
