"""What several sentence patterns share: forms of a sentence, and choices of an action, its time and its place."""

from dataclasses import replace
from random import Random

from tfm_cli.demo import lexicon as lex
from tfm_cli.demo import phrases as ph
from tfm_cli.demo.phrases import NOTHING, Action, Clause, Nominal, Words, chance, pick
from tfm_cli.demo.words import Adjective, Noun, Place


def tell(zh: str, en: str) -> Words:
    return f"{zh}。", f"{en[0].upper()}{en[1:]}."


def ask(zh: str, en: str) -> Words:
    return f"{zh}？", f"{en[0].upper()}{en[1:]}?"


def in_some_form(rng: Random, clause: Clause) -> Words:
    """The clause as a statement, a negation or a yes-no question."""
    form = rng.random()
    if form < 0.55:
        return tell(clause.zh(), clause.statement())
    if form < 0.75:
        denied = replace(clause, negative=True)
        return tell(denied.zh(), denied.statement())
    if about_speaker(clause.subject) and clause.mood not in (ph.ABILITY, ph.DUTY):
        return tell(clause.zh(), clause.statement())
    return ask(_bare_suffix(clause).zh() + "吗", clause.question())


def _bare_suffix(clause: Clause) -> Clause:
    """你昨天看那本书了吗 rather than 你昨天看了那本书吗."""
    return replace(clause, action=replace(clause.action, whole=True)) if clause.mood is ph.PAST else clause


def about_speaker(subject: Nominal) -> bool:
    """Nobody asks others what he himself wants or does."""
    return subject.zh.startswith("我")


def addressee(rng: Random) -> Nominal:
    """A person whom a question may be about."""
    while about_speaker(subject := ph.person(rng)):
        pass
    return subject


def place_named(name: str) -> Place:
    return next(place for place in lex.PLACES + lex.CITIES if place.zh == name)


def somewhere(rng: Random, action: Action, probability: float = 0.5) -> Words:
    if not action.places or not chance(rng, probability):
        return NOTHING
    place = place_named(pick(rng, action.places.split()))
    return place.zh, place.at


def when(rng: Random, times: tuple[Words, ...], action: Action) -> Words:
    """A time that suits the action: breakfast is not had in the evening."""
    parts = ("早上", "晚上")
    return pick(rng, [t for t in times if not action.part or not any(p in t[0] for p in parts if p != action.part)])


def with_someone(rng: Random, subject: Nominal, action: Action) -> Words:
    """和他一起 = with him; never where the action has a person of its own, who could be the same."""
    if len(subject.members) > 1 or action.zh in ("等", "帮助") or not chance(rng, 0.15):
        return NOTHING
    other = ph.other_than(rng, subject)
    return f"和{other.zh}一起", f"with {other.object}"


def activity(rng: Random) -> Action:
    return ph.doing(pick(rng, lex.ACTIVITIES))


def handling(rng: Random, *, certain: bool) -> Action:
    """A verb with a definite object (certain) or with an indefinite one."""
    verb = pick(rng, lex.TRANSITIVES)
    noun = pick(rng, ph.things(verb.kinds))
    if not certain:
        return ph.handling(verb, ph.indefinite(rng, noun))
    pointed = ph.definite(rng, noun) if verb.takes_owned else ph.pointed(rng, noun, ph.attribute(rng, noun))
    return ph.handling(verb, pointed)


def everyday(rng: Random) -> Action:
    """An action with a bare object, which can be a habit: 喝茶, 写信."""
    verb = pick(rng, [verb for verb in lex.TRANSITIVES if verb.daily])
    noun = pick(rng, [noun for noun in ph.things(verb.daily) if noun.generic])
    return ph.handling(verb, ph.bare(noun), whole=True)


def destination(rng: Random) -> Action:
    return ph.going(pick(rng, lex.DESTINATIONS))


def meeting(rng: Random, subject: Nominal) -> Action:
    zh, verb = pick(rng, (("等", lex.WAIT), ("帮助", lex.HELP)))
    other = ph.other_than(rng, subject)
    return Action(zh, verb, (other.zh, other.object), places="学校 机场 公园 医院" if zh == "等" else "")


def surface(rng: Random, noun: Noun) -> Words:
    """Where a small thing lies: food only on the table."""
    return lex.SURFACES[0] if ph.shares("eat", noun.kinds) else pick(rng, lex.SURFACES)


def predicate(adjective: Adjective, degree: str = "很") -> Words:
    """很高 = very tall, 不高 = not tall."""
    return degree + adjective.zh, ph.english({"很": "very", "不": "not"}[degree], adjective.en)
