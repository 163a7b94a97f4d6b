import pytest
import torch

from tfm_cli.transformer.dropout import Dropout, keep_mask


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_share_and_scale(p):
    torch.manual_seed(8)
    mask, scale = keep_mask(torch.Size((400, 501)), p)
    kept = mask.float().mean().item()
    # Five standard deviations of a mean of 200,400 draws.
    assert kept == pytest.approx(1 - p, abs=5 * (p * (1 - p) / mask.numel()) ** 0.5)
    assert scale == pytest.approx(1 / (1 - p), rel=1e-4)


def test_elements_are_independent():
    torch.manual_seed(9)
    dropped = (~keep_mask(torch.Size((100_000, 4)), 0.5)[0]).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlations.abs().max() < 0.02
    neighbours = torch.corrcoef(torch.stack((dropped.flatten()[:-4], dropped.flatten()[4:])))[0, 1]
    assert neighbours.abs() < 0.02


def test_a_seed_fixes_it():
    torch.manual_seed(10)
    first, second = (keep_mask(torch.Size((50,)), 0.5)[0] for _ in range(2))
    torch.manual_seed(10)
    assert torch.equal(first, keep_mask(torch.Size((50,)), 0.5)[0])
    assert not torch.equal(first, second)


def test_only_in_training():
    x = torch.randn(30, 30)
    module = Dropout(0.5)
    assert not torch.equal(module(x), x)
    assert module.eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_gradient_passes_where_kept():
    x = torch.ones(1000, requires_grad=True)
    y = Dropout(0.25)(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())


def test_adding_is_dropping_and_adding():
    x, y = (torch.randn(40, 30, requires_grad=True) for _ in range(2))
    module = Dropout(0.25)
    torch.manual_seed(11)
    total = module.add(x, y)
    torch.manual_seed(11)
    dropped = module(y)
    torch.testing.assert_close(total, x + dropped)
    weights = torch.randn(40, 30)
    fast = torch.autograd.grad((total * weights).sum(), (x, y))
    slow = torch.autograd.grad(((x + dropped) * weights).sum(), (x, y))
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other)
    assert 0.15 < (dropped == 0).float().mean() < 0.35
