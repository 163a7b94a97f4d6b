"""What people do: sentence patterns around a verb, each writing one sentence in both languages."""

from dataclasses import replace
from random import Random

from tfm_cli.demo import lexicon as lex
from tfm_cli.demo import phrases as ph
from tfm_cli.demo.choices import (
    about_speaker,
    activity,
    addressee,
    ask,
    destination,
    everyday,
    handling,
    in_some_form,
    meeting,
    place_named,
    somewhere,
    surface,
    tell,
    when,
    with_someone,
)
from tfm_cli.demo.phrases import NOTHING, Action, Clause, Mood, Words, chance, pick
from tfm_cli.demo.words import article


def habit(rng: Random) -> Words:
    subject, action = ph.person(rng), pick(rng, (activity, everyday, destination))(rng)
    if chance(rng, 0.3):
        adverb = pick(rng, (("常常", "often"), ("总是", "always"), ("从来不", "never")))
        clause = Clause(subject, ph.HABIT, action, place=somewhere(rng, action), adverb=adverb)
        return tell(clause.zh(), clause.statement())
    action = _portion(rng) if chance(rng, 0.15) else action
    time = when(rng, lex.HABIT_TIMES, action)
    manner = with_someone(rng, subject, action)
    clause = Clause(subject, ph.HABIT, action, time, somewhere(rng, action), manner)
    if chance(rng, 0.3):
        clause = replace(clause, subject=addressee(rng), manner=NOTHING)
        return ask(clause.zh() + "吗", clause.question())
    clause = replace(clause, fronted=chance(rng, 0.25))
    return tell(clause.zh(), clause.statement())


def _portion(rng: Random) -> Action:
    """喝三杯茶 = drink three cups of tea."""
    verb = pick(rng, [verb for verb in lex.TRANSITIVES if verb.zh in ("喝", "吃")])
    return ph.handling(verb, ph.counted(rng, pick(rng, ph.things(verb.kinds))))


def past(rng: Random) -> Words:
    subject = ph.person(rng)
    certain = chance(rng, 0.5)
    form = pick(rng, (activity, destination, lambda r: handling(r, certain=certain)))
    action = meeting(rng, subject) if chance(rng, 0.12) else form(rng)
    time = when(rng, lex.PAST_TIMES, action)
    manner = with_someone(rng, subject, action)
    clause = Clause(subject, ph.PAST, action, time, somewhere(rng, action), manner, fronted=chance(rng, 0.25))
    indefinite = not certain and action.object[1].split(" ")[0] in ("a", "an", *(en for _, en in lex.NUMBERS))
    return tell(clause.zh(), clause.statement()) if indefinite else in_some_form(rng, clause)


def future(rng: Random) -> Words:
    subject = ph.person(rng)
    form = pick(rng, (activity, destination, everyday, lambda r: handling(r, certain=True)))
    action = meeting(rng, subject) if chance(rng, 0.12) else form(rng)
    time, manner = when(rng, lex.FUTURE_TIMES, action), with_someone(rng, subject, action)
    clause = Clause(subject, ph.FUTURE, action, time, somewhere(rng, action, 0.4), manner, fronted=chance(rng, 0.25))
    return in_some_form(rng, clause)


def now(rng: Random) -> Words:
    subject = ph.person(rng)
    verb = pick(rng, [verb for verb in lex.TRANSITIVES if verb.zh not in ("买", "借")])
    noun = pick(rng, ph.things(verb.kinds))
    certain = ph.definite(rng, noun) if verb.takes_owned else ph.pointed(rng, noun)
    thing = ph.one(noun, ph.attribute(rng, noun)) if chance(rng, 0.5) else certain
    action = activity(rng) if chance(rng, 0.45) else ph.handling(verb, thing)
    if chance(rng, 0.12):
        action = meeting(rng, subject)
    clause = Clause(subject, ph.NOW, action, place=somewhere(rng, action))
    if chance(rng, 0.25) and not about_speaker(subject):
        return ask(clause.zh() + "吗", clause.question())
    return tell(clause.zh(), clause.statement())


def modal(rng: Random) -> Words:
    mood = pick(rng, (ph.WISH, ph.WISH, ph.FONDNESS, ph.ABILITY, ph.SKILL, ph.DUTY))
    subject = ph.person(rng)
    if mood is ph.SKILL:
        zh, en = pick(rng, lex.LANGUAGES)
        skills = [ph.doing(skill) for skill in lex.ACTIVITIES if skill.skill]
        action = Action("说", lex.SPEAK, (zh, en)) if chance(rng, 0.4) else pick(rng, skills)
        return in_some_form(rng, Clause(subject, mood, action))
    if mood is ph.FONDNESS:
        action = pick(rng, (activity, everyday))(rng)
        place = somewhere(rng, action, 0.6)
        return in_some_form(rng, Clause(subject, mood, action, place=place, manner=with_someone(rng, subject, action)))
    action = pick(rng, (activity, everyday, destination, lambda r: handling(r, certain=True)))(rng)
    if chance(rng, 0.1):
        action = meeting(rng, subject)
    time = when(rng, lex.FUTURE_TIMES, action) if chance(rng, 0.3) else NOTHING
    manner = with_someone(rng, subject, action)
    return in_some_form(rng, Clause(subject, mood, action, time, somewhere(rng, action, 0.3), manner))


