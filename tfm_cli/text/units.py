"""A translation unit, whatever file it came from, and which two of its languages are a sentence pair."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

# One text a language; the code is None where the file does not say it. What the file calls the source stands first.
Unit: TypeAlias = Sequence[tuple[str | None, str]]

# A no-break or an ideographic space alone is part of the text; all else here is its layout.
_LAYOUT = re.compile("\\s{2,}|[\t\n\r\v\f\x1c-\x1f\x85\u2028\u2029]")


def clean(text: str) -> str:
    """The text on one line: every run of spaces, tabs and line breaks is one space, and there are none at the ends."""
    return _LAYOUT.sub(" ", text).strip()


@lru_cache(1 << 10)
def normal(code: str) -> str:
    """A language code in the one spelling that is compared: ``en_US`` -> ``en-us``."""
    return code.strip().replace("_", "-").lower()


def primary(code: str) -> str:
    """The language without script and region: ``en-us`` -> ``en``."""
    return code.partition("-")[0]


@dataclass(frozen=True)
class LanguagePair:
    """Two normal language codes; ``de`` finds ``de-at`` and the reverse, unless both are of one language."""

    source: str
    target: str

    def pick(self, unit: Unit) -> tuple[int, int] | None:
        """Where the source and the target stand in ``unit``; None where either is missing.

        An exact code is preferred to another variant. Texts without a code take the places that are left, in order.
        """
        source, target = self._find(unit, self.source), self._find(unit, self.target)
        free = [place for place, (code, _) in enumerate(unit) if code is None]
        if source is None and free:
            source = free.pop(0)
        if target is None and free:
            target = free.pop(0)
        return None if source is None or target is None else (source, target)

    def _find(self, unit: Unit, wanted: str) -> int | None:
        language = primary(wanted)
        near = None
        for place, (code, _) in enumerate(unit):
            if code == wanted:
                return place
            if near is None and code is not None and primary(code) == language:
                near = place
        return None if primary(self.source) == primary(self.target) else near
