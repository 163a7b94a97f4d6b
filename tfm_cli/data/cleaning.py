"""Which training pairs are kept. A rule looks at one pair and names the reason to drop it, or None."""

from hashlib import blake2b

import numpy as np

EMPTY, LONG, RATIO, REPEATED = "one side is empty", "too long", "lengths too different", "repeated"
REASONS = (EMPTY, LONG, RATIO, REPEATED)

# Short sides say little: "OK." may well be twelve tokens elsewhere.
ALWAYS_PASS = 20


def empty(source: str, target: str) -> str | None:
    """A side that is blank: nothing, or white space only."""
    return None if source.strip() and target.strip() else EMPTY


def lengths(source: int, target: int, max_length: int, max_ratio: float) -> str | None:
    """Lengths in tokens: either above ``max_length``, or one more than ``max_ratio`` times the other."""
    longer, shorter = max(source, target), min(source, target)
    if longer > max_length:
        return LONG
    return RATIO if longer > max(ALWAYS_PASS, max_ratio * shorter) else None


def hashed(*texts: str, seed: int = 0) -> int:
    """64 bits that depend on the texts and the seed only, on every machine."""
    joined = "\0".join((str(seed), *texts))
    return int.from_bytes(blake2b(joined.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Seen:
    """Remembers texts as 8 bytes each: sorted runs that are merged as they double, like a log-structured store.

    Two different texts among a hundred million are taken for the same with a chance of 3 in 10,000.
    """

    def __init__(self, buffer_size: int = 1 << 14) -> None:
        self._buffer: set[int] = set()
        self._buffer_size = buffer_size
        self._runs: list[np.ndarray] = []

    def add(self, key: int) -> bool:
        """Remember a `hashed` key; was it new?"""
        if key in self._buffer or any(_holds(run, key) for run in self._runs):
            return False
        self._buffer.add(key)
        if len(self._buffer) >= self._buffer_size:
            self._runs.append(np.sort(np.fromiter(self._buffer, np.uint64, len(self._buffer))))
            self._buffer.clear()
            while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
                self._runs.append(np.sort(np.concatenate((self._runs.pop(), self._runs.pop()))))
        return True


def _holds(run: np.ndarray, key: int) -> bool:
    place = int(np.searchsorted(run, np.uint64(key)))
    return place < len(run) and int(run[place]) == key
