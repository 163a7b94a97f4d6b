"""The fused loss against its plain twin, and the plain twin against its definition."""

import math

import pytest
import torch

from tfm_cli.transformer.loss import label_smoothed, projection_loss
from tfm_cli.transformer.special import PAD


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_label_smoothing_is_cross_entropy_with_the_smoothed_distribution(smoothing):
    torch.manual_seed(5)
    logits, target = torch.randn(4, 7, dtype=torch.float64), torch.tensor([3, 6, PAD, 1])
    expected = expected_nll = 0.0
    for row, true in zip(logits.tolist(), target.tolist(), strict=True):
        if true == PAD:
            continue
        normaliser = math.log(sum(math.exp(v) for v in row))
        expected_nll += normaliser - row[true]
        for v, logit in enumerate(row):
            wanted = smoothing / 7 + (1 - smoothing) * (v == true)
            expected += wanted * (normaliser - logit)
    loss, nll = label_smoothed(logits, target, smoothing)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    assert nll.item() == pytest.approx(expected_nll, rel=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [2, 5, 512])
def test_projection_loss_equals_its_twin_with_gradients(smoothing, chunk):
    torch.manual_seed(6)
    target = torch.randint(1, 11, (9,))
    target[[2, 7]] = PAD
    runs = []
    for fused in (True, False):
        torch.manual_seed(7)
        states, weight = torch.randn(9, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
        if fused:
            loss, nll = projection_loss(states, weight, target, smoothing, chunk)
        else:
            loss, nll = label_smoothed(states @ weight.T, target, smoothing)
        (3 * loss).backward()
        runs.append((loss.detach(), nll, states.grad, weight.grad))
    for ours, twin in zip(*runs, strict=True):
        torch.testing.assert_close(ours, twin, atol=1e-5, rtol=1e-5)
    assert runs[0][2][2].abs().sum() == 0  # a PAD position has no gradient
    assert runs[0][2][3].abs().sum() > 0


def test_nothing_but_padding_is_zero():
    states, weight = torch.randn(3, 4, requires_grad=True), torch.randn(6, 4, requires_grad=True)
    loss, nll = projection_loss(states, weight, torch.full((3,), PAD), 0.1)
    loss.backward()
    assert loss.item() == nll.item() == 0
    assert states.grad.abs().sum() == weight.grad.abs().sum() == 0
