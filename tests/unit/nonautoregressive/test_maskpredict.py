"""Mask-Predict: what is masked when, and that a pass touches nothing else."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.maskpredict import MaskPredict, least
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END, MASK

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
VOCAB = 24


def family(**given: Any) -> MaskPredict:
    torch.manual_seed(3)
    made = MaskPredict(Transformer(SHAPE, VOCAB, VOCAB), **given)
    with torch.no_grad():  # uneven words, and translations as long as the source
        made.network.target_embedding.weight.normal_()[MASK] = 0
        made.classifier.output.weight.zero_()
        made.classifier.output.bias[128] = 9.0
    return made


@given(
    st.lists(st.lists(st.floats(-9, 0, allow_subnormal=False), min_size=6, max_size=6), min_size=1, max_size=4),
    st.data(),
)
def test_the_least_sure_are_masked(rows: list[list[float]], data: st.DataObject) -> None:
    lengths = torch.tensor([data.draw(st.integers(1, 6)) for _ in rows])
    count = torch.tensor([data.draw(st.integers(0, int(length))) for length in lengths])
    terms, real = torch.tensor(rows), torch.arange(6) < lengths[:, None]
    masked = least(terms, count, real)
    assert masked.sum(1).tolist() == count.tolist()
    assert not (masked & ~real).any()
    for row, chosen, there in zip(terms, masked, real, strict=True):
        kept = row[there & ~chosen]
        if chosen.any() and len(kept):
            assert row[chosen].max() <= kept.min()


def test_fewer_are_masked_in_every_pass_and_only_these_change(monkeypatch: pytest.MonkeyPatch) -> None:
    made = family().eval()
    source = pad([[*range(5, 15), END], [5, 6, 7, END]])
    seen = []
    real_states = made.states

    def watched(ids: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append(ids.clone())
        return real_states(ids, *rest)

    monkeypatch.setattr(made, "states", watched)
    found = made.decode(source, NonAutoregressiveDecodeOptions(iterations=5))
    # floor(L * (1 - r / R)) for L = 10 and 3, r = 1 .. 4; the first pass, all masked, goes by another way.
    assert [(ids == MASK).sum(1).tolist() for ids in seen] == [[8, 2], [6, 1], [4, 1], [2, 0]]
    last = seen[-1][0]
    kept = (last != MASK)[:10]
    assert torch.tensor(found[0][0].tokens)[kept].tolist() == last[:10][kept].tolist()
    assert found[1][0].tokens == seen[-1][1][:3].tolist()


def test_no_pass_is_made_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = family().eval()
    passes = []
    real_states = made.states
    monkeypatch.setattr(made, "states", lambda *given: passes.append(1) or real_states(*given))
    made.decode(pad([[5, END]]), NonAutoregressiveDecodeOptions(iterations=10))
    assert not passes  # of one token, none is masked again


def test_one_to_all_tokens_are_masked_with_equal_chance() -> None:
    made = family()
    pairs = Batch.of([[6, 7, END]] * 400, [[8, 9, 10, 11, END]] * 400)
    counts = []
    states = made.states

    def watched(ids: torch.Tensor, *rest: Any) -> torch.Tensor:
        counts.extend((ids == MASK).sum(1).tolist())
        return states(ids, *rest)

    made.states = watched  # type: ignore[method-assign]
    report = made.loss(pairs, 0.0)
    assert report.count == sum(counts) + 400
    assert set(counts) == {1, 2, 3, 4}
    assert all(60 < counts.count(n) < 140 for n in (1, 2, 3, 4))


def test_evaluation_masks_all_and_draws_nothing() -> None:
    made = family().eval()
    pairs = Batch.of([[6, 7, END]], [[8, 9, 10, END]])
    before = torch.get_rng_state()
    first, second = made.loss(pairs, 0.0), made.loss(pairs, 1.0)
    assert torch.equal(torch.get_rng_state(), before)
    assert first.count == 4
    assert torch.equal(first.parts["nll"], second.parts["nll"])


def test_an_empty_target_has_a_finite_loss_and_gradient() -> None:
    made = family()
    report = made.loss(Batch.of([[6, END], [7, END]], [[END], [END]]), 0.0)
    report.sum.backward()
    assert torch.isfinite(report.sum)
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in made.parameters())


def test_what_it_cannot_do_is_refused() -> None:
    made = family().eval()
    with pytest.raises(TfmError, match="no probability"):
        made.score(Batch.of([[6, END]], [[7, END]]))
    with pytest.raises(TfmError, match="cannot obey"):
        made.decode(pad([[6, END]]), NonAutoregressiveDecodeOptions(paths="greedy"))
