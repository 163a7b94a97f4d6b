import random

import pytest

from tfm_cli.data import cleaning
from tfm_cli.data.holdout import HoldOut
from tfm_cli.data.storage import Encoded


@pytest.mark.parametrize("blank", ["", " ", "\t\u3000", "\u2028", "\x1c"])
def test_a_blank_side_is_empty(blank: str) -> None:
    assert cleaning.empty(blank, "a") == cleaning.empty("a", blank) == cleaning.EMPTY
    assert cleaning.empty("a", "\u200b") is None  # a zero-width space is a character that a tokenizer can write


def test_lengths() -> None:
    def judge(source: int, target: int) -> str | None:
        assert cleaning.lengths(source, target, 250, 9) == cleaning.lengths(target, source, 250, 9)
        return cleaning.lengths(source, target, 250, 9)

    assert judge(250, 250) is None and judge(251, 250) == cleaning.LONG
    assert judge(2, 20) is None and judge(2, 21) == cleaning.RATIO
    assert judge(10, 90) is None and judge(10, 91) == cleaning.RATIO


def test_seen_agrees_with_a_set_across_its_runs() -> None:
    keys = [random.Random(1).randrange(2**64) for _ in range(1000)] + [0, 2**64 - 1]
    stream = random.Random(2).choices(keys, k=5000)
    seen, known = cleaning.Seen(buffer_size=16), set()
    for key in stream:
        assert seen.add(key) is (key not in known)
        known.add(key)
    assert len(seen._runs) < 10


def test_hashes_are_fixed_and_depend_on_where_a_text_ends() -> None:
    assert cleaning.hashed("我", "me") == cleaning.hashed("我", "me")
    assert len({cleaning.hashed("ab", "c"), cleaning.hashed("a", "bc"), cleaning.hashed("ab", "c", seed=1)}) == 3


def _pairs(sources: list[str]) -> list[Encoded]:
    return [Encoded(source, str(i), [], []) for i, source in enumerate(sources)]


@pytest.mark.parametrize(("size", "held_expected"), [(None, 20), (7, 7), (0, 0)])
def test_held_out_pairs_and_the_rest_are_all_pairs(size: int | None, held_expected: int) -> None:
    pairs = _pairs([f"s{i}" for i in range(1000)])
    held = HoldOut(size, seed=1)
    certain = [pair for begin in range(0, 1000, 64) for pair in held.pass_on(pairs[begin : begin + 64])]
    valid, rest = held.finish()
    assert len(valid) == held_expected
    assert sorted(certain + rest + valid) == sorted(pairs)


def test_the_choice_does_not_depend_on_the_order_but_on_the_seed() -> None:
    pairs = _pairs([f"s{i}" for i in range(500)])
    choices = []
    for seed, order in ((1, pairs), (1, pairs[::-1]), (2, pairs)):
        held = HoldOut(10, seed)
        held.pass_on(order)
        choices.append(sorted(held.finish()[0]))
    assert choices[0] == choices[1] != choices[2]


def test_no_source_is_on_both_sides_and_none_takes_more_than_was_asked_for() -> None:
    rng = random.Random(0)
    pairs = _pairs([f"s{int(rng.expovariate(0.05))}" for _ in range(3000)])
    held = HoldOut(30, 1)
    certain = held.pass_on(pairs)
    valid, rest = held.finish()
    assert 0 < len(valid) <= 30
    assert not {pair.source_text for pair in valid} & {pair.source_text for pair in certain + rest}


@pytest.mark.parametrize("sources", [["a"], ["a"] * 50, ["a", "b"]])
def test_something_is_left_to_train_on(sources: list[str]) -> None:
    held = HoldOut(None, 1)
    certain = held.pass_on(_pairs(sources))
    valid, rest = held.finish()
    assert len(certain) + len(rest) >= 1
    assert len(valid) == (1 if len(set(sources)) > 1 else 0)
