"""The text of a training benchmark, in the form that each tool reads."""

import gzip
import json
import math
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from measuring import run

PEERS = Path(__file__).parent / "peers"
ENVIRONMENTS = Path(__file__).parent / "work" / "peers"


@dataclass(frozen=True)
class Lengths:
    """Sums over the pairs of a corpus in one tool's tokens, END counted: all that speed and products are reckoned from.

    ``source``, ``target`` sum the lengths S and T; ``squares`` are the sums of S * S, T * T and S * T.
    """

    pairs: int
    source: int
    target: int
    squares: tuple[int, int, int]

    @classmethod
    def of(cls, lengths: list[tuple[int, int]], times: int = 1) -> "Lengths":
        sides = zip(*lengths, strict=True)
        source, target = map(sum, sides)
        squares = (sum(s * s for s, _ in lengths), sum(t * t for _, t in lengths), sum(s * t for s, t in lengths))
        return cls(times * len(lengths), times * source, times * target, tuple(times * one for one in squares))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Text:
    """A folder that holds ``train.<language>``, and what `encode` laid beside it; the languages are (source, target)."""

    folder: Path
    languages: tuple[str, str]

    @property
    def pairs(self) -> int:
        with (self.folder / f"train.{self.languages[0]}").open("rb") as file:
            return sum(1 for _ in file)

    @property
    def lengths(self) -> Lengths:
        """In the peers' joint vocabulary."""
        facts = json.loads((self.folder / "lengths.json").read_text(encoding="utf-8"))
        return Lengths.of(facts["lengths"], facts["times"])


def unpack(corpus: Path, languages: tuple[str, str], work: Path) -> Text:
    """The training text of ``corpus`` (``train.<language>``, or that with .gz), plain in ``work``."""
    text = Text(work / "text", languages)
    text.folder.mkdir(parents=True, exist_ok=True)
    for language in languages:
        plain, packed = corpus / f"train.{language}", corpus / f"train.{language}.gz"
        content = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
        (text.folder / plain.name).write_bytes(content)
    return text


def encode(text: Text, peer: str) -> None:
    """Learn the peers' joint BPE and write the text in it, by the Python of ``peer``'s environment. Once per text."""
    if (text.folder / "lengths.json").exists():
        return
    command = [str(ENVIRONMENTS / peer / "bin" / "python"), str(PEERS / "encode.py"), str(text.folder), *text.languages]
    run(command, text.folder, dict(os.environ), text.folder / "encode.log")


def repeated(text: Text, pairs: int, work: Path) -> Text:
    """``text`` over and over, until it holds at least ``pairs`` pairs; its vocabulary stays the same."""
    times = math.ceil(pairs / text.pairs)
    folder = work / f"text-times-{times}"
    folder.mkdir(parents=True, exist_ok=True)
    for file in text.folder.iterdir():
        if file.name == "lengths.json":
            facts = json.loads(file.read_text(encoding="utf-8"))
            (folder / file.name).write_text(json.dumps({**facts, "times": times}), encoding="utf-8")
        elif file.name.startswith("train."):
            content = file.read_bytes()
            with (folder / file.name).open("wb") as out:
                for _ in range(times):
                    out.write(content)
        else:
            shutil.copy(file, folder)
    return Text(folder, text.languages)
