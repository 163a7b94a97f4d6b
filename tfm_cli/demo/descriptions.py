"""What people and things are: identity, qualities, comparison, place, and the relative clause."""

from dataclasses import replace
from random import Random

from tfm_cli.demo import lexicon as lex
from tfm_cli.demo import phrases as ph
from tfm_cli.demo.choices import about_speaker, activity, ask, predicate, somewhere, surface, tell
from tfm_cli.demo.phrases import NOTHING, Action, Clause, Nominal, Words, chance, copula, pick
from tfm_cli.demo.words import Adjective, Noun, article


def _being(rng: Random, subject: Nominal, complement: Words, verb: str = "是", *, asked: bool = True) -> Words:
    """Subject and complement joined by a form of "be": stated, denied or asked. ``verb`` is empty for adjectives."""
    zh, en = complement
    be, form = copula(subject.agreement), rng.random()
    if form < 0.55 or not asked or (form >= 0.75 and about_speaker(subject) and subject.zh != "我"):
        return tell(f"{subject.zh}{verb}{zh}", f"{subject.en} {be} {en}")
    if form < 0.75:
        return tell(f"{subject.zh}不{verb}{zh}", f"{subject.en} {be} not {en}")
    return ask(f"{subject.zh}{verb}{zh}吗", f"{be} {subject.en} {en}")


def _several(subject: Nominal) -> bool:
    return subject.plural and subject.zh != "你"  # "you" takes a plural verb, but 你 is one person


def identity(rng: Random) -> Words:
    """他是有名的作家 = he is a famous writer, 她是我妹妹 = she is my younger sister."""
    subject = pick(rng, (ph.pronoun, ph.pronoun, ph.named, ph.kin, ph.relation, ph.together))(rng)
    if chance(rng, 0.6):
        job = pick(rng, lex.JOBS)
        adjective = ph.attribute(rng, job)
        several = _several(subject)
        also = ("也", "also") if chance(rng, 0.15) else NOTHING
        name = ph.english(adjective[1], job.plural if several else job.en)
        name = name if several else article(name)
        complement = adjective[0] + job.zh, ph.english(also[1], name)
        return _being(rng, subject, complement, f"{also[0]}是", asked=not also[0])
    if chance(rng, 0.35):
        feminine = chance(rng, 0.5)
        who = pick(rng, (("她", "she"), *lex.WOMEN) if feminine else (("他", "he"), *lex.MEN))
        whose = pick(rng, lex.PRONOUNS[:2])
        zh, en = pick(rng, lex.SISTERS if feminine else lex.BROTHERS)
        return _being(rng, Nominal(*who), (whose.zh + zh, f"{whose.possessive} {en}"), asked=whose.zh != "我")
    subject = ph.shown(rng) if chance(rng, 0.3) else subject
    noun, owner = pick(rng, lex.RELATIONS), ph.other_than(rng, subject)
    if noun.zh in subject.zh or (noun.zh == "老师" and subject.zh[0] in "这那"):
        noun = lex.RELATIONS[-1] if noun is not lex.RELATIONS[-1] else lex.RELATIONS[0]
    name = noun.plural if _several(subject) else noun.en
    return _being(rng, subject, (f"{owner.zh}的{noun.zh}", f"{owner.owner} {name}"))


def who_is(rng: Random) -> Words:
    """我是谁 = who am I; 他是谁的朋友 = whose friend is he."""
    if chance(rng, 0.25):
        subject = pick(rng, (ph.pronoun, ph.pronoun, ph.pronoun, ph.named))(rng)
        noun = pick(rng, (*lex.RELATIONS, lex.JOBS[0], lex.JOBS[2], lex.YOUNG[0]))
        name = noun.plural if _several(subject) else noun.en
        return ask(f"{subject.zh}是谁的{noun.zh}", f"whose {name} {copula(subject.agreement)} {subject.en}")
    makers = (ph.pronoun, ph.named, ph.kin, ph.relation, ph.shown, ph.crowd, subject_relative, subject_relative)
    subject = pick(rng, makers)(rng)
    if len(subject.zh) > 1 and about_speaker(subject):
        subject = subject_relative(rng)
    return ask(f"{subject.zh}是谁", f"who {copula(subject.agreement)} {subject.en}")


