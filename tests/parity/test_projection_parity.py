"""Log-normalisers and needed logits against the whole table of logits, with gradients."""

import pytest
import torch

from tfm_cli.nonautoregressive import projection
from tfm_cli.nonautoregressive.projection import log_normalisers, needed_logits, summed_log_normalisers


@pytest.fixture(params=[1 << 24, 30])
def chunked(request, monkeypatch):
    """All positions at once, or two at a time."""
    monkeypatch.setattr(projection, "_LOGITS", request.param)


def drawn(dtype=torch.float64, count=7):
    torch.manual_seed(1)
    states = torch.randn(count, 6, dtype=dtype).mul(2).requires_grad_()
    return states, torch.randn(11, 6, dtype=dtype).requires_grad_()


@pytest.mark.usefixtures("chunked")
def test_log_normalisers_equal_logsumexp_with_gradients():
    states, weight = drawn()
    scale = torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0, 1e-3, 0.0])
    ours, theirs = log_normalisers(states, weight), (states @ weight.T).logsumexp(1)
    torch.testing.assert_close(ours, theirs)
    for mine, twin in zip(
        *(torch.autograd.grad(n @ scale.double(), (states, weight)) for n in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, twin)


@pytest.mark.usefixtures("chunked")
def test_their_sum_has_the_same_gradients():
    states, weight = drawn()
    ours, theirs = summed_log_normalisers(states, weight), (states @ weight.T).logsumexp(1).sum()
    torch.testing.assert_close(ours, theirs)
    for mine, twin in zip(*(torch.autograd.grad(-3 * n, (states, weight)) for n in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, twin)


def test_without_gradient_the_values_are_the_same():
    states, weight = drawn()
    with torch.no_grad():
        torch.testing.assert_close(log_normalisers(states, weight), (states @ weight.T).logsumexp(1))
        torch.testing.assert_close(summed_log_normalisers(states, weight), (states @ weight.T).logsumexp(1).sum())


def test_bfloat16_loses_no_more_than_its_logits_do():
    states, weight = drawn(torch.bfloat16, count=300)
    exact = (states.float() @ weight.float().T).logsumexp(1)
    ours = log_normalisers(states, weight)
    assert ours.dtype == torch.float32
    rounding = 2.0**-8
    assert ((ours - exact).abs() < rounding * (1 + exact.abs())).all()
    assert (ours - exact).mean().abs() < rounding  # no bias
    summed_log_normalisers(states, weight).backward()
    assert states.grad.dtype == weight.grad.dtype == torch.bfloat16


def test_nothing_has_no_normaliser():
    states, weight = drawn(count=0)
    assert log_normalisers(states, weight).shape == (0,)
    for total in (summed_log_normalisers(states, weight), log_normalisers(states, weight).sum()):
        total.backward()
        assert total.item() == weight.grad.abs().sum() == 0


def test_needed_logits_are_columns_of_all_logits_with_gradients():
    torch.manual_seed(2)
    states, weight = torch.randn(2, 5, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    ids = torch.tensor([[4, 7, 7, 2], [0, 3, 10, 4]])
    ours = needed_logits(states, weight, ids)
    theirs = (states @ weight.T).gather(2, ids[:, None].expand(-1, 5, -1))
    torch.testing.assert_close(ours, theirs)
    toward = torch.randn_like(ours)
    for mine, twin in zip(
        *(torch.autograd.grad((n * toward).sum(), (states, weight)) for n in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, twin)
