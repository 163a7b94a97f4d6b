import math

import pytest
import torch
from torch import Tensor, nn

from tfm_cli.errors import TfmError
from tfm_cli.training.muon import ADAM_SIZE, MOMENTUM, POLAR_STEPS, Muon, hidden_matrices, orthogonalise
from tfm_cli.training.optim import MixedPrecisionOptimizer
from tfm_cli.training.options import LearningOptions
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape

TINY = Shape(dim=8, ffn_dim=12, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)


def by_singular_values(matrix: Tensor) -> Tensor:
    """The twin of `orthogonalise`: the same polynomials, applied to singular values one by one."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    values = values / (1.01 * values.square().sum().sqrt() + 1e-7)
    for a, b, c in POLAR_STEPS:
        values = a * values + b * values**3 + c * values**5
    return left @ values.diag() @ right


@pytest.mark.parametrize("shape", [(5, 5), (4, 9), (1, 3)])
def test_orthogonalising_changes_singular_values_alone(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(3, *shape, dtype=torch.float64)
    for ours, matrix in zip(orthogonalise(matrices), matrices, strict=True):
        assert torch.allclose(ours, by_singular_values(matrix), atol=1e-9)


def test_singular_values_come_near_to_one() -> None:
    values = torch.logspace(-3, 0, 50, dtype=torch.float64)
    left, right = (torch.linalg.qr(torch.randn(50, 50, dtype=torch.float64))[0] for _ in range(2))
    matrix = left @ (values / values.norm()).diag() @ right
    after = torch.linalg.svdvals(orthogonalise(matrix[None])[0])
    assert 0.05 < float(after.min()) <= float(after.max()) < 1.9


def test_a_gradient_of_zeros_moves_nothing() -> None:
    assert torch.equal(orthogonalise(torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_all_matrices_at_once_equal_each_on_its_own(decay: float) -> None:
    torch.manual_seed(0)
    shapes = [(4, 4), (6, 4), (4, 6), (4, 4)]
    sizes = [rows * columns for rows, columns in shapes]
    weights = torch.randn(sum(sizes))
    expected = [piece.view(shape).clone() for piece, shape in zip(weights.split(sizes), shapes, strict=True)]
    momenta = [torch.zeros(shape) for shape in shapes]
    gradient = torch.zeros_like(weights)
    muon = Muon(weights, gradient, shapes, torch.float32, decay)
    for _ in range(3):
        gradient.copy_(torch.randn(sum(sizes)))
        muon.step(0.01)
        for weight, momentum, piece in zip(expected, momenta, gradient.split(sizes), strict=True):
            momentum.mul_(MOMENTUM).add_((1 - MOMENTUM) * piece.view(weight.shape))
            direction = (1 - MOMENTUM) * piece.view(weight.shape) + MOMENTUM * momentum
            weight.mul_(1 - 0.01 * decay)
            weight.sub_(0.01 * ADAM_SIZE * math.sqrt(max(weight.shape)) * by_singular_values(direction))
    for weight, piece in zip(expected, weights.split(sizes), strict=True):
        assert torch.allclose(piece.view(weight.shape), weight, atol=1e-4)


def test_it_takes_the_matrices_of_layers_and_leaves_words_to_adam() -> None:
    network = Transformer(TINY, 11, 11)
    found = hidden_matrices(network)
    matrices = {name for name, p in network.named_parameters() if p.dim() == 2 and "embedding" not in name}
    assert set(found) == matrices
    assert {maps for name, maps in found.items() if "key_value" in name} == {2}
    assert {maps for name, maps in found.items() if "key_value" not in name} == {1}
    untied = Transformer(Shape(**{**TINY.__dict__, "tie": "none"}), 11, 11)
    assert "output.weight" not in hidden_matrices(untied)


def test_keys_and_values_move_apart() -> None:
    """A gradient of the keys alone moves no value, though both stand in one matrix."""
    network = Transformer(TINY, 11, 11)
    optimizer = MixedPrecisionOptimizer(network, LearningOptions(optimizer="muon", clip_norm=0))
    stacked = network.encoder.layers[0].attention.key_value.weight
    before = stacked.detach().clone()
    for parameter in network.parameters():
        parameter.grad = torch.zeros_like(parameter)
    assert stacked.grad is not None
    stacked.grad[:8] = torch.randn(8, 8)
    optimizer.collect()
    optimizer.update(0.1, 1.0)
    assert torch.equal(stacked[8:], before[8:])
    moved = torch.linalg.svdvals(stacked.detach()[:8] - before[:8])
    assert float(moved.max()) < 1.9 * 0.1 * ADAM_SIZE * math.sqrt(8)
    assert float(moved.median()) > 0.5 * 0.1 * ADAM_SIZE * math.sqrt(8)


def test_all_but_the_matrices_move_as_with_adam() -> None:
    torch.manual_seed(0)
    networks = [Transformer(TINY, 11, 11) for _ in range(2)]
    networks[1].load_state_dict(networks[0].state_dict())
    gradients = [torch.randn_like(p) for p in networks[0].parameters()]
    for network, name in zip(networks, ("adam", "muon"), strict=True):
        optimizer = MixedPrecisionOptimizer(network, LearningOptions(optimizer=name, ema=0.0))
        for parameter, gradient in zip(network.parameters(), gradients, strict=True):
            parameter.grad = gradient.clone()
        optimizer.collect()
        optimizer.update(0.01, 1.0)
    by_muon = hidden_matrices(networks[0])
    for (name, adam), (_, muon) in zip(networks[0].named_parameters(), networks[1].named_parameters(), strict=True):
        assert torch.allclose(adam, muon, atol=1e-7) == (name not in by_muon), name


def test_a_network_without_layers_is_trained_by_adam() -> None:
    module = nn.Linear(3, 3)
    assert MixedPrecisionOptimizer(module, LearningOptions(optimizer="muon")).muon is None


def test_a_state_of_another_optimizer_is_refused() -> None:
    adam, muon = (
        MixedPrecisionOptimizer(Transformer(TINY, 11, 11), LearningOptions(optimizer=n)) for n in ("adam", "muon")
    )
    for one, other in ((adam, muon), (muon, adam)):
        with pytest.raises(TfmError, match="another optimizer"):
            one.load(other.state(), 3)
