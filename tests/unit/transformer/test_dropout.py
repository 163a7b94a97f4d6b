import pytest
import torch

from tfm_cli.transformer.dropout import Dropout, keep_mask


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_share_and_scale(p):
    torch.manual_seed(8)
    mask = keep_mask(torch.Size((400, 501)), p)
    kept = (mask > 0).float().mean().item()
    # Five standard deviations of a mean of 200,400 draws.
    assert kept == pytest.approx(1 - p, abs=5 * (p * (1 - p) / mask.numel()) ** 0.5)
    assert mask.max().item() == pytest.approx(1 / (1 - p), rel=1e-4)
    assert mask.mean().item() == pytest.approx(1, abs=0.03)


def test_elements_are_independent():
    torch.manual_seed(9)
    dropped = (keep_mask(torch.Size((100_000, 4)), 0.5) == 0).double()
    correlations = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlations.abs().max() < 0.02
    neighbours = torch.corrcoef(torch.stack((dropped.flatten()[:-4], dropped.flatten()[4:])))[0, 1]
    assert neighbours.abs() < 0.02


def test_a_seed_fixes_it():
    torch.manual_seed(10)
    first = keep_mask(torch.Size((50,)), 0.5)
    second = keep_mask(torch.Size((50,)), 0.5)
    torch.manual_seed(10)
    assert torch.equal(first, keep_mask(torch.Size((50,)), 0.5))
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
