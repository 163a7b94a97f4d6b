"""An engine whose candidates another model judges: an autoregressive one reads each once and the likeliest wins.

What is written all at once knows little of how its words follow each other. One pass of a model that does tells which of
several candidates, of different lengths or from a beam, reads best (Gu et al. 2018, section 4, noisy parallel decoding).
"""

from dataclasses import replace
from typing import Any

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.engine import Engine, Sentences
from tfm_cli.transformer.hypothesis import Hypothesis
from tfm_cli.transformer.special import END

MEAN = DecodeOptions(beam=1, length_penalty=1.0)  # the score of a translation is its mean log-probability, END counted


class Reranked:
    """``engine`` writes several candidates, ``ranker`` scores them; the numbers of what is chosen are the ranker's.

    Both have one and the same tokenizers.
    """

    def __init__(self, engine: Engine, ranker: Engine) -> None:
        self.engine, self.ranker = engine, ranker
        self.workers = min(engine.workers, ranker.workers)

    @property
    def family(self) -> Any:
        """The writer's, where its engine has one."""
        return self.engine.family  # type: ignore[attr-defined]

    @property
    def default_options(self) -> Any:
        return self.engine.default_options

    def decode(self, batch: Sentences, options: Any, with_scores: bool = True) -> list[list[Hypothesis]]:
        written = self.engine.decode(batch, replace(options, every_candidate=True), False)
        # Two lengths that are cut to one cap give the same translation twice.
        candidates = [list(dict.fromkeys(tuple(each.tokens) for each in found)) for found in written]
        sources = [source for source, found in zip(batch.sources, candidates, strict=True) for _ in found]
        targets = [[*tokens, END] for found in candidates for tokens in found]
        lines = [line for line, found in zip(batch.lines, candidates, strict=True) for _ in found]
        scored = iter(self.ranker.score(Sentences(sources, targets, lines), MEAN))
        ranked = [[next(scored) for _ in found] for found in candidates]
        return [[max(found, key=lambda each: each.score)] for found in ranked]

    def score(self, batch: Sentences, options: Any) -> list[Hypothesis]:
        return self.engine.score(batch, options)
