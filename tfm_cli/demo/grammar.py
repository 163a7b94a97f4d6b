"""A small grammar that writes Chinese sentences with their English translations: the corpus of ``tfm demo``.

A translation is a function of the Chinese sentence, so a model which learns the grammar can translate every sentence
it has never seen. Everything is drawn from ``random.Random.random``: a seed means the same corpus everywhere.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from random import Random

from tfm_cli.demo import deeds, descriptions, questions
from tfm_cli.demo.phrases import Words, chance
from tfm_cli.errors import TfmError

CONSTRUCTIONS: tuple[tuple[int, Callable[[Random], Words]], ...] = (
    (10, deeds.habit),
    (9, deeds.past),
    (5, deeds.future),
    (5, deeds.now),
    (7, deeds.modal),
    (3, deeds.experience),
    (3, deeds.travel),
    (3, deeds.errand),
    (2, deeds.clock),
    (2, deeds.duration),
    (2, deeds.schooling),
    (2, deeds.well),
    (2, deeds.calling),
    (2, deeds.giving),
    (2, deeds.putting),
    (2, deeds.living),
    (3, deeds.possession),
    (6, descriptions.identity),
    (4, descriptions.who_is),
    (3, descriptions.this_is),
    (2, descriptions.colored),
    (7, descriptions.quality),
    (2, descriptions.why_so),
    (6, descriptions.comparison),
    (4, descriptions.location),
    (4, descriptions.existence),
    (6, descriptions.relative_thing),
    (5, descriptions.relative_person),
    (1, descriptions.origin),
    (1, descriptions.nearby),
    (3, questions.what),
    (3, questions.whom),
    (3, questions.who),
    (3, questions.where),
    (2, questions.at_what_time),
    (4, questions.why),
    (3, questions.which),
    (1, questions.price),
    (4, questions.request),
    (2, questions.suggestion),
    (3, questions.reason),
    (2, questions.condition),
)
UNPUNCTUATED = 0.1  # the share of pairs without a final mark, since users leave it out too
MINIMUM_TRAIN = 1000  # below this, too few words occur to write unseen sentences with them
DRAWS_PER_SENTENCE = 200  # far beyond what a space of hundreds of thousands of sentences needs


@dataclass(frozen=True)
class Pair:
    source: str
    target: str


@dataclass(frozen=True)
class Corpus:
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


SHOWCASE = (
    Pair("我是谁", "Who am I"),
    Pair("我昨天买的书很有意思。", "The book that I bought yesterday is very interesting."),
    Pair("你昨天为什么没去学校？", "Why did you not go to school yesterday?"),
    Pair("桌子上有三本书。", "There are three books on the table."),
    Pair("她每天坐公共汽车去图书馆。", "She goes to the library by bus every day."),
    Pair("我妹妹比我高一点。", "My younger sister is a little taller than me."),
)


def sentences(count: int, seed: int) -> list[Pair]:
    """``count`` pairs, distinct by source even without the final mark; the same for a seed on every platform.

    Raises:
        TfmError: ``count`` is more than the grammar can write.
    """
    stream = _distinct(Random(seed), set())
    pairs = list(islice(stream, count))
    if len(pairs) < count:
        raise TfmError(f"the demo's grammar cannot write {count} distinct sentences", fix="Ask for fewer.")
    return pairs


def corpus(train: int = 8000, valid: int = 300, test: int = 300, seed: int = 1) -> Corpus:
    """Three disjoint sets, none of which holds a sentence of ``SHOWCASE``; train knows every word of the others.

    Raises:
        TfmError: ``train`` is too small to know the words of the other sets.
    """
    if train < MINIMUM_TRAIN:
        fix = f"Ask for at least {MINIMUM_TRAIN}."
        raise TfmError(f"{train} training sentences are too few for the demo's vocabulary", fix=fix)
    stream = _distinct(Random(seed), {_unmarked(pair.source) for pair in SHOWCASE})
    taught = list(islice(stream, train))
    known = {word for pair in taught for word in words(pair)}
    unseen = (pair for pair in stream if known.issuperset(words(pair)))
    held_out = list(islice(unseen, valid + test))
    if len(held_out) < valid + test:
        raise TfmError(
            f"the demo's grammar cannot write {train + valid + test} distinct sentences", fix="Ask for fewer."
        )
    return Corpus(taught, held_out[:valid], held_out[valid:])


def words(pair: Pair) -> list[str]:
    """Every Chinese character and every English word, marks included."""
    return list(pair.source) + re.findall(r"[\w']+|[^\w\s]", pair.target)


def _distinct(rng: Random, taken: set[str]) -> Iterator[Pair]:
    """New sentences until the grammar has visibly run out of them; ``taken`` are sources without a final mark."""
    thresholds = list(accumulate(weight for weight, _ in CONSTRUCTIONS))
    stale = 0
    while stale < DRAWS_PER_SENTENCE:
        pair = _sentence(rng, thresholds)
        key = _unmarked(pair.source)
        stale = stale + 1 if key in taken else 0
        if not stale:
            taken.add(key)
            yield pair


def _sentence(rng: Random, thresholds: list[int]) -> Pair:
    drawn = rng.random() * thresholds[-1]
    construct = next(make for limit, (_, make) in zip(thresholds, CONSTRUCTIONS, strict=True) if drawn < limit)
    source, target = construct(rng)
    if chance(rng, UNPUNCTUATED):
        return Pair(_unmarked(source), target[:-1])
    return Pair(source, target)


def _unmarked(source: str) -> str:
    return source.rstrip("。？")
