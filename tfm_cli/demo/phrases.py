"""Noun phrases and clauses, each written in both languages at once.

A clause keeps its parts apart and lays them out twice. Chinese: subject, time, adverb, mood, manner, place, verb,
object. English: subject, auxiliary, adverb, verb, object, place, manner, time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

from tfm_cli.demo import lexicon as lex
from tfm_cli.demo.words import Activity, Noun, Place, Transitive, Verb, article, plural

Item = TypeVar("Item")
Words = tuple[str, str]  # the same words in Chinese and in English
NOTHING: Words = ("", "")


def pick(rng: Random, items: Sequence[Item]) -> Item:
    """One of ``items``. Only ``Random.random`` promises the same numbers in every version of Python."""
    return items[int(rng.random() * len(items))]


def chance(rng: Random, probability: float) -> bool:
    return rng.random() < probability


def shares(kinds: str, others: str) -> bool:
    return any(kind in others.split() for kind in kinds.split())


def english(*words: str) -> str:
    return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Nominal:
    """A noun phrase. ``agreement`` is "I", "he" or "they"; ``members`` are the persons it is about."""

    zh: str
    en: str
    agreement: str = "he"
    objective: str = ""
    possessive: str = ""
    members: tuple[str, ...] = ()

    @property
    def object(self) -> str:
        return self.objective or self.en

    @property
    def owner(self) -> str:
        return self.possessive or self.en + ("'" if self.en.endswith("s") else "'s")

    @property
    def plural(self) -> bool:
        return self.agreement == "they"

    def overlaps(self, other: "Nominal") -> bool:
        return self.zh == other.zh or any(member in other.members for member in self.members)


def pronoun(rng: Random) -> Nominal:
    word = pick(rng, lex.PRONOUNS)
    return Nominal(word.zh, word.en, word.agreement, word.objective, word.possessive, (word.zh[0],))


def named(rng: Random) -> Nominal:
    zh, en = pick(rng, lex.MEN + lex.WOMEN)
    return Nominal(zh, en, members=(zh,))


def kin(rng: Random) -> Nominal:
    owner = pick(rng, lex.PRONOUNS[:4])
    zh, en = pick(rng, lex.BROTHERS + lex.SISTERS)
    return Nominal(owner.zh + zh, f"{owner.possessive} {en}", members=(owner.zh + zh,))


def relation(rng: Random) -> Nominal:
    owner, noun = pronoun(rng), pick(rng, lex.RELATIONS)
    return Nominal(f"{owner.zh}的{noun.zh}", f"{owner.owner} {noun.en}")


def shown(rng: Random) -> Nominal:
    return pointed(rng, pick(rng, lex.JOBS + lex.YOUNG))


def crowd(rng: Random) -> Nominal:
    noun = pick(rng, (*lex.YOUNG[:1], *lex.JOBS[:2]))
    return Nominal(noun.zh + "们", f"the {noun.plural}", "they")


def together(rng: Random) -> Nominal:
    other = kin(rng) if chance(rng, 0.5) else named(rng)
    return Nominal(f"我和{other.zh}", f"{other.en} and I", "they", f"{other.en} and me", members=("我", *other.members))


def person(rng: Random) -> Nominal:
    chosen = rng.random()
    for share, make in ((0.45, pronoun), (0.6, named), (0.75, kin), (0.85, relation), (0.92, shown), (0.96, crowd)):
        if chosen < share:
            return make(rng)
    return together(rng)


def individual(rng: Random) -> Nominal:
    """A person who can be a possessor, a companion or a rival: no pairs, no crowds."""
    return pick(rng, (pronoun, pronoun, named, kin))(rng)


def other_than(rng: Random, subject: Nominal) -> Nominal:
    while True:
        candidate = individual(rng)
        if not candidate.overlaps(subject):
            return candidate


def pointed(rng: Random, noun: Noun, attribute: Words = NOTHING, several: float = 0.25) -> Nominal:
    """这本书 = this book, 那些书 = those books (with the probability ``several``), 这杯茶 = this cup of tea."""
    several = not noun.unit and chance(rng, several)
    zh, en = pick(rng, (("这", "these" if several else "this"), ("那", "those" if several else "that")))
    name = english(attribute[1], noun.plural if several else noun.en)
    head = f"{noun.unit} of {name}" if noun.unit else name
    measure = "些" if several else noun.measure
    return Nominal(f"{zh}{measure}{attribute[0]}{noun.zh}", f"{en} {head}", "they" if several else "he")


def one(noun: Noun, attribute: Words = NOTHING) -> Nominal:
    name = english(attribute[1], noun.en)
    head = article(f"{noun.unit} of {name}" if noun.unit else name)
    return Nominal(f"一{noun.measure}{attribute[0]}{noun.zh}", head)


def count_noun(noun: Noun) -> str:
    """What follows a number in English: books, cups of tea."""
    return f"{plural(noun.unit)} of {noun.en}" if noun.unit else noun.plural


def counted(rng: Random, noun: Noun) -> Nominal:
    zh, en = pick(rng, lex.NUMBERS)
    return Nominal(f"{zh}{noun.measure}{noun.zh}", f"{en} {count_noun(noun)}", "they")


def owned(rng: Random, noun: Noun, attribute: Words = NOTHING) -> Nominal:
    """我的书 = my book: what is owned is one thing, or one pair of shoes."""
    owner, name = individual(rng), english(attribute[1], noun.en)
    head = f"{noun.unit} of {name}" if noun.unit and noun.unit != "pair" else name
    agreement = "they" if noun.unit == "pair" else "he"
    return Nominal(f"{owner.zh}的{attribute[0]}{noun.zh}", f"{owner.owner} {head}", agreement)


def bare(noun: Noun) -> Nominal:
    agreement = "he" if noun.unit and noun.unit != "pair" else "they"
    return Nominal(noun.zh, noun.plural, agreement)


def attribute(rng: Random, noun: Noun, *, short: bool = False) -> Words:
    """An adjective before the noun, or none: 有意思的 = interesting, 红色的 = red; short ones, like 新, have no 的."""
    if not short and shares("color", noun.kinds) and chance(rng, 0.2):
        zh, en = pick(rng, lex.COLORS)
        return f"{zh}的", en
    words = [word for word in lex.ADJECTIVES if word.attribute and shares(word.kinds, noun.kinds)]
    fitting = [(word.attribute, word.en) for word in words if not (short and word.attribute.endswith("的"))]
    return pick(rng, fitting) if fitting and chance(rng, 0.35) else NOTHING


@cache
def things(kinds: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in lex.NOUNS if shares(kinds, noun.kinds))


def definite(rng: Random, noun: Noun) -> Nominal:
    """这本书 or 我的书."""
    if (noun.unit and noun.unit != "pair") or chance(rng, 0.6):
        return pointed(rng, noun, attribute(rng, noun))
    return owned(rng, noun, attribute(rng, noun, short=True))


def indefinite(rng: Random, noun: Noun) -> Nominal:
    """一本书 or 三本书."""
    return one(noun, attribute(rng, noun)) if chance(rng, 0.6) else counted(rng, noun)


@dataclass(frozen=True)
class Mood:
    """How a verb is set in time or possibility: words before and after it in Chinese, an auxiliary in English.

    ``between`` is a second English verb: 想 = want to, so that 他不想去 = he does not want to go.
    """

    zh: str
    negative: str
    auxiliary: str
    suffix: str = ""
    negative_suffix: str = ""
    between: Verb | None = None


HABIT = Mood("", "不", "do")
PAST = Mood("", "没", "did", suffix="了")
FUTURE = Mood("会", "不会", "will")
NOW = Mood("正在", "没在", "be")
EXPERIENCE = Mood("", "没", "have", suffix="过", negative_suffix="过")
WISH = Mood("想", "不想", "do", between=lex.WANT)
FONDNESS = Mood("喜欢", "不喜欢", "do", between=lex.LIKE)
ABILITY = Mood("能", "不能", "can")
SKILL = Mood("会", "不会", "can")
DUTY = Mood("应该", "不应该", "should")
COMING = Mood("", "不", "will")  # 你什么时候去 = when will you go
THEN = Mood("就", "就不", "will")  # 如果..., 我们就去 = if ..., we will go


def copula(agreement: str) -> str:
    return {"I": "am", "he": "is", "they": "are"}[agreement]


def auxiliary(word: str, agreement: str) -> str:
    if word == "be":
        return copula(agreement)
    return {"do": "does", "have": "has"}.get(word, word) if agreement == "he" else word


@dataclass(frozen=True)
class Action:
    """A verb and its object; ``whole`` where 了 follows the object (喝茶了) and not the verb (喝了一杯茶)."""

    zh: str
    verb: Verb
    object: Words = NOTHING
    whole: bool = False
    places: str = ""
    part: str = ""


def doing(activity: Activity) -> Action:
    return Action(activity.zh, activity.verb, ("", activity.tail), True, activity.places, activity.part)


def handling(verb: Transitive, thing: Nominal, *, whole: bool = False) -> Action:
    return Action(verb.zh, verb.verb, (thing.zh, thing.object), whole, verb.places)


def going(place: Place) -> Action:
    return Action("回" if place.zh == "家" else "去", lex.GO, (place.zh, place.to))


@dataclass(frozen=True)
class Clause:
    subject: Nominal
    mood: Mood
    action: Action
    time: Words = NOTHING
    place: Words = NOTHING
    manner: Words = NOTHING
    adverb: Words = NOTHING
    negative: bool = False
    fronted: bool = False  # 昨天他..., which English does not follow

    def zh(self) -> str:
        opening = self.time[0] + self.subject.zh if self.fronted else self.subject.zh + self.time[0]
        mood = self.mood.negative if self.negative else self.mood.zh
        suffix = self.mood.negative_suffix if self.negative else self.mood.suffix
        verb = self.action.zh + self.action.object[0] + suffix
        if not self.action.whole:
            verb = self.action.zh + suffix + self.action.object[0]
        middle = mood + self.manner[0] + (f"在{self.place[0]}" if self.place[0] else "")
        return opening + self.adverb[0] + middle.replace("在在", "在") + verb

    def statement(self) -> str:
        """English in the order of a statement."""
        main = self._main_verb()
        plain = self.mood.auxiliary in ("do", "did") and not self.negative
        if plain:
            verb = self.mood.between or self.action.verb
            finite = verb.third if self.subject.agreement == "he" else verb.base
            finite = verb.past if self.mood.auxiliary == "did" else finite
            main = main.replace(verb.base, finite, 1)
        helper = "" if plain else auxiliary(self.mood.auxiliary, self.subject.agreement)
        if self.negative:
            helper = "cannot" if helper == "can" else f"{helper} not"
        return english(self.subject.en, helper, self.adverb[1], main, self._tail())

    def question(self, wh: str = "") -> str:
        """English with the auxiliary before the subject, after the question word."""
        helper = auxiliary(self.mood.auxiliary, self.subject.agreement)
        polarity = "not" if self.negative else ""
        return english(wh, helper, self.subject.en, polarity, self.adverb[1], self._main_verb(), self._tail())

    def base(self) -> str:
        """English without subject or tense, as after "please" or "to"."""
        return english(self.action.verb.base, self._tail())

    def _main_verb(self) -> str:
        verb = self.action.verb
        if self.mood.between:
            return f"{self.mood.between.base} to {verb.base}"
        return {"be": verb.gerund, "have": verb.participle}.get(self.mood.auxiliary, verb.base)

    def _tail(self) -> str:
        return english(self.action.object[1], self.place[1], self.manner[1], self.time[1])
