import pytest
import torch

from tfm_cli.errors import TfmError
from tfm_cli.transformer.attention import padding_mask
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import PRESETS, Shape
from tfm_cli.transformer.special import PAD


def test_pad():
    assert pad([[7, 2], [5, 6, 8, 2]]).tolist() == [[7, 2, PAD, PAD], [5, 6, 8, 2]]
    assert pad([[]]).tolist() == [[PAD]]


def test_batch_moves_whole():
    batch = Batch.of([[7, 2]], [[8, 9, 2]]).to("cpu")
    assert batch.source.tolist() == [[7, 2]]
    assert batch.target.tolist() == [[8, 9, 2]]


def test_padding_mask_keeps_a_place_in_an_empty_row():
    assert padding_mask(torch.tensor([[7, 2, PAD], [PAD, PAD, PAD]]), PAD)[:, 0, 0].tolist() == [
        [True, True, False],
        [True, False, False],
    ]


@pytest.mark.parametrize(
    ("wrong", "option"),
    [
        ({"dim": 10, "heads": 4}, "--dim"),
        ({"dim": 12, "heads": 4, "positions": "rotary"}, "--heads"),
        ({"norm": "both"}, "--norm"),
        ({"dropout": 0.95}, "--dropout"),
        ({"dim": 9, "heads": 3}, "--dim"),
    ],
)
def test_impossible_shapes_are_refused_by_name(wrong, option):
    with pytest.raises(TfmError) as error:
        Shape(**wrong)
    assert error.value.where == option


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_possible(preset):
    assert Shape(**PRESETS[preset]).dim == PRESETS[preset]["dim"]


@pytest.mark.parametrize(("tie", "matrices"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tying_saves_matrices(tie, matrices):
    model = Transformer(Shape(dim=8, ffn_dim=8, heads=2, encoder_layers=1, decoder_layers=1, tie=tie), 30, 30)
    assert sum(p.shape == (30, 8) for p in model.parameters()) == matrices


def test_one_matrix_needs_one_vocabulary():
    with pytest.raises(TfmError, match="30 and 31"):
        Transformer(Shape(dim=8, ffn_dim=8, heads=2), 30, 31)
    model = Transformer(Shape(dim=8, ffn_dim=8, heads=2, tie="decoder"), 30, 31).eval()
    states = model.decode(torch.tensor([[7, 30]]), model.encode(torch.tensor([[29, 2]])), causal=True)
    assert model.logits(states).shape == (1, 2, 31)


def test_positions_table_grows():
    model = Transformer(Shape(dim=8, ffn_dim=8, heads=2, encoder_layers=1, decoder_layers=1), 30, 30).eval()
    long = torch.randint(5, 30, (1, 600))
    assert torch.isfinite(model.encode(long).states).all()
    assert len(model.source_positions.table) >= 600