def this_is(rng: Random) -> Words:
    """这是一本书 = this is a book, 这是谁的书 = whose book is this."""
    pointer = Nominal(*pick(rng, (("这", "this"), ("那", "that"))))
    noun = pick(rng, [noun for noun in lex.NOUNS if not noun.unit and noun.zh != "电影"])
    form = rng.random()
    if form < 0.25:
        return ask(f"{pointer.zh}是谁的{noun.zh}", f"whose {noun.en} is {pointer.en}")
    if form < 0.3:
        return ask(f"{pointer.zh}是什么", f"what is {pointer.en}")
    thing = ph.one(noun, ph.attribute(rng, noun)) if form < 0.6 else ph.owned(rng, noun)
    return _being(rng, pointer, (thing.zh, thing.en), asked=form >= 0.6)


def colored(rng: Random) -> Words:
    """这件毛衣是红色的 = this sweater is red."""
    noun = pick(rng, ph.things("color"))
    subject = ph.owned(rng, noun) if chance(rng, 0.6) else ph.pointed(rng, noun)
    zh, en = pick(rng, lex.COLORS)
    if chance(rng, 0.2):
        return ask(f"{subject.zh}是什么颜色的", f"what color {copula(subject.agreement)} {subject.en}")
    return _being(rng, subject, (f"{zh}的", en))


def _described(rng: Random, *, compared: bool) -> tuple[Nominal, Adjective, Noun | None]:
    """A subject with an adjective that suits it; the noun where the subject is a thing."""
    if chance(rng, 0.5):
        kinds = "person" if compared else "person state"
        words = [w for w in lex.ADJECTIVES if ph.shares(w.kinds, kinds) and (w.comparative or not compared)]
        return ph.person(rng), pick(rng, words), None
    noun = pick(rng, [noun for noun in lex.NOUNS if not noun.unit or noun.unit == "pair"])
    words = [word for word in lex.ADJECTIVES if ph.shares(word.kinds, noun.kinds)]
    if not words:
        return _described(rng, compared=compared)
    subject = (
        ph.owned(rng, noun)
        if noun.zh != "电影" and chance(rng, 0.4)
        else ph.pointed(rng, noun, several=0.0 if compared else 0.25)
    )
    return subject, pick(rng, words), noun


def quality(rng: Random) -> Words:
    """他很高 = he is very tall, 这本书贵吗 = is this book expensive."""
    subject, word, _ = _described(rng, compared=False)
    be, form = copula(subject.agreement), rng.random()
    if form < 0.5:
        excessive = word.zh in ("忙", "累", "贵", "大", "小", "旧") and chance(rng, 0.5)
        degree, en = ("太", "too") if excessive else ("很", "very")
        return tell(
            f"{subject.zh}{degree}{word.zh}{'了' if degree == '太' else ''}", f"{subject.en} {be} {en} {word.en}"
        )
    if form < 0.75 or about_speaker(subject):
        return tell(f"{subject.zh}不{word.zh}", f"{subject.en} {be} not {word.en}")
    return ask(f"{subject.zh}{word.zh}吗", f"{be} {subject.en} {word.en}")


def why_so(rng: Random) -> Words:
    """我今天为什么这么累 = why am I so tired today."""
    subject, word, noun = _described(rng, compared=False)
    time = ("今天", "today") if ph.shares("state", word.kinds) and chance(rng, 0.5) else NOTHING
    if noun is None and chance(rng, 0.3):
        subject = Nominal("我", "I", "I")
    be = copula(subject.agreement)
    return ask(f"{subject.zh}{time[0]}为什么这么{word.zh}", ph.english("why", be, subject.en, "so", word.en, time[1]))


