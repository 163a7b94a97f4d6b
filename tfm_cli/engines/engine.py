"""What the translator knows of an engine."""

from dataclasses import dataclass
from typing import Any, Protocol

from tfm_cli.transformer.hypothesis import Hypothesis


@dataclass(frozen=True)
class Sentences:
    """A batch of source ids, each with END at its end.

    ``targets`` are forced prefixes in decoding, else None, and whole translations with END at their end in scoring; ``lines``
    the sentences' numbers in their stream, on which anything drawn at random depends.
    """

    sources: list[list[int]]
    targets: list[list[int]] | None
    lines: list[int]


@dataclass(frozen=True)
class Setup:
    """With what an engine works: ``workers`` batches at once, with so many ``threads`` each, ``compiled`` where code is
    generated."""

    engine: str
    device: str
    precision: str
    workers: int
    threads: int
    compiled: bool = False


class Engine(Protocol):
    """Runs a model. ``workers`` batches may be given to it at once, from as many threads."""

    workers: int

    @property
    def default_options(self) -> Any:
        """How it decodes where nobody says otherwise."""

    def decode(self, batch: Sentences, options: Any, with_scores: bool) -> list[list[Hypothesis]]:
        """Per sentence its translations, best first, under the one rule of `tfm_cli.autoregressive.search`.

        Without ``with_scores`` an engine may leave out each token's log-probability, and give the sum to three digits only.
        """

    def score(self, batch: Sentences, options: Any) -> list[Hypothesis]:
        """The given translations as decoding would have scored them."""
