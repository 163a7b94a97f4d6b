import math

import pytest
import torch
from torch.nn import functional as F

from tfm_cli.autoregressive.family import Autoregressive, Ensemble, decoder_input
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.transformer.batch import Batch, pad
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BEGIN, END, PAD

VOCAB = 17


def family(seed=1):
    torch.manual_seed(seed)
    shape = Shape(dim=16, ffn_dim=16, heads=2, encoder_layers=1, decoder_layers=1, tie="none")
    return Autoregressive(Transformer(shape, VOCAB, VOCAB)).eval()


BATCH = Batch.of([[7, 8, 9, END], [6, END]], [[5, 6, END], [10, 11, 12, 13, END]])


def test_decoder_reads_the_target_shifted():
    assert decoder_input(torch.tensor([[7, 8, END]])).tolist() == [[BEGIN, 7, 8]]


def test_loss_is_teacher_forcing():
    model = family()
    report = model.loss(BATCH, 0.0)
    memory = model.network.encode(BATCH.source)
    logits = model.network.logits(model.network.decode(decoder_input(BATCH.target), memory, causal=True))
    nll = F.cross_entropy(logits.flatten(0, 1), BATCH.target.flatten(), ignore_index=PAD, reduction="sum")
    assert report.count == 8
    assert type(report.count) is int
    assert report.parts["nll"].item() == pytest.approx(nll.item(), rel=1e-5)
    smoothed = F.cross_entropy(
        logits.flatten(0, 1), BATCH.target.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )
    assert report.sum.item() == pytest.approx(smoothed.item(), rel=1e-5)
    report.sum.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_an_all_padding_row_changes_nothing():
    model = family()
    empty = torch.full((1, BATCH.source.shape[1]), PAD), torch.full((1, BATCH.target.shape[1]), PAD)
    padded = Batch(torch.cat((BATCH.source, empty[0])), torch.cat((BATCH.target, empty[1])))
    with torch.no_grad():
        alone, together = model.loss(BATCH, 0.0), model.loss(padded, 0.0)
    assert together.sum.item() == pytest.approx(alone.sum.item(), rel=1e-6)
    assert together.count == alone.count
    model.loss(padded, 0.0).sum.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    for one, other in zip(model.score(BATCH), model.score(padded), strict=False):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-5)
    assert len(model.decode(padded.source, DecodeOptions())) == 3


def test_score_is_the_negative_log_likelihood():
    model = family()
    found = model.score(BATCH)
    assert -sum(h.log_prob for h in found) == pytest.approx(model.loss(BATCH, 0.0).parts["nll"].item(), rel=1e-5)
    assert found[0].tokens == [5, 6]
    assert len(found[0].token_log_probs) == 3
    assert found[1].score == pytest.approx(found[1].log_prob / 5)
    assert model.score(BATCH, DecodeOptions(length_penalty=0.0))[1].score == found[1].log_prob


def test_ensemble_averages_probabilities():
    one, other = family(1), family(2)
    both = Ensemble([one, other]).eval()
    singles = [model.score(BATCH)[0].token_log_probs for model in (one, other)]
    expected = [math.log((math.exp(a) + math.exp(b)) / 2) for a, b in zip(*singles, strict=True)]
    assert both.score(BATCH)[0].token_log_probs == pytest.approx(expected, abs=1e-5)
    found = both.decode(BATCH.source, DecodeOptions(max_length_ratio=1.0, max_length_extra=4))
    for hypotheses, source in zip(found, BATCH.source.tolist(), strict=True):
        best = hypotheses[0]
        target = [*best.tokens, END] if best.finished else best.tokens
        forced = both.score(Batch(pad([source]), pad([target])))[0]
        assert best.log_prob == pytest.approx(forced.log_prob, abs=1e-4)


def test_twins_decode_as_one():
    one = family(1)
    options = DecodeOptions(n_best=3)
    single, twins = one.decode(BATCH.source, options), Ensemble([one, family(1)]).eval().decode(BATCH.source, options)
    assert [[h.tokens for h in found] for found in single] == [[h.tokens for h in found] for found in twins]
