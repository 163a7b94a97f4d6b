"""Question words in place, requests, and sentences of two clauses."""

from dataclasses import replace
from random import Random

from tfm_cli.demo import lexicon as lex
from tfm_cli.demo import phrases as ph
from tfm_cli.demo.choices import (
    activity,
    addressee,
    ask,
    destination,
    everyday,
    handling,
    place_named,
    predicate,
    somewhere,
    tell,
    when,
)
from tfm_cli.demo.phrases import NOTHING, Action, Clause, Mood, Words, chance, copula, pick

_TIMED_MOODS: tuple[tuple[Mood, tuple[Words, ...]], ...] = (
    (ph.PAST, lex.PAST_TIMES),
    (ph.FUTURE, lex.FUTURE_TIMES),
    (ph.HABIT, lex.HABIT_TIMES),
    (ph.WISH, (NOTHING,)),
    (ph.NOW, (NOTHING,)),
)
_ORDER = Mood("", "", "do")
_NOISE = ("跑步", "唱歌", "跳舞", "踢足球", "打篮球", "聊天", "看电视", "弹钢琴")
_OUTDOORS = ("跑步", "散步", "踢足球", "打篮球", "骑自行车")


def what(rng: Random) -> Words:
    """你昨天买了什么 = what did you buy yesterday."""
    verb = pick(rng, [verb for verb in lex.TRANSITIVES if verb.asks_what])
    mood, times = pick(rng, _TIMED_MOODS)
    if mood is ph.HABIT and not verb.daily:
        mood, times = ph.WISH, (NOTHING,)
    subject, action = addressee(rng), Action(verb.zh, verb.verb, ("什么", ""), places=verb.places)
    clause = Clause(subject, mood, action, pick(rng, times))
    if verb.zh in ("吃", "喝"):
        clause = replace(clause, place=somewhere(rng, action, 0.4))
    return ask(clause.zh(), clause.question("what"))


def whom(rng: Random) -> Words:
    """他正在等谁 = who is he waiting for."""
    if chance(rng, 0.4):
        zh, verb = pick(
            rng, (("等", lex.WAIT), ("帮助", lex.HELP), ("找", lex.LOOK), ("画", lex.DRAW), ("教", lex.TEACH))
        )
        # "I" often, since it alone takes "am".
        subject = ph.Nominal("我", "I", "I") if chance(rng, 0.4) else ph.person(rng)
        action = Action(zh, verb, ("谁", ""), places="学校 公园 家 图书馆 教室 办公室")
        clause = Clause(subject, ph.NOW, action, place=somewhere(rng, action, 0.8))
        return ask(clause.zh(), clause.question("who"))
    zh, verb = pick(rng, (("等", lex.WAIT), ("帮助", lex.HELP), ("喜欢", lex.LIKE)))
    mood, times = pick(rng, _TIMED_MOODS[:4]) if zh != "喜欢" else (ph.HABIT, (NOTHING,))
    clause = Clause(addressee(rng), mood, Action(zh, verb, ("谁", "")), pick(rng, times))
    return ask(clause.zh(), clause.question("who"))


def who(rng: Random) -> Words:
    """谁买了这本书 = who bought this book: English keeps the order of a statement."""
    subject = ph.Nominal("谁", "who")
    mood, times = pick(rng, (*_TIMED_MOODS[:2], *_TIMED_MOODS[3:], (ph.SKILL, (NOTHING,))))
    if mood is ph.SKILL:
        action = ph.doing(pick(rng, [skill for skill in lex.ACTIVITIES if skill.skill]))
        if chance(rng, 0.3):
            action = Action("说", lex.SPEAK, pick(rng, lex.LANGUAGES))
    else:
        action = handling(rng, certain=True) if chance(rng, 0.6) else activity(rng)
    clause = Clause(subject, mood, action, when(rng, times, action))
    if mood is not ph.SKILL:
        clause = replace(clause, place=somewhere(rng, action, 0.4))
    return ask(clause.zh(), clause.statement())


