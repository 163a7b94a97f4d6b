"""Needed log-probabilities and the loss of paths against the whole table of logits, with gradients."""

import pytest
import torch
from torch.nn import functional as F

from tfm_cli.nonautoregressive import projection
from tfm_cli.nonautoregressive.lattice import ctc_sum
from tfm_cli.nonautoregressive.projection import needed_log_probs, needed_logits, path_loss
from tfm_cli.transformer.special import BLANK, PAD

REAL = torch.tensor([[True, True, True, True], [True, True, False, False], [True, True, True, False]])
IDS = torch.tensor([[4, 7, 7, 2], [0, 3, 10, 4], [5, 5, 5, 5]])  # words that come back, in one sentence and another


@pytest.fixture(params=[1 << 24, 30])
def chunked(request, monkeypatch):
    """All positions at once, or two at a time."""
    monkeypatch.setattr(projection, "chunk_rows", lambda vocabulary: max(1, request.param // vocabulary))


def drawn(count=9):
    torch.manual_seed(1)
    states = torch.randn(count, 6, dtype=torch.float64).mul(2).requires_grad_()
    return states, torch.randn(11, 6, dtype=torch.float64).requires_grad_()


def plain_log_probs(states, weight, ids, real=REAL):
    """[N, U] through all logits."""
    return (states @ weight.T).log_softmax(1).gather(1, ids[real.nonzero()[:, 0]])


@pytest.mark.usefixtures("chunked")
def test_needed_log_probs_equal_log_softmax_with_gradients():
    states, weight = drawn()
    toward = torch.randn(9, 4, dtype=torch.float64) * torch.tensor([1, 2, 0, 1, 0, 1, 5, 1, 1.0])[:, None]
    ours, theirs = needed_log_probs(states, REAL, weight, IDS)[REAL], plain_log_probs(states, weight, IDS)
    torch.testing.assert_close(ours, theirs)
    for mine, twin in zip(
        *(torch.autograd.grad((n * toward).sum(), (states, weight)) for n in (ours, theirs)), strict=True
    ):
        torch.testing.assert_close(mine, twin)


@pytest.mark.usefixtures("chunked")
def test_a_loss_of_paths_is_that_of_log_probs_with_gradients_and_leaves_out_what_has_none():
    states, weight = drawn()
    target, slots = torch.tensor([[7, 7, 5], [8, 9, 10], [5, 6, PAD]]), REAL.sum(1)  # the second has two slots
    ids = F.pad(target, (1, 0), value=BLANK)

    def paths(logits):
        return ctc_sum(logits, target, slots)

    ours = path_loss(states, REAL, weight, ids, paths)
    table = torch.zeros(3, 4, 4, dtype=torch.float64).masked_scatter(
        REAL[..., None], plain_log_probs(states, weight, ids)
    )
    theirs = -paths(table)[[0, 2]].sum()
    torch.testing.assert_close(ours, theirs)
    with torch.inference_mode():
        torch.testing.assert_close(path_loss(states, REAL, weight, ids, paths), theirs)
    for mine, twin in zip(*(torch.autograd.grad(-3 * n, (states, weight)) for n in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, twin)


def sure(confidence):
    """Slots [B, L] that say a sentence with great confidence, in bfloat16: states, weight, targets."""
    torch.manual_seed(0)
    batch, length, tokens, words, dim = 4, 16, 6, 400, 64
    weight = torch.randn(words, dim) * dim**-0.5
    target = torch.randint(5, words, (batch, tokens))
    said = torch.full((batch, length), BLANK)
    for row in range(batch):
        said[row, torch.randperm(length)[:tokens].sort().values] = target[row]
    pointed = weight[said] / weight[said].norm(dim=-1, keepdim=True) ** 2
    states = confidence * (pointed + torch.randn(batch, length, dim) / 24)
    return states.flatten(0, 1).bfloat16(), weight.bfloat16(), target


@pytest.mark.parametrize("way", ["paths", "log-probs"])
@pytest.mark.parametrize("confidence", [9, 12, 15])
def test_gradients_in_bfloat16_stay_right_as_the_model_grows_sure(way, confidence):
    states, weight, target = sure(confidence)
    real, slots = torch.ones(4, 16, dtype=torch.bool), torch.full((4,), 16)
    ids = F.pad(target, (1, 0), value=BLANK)
    gradients = []
    for dtype in (torch.bfloat16, torch.float64):
        s, w = (x.detach().to(dtype).requires_grad_() for x in (states, weight))
        if dtype == torch.float64:
            table = plain_log_probs(s, w, ids, real).view(4, 16, -1)
            loss = -ctc_sum(table, target, slots).sum()
        elif way == "paths":
            loss = path_loss(s, real, w, ids, lambda logits: ctc_sum(logits, target, slots))
        else:
            loss = -ctc_sum(needed_log_probs(s, real, w, ids), target, slots).sum()
        gradients.append(torch.autograd.grad(loss, (s, w)))
    for mine, exact in zip(*gradients, strict=True):
        assert mine.dtype == torch.bfloat16
        assert (mine.double() - exact).norm() < 0.05 * exact.norm()


def test_nothing_has_no_loss():
    states, weight = drawn(count=0)
    nowhere = torch.zeros(3, 4, dtype=torch.bool)
    assert needed_log_probs(states[:0], nowhere[:0], weight, IDS[:0]).shape == (0, 4, 4)
    states, weight = drawn(count=9)
    loss = path_loss(states, REAL, weight, IDS, lambda logits: logits.sum((1, 2)).masked_fill(REAL[:, 0], -torch.inf))
    loss.backward()
    assert loss.item() == weight.grad.abs().sum() == states.grad.abs().sum() == 0


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
