"""Packed weights translate and score as plain ones do, and where they cannot be had all stays plain."""

import pytest
import torch
from torch import Tensor, nn

from tests.unit.engines.models import saved_model
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines import packed
from tfm_cli.engines.packed import PackedLinear, pack
from tfm_cli.engines.pytorch import TorchEngine, load
from tfm_cli.families import FAMILIES
from tfm_cli.model import build_family
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END

SHAPE = Shape(dim=32, ffn_dim=64, heads=4, encoder_layers=2, decoder_layers=2)
SOURCES = [[5, 6, 7, 8, END], [9, END], [10, 11, 12, 13, 14, 15, END]]
can = pytest.mark.skipif(not packed._can_pack(torch.float32), reason="this torch packs no weights")


@can
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_a_packed_map_is_the_plain_one(dtype: torch.dtype, rows: int) -> None:
    torch.manual_seed(1)
    plain, x = nn.Linear(24, 40).to(dtype), torch.randn(2, rows, 24, dtype=dtype)
    with torch.inference_mode():
        found = PackedLinear(plain.weight, plain.bias)(x)
        torch.testing.assert_close(found, plain(x), rtol=2e-2, atol=2e-2 if dtype == torch.bfloat16 else 1e-5)
        assert found.dtype == dtype


@can
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_translates_and_scores_as_before(name: str) -> None:
    torch.manual_seed(2)
    family = build_family(name, SHAPE, 30, 30).eval()
    batch = Batch.of(SOURCES, SOURCES[::-1])
    can_score = name != "maskpredict"
    before = family.decode(pad(SOURCES), family.default_options)
    scores = family.score(batch, family.default_options) if can_score else []
    pack(family)
    assert not any(isinstance(part, nn.Linear) and part is not family.network.output for part in family.modules())
    after = family.decode(pad(SOURCES), family.default_options)
    assert [found[0].tokens for found in after] == [found[0].tokens for found in before]
    again = family.score(batch, family.default_options) if can_score else []
    for mine, theirs in zip(again, scores, strict=True):
        assert mine.token_log_probs == pytest.approx(theirs.token_log_probs, abs=1e-4)


@can
def test_the_engine_packs(tmp_path) -> None:  # type: ignore[no-untyped-def]
    engine, _ = load([saved_model(tmp_path)], "cpu")
    assert isinstance(engine, TorchEngine)
    assert any(isinstance(part, PackedLinear) for part in engine.family.modules())


@pytest.mark.parametrize("fault", [AttributeError, RuntimeError, None])
def test_without_it_all_stays_plain(fault: type[Exception] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    class Faulty(nn.Module):
        def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
            super().__init__()
            if fault:
                raise fault
            self.rows = len(weight)

        def forward(self, x: Tensor) -> Tensor:
            return x.new_zeros(*x.shape[:-1], self.rows)

    monkeypatch.setattr(packed, "PackedLinear", Faulty)
    family = build_family("autoregressive", SHAPE, 30, 30).eval()
    pack(family)
    assert not any(isinstance(part, Faulty) for part in family.modules())
    assert family.decode(pad(SOURCES), DecodeOptions(beam=2))