def experience(rng: Random) -> Words:
    """我去过北京 = I have been to Beijing."""
    subject = ph.person(rng)
    if chance(rng, 0.5):
        return in_some_form(rng, Clause(subject, ph.EXPERIENCE, ph.going(pick(rng, lex.CITIES))))
    verb = pick(rng, lex.TRANSITIVES[:2])
    thing = ph.pointed(rng, pick(rng, ph.things(verb.kinds)))
    return in_some_form(rng, Clause(subject, ph.EXPERIENCE, ph.handling(verb, thing)))


def travel(rng: Random) -> Words:
    """他每天坐公共汽车去学校 = he goes to school by bus every day; 你明天怎么去机场 = how will you go to the airport."""
    if chance(rng, 0.2):
        mood = pick(rng, (ph.COMING, ph.WISH))
        clause = Clause(addressee(rng), mood, destination(rng), pick(rng, lex.FUTURE_TIMES), manner=("怎么", ""))
        return ask(clause.zh(), clause.question("how"))
    subject, mood = ph.person(rng), pick(rng, (ph.FUTURE, ph.WISH))
    if chance(rng, 0.3):
        manner, cities = pick(rng, ((("坐火车", "by train"), lex.CITIES[:2]), (("坐飞机", "by plane"), lex.CITIES)))
        clause = Clause(subject, mood, ph.going(pick(rng, cities)), pick(rng, lex.FUTURE_TIMES), manner=manner)
        return in_some_form(rng, clause)
    clause = Clause(subject, mood, destination(rng), pick(rng, lex.FUTURE_TIMES), manner=pick(rng, lex.CITY_VEHICLES))
    if chance(rng, 0.6):
        clause = replace(clause, mood=ph.HABIT, time=pick(rng, lex.HABIT_TIMES))
        return tell(clause.zh(), clause.statement())
    return in_some_form(rng, clause)


def errand(rng: Random) -> Words:
    """我想去商店买一件毛衣 = I want to go to the store to buy a sweater."""
    verb = pick(rng, [verb for verb in lex.TRANSITIVES if verb.zh in ("买", "借")])
    place = place_named("商店" if verb.zh == "买" else "图书馆")
    nouns = [noun for noun in ph.things(verb.kinds) if noun.zh not in ("自行车", "雨伞") or verb.zh == "买"]
    noun = pick(rng, nouns)
    dear = ph.shares("vehicle device furniture", noun.kinds)
    thing = ph.one(noun, ph.attribute(rng, noun)) if dear else ph.indefinite(rng, noun)
    action = Action("去", lex.GO, (f"{place.zh}{verb.zh}{thing.zh}", f"{place.to} to {verb.verb.base} {thing.en}"))
    mood = pick(rng, (ph.WISH, ph.FUTURE, ph.DUTY))
    time = pick(rng, lex.FUTURE_TIMES) if mood is ph.FUTURE or chance(rng, 0.4) else NOTHING
    clause = Clause(ph.person(rng), mood, action, time)
    return tell(clause.zh(), clause.statement())


def clock(rng: Random) -> Words:
    """我每天早上六点起床 = I get up at six every morning."""
    zh, en = pick(rng, lex.HOURS)
    rising = Action("起床", lex.GET_UP, whole=True)
    action = pick(rng, (rising, *(ph.going(place_named(name)) for name in ("学校", "办公室", "公园"))))
    time = pick(rng, lex.HABIT_TIMES[:2])
    if chance(rng, 0.3):
        clause = Clause(addressee(rng), ph.HABIT, action, time, adverb=("什么时候", ""))
        return ask(clause.zh(), clause.question("when"))
    clause = Clause(ph.person(rng), ph.HABIT, action, (f"{time[0]}{zh}点", f"at {en} {time[1]}"))
    return tell(clause.zh(), clause.statement())


def duration(rng: Random) -> Words:
    """他学了三年汉语 = he studied Chinese for three years."""
    (zh, en), (number, count) = pick(rng, lex.SUBJECTS), pick(rng, (*lex.NUMBERS, lex.HOURS[-1]))
    subject = ph.person(rng)
    if chance(rng, 0.5):
        return tell(f"{subject.zh}学了{number}年{zh}", f"{subject.en} studied {en} for {count} years")
    time = pick(rng, lex.HABIT_TIMES)
    number, count = pick(rng, lex.NUMBERS)
    action = Action("学", lex.STUDY, (f"{number}个小时{zh}", f"{en} for {count} hours"))
    clause = Clause(subject, ph.HABIT, action, time)
    return tell(clause.zh(), clause.statement())


