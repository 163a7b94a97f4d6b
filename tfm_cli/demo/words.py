"""What a word of the demo's language is, and how English inflects it.

``kinds`` says what a thing can be used for; a verb or an adjective takes the nouns which share one of its kinds,
so that tea is drunk and books are read. Kinds and places are written as one string, names separated by spaces.
"""

from dataclasses import dataclass

IRREGULAR_PLURALS = {"child": "children", "fish": "fish", "person": "people"}
DOUBLED = ("run", "swim", "sit", "get", "put", "chat")  # run -> running


@dataclass(frozen=True)
class Noun:
    """A noun with its measure word (本); ``unit`` is set where English measures too: 一杯茶 = a cup of tea."""

    zh: str
    en: str
    measure: str
    kinds: str = ""
    unit: str = ""
    generic: bool = True  # may stand bare as an object: 吃苹果 = eat apples

    @property
    def plural(self) -> str:
        return self.en if self.unit else plural(self.en)


@dataclass(frozen=True)
class Verb:
    """English principal parts; a particle stays behind: listen to, listens to, listening to."""

    base: str
    past: str
    participle: str

    @property
    def third(self) -> str:
        head, *particle = self.base.split(" ", 1)
        if head in ("go", "teach", "watch", "wash"):
            head += "es"
        elif head.endswith("y") and head[-2] not in "aeou":
            head = head[:-1] + "ies"
        else:
            head = "has" if head == "have" else head + "s"
        return " ".join([head, *particle])

    @property
    def gerund(self) -> str:
        head, *particle = self.base.split(" ", 1)
        if head in DOUBLED:
            head += head[-1]
        elif head.endswith("e"):
            head = head[:-1]
        return " ".join([head + "ing", *particle])


@dataclass(frozen=True)
class Transitive:
    """A verb with the kinds of its objects, and of those that may be an everyday habit."""

    zh: str
    verb: Verb
    kinds: str
    places: str
    daily: str = ""
    asks_what: bool = True  # 看什么 could be read or watch, so it is never asked
    takes_owned: bool = True  # one repairs my car, but does not buy it


@dataclass(frozen=True)
class Activity:
    """A whole verb phrase: 跑步 = run. ``part`` is the only part of the day it belongs to."""

    zh: str
    verb: Verb
    tail: str
    places: str
    skill: bool = False
    part: str = ""


@dataclass(frozen=True)
class Adjective:
    zh: str
    attribute: str  # the form before a noun: 漂亮的, 新; empty where it is only a predicate
    en: str
    comparative: str
    kinds: str


@dataclass(frozen=True)
class Place:
    zh: str
    at: str
    to: str


@dataclass(frozen=True)
class Pronoun:
    zh: str
    en: str
    objective: str
    possessive: str
    agreement: str  # "I", "he" or "they": the verb form it takes


def plural(word: str) -> str:
    if word in IRREGULAR_PLURALS:
        return IRREGULAR_PLURALS[word]
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh")) else "s")


def article(phrase: str) -> str:
    """a book, an old book; no word of this lexicon is spelt against its sound."""
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase
