import pytest
import torch

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.autoregressive.rules import NEVER
from tfm_cli.autoregressive.sampling import Draws, mix, sampling_step, shape_distribution
from tfm_cli.transformer.special import END

PROBABILITIES = [0.0, 0.0, 0.1, 0.4, 0.3, 0.2]


def distribution(**options):
    log_probs = torch.tensor(PROBABILITIES).log()
    return shape_distribution(log_probs, DecodeOptions(sample=True, **options)).tolist()


def test_plain_is_the_models_own():
    assert distribution() == pytest.approx(PROBABILITIES)


def test_temperature_sharpens_and_flattens():
    sharp = [p**2 for p in PROBABILITIES]
    assert distribution(temperature=0.5) == pytest.approx([p / sum(sharp) for p in sharp])
    assert max(distribution(temperature=5.0)) < 0.4


def test_top_k_keeps_the_likeliest():
    assert distribution(top_k=2) == pytest.approx([0, 0, 0, 4 / 7, 3 / 7, 0])
    assert distribution(top_k=1) == pytest.approx([0, 0, 0, 1, 0, 0])
    assert distribution(top_k=100) == pytest.approx(PROBABILITIES)


def test_top_p_keeps_the_smallest_set_that_holds_it():
    kept = distribution(top_p=0.65)
    assert [p > 0 for p in kept] == [False, False, False, True, True, False]
    assert [p > 0 for p in distribution(top_p=0.01)] == [False, False, False, True, False, False]


def test_draws_follow_the_distribution():
    numbers = (torch.arange(1000, dtype=torch.float64) + 0.5)[None] / 1000
    log_probs = torch.tensor(PROBABILITIES).log().view(1, 1, -1)
    step = sampling_step(torch.zeros(1, 1), log_probs, numbers, DecodeOptions(sample=True, n_best=1000))
    counts = torch.bincount(step.token[0], minlength=6).tolist()
    assert counts == pytest.approx([1000 * p for p in PROBABILITIES], abs=1)
    assert (step.token != 0).all()


def test_zero_and_nearly_one_draw_possible_tokens():
    numbers = torch.tensor([[0.0, 1 - 2**-53]], dtype=torch.float64)
    log_probs = torch.tensor([0.0, 0.0, 0.5, 0.5, 0.0]).log().view(1, 1, -1)
    step = sampling_step(torch.zeros(1, 1), log_probs, numbers, DecodeOptions(sample=True, n_best=2))
    assert step.token.tolist() == [[END, 3]]
    assert step.ended_log_prob[0, 0].isfinite()
    assert step.log_prob[0].tolist() == pytest.approx([NEVER, -0.6931], abs=1e-3)


def test_log_probability_is_of_the_whole_softmax():
    numbers = torch.tensor([[0.5]], dtype=torch.float64)
    log_probs = torch.tensor(PROBABILITIES).log().view(1, 1, -1)
    step = sampling_step(torch.tensor([[-2.0]]), log_probs, numbers, DecodeOptions(sample=True, top_k=1))
    assert step.log_prob.item() == pytest.approx(-2.0 + torch.tensor(0.4).log().item())


def test_draws_do_not_depend_on_the_batch():
    together = Draws.of([5, 6, 7], width=2, steps=40, seed=1)
    alone = Draws.of([6], width=2, steps=20, seed=1)
    assert torch.equal(together.numbers[1, :, :20], alone.numbers[0])
    assert not torch.equal(together.numbers[0], together.numbers[1])
    assert not torch.equal(alone.numbers, Draws.of([6], width=2, steps=20, seed=2).numbers)
    together.select(torch.tensor([2, 1]))
    assert torch.equal(together.at(3)[1], alone.numbers[0, :, 3])


def test_seeds_are_spread():
    seeds = {mix(seed, line) for seed in range(50) for line in range(50)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**63 for seed in seeds)
