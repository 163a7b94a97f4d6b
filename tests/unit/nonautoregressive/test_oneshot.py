"""The one-pass family: what its row holds, what its loss counts, that it obeys cap, scale and beam exactly."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.length import OFFSET
from tfm_cli.nonautoregressive.oneshot import OneShot
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions, NonAutoregressiveOptions
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BEGIN, END, PAD

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=2, dropout=0.1)
VOCAB = 24
PLAIN = NonAutoregressiveDecodeOptions()
sentences = st.lists(st.integers(5, VOCAB - 1), min_size=1, max_size=9)


def family(**given: Any) -> OneShot:
    torch.manual_seed(3)
    made = OneShot(Transformer(SHAPE, VOCAB, VOCAB), **given)
    with torch.no_grad():  # an untrained model would say one word everywhere
        made.network.target_embedding.weight.normal_()[BEGIN] = 0
    return made


def sure_of(made: OneShot, difference: int) -> OneShot:
    """Let the classifier say T - S = difference whatever it reads."""
    assert made.classifier is not None
    with torch.no_grad():
        made.classifier.output.weight.zero_()
        made.classifier.output.bias.zero_()
        made.classifier.output.bias[difference + OFFSET] = 9.0
    return made


def batch(*pairs: tuple[list[int], list[int]]) -> Batch:
    return Batch.of([[*source, END] for source, _ in pairs], [[*target, END] for _, target in pairs])


def test_rotary_positions_are_refused() -> None:
    shape = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, positions="rotary")
    with pytest.raises(TfmError, match="rotary"):
        OneShot(Transformer(shape, VOCAB, VOCAB))


@settings(max_examples=25, deadline=None)
@given(sentences, st.integers(1, 20))
def test_a_model_that_never_writes_end_fills_the_row_up_to_the_cap(source: list[int], cap: int) -> None:
    made = family(cap=cap).eval()
    with torch.no_grad():
        made.network.target_embedding.weight[END] = 0
        made.network.decoder.norm.weight.zero_()  # type: ignore[union-attr]
        made.network.decoder.norm.bias[:] = made.network.target_embedding.weight[7]  # type: ignore[union-attr]
    found = made.decode(pad([[*source, END]]), PLAIN)[0][0]
    assert found.tokens == [7] * min(cap, -(-3 * len(source) // 2) + 16)
    assert not found.finished


def test_what_stands_right_of_the_first_end_is_dropped() -> None:
    made = family().eval()
    source = pad([[6, 7, 8, END]])
    real = torch.ones(1, 21, dtype=torch.bool)
    with torch.inference_mode():
        states = made.states_of_row(BEGIN, made.network.encode(source), real)
        logits = made.network.logits(states)
        place = 4
        # Move the state of one position onto END, and that of a later one.
        made.states_of_row = lambda *_: states  # type: ignore[method-assign]
        for t in (place, place + 3):
            states[t] = 3 * made.network.target_embedding.weight[END]
        found = made.decode(source, PLAIN)[0][0]
    expected = logits.clone()
    expected[:, [PAD, BEGIN, 3, 4]] = float("-inf")
    before = expected[:place].argmax(-1).tolist()
    assert END not in before
    assert found.tokens == before
    assert found.finished and len(found.token_log_probs) == place + 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(sentences, min_size=1, max_size=4),
    st.integers(-3, 9),
    st.sampled_from([0.5, 0.75, 1.0, 1.3, 2.0]),
    st.integers(1, 30),
)
def test_the_scale_is_obeyed_exactly_up_to_the_cap(
    sources: list[list[int]], difference: int, scale: float, cap: int
) -> None:
    made = sure_of(family(length="predict", cap=cap), difference).eval()
    options = NonAutoregressiveDecodeOptions(length_scale=scale)
    found = made.decode(pad([[*source, END] for source in sources]), options)
    for source, hypotheses in zip(sources, found, strict=True):
        wanted = int(scale * (len(source) + difference) + 0.5) if len(source) + difference > 0 else 1
        assert len(hypotheses[0].tokens) == min(max(wanted, 1), cap)
        assert not {PAD, BEGIN, END, 3, 4} & set(hypotheses[0].tokens)


def test_the_length_beam_keeps_the_surest_of_its_lengths() -> None:
    made = sure_of(family(length="predict"), 0).eval()
    source = [9, 6, 13, 8, END]
    tried = []
    for difference in (-1, 0, 1):
        tried.append(sure_of(made, difference).decode(pad([source]), PLAIN)[0][0])
    beam = sure_of(made, 0).decode(pad([source]), NonAutoregressiveDecodeOptions(length_beam=3))[0][0]
    best = max(tried, key=lambda found: sum(found.token_log_probs[:-1]) / len(found.tokens))
    assert beam.tokens == best.tokens
    assert beam.token_log_probs[:-1] == pytest.approx(best.token_log_probs[:-1], abs=1e-5)


@pytest.mark.parametrize("length", ["cap", "predict"])
def test_decoding_and_scoring_agree(length: str) -> None:
    made = family(length=length).eval()
    with torch.no_grad():
        made.network.decoder.norm.bias += 0.2 * made.network.target_embedding.weight[END]  # so that rows end somewhere
    sources = [[6, 7, 8, END], [20, 9, END], [5, 6, 7, 8, 9, 10, END], [17, 11, END]]
    found = [hypotheses[0] for hypotheses in made.decode(pad(sources), PLAIN)]
    assert all(hypothesis.finished for hypothesis in found)
    assert max(len(hypothesis.tokens) for hypothesis in found) > 1
    scored = made.score(Batch.of(sources, [[*hypothesis.tokens, END] for hypothesis in found]))
    for hypothesis, again in zip(found, scored, strict=True):
        assert again.tokens == hypothesis.tokens
        assert again.log_prob == pytest.approx(hypothesis.log_prob, abs=1e-4)
        assert again.score == pytest.approx(hypothesis.score, abs=1e-4)
        assert again.token_log_probs == pytest.approx(hypothesis.token_log_probs, abs=1e-4)


def test_a_token_beyond_the_row_has_no_probability() -> None:
    found = family(cap=3).eval().score(batch(([6, 7], [8, 9, 10, 11])))[0]
    assert found.token_log_probs[3:] == [float("-inf")] * 2
    assert found.log_prob == float("-inf")
    assert all(term > -100 for term in found.token_log_probs[:3])


@pytest.mark.parametrize("length", ["cap", "predict"])
def test_the_nll_is_what_scoring_says(length: str) -> None:
    made = family(length=length).eval()
    pairs = batch(([6, 7, 8], [9, 10]), ([11], [12, 13, 14, 15, 16]), ([5, 6], [23]))
    report = made.loss(pairs, 1.0)
    assert report.count == 2 + 5 + 1 + 3
    assert float(report.parts["nll"]) == pytest.approx(-sum(h.log_prob for h in made.score(pairs)), rel=1e-4)


@torch.no_grad()
def test_without_smoothing_and_tail_the_loss_is_the_nll_and_the_tail_adds_its_share() -> None:
    pairs = batch(([6, 7, 8], [9, 10]), ([11], [12, 13, 14, 15, 16]))
    bare = family(label_smoothing=0.0, tail_weight=0.0).eval().loss(pairs, 1.0)
    assert float(bare.sum) == pytest.approx(float(bare.parts["nll"]), rel=1e-5)
    sums = [float(family(label_smoothing=0.0, tail_weight=w).eval().loss(pairs, 1.0).sum) for w in (0.05, 1.0)]
    tail = sums[1] - float(bare.sum)
    assert tail > 0
    assert sums[0] == pytest.approx(float(bare.sum) + 0.05 * tail, rel=1e-5)


def test_a_target_longer_than_the_row_is_learnt_as_far_as_the_row_goes() -> None:
    report = family(cap=3).eval().loss(batch(([6, 7], [8, 9, 10, 11]), ([5], [6])), 1.0)
    assert report.count == 3 + 2
    assert int(report.parts["unreachable"]) == 2


@pytest.mark.parametrize("length", ["cap", "predict"])
def test_glancing_shows_more_the_more_is_wrong_and_nothing_in_evaluation(length: str) -> None:
    pairs = batch(*[([6, 7, 8, 9], [10, 11, 12, 13, 14, 15])] * 8)
    learnt = family(length=length, glancing=True, glancing_start=1.0, glancing_end=0.0)
    whole = 8 * 7
    assert learnt.eval().loss(pairs, 0.0).count == whole
    learnt.train()
    assert learnt.loss(pairs, 1.0).count == whole  # nothing is shown at the end
    early = learnt.loss(pairs, 0.0).count
    assert early < whole // 2  # a fresh model is wrong nearly everywhere
    for parameter in learnt.parameters():
        parameter.grad = None
    learnt.loss(pairs, 0.0).sum.backward()
    assert all(parameter.grad is not None for parameter in learnt.parameters())


def test_an_empty_target_has_a_finite_loss_and_gradient() -> None:
    for given_length in ("cap", "predict"):
        made = family(length=given_length, glancing=True)
        report = made.loss(batch(([6], []), ([7, 8], [])), 0.0)
        report.sum.backward()
        assert torch.isfinite(report.sum)
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in made.parameters())


def test_what_it_cannot_do_is_refused() -> None:
    source = pad([[6, 7, END]])
    with pytest.raises(TfmError, match="until END"):
        family().eval().decode(source, NonAutoregressiveDecodeOptions(length_scale=2.0))
    with pytest.raises(TfmError, match="until END"):
        family().eval().decode(source, NonAutoregressiveDecodeOptions(length_beam=2))
    with pytest.raises(TfmError, match="cannot obey"):
        family().eval().decode(source, NonAutoregressiveDecodeOptions(iterations=2))
    with pytest.raises(TfmError, match="prefix"):
        family().eval().decode(source, PLAIN, [[6]])


def test_options_without_effect_are_refused() -> None:
    with pytest.raises(TfmError, match="no tail"):
        NonAutoregressiveOptions(length="predict", tail_weight=0.5)
    NonAutoregressiveOptions(length="cap", tail_weight=0.5, length_weight=0.5)  # maskpredict obeys the latter


def test_a_saved_model_keeps_a_weight_that_means_nothing_to_it() -> None:
    # What was the default when it was trained stands among its settings.
    assert family(length="cap", length_weight=0.5).classifier is None


def test_the_lengths_loss_is_weighted_by_the_tokens_that_are_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = batch(([6, 7, 8], [9, 10]), ([11], [12, 13, 14, 15, 16]))
    made = family(length="predict", length_weight=1.0).eval()
    monkeypatch.setattr(made, "cross_entropy", lambda *_: (torch.zeros(()), torch.zeros(())))
    monkeypatch.setattr(
        made, "_forward", lambda target, real, *_: (None, target[real].index_fill(0, torch.tensor([2]), 0))
    )
    report = made.loss(pairs, 0.0)
    assert made.classifier is not None
    terms = made.classifier(made.network.encode(pairs.source))[[0, 1], [OFFSET - 1, OFFSET + 4]]
    assert report.count == 3 + 5
    assert float(report.sum) == pytest.approx(-float(3 * terms[0] + 5 * terms[1]), rel=1e-5)