def comparison(rng: Random) -> Words:
    """他比我高 = he is taller than me, 他没有我高 = he is not as tall as me."""
    subject, word, noun = _described(rng, compared=True)
    if noun is None and chance(rng, 0.15):
        subject = Nominal("我", "I", "I", members=("我",))
    if noun is None:
        rival = ph.other_than(rng, subject)
    elif noun.zh == "电影" or (subject.zh[0] in "这那" and chance(rng, 0.4)):
        swap = {"这": "那", "那": "这", "this": "that", "that": "this"}
        pointer, rest = subject.en.split(" ", 1)
        rival = Nominal(swap[subject.zh[0]] + subject.zh[1:], f"{swap[pointer]} {rest}")
    elif subject.zh[0] in "这那":
        rival = ph.owned(rng, noun)
    else:
        rival = ph.pointed(rng, noun, several=0.0)
    be, form = copula(subject.agreement), rng.random()
    if form < 0.2:
        return tell(f"{subject.zh}没有{rival.zh}{word.zh}", f"{subject.en} {be} not as {word.en} as {rival.object}")
    if form < (0.7 if subject.zh == "我" else 0.4):
        return ask(f"{subject.zh}比{rival.zh}{word.zh}吗", f"{be} {subject.en} {word.comparative} than {rival.object}")
    zh, en = pick(rng, (NOTHING, NOTHING, ("一点", "a little"), ("得多", "much")))
    degree = ph.english(en, word.comparative)
    return tell(f"{subject.zh}比{rival.zh}{word.zh}{zh}", f"{subject.en} {be} {degree} than {rival.object}")


def location(rng: Random) -> Words:
    """我的书在桌子上 = my book is on the table, 小明在哪里 = where is Xiaoming."""
    if chance(rng, 0.4):
        noun = pick(rng, ph.things("desk"))
        subject, (zh, en) = ph.definite(rng, noun), surface(rng, noun)
    else:
        subject, place = ph.person(rng), pick(rng, lex.PLACES + lex.CITIES)
        zh, en = place.zh, place.at
    if chance(rng, 0.2):
        return ask(f"{subject.zh}在哪里", f"where {copula(subject.agreement)} {subject.en}")
    return _being(rng, subject, (zh, en), "在")


def existence(rng: Random) -> Words:
    """桌子上有一本书 = there is a book on the table."""
    form, inside = rng.random(), chance(rng, 0.5)
    noun = pick(rng, (*lex.JOBS[:2], *lex.YOUNG, *ph.things("room")) if inside else ph.things("desk"))
    zh, en = pick(rng, lex.ROOMS) if inside else surface(rng, noun)
    if form < 0.15:
        return ask(f"{zh}有几{noun.measure}{noun.zh}", f"how many {noun.plural} are there {en}")
    if form < 0.3:
        return tell(f"{zh}没有{noun.zh}", f"there are no {noun.plural} {en}")
    if form < 0.45:
        return ask(f"{zh}有{noun.zh}吗", f"are there any {noun.plural} {en}")
    if form < 0.55:
        return tell(f"{zh}有很多{noun.zh}", f"there are a lot of {noun.plural} {en}")
    thing = ph.indefinite(rng, noun)
    return tell(f"{zh}有{thing.zh}", f"there {copula(thing.agreement)} {thing.en} {en}")


def object_relative(rng: Random, noun: Noun) -> Nominal:
    """我昨天买的书 = the book that I bought yesterday."""
    verbs = [verb for verb in lex.TRANSITIVES if ph.shares(verb.kinds, noun.kinds) and verb.zh not in ("找", "画")]
    verb, maker = pick(rng, verbs), pick(rng, (ph.pronoun, ph.named, ph.kin))
    subject = maker(rng)
    time = pick(rng, lex.PAST_TIMES) if chance(rng, 0.5) else NOTHING
    action = Action(verb.zh, verb.verb, places=verb.places)
    clause = Clause(subject, replace(ph.PAST, suffix=""), action, time, somewhere(rng, action, 0.2))
    return Nominal(
        f"{clause.zh()}的{noun.zh}",
        f"the {noun.en} that {clause.statement()}",
        "they" if noun.unit == "pair" else "he",
    )


