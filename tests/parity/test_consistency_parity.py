"""The fused R-Drop loss and its slow twin, written from the formulas."""

import pytest
import torch

from tfm_cli.transformer.consistency import consistency_loss, divergence
from tfm_cli.transformer.loss import label_smoothed
from tfm_cli.transformer.special import PAD

VOCAB, DIM = 37, 8


def slow(states, weight, target, count, smoothing, alpha):
    logits = [side @ weight.t() for side in states]
    losses, nlls = zip(*(label_smoothed(side, target, smoothing) for side in logits), strict=True)
    apart = divergence(*logits)[target != PAD].sum()
    return sum(losses) / 2 + alpha / 4 * apart, sum(nlls) / 2


@pytest.mark.parametrize(("rows", "count"), [(128, 100), (256, 128), (256, 255)])
@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 5.0), (0.1, 0.0), (0.1, 5.0)])
def test_equals_its_twin_with_gradients(rows, count, smoothing, alpha, monkeypatch):
    monkeypatch.setattr("tfm_cli.transformer.consistency.chunk_rows", lambda vocabulary: 128)
    torch.manual_seed(1)
    inputs = [torch.randn(rows, DIM), torch.randn(rows, DIM), torch.randn(VOCAB, DIM)]
    target = torch.randint(5, VOCAB, (rows,))
    target[count:] = PAD
    found = []
    for compute in (slow, consistency_loss):
        leaves = [tensor.clone().requires_grad_() for tensor in inputs]
        loss, nll = compute(leaves[:2], leaves[2], target, count, smoothing, alpha)
        (loss * 0.5).backward()
        found.append((loss.detach(), nll.detach(), *(leaf.grad for leaf in leaves)))
    for expected, actual in zip(*found, strict=True):
        torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-4)
    assert found[0][2][:count].abs().max() > 1e-3
    assert (found[1][2][count:] == 0).all()


def test_no_divergence_where_both_passes_agree():
    torch.manual_seed(2)
    states, weight = torch.randn(128, DIM), torch.randn(VOCAB, DIM)
    target = torch.randint(5, VOCAB, (128,))
    with_it, _ = consistency_loss((states, states), weight, target, 128, 0.1, 5.0)
    without, _ = consistency_loss((states, states), weight, target, 128, 0.1, 0.0)
    torch.testing.assert_close(with_it, without)
    plain, _ = label_smoothed(states @ weight.t(), target, 0.1)
    torch.testing.assert_close(without, plain)
