"""Rows without padding."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.autoregressive.family import Autoregressive, forced_log_probs
from tfm_cli.transformer.batch import Batch
from tfm_cli.transformer.embedding import embed
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.packing import ROWS, Packing, from_heads, to_heads
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END, PAD

lengths = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def grid(sizes):
    width = max([1, *sizes])
    return torch.tensor([[*range(5, 5 + n), *[PAD] * (width - n)] for n in sizes])


@given(lengths)
@settings(deadline=None)
def test_every_token_has_a_row_and_all_padding_has_the_filler(sizes):
    ids = grid(sizes)
    packing = Packing.of(ids)
    picked = packing.pick(ids)
    assert picked[: packing.count].tolist() == ids[ids != PAD].tolist()
    assert len(picked) % ROWS == 0
    assert packing.count < len(picked)
    assert (picked[packing.count :] == PAD).all()
    assert (packing.rows.view(ids.shape)[ids == PAD] == packing.count).all()
    assert packing.positions[: packing.count].tolist() == [i for n in sizes for i in range(n)]


@given(lengths)
@settings(deadline=None)
def test_there_and_back_is_the_identity_and_so_is_its_gradient(sizes):
    packing = Packing.of(grid(sizes))
    x = torch.randn(len(packing.cells), 6, requires_grad=True)
    heads = to_heads(x, 3, packing, torch.float32)
    assert heads.shape == (len(sizes), 3, max([1, *sizes]), 2)
    back = from_heads(heads, packing, torch.float32)
    torch.testing.assert_close(back[: packing.count], x[: packing.count])
    weights = torch.randn_like(back)
    weights[packing.count :] = 0  # nothing is made of the filler
    (gradient,) = torch.autograd.grad((back * weights).sum(), x)
    torch.testing.assert_close(gradient, weights)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary"])
@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("tie", ["all", "none"])
def test_loss_and_gradients_equal_those_of_the_padded_network(positions, norm, tie):
    torch.manual_seed(5)
    shape = Shape(
        dim=16,
        ffn_dim=24,
        heads=2,
        encoder_layers=2,
        decoder_layers=2,
        positions=positions,
        norm=norm,
        tie=tie,
        dropout=0.0,
    )
    family = Autoregressive(Transformer(shape, 23, 23), label_smoothing=0.0)
    rows = [[*torch.randint(5, 23, (n,)).tolist(), END] for n in (4, 9, 1, 6, 3, 7)]
    batch = Batch.of(rows[:3], rows[3:])
    report = family.loss(batch, 0.0)
    report.sum.backward()
    fast = {name: parameter.grad.clone() for name, parameter in family.named_parameters()}
    family.zero_grad()
    slow = -forced_log_probs(family.network, batch)[batch.target != PAD].sum()
    slow.backward()
    torch.testing.assert_close(report.sum, slow)
    assert report.count == sum(map(len, rows[3:]))
    for name, parameter in family.named_parameters():
        torch.testing.assert_close(fast[name], parameter.grad, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("r_drop", [0.0, 5.0])
def test_gradients_in_bfloat16_are_near_those_in_float32(positions, r_drop):
    shape = Shape(
        dim=16,
        ffn_dim=24,
        heads=2,
        encoder_layers=1,
        decoder_layers=1,
        positions=positions,
        dropout=0.1,
        max_positions=16,
    )
    torch.manual_seed(8)
    family = Autoregressive(Transformer(shape, 23, 23), label_smoothing=0.1, r_drop=r_drop)
    rows = [[*torch.randint(5, 23, (3,)).tolist(), END] for _ in range(1500)]
    batch = Batch.of(rows, rows[::-1]).packed()
    wide, narrow = (_gradients(family.to(dtype), batch) for dtype in (torch.float32, torch.bfloat16))
    summed = [name for name in wide if "embedding" in name or "positions" in name]  # over hundreds of tokens
    assert len(summed) == (3 if positions == "learned" else 1)
    for name in summed:
        assert (narrow[name] - wide[name]).norm() < 0.15 * wide[name].norm(), name


def _gradients(family, batch):
    family.train().zero_grad()
    torch.manual_seed(9)
    family.loss(batch, 0.0).sum.backward()
    return {name: parameter.grad.float().clone() for name, parameter in family.named_parameters()}


def test_a_frequent_tokens_gradient_is_added_up_in_float32():
    weight = torch.zeros(9, 4, dtype=torch.bfloat16, requires_grad=True)
    ids = torch.full((3000,), 6)
    embed(ids, weight, 0.5).sum().backward()
    assert weight.grad[6].tolist() == pytest.approx([1500.0] * 4, rel=0.01)
    assert weight.grad[:6].abs().max() == 0


def test_r_drop_needs_two_passes_only_in_training():
    torch.manual_seed(6)
    shape = Shape(dim=16, ffn_dim=24, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.3)
    network = Transformer(shape, 23, 23)
    batch = Batch.of([[5, 6, 7, END]], [[8, 9, END]])
    with_it, without = Autoregressive(network, 0.1, r_drop=5.0), Autoregressive(network, 0.1)
    torch.testing.assert_close(with_it.eval().loss(batch, 0.0).sum, without.eval().loss(batch, 0.0).sum)
    torch.manual_seed(7)
    alone = without.train().loss(batch, 0.0)
    torch.manual_seed(7)
    both = with_it.train().loss(batch, 0.0)
    assert both.count == alone.count == 3
    assert both.sum > 0
    assert not torch.allclose(both.sum, alone.sum)