def where(rng: Random) -> Words:
    """你每天在哪里学习 = where do you study every day; 你想去哪里 = where do you want to go."""
    subject = addressee(rng)
    if chance(rng, 0.3):
        mood, times = pick(rng, _TIMED_MOODS[:4])
        clause = Clause(subject, mood, Action("去", lex.GO, ("哪里", "")), pick(rng, times))
        return ask(clause.zh(), clause.question("where"))
    action = pick(rng, (activity, everyday))(rng)
    mood, times = pick(rng, _TIMED_MOODS[1:4])
    clause = Clause(subject, mood, action, when(rng, times, action), ("哪里", ""))
    return ask(clause.zh(), clause.question("where"))


def at_what_time(rng: Random) -> Words:
    """你想什么时候去北京 = when do you want to go to Beijing; 你什么时候去 = when will you go."""
    mood = pick(rng, (ph.WISH, ph.COMING))
    action = ph.going(pick(rng, lex.CITIES)) if chance(rng, 0.4) else destination(rng)
    if mood is ph.WISH and chance(rng, 0.5):
        action = activity(rng)
    clause = Clause(addressee(rng), mood, action, manner=("什么时候", ""))
    return ask(clause.zh(), clause.question("when"))


def why(rng: Random) -> Words:
    """你昨天为什么没去学校 = why did you not go to school yesterday."""
    subject, action = addressee(rng), pick(rng, (activity, destination, everyday))(rng)
    mood, times = pick(rng, (*_TIMED_MOODS[:1], *_TIMED_MOODS[3:4], (ph.FONDNESS, (NOTHING,)), (ph.HABIT, (NOTHING,))))
    if mood in (ph.FONDNESS, ph.HABIT):
        action = pick(rng, (activity, everyday))(rng) if mood is ph.FONDNESS else everyday(rng)
    negative = mood is ph.HABIT or chance(rng, 0.6)
    if mood is ph.PAST and not negative:
        mood, times = ph.WISH, (NOTHING,)
    clause = Clause(subject, mood, action, when(rng, times, action), adverb=("为什么", ""), negative=negative)
    return ask(clause.zh(), clause.question("why"))


def which(rng: Random) -> Words:
    """你喜欢哪本书 = which book do you like; 你想买几本书 = how many books do you want to buy."""
    subject = addressee(rng)
    if chance(rng, 0.5):
        noun = pick(rng, [noun for noun in ph.things("buy read watch animal draw") if not noun.unit])
        clause = Clause(subject, ph.HABIT, Action("喜欢", lex.LIKE, (f"哪{noun.measure}{noun.zh}", "")))
        return ask(clause.zh(), clause.question(f"which {noun.en}"))
    verb = pick(rng, [verb for verb in lex.TRANSITIVES if verb.zh in ("买", "借", "吃", "喝")])
    noun = pick(rng, ph.things(verb.kinds))
    mood, times = pick(rng, (*_TIMED_MOODS[:1], *_TIMED_MOODS[3:4]))
    action = Action(verb.zh, verb.verb, (f"几{noun.measure}{noun.zh}", ""))
    clause = Clause(subject, mood, action, pick(rng, times))
    return ask(clause.zh(), clause.question(f"how many {ph.count_noun(noun)}"))


def price(rng: Random) -> Words:
    """这本书多少钱 = how much is this book."""
    noun = pick(rng, ph.things("buy drink eat"))
    thing = ph.pointed(rng, noun)
    return ask(f"{thing.zh}多少钱", f"how much {copula(thing.agreement)} {thing.en}")


