"""Text in the source language alone, which the teacher translates too."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256

from tfm_cli.data.dataset import DataFolder


@dataclass(frozen=True)
class Monolingual:
    """More text in the source language, whose translations join the pairs (Zhou and Keung 2020): distinct ``lines``.

    ``dropped`` counts lines that were empty, repeated, or sources of the validation or test text.
    """

    lines: Sequence[str] = ()
    dropped: int = 0

    @classmethod
    def of(cls, lines: Iterable[str], data: DataFolder) -> "Monolingual":
        """What is of use among ``lines`` beside ``data``."""
        known = {source for split in (data.valid, data.test) if split is not None for source, _ in split.texts()}
        kept: dict[str, None] = {}
        count = 0
        for line in lines:
            count += 1
            if line.strip() and line not in known:
                kept[line] = None
        return cls(tuple(kept), count - len(kept))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the lines; empty without any."""
        return sha256("\n".join(self.lines).encode()).hexdigest() if self.lines else ""
