"""The dynamic programs of CTC against enumeration of every path, and against torch's own loss."""

from itertools import groupby, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tfm_cli.nonautoregressive.lattice import collapse, ctc_align, ctc_sum, needed_slots, owners
from tfm_cli.transformer.special import BLANK, COUNT, PAD

A, B, C = COUNT, COUNT + 1, COUNT + 2


def collapsed(path):
    """The rule in words: merge equal neighbours, drop blanks."""
    return [token for token, _ in groupby(path) if token != BLANK]


def paths(target, length):
    """All rows of ``length`` slots that say ``target``."""
    return [p for p in product([BLANK, *sorted(set(target))], repeat=length) if collapsed(p) == target]


def padded(rows, width=None):
    width = max([width or 0, *map(len, rows)])
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows]).reshape(len(rows), width)


def weight(emission, target, path):
    """What a path's slots give, by hand; equal tokens of a target share one emission."""
    return sum(emission[slot][0 if token == BLANK else 1 + target.index(token)] for slot, token in enumerate(path))


def shared_columns(emissions, targets):
    """Give equal tokens of a target equal emissions, as one vocabulary entry would."""
    for emission, target in zip(emissions, targets, strict=True):
        for column, token in enumerate(target):
            emission[:, 1 + column] = emission[:, 1 + target.index(token)]
    return emissions


@st.composite
def batches(draw, longest=5):
    """Targets, slots (too few for some) and emissions of a small batch."""
    targets = draw(st.lists(st.lists(st.sampled_from([A, B, C]), max_size=3), min_size=1, max_size=3))
    slots = [draw(st.integers(1, longest)) for _ in targets]
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    spread = draw(st.sampled_from([0.5, 3.0, 30.0]))
    shape = (len(targets), max(slots), 1 + max(map(len, targets)))
    emissions = torch.randn(shape, generator=generator, dtype=torch.float64) * spread
    return targets, slots, shared_columns(emissions, targets)


@settings(deadline=None, max_examples=60)
@given(batches())
def test_sum_and_its_gradient_equal_enumeration(batch):
    targets, slots, emissions = batch
    emissions.requires_grad_()
    total = ctc_sum(emissions, padded(targets), torch.tensor(slots))
    silent = ctc_sum(emissions.detach(), padded(targets), torch.tensor(slots))
    ways = [paths(target, length) for target, length in zip(targets, slots, strict=True)]
    expected = []
    for row, (target, found) in enumerate(zip(targets, ways, strict=True)):
        terms = [weight(emissions[row], target, path) for path in found]
        expected.append(torch.stack(terms).logsumexp(0) if terms else torch.tensor(float("-inf"), dtype=torch.float64))
    torch.testing.assert_close(total, torch.stack(expected))
    torch.testing.assert_close(silent, total.detach())
    usable = torch.tensor([bool(found) for found in ways])
    assert usable.tolist() == (needed_slots(padded(targets)) <= torch.tensor(slots)).tolist()
    (gradient,) = torch.autograd.grad((total * torch.arange(1, len(total) + 1))[usable].sum(), emissions)
    if usable.any():
        terms = (torch.stack(expected) * torch.arange(1, len(total) + 1))[usable].sum()
        (by_hand,) = torch.autograd.grad(terms, emissions)
        # Enumeration gives all of an equal token's gradient to its first column.
        columns = [[target.index(token) for token in target] for target in targets]
        for row, firsts in enumerate(columns):
            for column, first in enumerate(firsts):
                if first < column:
                    gradient[row, :, 1 + first] += gradient[row, :, 1 + column]
                    gradient[row, :, 1 + column] = 0
        torch.testing.assert_close(gradient, by_hand)
    assert gradient[~usable].abs().sum() == 0


@settings(deadline=None, max_examples=60)
@given(batches())
def test_alignment_is_the_best_path(batch):
    targets, slots, emissions = batch
    aligned = ctc_align(emissions, padded(targets), torch.tensor(slots)).tolist()
    for row, (target, length) in enumerate(zip(targets, slots, strict=True)):
        found = paths(target, length)
        assert aligned[row][length:] == [PAD] * (max(slots) - length)
        if found:
            best = max(weight(emissions[row], target, path) for path in found)
            assert collapsed(aligned[row][:length]) == target
            torch.testing.assert_close(weight(emissions[row], target, aligned[row][:length]), best)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_equals_torch_with_gradients_on_the_logits(dtype):
    torch.manual_seed(3)
    slots, lengths = torch.tensor([20, 13, 9, 6, 1]), [9, 6, 4, 0, 1]
    targets = [torch.randint(COUNT, COUNT + 4, (n,)).tolist() for n in lengths]
    logits = torch.randn(5, 20, COUNT + 6, dtype=dtype).mul(3).requires_grad_()
    log_probs = logits.log_softmax(-1)
    columns = F.pad(padded(targets), (1, 0), value=BLANK)
    ours = ctc_sum(log_probs.gather(2, columns[:, None].expand(-1, 20, -1)), padded(targets), slots)
    theirs = F.ctc_loss(
        log_probs.transpose(0, 1), padded(targets), slots, torch.tensor(lengths), blank=BLANK, reduction="none"
    )
    torch.testing.assert_close(-ours, theirs)
    mine, twin = (torch.autograd.grad(loss.sum(), logits, retain_graph=True)[0] for loss in (-ours, theirs))
    torch.testing.assert_close(mine, twin)


def test_a_sum_does_not_depend_on_its_neighbours():
    torch.manual_seed(4)
    emissions, slots = torch.randn(4, 12, 6), torch.tensor([12, 7, 9, 3])
    target = padded([[A, B, C, A, A], [A], [B, C, B], []])
    together = ctc_sum(emissions, target, slots)
    for row, (length, n) in enumerate(zip(slots, [5, 1, 3, 0], strict=True)):
        alone = ctc_sum(emissions[row : row + 1, :length, : 1 + n], target[row : row + 1, :n], slots[row : row + 1])
        torch.testing.assert_close(alone[0], together[row])


def test_long_and_unlikely_sentences_stay_finite():
    emissions = torch.full((1, 400, 151), -30.0)
    emissions[..., 0] = 0.0  # blanks everywhere, each token at e^-30
    emissions.requires_grad_()
    total = ctc_sum(emissions, torch.arange(COUNT, COUNT + 150)[None], torch.tensor([400]))
    total.sum().backward()
    assert -4500 < total.item() < -4000
    torch.testing.assert_close(emissions.grad.sum(2), torch.ones(1, 400), atol=1e-2, rtol=0)


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([BLANK, A, B]), min_size=1, max_size=8), min_size=1, max_size=4))
def test_collapse_merges_then_drops_blanks_and_gives_each_slot_an_owner(rows):
    ids = padded(rows)
    kept = collapse(ids)
    for row, slots, mask, owner in zip(rows, ids, kept, owners(ids, kept).tolist(), strict=True):
        said = slots[mask].tolist()
        assert said == collapsed(row)
        for slot, token in enumerate(row):
            assert token == BLANK or said[owner[slot]] == token
            assert owner[slot] == len(collapsed(row[: slot + 1])) - (token != BLANK)