def schooling(rng: Random) -> Words:
    """The subjects one learns and teaches, and the languages one speaks."""
    zh, en = pick(rng, lex.SUBJECTS)
    verb, chinese = pick(rng, ((lex.STUDY, "学习"), (lex.TEACH, "教")))
    subject = ph.person(rng) if verb is lex.STUDY else pick(rng, (ph.pronoun, ph.named, ph.kin))(rng)
    place = place_named("学校")
    clause = Clause(subject, pick(rng, (ph.HABIT, ph.WISH)), Action(chinese, verb, (zh, en)))
    if chance(rng, 0.25) and not about_speaker(subject):
        clause = replace(clause, adverb=("为什么", ""))
        return ask(clause.zh(), clause.question("why"))
    if chance(rng, 0.4):
        clause = replace(clause, place=(place.zh, place.at))
    return in_some_form(rng, clause)


def well(rng: Random) -> Words:
    """她唱得很好 = she sings very well."""
    moving = (("跑", lex.RUN, "快", "fast"), ("游", lex.SWIM, "快", "fast"))
    arts = (("唱", lex.SING, "好", "well"), ("跳舞跳", lex.DANCE, "好", "well"), ("说", lex.SPEAK, "好", "well"))
    zh, verb, manner, adverb = pick(rng, moving + arts + arts[-1:])
    subject = ph.person(rng)
    topic, tail = pick(rng, lex.LANGUAGES) if verb is lex.SPEAK else NOTHING
    negative = chance(rng, 0.25)
    clause = Clause(subject, ph.HABIT, Action(zh, verb, ("", ph.english(tail, "" if negative else "very", adverb))))
    clause = replace(clause, negative=negative)
    return tell(f"{subject.zh}{topic}{zh}得{'不' if negative else '很'}{manner}", clause.statement())


def calling(rng: Random) -> Words:
    """他每天给他妈妈打电话 = he calls his mother every day."""
    subject = ph.person(rng)
    other = ph.other_than(rng, subject)
    times, mood = pick(rng, ((lex.HABIT_TIMES, ph.HABIT), (lex.FUTURE_TIMES, ph.FUTURE), (lex.PAST_TIMES, ph.PAST)))
    action = Action(f"给{other.zh}打电话", lex.CALL, ("", other.object), whole=True)
    clause = Clause(subject, mood, action, pick(rng, times))
    return tell(clause.zh(), clause.statement()) if mood is ph.HABIT else in_some_form(rng, clause)


def giving(rng: Random) -> Words:
    """他给了我一本书 = he gave me a book."""
    subject = ph.person(rng)
    other = ph.other_than(rng, subject)
    thing = ph.indefinite(rng, pick(rng, ph.things("print goods wear device fruit flower")))
    zh, en = pick(rng, (*lex.PAST_TIMES, NOTHING))
    return tell(f"{subject.zh}{zh}给了{other.zh}{thing.zh}", ph.english(subject.en, "gave", other.object, thing.en, en))


def putting(rng: Random) -> Words:
    """他把我的书放在桌子上了 = he put my book on the table."""
    subject, noun = ph.person(rng), pick(rng, ph.things("desk"))
    thing, (zh, en) = ph.definite(rng, noun), surface(rng, noun)
    if chance(rng, 0.3):
        return tell(f"请把{thing.zh}放在{zh}", f"please put {thing.en} {en}")
    time = pick(rng, (*lex.PAST_TIMES[:3], NOTHING, NOTHING))
    return tell(f"{subject.zh}{time[0]}把{thing.zh}放在{zh}了", ph.english(subject.en, "put", thing.en, en, time[1]))


def living(rng: Random) -> Words:
    subject, city = ph.person(rng), pick(rng, lex.CITIES)
    form = Clause(subject, ph.HABIT, Action("住在", lex.LIVE, (city.zh, city.at)))
    if chance(rng, 0.15) and not about_speaker(subject):
        form = Clause(subject, ph.HABIT, Action("住在", lex.LIVE, ("哪里", "")))
        return ask(form.zh(), form.question("where"))
    if chance(rng, 0.3):
        form = replace(form, mood=ph.WISH)
    return in_some_form(rng, form)


def possession(rng: Random) -> Words:
    """我有一只猫, 他没有车, 你有几本书？"""
    subject = ph.person(rng)
    noun = pick(rng, ph.things("buy animal desk"))
    zh, verb = pick(rng, (("有", lex.HAVE), ("有", lex.HAVE), ("需要", lex.NEED)))
    form = rng.random()
    mood = Mood("", "没" if zh == "有" else "不", "do")
    if form < 0.15 and not about_speaker(subject):
        clause = Clause(subject, mood, Action(zh, verb, (f"几{noun.measure}{noun.zh}", "")))
        return ask(clause.zh(), clause.question(f"how many {ph.count_noun(noun)}"))
    if form < 0.6:
        thing = ph.indefinite(rng, noun)
        clause = Clause(subject, mood, Action(zh, verb, (thing.zh, thing.en)))
        return tell(clause.zh(), clause.statement())
    clause = Clause(
        subject,
        mood,
        Action(
            zh, verb, (noun.zh, noun.plural if noun.unit or ph.shares("eat flower", noun.kinds) else article(noun.en))
        ),
    )
    if chance(rng, 0.5) and not about_speaker(subject):
        return ask(clause.zh() + "吗", clause.question())
    denied = replace(clause, negative=True)
    return tell(denied.zh(), denied.statement())
