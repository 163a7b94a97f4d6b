"""The row's length: the ample bound, the classifier, and the lengths that are tried."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli.nonautoregressive.length import (
    CLASSES,
    OFFSET,
    LengthClassifier,
    ample,
    candidates,
    length_loss,
    log_prob_of,
    repeated,
    surest,
)
from tfm_cli.transformer.network import Memory


def certain_of(*differences: int) -> torch.Tensor:
    """Log-probabilities of a classifier that is sure of these differences T - S, one for each sentence."""
    logits = torch.zeros(len(differences), CLASSES)
    logits[torch.arange(len(differences)), torch.tensor(differences) + OFFSET] = 20.0
    return logits.log_softmax(-1)


@given(st.integers(0, 5000), st.integers(1, 400))
def test_the_ample_row_is_one_and_a_half_times_the_source_and_sixteen_up_to_the_cap(source: int, cap: int) -> None:
    assert ample(torch.tensor([source]), cap).tolist() == [min(cap, -(-3 * source // 2) + 16)]


@given(
    st.integers(1, 100),
    st.integers(-OFFSET, CLASSES - OFFSET - 1),
    st.floats(0.5, 2.0),
    st.integers(1, 7),
    st.integers(1, 300),
)
def test_the_first_candidate_is_the_scaled_length_and_the_others_lie_around_it(
    source: int, difference: int, scale: float, beam: int, cap: int
) -> None:
    found = candidates(certain_of(difference), torch.tensor([source]), scale, beam, cap)[0].tolist()
    wanted = max(1, math.floor(scale * (source + difference) + 0.5))
    assert found[0] == min(wanted, cap)
    around = range(wanted - (beam - 1) // 2, wanted + beam // 2 + 1)
    assert sorted(found) == sorted(min(max(length, 1), cap) for length in around)


def test_a_length_without_a_class_counts_as_the_nearest() -> None:
    log_probs = torch.randn(2, CLASSES).log_softmax(-1)
    found = log_prob_of(log_probs, torch.tensor([10, 1000]), torch.tensor([900, 2]))
    assert found.tolist() == [log_probs[0, -1].item(), log_probs[1, 0].item()]


def test_the_loss_weighs_each_sentence_by_what_counts_of_it() -> None:
    log_probs = torch.randn(3, CLASSES).log_softmax(-1)
    source, target = torch.tensor([4, 5, 6]), torch.tensor([3, 9, 0])
    weighted, plain = length_loss(log_probs, source, target, torch.tensor([2, 9, 1]))
    terms = [-float(log_probs[i, t - s + OFFSET]) for i, (s, t) in enumerate([(4, 3), (5, 9), (6, 0)])]
    assert float(plain) == pytest.approx(sum(terms))
    assert float(weighted) == pytest.approx(2 * terms[0] + 9 * terms[1] + terms[2])


def test_padding_says_nothing_to_the_classifier() -> None:
    classifier = LengthClassifier(8)
    states, mask = torch.randn(1, 3, 8), torch.ones(1, 1, 1, 3, dtype=torch.bool)
    padded = torch.cat((states, 100 * torch.randn(1, 2, 8)), 1)
    padded_mask = torch.cat((mask, torch.zeros(1, 1, 1, 2, dtype=torch.bool)), -1)
    torch.testing.assert_close(classifier(Memory(padded, padded_mask)), classifier(Memory(states, mask)))


def test_the_candidate_of_the_best_mean_wins_whatever_its_length() -> None:
    ids = torch.tensor([[7, 8, 0], [5, 6, 9], [5, 0, 0], [6, 7, 0]])
    terms = torch.tensor([[-1.0, -1.0, 0.0], [-0.9, -0.9, -0.9], [-0.1, 0.0, 0.0], [-0.2, -0.2, 0.0]])
    tried = torch.tensor([[2, 3], [1, 2]])
    log_probs = certain_of(0, 1)
    found = surest(ids, terms, tried, log_probs, torch.tensor([3, 0]))
    assert [hypotheses[0].tokens for hypotheses in found] == [[5, 6, 9], [5]]
    assert found[0][0].score == pytest.approx((-2.7 + float(log_probs[0, OFFSET])) / 4)
    assert found[0][0].token_log_probs == pytest.approx([-0.9, -0.9, -0.9, float(log_probs[0, OFFSET])])


def test_repeated_sentences_stand_side_by_side() -> None:
    memory = Memory(torch.arange(4.0).view(2, 2, 1), torch.tensor([[True, True], [True, False]])[:, None, None])
    twice = repeated(memory, 2)
    assert twice.states[:, 0, 0].tolist() == [0, 0, 2, 2]
    assert twice.mask[:, 0, 0, 1].tolist() == [True, True, False, False]
