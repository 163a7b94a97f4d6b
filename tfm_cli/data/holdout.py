"""Validation pairs out of the training corpus, in one pass and without knowing how long the corpus is."""

import heapq

from tfm_cli.data.cleaning import hashed
from tfm_cli.data.storage import Encoded

SHARE, MOST = 0.02, 1000


class HoldOut:
    """Keeps back the pairs whose source has the smallest hashes.

    The choice depends on the text and the seed, not on the order. All pairs of a source stay together, so that no
    validation source is ever trained on.
    """

    def __init__(self, size: int | None, seed: int) -> None:
        """``size`` in pairs; None for 2 % of the corpus, 1,000 at most."""
        self._size, self._seed = size, seed
        self._capacity = MOST if size is None else size
        self._groups: dict[int, list[Encoded]] = {}
        self._largest: list[int] = []  # a heap of negated keys
        self._seen = 0

    def pass_on(self, pairs: list[Encoded]) -> list[Encoded]:
        """Take ``pairs``; return those that are certain to be for training."""
        self._seen += len(pairs)
        if not self._capacity:
            return pairs
        certain: list[Encoded] = []
        for pair in pairs:
            key = hashed(pair.source_text, seed=self._seed)
            if key in self._groups:
                self._groups[key].append(pair)
            elif len(self._groups) < self._capacity:
                self._groups[key] = [pair]
                heapq.heappush(self._largest, -key)
            elif key > -self._largest[0]:
                certain.append(pair)
            else:
                certain += self._groups.pop(-heapq.heapreplace(self._largest, -key))
                self._groups[key] = [pair]
        return certain

    def finish(self) -> tuple[list[Encoded], list[Encoded]]:
        """The pairs for validation, and those still to be trained on (one at least, where there is any)."""
        wanted = min(MOST, max(1, int(SHARE * self._seen))) if self._size is None else self._size
        wanted = min(wanted, self._seen - 1)
        held: list[Encoded] = []
        back: list[Encoded] = []
        for key in sorted(self._groups):
            group = self._groups[key]
            (held if len(held) + len(group) <= wanted else back).extend(group)
        return held, back
