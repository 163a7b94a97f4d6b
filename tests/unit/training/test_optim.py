import math
from itertools import pairwise

import pytest
import torch
from torch import nn

from tfm_cli.training.optim import FlatWeights, MixedPrecisionOptimizer, learning_rate
from tfm_cli.training.options import LearningOptions


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3, bias=False)
        self.bias = nn.Parameter(torch.zeros(3))
        self.second = nn.Linear(4, 3, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.first(x) + self.bias) * self.second(x)


def test_warm_up_is_linear_and_meets_the_inverse_square_root() -> None:
    options = LearningOptions(learning_rate=1.0, warmup_steps=100)
    assert learning_rate(1, 0, options) == pytest.approx(0.01)
    assert learning_rate(50, 0, options) == pytest.approx(0.5)
    assert learning_rate(100, 0, options) == pytest.approx(1.0)
    assert learning_rate(400, 0, options) == pytest.approx(0.5)


def test_no_schedule_jumps_at_the_end_of_warm_up() -> None:
    for schedule in ("inverse-sqrt", "linear", "cosine", "constant"):
        options = LearningOptions(learning_rate=1.0, warmup_steps=400, schedule=schedule)
        rates = [learning_rate(step, step / 800, options) for step in range(395, 406)]
        assert max(abs(a - b) for a, b in pairwise(rates)) < 0.01


@pytest.mark.parametrize(("schedule", "half"), [("linear", 0.5), ("cosine", 0.5), ("constant", 1.0)])
def test_schedules_by_progress(schedule: str, half: float) -> None:
    options = LearningOptions(learning_rate=1.0, warmup_steps=0, schedule=schedule)
    assert learning_rate(10, 0.0, options) == pytest.approx(1.0)
    assert learning_rate(10, 0.5, options) == pytest.approx(half)
    assert learning_rate(10, 1.0, options) == pytest.approx(1.0 if schedule == "constant" else 0.0)


def test_tied_weights_stand_once_and_stay_tied() -> None:
    module = Tied()
    flat = FlatWeights(module)
    assert flat.flat.numel() == 12 + 3
    flat.bind(flat.flat)
    flat.flat.fill_(2.0)
    assert torch.equal(module.second.weight, torch.full((3, 4), 2.0))
    assert module.second.weight is module.first.weight


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_one_flat_update_equals_torch_adam_on_every_parameter(weight_decay: float) -> None:
    torch.manual_seed(0)
    ours, theirs = Tied(), Tied()
    theirs.load_state_dict(ours.state_dict())
    options = LearningOptions(learning_rate=0.01, clip_norm=0.5, ema=0.0, weight_decay=weight_decay)
    optimizer = MixedPrecisionOptimizer(ours, options)
    reference = torch.optim.AdamW(theirs.parameters(), lr=0.01, betas=(0.9, 0.98), eps=1e-9, weight_decay=weight_decay)
    for _ in range(5):
        x = torch.randn(6, 4)
        ours(x).square().sum().backward()
        optimizer.collect()
        optimizer.update(0.01, 1 / 6)
        reference.zero_grad()
        (theirs(x).square().sum() / 6).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        reference.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def test_gradients_of_micro_batches_add_up() -> None:
    torch.manual_seed(0)
    once, twice = Tied(), Tied()
    twice.load_state_dict(once.state_dict())
    one, two = (MixedPrecisionOptimizer(module, LearningOptions()) for module in (once, twice))
    x = torch.randn(8, 4)
    once(x).sum().backward()
    one.collect()
    for half in x.split(3):
        twice(half).sum().backward()
        two.collect()
    assert torch.allclose(one.gradient, two.gradient, atol=1e-5)


def test_a_gradient_that_is_not_finite_changes_nothing() -> None:
    module = Tied()
    optimizer = MixedPrecisionOptimizer(module, LearningOptions())
    before = {name: tensor.clone() for name, tensor in optimizer.state().items()}
    (module(torch.ones(2, 4)).sum() * float("nan")).backward()
    optimizer.collect()
    assert not math.isfinite(optimizer.update(0.1, 1.0))
    after = optimizer.state()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_bfloat16_works_on_a_rounded_copy_of_float32_weights() -> None:
    torch.manual_seed(0)
    module = Tied()
    optimizer = MixedPrecisionOptimizer(module, LearningOptions(learning_rate=1e-4), torch.bfloat16)
    assert module.first.weight.dtype == torch.bfloat16
    start = optimizer.master.detach().clone()
    for _ in range(3):
        module(torch.randn(4, 4, dtype=torch.bfloat16)).float().square().sum().backward()
        optimizer.collect()
        optimizer.update(1e-4, 1.0)
    moved = optimizer.master.detach() - start
    assert 0 < float(moved.abs().max()) < 1e-3  # smaller than bfloat16 could hold beside weights of this size
    assert torch.equal(optimizer.working, optimizer.master.detach().bfloat16())


def test_the_average_follows_the_weights() -> None:
    module = Tied()
    optimizer = MixedPrecisionOptimizer(module, LearningOptions(ema=0.9, clip_norm=0))
    kept = optimizer.average.clone()
    for step in range(1, 30):
        module(torch.ones(2, 4)).sum().backward()
        optimizer.collect()
        optimizer.update(0.01, 1.0)
        kept.lerp_(optimizer.master.detach(), 1 - min(0.9, (1 + step) / (10 + step)))
    assert torch.allclose(optimizer.average, kept)