def request(rng: Random) -> Words:
    """请给我一杯水 = please give me a glass of water; 别在教室里唱歌 = do not sing in the classroom."""
    form = rng.random()
    if form < 0.08:
        seat = ph.pointed(rng, pick(rng, ph.things("seat")), several=0.0)
        zh, en = pick(
            rng, (NOTHING, (f"在{seat.zh}上", f"on {seat.en}"), *((f"在{zh}", en) for zh, en in lex.SURFACES))
        )
        zh_order, order = pick(rng, (("请", "please"), ("别", "do not")))
        return tell(f"{zh_order}坐{zh}", ph.english(order, "sit", en))
    if form < 0.4:
        noun = pick(rng, ph.things("drink eat desk buy"))
        thing = pick(rng, (ph.indefinite, ph.pointed))(rng, noun)
        owner = pick(rng, [word for word in lex.PRONOUNS if word.zh != "你"])
        return tell(f"请给{owner.zh}{thing.zh}", f"please give {owner.objective} {thing.en}")
    if form < 0.65:
        noisy = [ph.doing(act) for act in lex.ACTIVITIES if act.zh in _NOISE]
        food = [verb for verb in lex.TRANSITIVES if verb.zh in ("吃", "喝")]
        verb = pick(rng, food)
        meal = ph.handling(verb, ph.bare(pick(rng, ph.things(verb.kinds))))
        action, (zh, en) = pick(rng, (*noisy, meal, meal, meal, meal)), pick(rng, lex.ROOMS)
        words = ph.english("do not", action.verb.base, action.object[1], en)
        return tell(f"别在{zh}{action.zh}{action.object[0]}", words)
    clause = Clause(ph.Nominal("", ""), _ORDER, handling(rng, certain=True))
    if form < 0.8 and clause.action.zh not in ("借", "写", "找"):
        return tell(f"请{clause.zh()}", f"please {clause.base()}")
    if form > 0.9:
        clause = replace(clause, action=pick(rng, (activity, destination))(rng))
    clause = replace(clause, place=somewhere(rng, clause.action, 0.4))
    return tell(f"别{clause.zh()}", f"do not {clause.base()}")


def suggestion(rng: Random) -> Words:
    """我们明天去公园吧 = let us go to the park tomorrow."""
    action = pick(rng, (activity, everyday, destination, lambda r: handling(r, certain=True)))(rng)
    time = when(rng, lex.FUTURE_TIMES, action) if chance(rng, 0.6) else NOTHING
    clause = Clause(ph.Nominal("我们", "us"), _ORDER, action, time, somewhere(rng, action, 0.5))
    return tell(clause.zh() + "吧", f"let us {clause.base()}")


def reason(rng: Random) -> Words:
    """因为他很累，所以他不想去学校 = because he is very tired, he does not want to go to school."""
    subject, again = _taken_up(rng)
    state = pick(rng, [word for word in lex.ADJECTIVES if word.zh in ("累", "忙")])
    zh, en = predicate(state)
    cause = f"{subject.en} {copula(subject.agreement)} {en}"
    action = pick(rng, (activity, destination))(rng)
    if chance(rng, 0.4):
        while action.zh in ("工作", "学习", "休息"):
            action = activity(rng)
        clause = Clause(again, ph.WISH, action)
        return tell(f"虽然{subject.zh}{zh}，但是{clause.zh()}", f"although {cause}, {clause.statement()}")
    action = ph.going(pick(rng, lex.DESTINATIONS[:-1])) if action.zh == "休息" or action.object[0] == "家" else action
    clause = Clause(again, ph.ABILITY if state.zh == "忙" else ph.WISH, action, negative=True)
    return tell(f"因为{subject.zh}{zh}，所以{clause.zh()}", f"because {cause}, {clause.statement()}")


def _taken_up(rng: Random) -> tuple[ph.Nominal, ph.Nominal]:
    """A subject, and the pronoun that takes it up in the next clause."""
    if chance(rng, 0.5):
        subject = ph.pronoun(rng)
        return subject, subject
    feminine = chance(rng, 0.5)
    again = ph.Nominal("她", "she") if feminine else ph.Nominal("他", "he")
    if chance(rng, 0.5):
        return ph.Nominal(*pick(rng, lex.WOMEN if feminine else lex.MEN)), again
    owner, (zh, en) = pick(rng, lex.PRONOUNS[:4]), pick(rng, lex.SISTERS if feminine else lex.BROTHERS)
    return ph.Nominal(owner.zh + zh, f"{owner.possessive} {en}"), again


def condition(rng: Random) -> Words:
    """如果明天下雨，我们就不去公园 = if it rains tomorrow, we will not go to the park."""
    time = pick(rng, lex.FUTURE_TIMES[:3])
    outdoors = [ph.doing(act) for act in lex.ACTIVITIES if act.zh in _OUTDOORS]
    trips = [ph.going(place_named(name)) for name in ("公园", "商店", "图书馆", "咖啡馆")]
    clause = Clause(ph.person(rng), ph.THEN, pick(rng, outdoors + trips), negative=chance(rng, 0.6))
    zh, en = ("下雨", "it rains") if clause.negative else ("天气好", "the weather is good")
    return tell(f"如果{time[0]}{zh}，{clause.zh()}", f"if {en} {time[1]}, {clause.statement()}")