def subject_relative(rng: Random) -> Nominal:
    """喜欢音乐的学生 = the student who likes music."""
    head = pick(rng, (*lex.JOBS[:3], *lex.YOUNG))
    kind = rng.random()
    who = Nominal("", "")
    if kind < 0.3:
        action = activity(rng)
        head = pick(rng, lex.JOBS[:3]) if action.zh == "工作" else head
        clause = Clause(who, ph.NOW, action, place=somewhere(rng, action))
    elif kind < 0.5:
        clause = Clause(who, ph.HABIT, Action("喜欢", lex.LIKE, pick(rng, lex.SUBJECTS)))
    elif kind < 0.65:
        clause = Clause(who, ph.SKILL, Action("说", lex.SPEAK, pick(rng, lex.LANGUAGES)))
    elif kind < 0.8:
        city = pick(rng, lex.CITIES)
        clause = Clause(who, ph.HABIT, Action("住在", lex.LIVE, (city.zh, city.at)))
    else:
        garment = pick(rng, [noun for noun in ph.things("wear") if not noun.unit])
        zh, en = pick(rng, lex.COLORS)
        return Nominal(
            f"穿{zh}{garment.zh}的{head.zh}", f"the {head.en} who is wearing {article(f'{en} {garment.en}')}"
        )
    return Nominal(f"{clause.zh()}的{head.zh}", f"the {head.en} who {clause.statement()}")


def relative_thing(rng: Random) -> Words:
    """我昨天买的书很有意思; 他喜欢我写的信."""
    noun = pick(rng, ph.things("read buy write watch sing taste eat"))
    thing = object_relative(rng, noun)
    words = [word for word in lex.ADJECTIVES if ph.shares(word.kinds, noun.kinds)]
    if words and (ph.shares("eat taste", noun.kinds) or chance(rng, 0.6)):
        word = pick(rng, words)
        zh, en = predicate(word, pick(rng, ("很", "很", "不")))
        return tell(thing.zh + zh, f"{thing.en} {copula(thing.agreement)} {en}")
    clause = Clause(ph.person(rng), ph.HABIT, Action("喜欢", lex.LIKE, (thing.zh, thing.en)))
    if chance(rng, 0.3) and not about_speaker(clause.subject):
        return ask(clause.zh() + "吗", clause.question())
    clause = replace(clause, negative=chance(rng, 0.25))
    return tell(clause.zh(), clause.statement())


def relative_person(rng: Random) -> Words:
    """喜欢音乐的学生很聪明; 正在看书的女孩是我妹妹; 我认识住在北京的医生."""
    subject, form = subject_relative(rng), rng.random()
    if form < 0.35:
        words = [word for word in lex.ADJECTIVES if ph.shares(word.kinds, "person")]
        zh, en = predicate(pick(rng, words), pick(rng, ("很", "很", "不")))
        return tell(subject.zh + zh, f"{subject.en} is {en}")
    if form < 0.7:
        owner = pick(rng, (ph.pronoun, ph.named, ph.kin))(rng)
        noun = pick(rng, [noun for noun in lex.RELATIONS if noun.zh != "老师"])
        return _being(rng, subject, (f"{owner.zh}的{noun.zh}", f"{owner.owner} {noun.en}"))
    clause = Clause(ph.person(rng), ph.HABIT, Action("认识", lex.KNOW, (subject.zh, subject.en)))
    if chance(rng, 0.3) and not about_speaker(clause.subject):
        return ask(clause.zh() + "吗", clause.question())
    clause = replace(clause, negative=chance(rng, 0.25))
    return tell(clause.zh(), clause.statement())


def origin(rng: Random) -> Words:
    """他从北京来 = he comes from Beijing."""
    subject, city = ph.person(rng), pick(rng, lex.CITIES)
    verb = "come" if subject.agreement != "he" else "comes"
    return tell(f"{subject.zh}从{city.zh}来", f"{subject.en} {verb} from {city.at.removeprefix('in ')}")


def nearby(rng: Random) -> Words:
    """小明的家在学校附近 = Xiaoming's home is near the school."""
    owner = ph.individual(rng)
    place = pick(rng, [p for p in lex.PLACES if "the " in p.at and p.zh not in ("教室", "办公室")])
    subject = Nominal(f"{owner.zh}的家", f"{owner.owner} home")
    return _being(rng, subject, (f"{place.zh}附近", "near the " + place.at.split("the ")[1]), "在")
