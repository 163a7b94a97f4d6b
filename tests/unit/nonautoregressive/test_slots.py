"""The decoder's row of repeated source states."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli.nonautoregressive.slots import _source_cells, blank_row, on_grid, slot_counts, slot_states
from tfm_cli.transformer.batch import pad
from tfm_cli.transformer.network import Memory, Transformer
from tfm_cli.transformer.packing import Packing
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import MASK

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)


def memory(lengths):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return Memory(torch.zeros(len(lengths), max(lengths), 4), mask[:, None, None])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 4.0]))
def test_every_source_token_has_its_share_of_slots_in_order(lengths, factor):
    source = memory(lengths)
    counts = slot_counts(source, factor)
    assert counts.tolist() == [max(1, int(factor * n + 0.5)) for n in lengths]
    _, real = blank_row(counts)
    for row, (n, count) in enumerate(zip(lengths, counts.tolist(), strict=True)):
        places = (_source_cells(source, real)[row, :count] - row * max(lengths)).tolist()
        assert places == [slot * n // count for slot in range(count)]
        if factor >= 1:
            assert set(places) == set(range(n))


def test_states_without_padding_are_those_with_it():
    torch.manual_seed(4)
    network = Transformer(SHAPE, 20, 20)
    source = pad([[7, 8, 9, 2], [5, 2]])
    ids, real = blank_row(slot_counts(network.encode(source), 3))
    ids[0, 2] = 11
    packed = slot_states(network, network.encode(source, Packing.of(source)), ids, real)
    padded = slot_states(network, network.encode(source), ids, real)
    torch.testing.assert_close(packed, padded)
    grid = on_grid(padded, real)
    assert torch.equal(grid[real], padded)
    other = slot_states(network, network.encode(source), torch.full_like(ids, MASK), real)
    assert (other - padded).abs().amax() > 1e-3  # what is shown is seen
