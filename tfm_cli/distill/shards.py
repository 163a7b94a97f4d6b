"""A teacher's answers on the disk, in pieces each of which is whole or not there."""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

SHARD = 1024  # sources between two savings
WHOLE, CUT, LONG = "whole", "cut", "long"

Answer = tuple[str, str]
"""A translation, which is ``WHOLE``, or was ``CUT`` since it would not end, or is of the beginning of a source too ``LONG``."""


def chunks(count: int) -> Iterator[tuple[int, int]]:
    """Beginning and end of each shard's part of so many."""
    return ((begin, min(begin + SHARD, count)) for begin in range(0, count, SHARD))


class Shards:
    """A hidden folder beside the output, named by the plan, so that another model or beam never goes on from it.

    Its name tells how much a shard holds too: with another `SHARD`, other sources would have the same numbers.
    """

    def __init__(self, output: Path, fingerprint: str) -> None:
        output = output.resolve()
        self._prefix = f".{output.name}-distilling-"
        self.folder = output.parent / f"{self._prefix}{fingerprint[:16]}-{SHARD}"
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, number: int, count: int) -> list[Answer] | None:
        """The ``count`` answers of a shard; None where it is missing, or damaged by a crash of the machine."""
        try:
            answers = [(text, fate) for text, fate in json.loads(self._file(number).read_text(encoding="utf-8"))]
        except (OSError, ValueError, TypeError):
            return None
        are_ours = all(isinstance(text, str) and fate in (WHOLE, CUT, LONG) for text, fate in answers)
        return answers if are_ours and len(answers) == count else None

    def write(self, number: int, answers: Sequence[Answer]) -> None:
        """Keep answers, whole or not at all."""
        fresh = self.folder / f"{number}.part"
        fresh.write_text(json.dumps(answers, ensure_ascii=False), encoding="utf-8")
        fresh.replace(self._file(number))

    def answers(self, count: int) -> Iterator[Answer]:
        """All ``count`` answers in the order of the sources; every shard must have been written."""
        for number, (begin, end) in enumerate(chunks(count)):
            answers = self.read(number, end - begin)
            assert answers is not None
            yield from answers

    def remove(self) -> None:
        """Delete these shards, and those that other plans for the same output left behind."""
        ours = re.compile(re.escape(self._prefix) + r"[0-9a-f]{16}(-[0-9]+)?")
        for folder in self.folder.parent.iterdir():
            if ours.fullmatch(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def _file(self, number: int) -> Path:
        return self.folder / f"{number:06d}.json"
