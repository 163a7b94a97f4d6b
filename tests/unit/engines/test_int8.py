"""Products in int8 stand in for those in float32, nearly."""

from typing import Any

import pytest
import torch
from torch import nn

from tests.unit.engines.models import SENTENCES, trained_model
from tfm_cli.engines.int8 import Int8Linear, quantise
from tfm_cli.errors import TfmError
from tfm_cli.families import FAMILIES
from tfm_cli.model import build_family
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import COUNT, END
from tfm_cli.translator import Translator

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)


@pytest.mark.parametrize("size", [(1, 32), (7, 32), (2, 3, 32)])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_map_loses_a_fiftieth_at_most(size: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(32, 24, bias=bias)
    with torch.no_grad():
        linear.weight[3] = 0  # a row without a scale
        linear.weight[4] *= 100  # and one that would coarsen the others, had they not each its own
        x = torch.randn(size)
        exact, found = linear(x), Int8Linear(linear.weight, linear.bias)(x)
    assert found.shape == exact.shape
    for row in range(24):
        error = float((found[..., row] - exact[..., row]).abs().max())
        assert error <= 0.02 * float(linear.weight[row].detach().norm() * x.flatten(0, -2).norm(dim=1).max()), row


@pytest.mark.parametrize("tie", ["all", "none"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_translates_in_int8(name: str, tie: str) -> None:
    torch.manual_seed(0)
    family = build_family(name, Shape(**{**SHAPE.__dict__, "tie": tie}), 40, 40).eval()
    source = pad([[*range(COUNT, COUNT + n), END] for n in (3, 9, 1)])
    exact = [found[0].log_prob for found in family.decode(source, family.default_options)]
    quantise(family)
    assert not [m for m in family.modules() if isinstance(m, nn.Linear) and m is not family.network.output]
    near = [found[0].log_prob for found in family.decode(source, family.default_options)]
    assert near != exact
    assert near == pytest.approx(exact, rel=0.1, abs=1.0)


@pytest.mark.parametrize("tie", ["all", "none"])
@pytest.mark.parametrize(
    ("name", "settings"), [("oneshot", {}), ("oneshot", {"length": "predict"}), ("ctc", {}), ("dag", {})]
)
def test_a_translation_scores_as_it_was_written(name: str, settings: dict[str, Any], tie: str) -> None:
    torch.manual_seed(0)
    family = build_family(name, Shape(**{**SHAPE.__dict__, "tie": tie}), 40, 40, settings).eval()
    with torch.no_grad():
        family.network.target_embedding.weight.mul_(3)
    quantise(family)
    sources = [[*range(COUNT, COUNT + n), END] for n in (3, 9, 1, 6)]
    # The best path of all is the best of its translation too, which that of `lookahead` need not be.
    options = NonAutoregressiveDecodeOptions(**({"paths": "viterbi"} if name == "dag" else {}))
    written = [found[0] for found in family.decode(pad(sources), options)]
    scored = family.score(Batch.of(sources, [[*each.tokens, END] for each in written]), options)
    for one, other in zip(written, scored, strict=True):
        terms = other.token_log_probs[: len(one.token_log_probs)]  # a row that is full has no END
        assert terms == pytest.approx(one.token_log_probs, abs=1e-4)


def test_a_trained_model_writes_the_same(tmp_path) -> None:
    folder = trained_model(tmp_path / "run")
    exact, near = (
        Translator.load(folder, device="cpu", precision=name).translate(SENTENCES) for name in ("float32", "int8")
    )
    assert sum(one == other for one, other in zip(exact, near, strict=True)) >= len(SENTENCES) - 4


def test_a_gpu_has_none(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfm_cli.engines.pytorch.pick_device", lambda name: torch.device("cuda"))
    with pytest.raises(TfmError, match="int8 is for CPUs"):
        Translator.load(trained_model(tmp_path / "run"), precision="int8")


def test_a_torch_without_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch, "quantize_per_channel")
    with pytest.raises(TfmError, match="does not compute in int8"):
        quantise(build_family("autoregressive", SHAPE, 40, 40))
