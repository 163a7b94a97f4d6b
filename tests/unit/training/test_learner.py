"""Batches that do not fit into memory are learnt in halves, and nothing of it shows in the gradient."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.model import Model, build_family
from tfm_cli.training.distributed import World
from tfm_cli.training.learner import Learner
from tfm_cli.training.memory import is_out_of_memory
from tfm_cli.training.options import LearningOptions
from tfm_cli.transformer.batch import Batch, LossReport
from tfm_cli.transformer.shape import Shape

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
CPU_COMPLAINT = (
    "[enforce fail at alloc_cpu.cpp:114] DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes."
)
ERRORS = (
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
    RuntimeError(CPU_COMPLAINT),
    MemoryError(),
)


def learner() -> Learner:
    torch.manual_seed(0)
    family = build_family("autoregressive", SHAPE, 40, 40, {"label_smoothing": 0.1})
    return Learner(Model(family, "autoregressive", None), LearningOptions(), torch.device("cpu"), torch.float32)  # type: ignore[arg-type]


def batch(rows: int) -> Batch:
    draw = torch.Generator().manual_seed(rows)
    ids = [[*torch.randint(5, 40, (2 + i % 4,), generator=draw).tolist(), 2] for i in range(2 * rows)]
    return Batch.of(ids[:rows], ids[rows:]).packed()


def limit(made: Learner, fits: Callable[[Batch], bool], error: Exception) -> None:
    """Let the steps of ``made`` run out of memory where ``fits`` says no."""
    real = made.family.loss

    def loss(given: Batch, progress: float) -> LossReport:
        if not fits(given):
            raise error
        return real(given, progress)

    made.family.loss = loss  # type: ignore[method-assign]


@pytest.mark.parametrize("error", ERRORS, ids=["gpu", "cpu", "python"])
def test_a_batch_learnt_in_halves_gives_the_gradient_of_the_whole(error: Exception) -> None:
    whole, cut = learner(), learner()
    limit(cut, lambda given: len(given.source) < 7, error)
    reports = [made.learn(batch(7), 0.0) for made in (whole, cut)]
    assert torch.allclose(whole.optimizer.gradient, cut.optimizer.gradient, atol=1e-5)
    assert reports[0].count == reports[1].count
    assert torch.allclose(reports[0].sum, reports[1].sum)
    assert torch.allclose(reports[0].parts["nll"], reports[1].parts["nll"])
    assert (cut.halved, cut.unfit) == (1, 0)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 9))
def test_halves_of_halves_on_top_of_earlier_batches(rows: int, most: int, before: int) -> None:
    whole, cut = learner(), learner()
    for made in (whole, cut):
        if before:
            made.learn(batch(before), 0.0)
    limit(cut, lambda given: len(given.source) <= most, ERRORS[1])
    for made in (whole, cut):
        made.learn(batch(rows), 0.0)
    assert torch.allclose(whole.optimizer.gradient, cut.optimizer.gradient, atol=1e-4)
    assert cut.halved == (rows > most)


def test_what_a_broken_backward_left_is_not_added() -> None:
    """The error comes in the middle of backward, once: the gradients that stand already must not be counted twice."""
    whole, cut = learner(), learner()
    last = cut.optimizer.weights.parameters[0]  # the embeddings, whose gradient comes late
    failures = [ERRORS[0]]

    def fail_once(gradient: torch.Tensor) -> None:
        if failures:
            assert sum(parameter.grad is not None for parameter in cut.optimizer.weights.parameters) > 3
            raise failures.pop()

    last.register_hook(fail_once)
    for made in (whole, cut):
        made.learn(batch(6), 0.0)
    assert cut.halved == 1
    assert torch.allclose(whole.optimizer.gradient, cut.optimizer.gradient, atol=1e-5)


def test_a_sentence_that_does_not_fit_alone_is_left_out_and_counted() -> None:
    made, rest = learner(), learner()
    given = batch(4)
    large = given.source[2]
    limit(made, lambda part: not any(torch.equal(row, large) for row in part.source), ERRORS[0])
    report = made.learn(given, 0.0)
    assert (made.halved, made.unfit) == (1, 1)
    others = [0, 1, 3]
    expected = rest.learn(Batch(given.source[others], given.target[others]).packed(), 0.0)
    assert report.count == expected.count
    assert torch.allclose(made.optimizer.gradient, rest.optimizer.gradient, atol=1e-5)


def test_an_update_without_a_batch_has_a_zero_gradient() -> None:
    made = learner()
    made.learn(batch(3), 0.0)
    assert made.update(1e-3, 10, World()) > 0
    assert made.update(1e-3, 10, World()) == 0


def test_other_errors_are_not_taken_for_a_lack_of_memory() -> None:
    made = learner()
    limit(made, lambda given: False, RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    with pytest.raises(RuntimeError, match="mat1"):
        made.learn(batch(4), 0.0)
    assert made.halved == 0
    assert not is_out_of_memory(ValueError("out of memory"))


def test_a_rehearsal_leaves_no_trace() -> None:
    made = learner()
    state, weights = torch.get_rng_state(), made.optimizer.master.detach().clone()
    made.rehearse(batch(3))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(made.optimizer.master.detach(), weights)
    assert all(parameter.grad is None for parameter in made.optimizer.weights.parameters)
    assert made.update(1e-3, 1, World()) == 0
