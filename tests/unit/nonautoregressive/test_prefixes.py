"""Prefix beam search: exact where it keeps everything, and the sum over paths where a single path misleads."""

from collections import defaultdict
from itertools import product
from math import exp, log

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tfm_cli.nonautoregressive.prefixes import likeliest_sentences

NEVER = float("-inf")


def by_brute_force(words: Tensor, log_probs: Tensor, blank: Tensor) -> dict[tuple[int, ...], float]:
    """Log-probabilities of all sentences that one row of slots can say: every path, merged and without its blanks."""
    sums: dict[tuple[int, ...], float] = defaultdict(float)
    choices = [
        [(0, blank[i].item()), *zip(words[i].tolist(), log_probs[i].tolist(), strict=True)] for i in range(len(words))
    ]
    for path in product(*choices):
        said = [token for token, _ in path]
        merged = [token for i, token in enumerate(said) if token and (i == 0 or token != said[i - 1])]
        sums[tuple(merged)] += exp(sum(term for _, term in path))
    return {tokens: log(total) for tokens, total in sums.items()}


def slots(seed: int, batch: int, length: int, words: int) -> tuple[Tensor, Tensor, Tensor]:
    """Every word of a small vocabulary at each slot, in an order of its own, as likely as it comes."""
    draw = torch.Generator().manual_seed(seed)
    log_probs = (3 * torch.randn(batch, length, words + 1, generator=draw)).log_softmax(-1)
    order = torch.rand(batch, length, words, generator=draw).argsort(-1)
    return order + 5, log_probs[..., 1:].gather(2, order), log_probs[..., 0]


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), length=st.integers(1, 5), words=st.integers(1, 3))
def test_with_room_for_all_beginnings_it_is_exact(seed: int, length: int, words: int) -> None:
    given_slots = slots(seed, 2, length, words)
    found = likeliest_sentences(*given_slots, width=500)
    for row, answers in enumerate(found):
        expected = by_brute_force(*(each[row] for each in given_slots))
        assert {tuple(tokens) for tokens, _ in answers} == set(expected)
        assert len(answers) == len(expected)
        for tokens, total in answers:
            assert total == pytest.approx(expected[tuple(tokens)], abs=1e-4)
        assert [total for _, total in answers] == sorted((total for _, total in answers), reverse=True)


def test_ways_add_up_where_the_best_path_says_something_else() -> None:
    # Two slots. The best path is blank, blank (0.36); but 7 is said by 7 7, 7 blank and blank 7 (0.64).
    words, share = torch.tensor([[[7], [7]]]), torch.tensor([[[0.4], [0.4]]])
    ((first, second),) = likeliest_sentences(words, share.log(), (1 - share[..., 0]).log(), width=2)
    assert first[0] == [7] and second[0] == []
    assert (exp(first[1]), exp(second[1])) == pytest.approx((0.64, 0.36))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000), width=st.integers(2, 6))
def test_a_row_is_searched_alike_alone_and_beside_a_longer_one(seed: int, width: int) -> None:
    words, log_probs, blank = slots(seed, 2, 9, 6)
    log_probs[0, 5:], blank[0, 5:] = NEVER, 0.0
    together = likeliest_sentences(words, log_probs, blank, width)
    alone = likeliest_sentences(words[:1, :5], log_probs[:1, :5], blank[:1, :5], width)
    assert together[0] == alone[0]
    assert all(len(answers) == width == len({tuple(tokens) for tokens, _ in answers}) for answers in together)


def test_fewer_words_than_the_width_give_fewer_sentences() -> None:
    words, log_probs, blank = slots(1, 3, 2, 1)
    found = likeliest_sentences(words, log_probs, blank, width=10)
    assert [sorted(tokens for tokens, _ in answers) for answers in found] == [[[], [5]]] * 3
