"""The pure step on numbers made by hand. The vocabulary: 0 PAD, 1 BEGIN, 2 END, and words from 3 on."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.autoregressive.beam import beam_step, best_continuations
from tfm_cli.autoregressive.rules import NEVER
from tfm_cli.transformer.special import END

LOW = -50.0


def row(vocab=8, **words):
    """Log-probabilities by hand: ``row(w3=-1.0)``; ``w2`` is END."""
    values = [LOW] * vocab
    for name, value in words.items():
        values[int(name[1:])] = value
    return values


def test_first_step_widens_one_row():
    step = beam_step(torch.zeros(1, 1), torch.tensor([[row(w4=-1.0, w6=-2.0, w3=-3.0)]]), 2)
    assert step.token.tolist() == [[4, 6]]
    assert step.log_prob.tolist() == [[-1.0, -2.0]]
    assert step.parent.tolist() == [[0, 0]]
    assert step.ended_log_prob.tolist() == [[NEVER, NEVER]]


def test_sums_decide_not_steps():
    so_far = torch.tensor([[-1.0, -4.0]])
    after = torch.tensor([[row(w3=-5.0, w4=-6.0), row(w5=-0.5, w6=-3.5)]])
    step = beam_step(so_far, after, 2)
    assert step.token.tolist() == [[5, 3]]
    assert step.parent.tolist() == [[1, 0]]
    assert step.log_prob.tolist() == [[-4.5, -6.0]]


def test_end_within_the_first_k_finishes_and_its_place_is_filled():
    after = torch.tensor([[row(w3=-1.0, w2=-2.0, w4=-3.0, w5=-4.0)]])
    step = beam_step(torch.zeros(1, 1), after, 2)
    assert step.ended_log_prob.tolist() == [[NEVER, -2.0]]
    assert step.token.tolist() == [[3, 4]]


def test_end_behind_the_first_k_does_not_finish():
    after = torch.tensor([[row(w3=-1.0, w4=-2.0, w2=-3.0)]])
    step = beam_step(torch.zeros(1, 1), after, 2)
    assert step.ended_log_prob.tolist() == [[NEVER, NEVER]]
    assert step.token.tolist() == [[3, 4]]


def test_two_ends_name_their_beams():
    so_far = torch.tensor([[-1.0, -1.5]])
    after = torch.tensor([[row(w2=-0.1, w3=-4.0), row(w2=-0.2, w4=-4.0)]])
    step = beam_step(so_far, after, 2)
    torch.testing.assert_close(step.ended_log_prob, torch.tensor([[-1.1, -1.7]]))
    assert step.ended_parent.tolist() == [[0, 1]]
    assert step.token.tolist() == [[3, 4]]


def test_an_empty_beam_gives_nothing():
    so_far = torch.tensor([[-1.0, NEVER]])
    after = torch.tensor([[row(w3=-1.0, w4=-2.0), row(w2=-0.1, w5=-0.1)]])
    step = beam_step(so_far, after, 2)
    assert step.token.tolist() == [[3, 4]]
    assert step.ended_log_prob.tolist() == [[NEVER, NEVER]]


def test_fewer_continuations_than_beams():
    after = torch.tensor([[[NEVER, NEVER, -1.0, -2.0]]])
    step = beam_step(torch.zeros(1, 1), after, 6)
    assert step.ended_log_prob[0].tolist() == [-1.0] + [NEVER] * 5
    assert step.log_prob[0].tolist() == [-2.0] + [NEVER] * 5
    assert step.token[0, 0] == 3


def test_sentences_do_not_mix():
    after = torch.tensor([[row(w3=-1.0, w4=-2.0)], [row(w6=-7.0, w5=-8.0)]])
    step = beam_step(torch.zeros(2, 1), after, 2)
    assert step.token.tolist() == [[3, 4], [6, 5]]


@settings(max_examples=60, deadline=None)
@given(
    sentences=st.integers(1, 4),
    beams=st.integers(1, 5),
    vocab=st.integers(3, 700),
    count=st.integers(1, 12),
    seed=st.integers(0, 2**31),
)
def test_blocks_find_what_a_full_sort_finds(sentences, beams, vocab, count, seed):
    generator = torch.Generator().manual_seed(seed)
    so_far = torch.randn(sentences, beams, generator=generator)
    after = torch.randn(sentences, beams, vocab, generator=generator)
    after[..., 0] = NEVER
    total, parent, token = best_continuations(so_far, after, count)
    every = (so_far[..., None] + after).flatten(1)
    expected = every.sort(descending=True).values[:, :count]
    real = expected.shape[1]
    torch.testing.assert_close(total[:, :real], expected)
    assert total.shape == (sentences, count)
    assert (total[:, real:] == NEVER).all()
    found = every.gather(1, parent * vocab + token)[:, :real]
    torch.testing.assert_close(found, expected)
    assert all(len({*pairs}) == real for pairs in (parent * vocab + token)[:, :real].tolist())


def test_end_is_what_the_room_below_says():
    assert END == 2
