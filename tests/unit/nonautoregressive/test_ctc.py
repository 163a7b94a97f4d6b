"""The CTC family: its loss is torch's, its pairs are counted, its translations are its best paths."""

import pytest
import torch
from torch.nn import functional as F

from tfm_cli.errors import TfmError
from tfm_cli.nonautoregressive.ctc import UNSAID, Ctc, read
from tfm_cli.nonautoregressive.lattice import collapse
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.nonautoregressive.slots import blank_row, slot_counts, slot_states
from tfm_cli.transformer.batch import Batch
from tfm_cli.transformer.network import Transformer
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import BLANK, END, MASK, PAD

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
SOURCES = [[7, 8, 9, 10, END], [8, END], [5, 5, 5, END]]
TARGETS = [[9, 8, 8, 7, END], [8, 8, 8, 8, 8, END], [END]]  # the second needs nine slots


def made(**settings):
    torch.manual_seed(2)
    family = Ctc(Transformer(SHAPE, 20, 20), **settings)
    with torch.no_grad():
        family.network.target_embedding.weight.mul_(2)
    return family


def plain_loss(family, batch):
    """The loss through all log-probabilities and `F.ctc_loss`, a pair at a time."""
    losses = []
    for source, target in zip(batch.source, batch.target, strict=True):
        memory = family.network.encode(source[source != PAD][None])
        ids, real = blank_row(slot_counts(memory, family.upsample))
        log_probs = family.network.logits(slot_states(family.network, memory, ids, real)).log_softmax(-1)
        words = target[(target != PAD) & (target != END)]
        sizes = torch.tensor(len(log_probs)), torch.tensor(len(words))
        losses.append(F.ctc_loss(log_probs, words, *sizes, blank=BLANK, reduction="sum"))
    return losses


@pytest.mark.parametrize("upsample", [1, 2, 3])
def test_the_loss_is_torchs_with_gradients_and_unusable_pairs_are_counted(upsample):
    family = made(upsample=upsample)
    batch = Batch.of(SOURCES, TARGETS)
    report = family.loss(batch, 0.0)
    expected = plain_loss(family, batch)
    assert [bool(loss.isfinite()) for loss in expected] == [True, False, True]
    expected = expected[0] + expected[2]
    assert (report.count, int(report.parts["unusable"])) == (5 + 1, 1)
    torch.testing.assert_close(report.sum, expected)
    torch.testing.assert_close(report.parts["nll"], report.sum.detach())
    weights = list(family.parameters())
    mine = torch.autograd.grad(report.sum, weights, allow_unused=True)
    twin = torch.autograd.grad(expected, weights, allow_unused=True)
    for ours, theirs in zip(mine, twin, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


def test_a_batch_without_a_usable_pair_has_no_loss_and_finite_gradients():
    family = made(upsample=1)
    report = family.loss(Batch.of([[8, END]], [[8, 8, 8, 8, END]]), 0.0)
    report.sum.backward()
    assert (report.sum.item(), report.count, int(report.parts["unusable"])) == (0.0, 0, 1)
    assert all(p.grad.isfinite().all() for p in family.parameters() if p.grad is not None)


def test_a_translation_is_its_slots_collapsed_and_scores_as_it_was_written():
    family, options = made().eval(), NonAutoregressiveDecodeOptions()
    batch = Batch.of(SOURCES, SOURCES)
    found = [each[0] for each in family.decode(batch.source, options)]
    memory = family.network.encode(batch.source)
    ids, real = blank_row(slot_counts(memory, 2))
    log_probs = family.network.logits(slot_states(family.network, memory, ids, real)).log_softmax(-1)
    best = log_probs.index_fill(1, torch.tensor(UNSAID), float("-inf")).max(1)
    slots = torch.full(real.shape, PAD)
    slots[real] = best.indices
    kept = collapse(slots)
    assert [each.tokens for each in found] == [row[mask].tolist() for row, mask in zip(slots, kept, strict=True)]
    path = [sum(part).item() for part in best.values.split(real.sum(1).tolist())]
    assert [each.log_prob for each in found] == pytest.approx(path, abs=1e-4)
    again = family.score(Batch.of(SOURCES, [[*each.tokens, END] for each in found]), options)
    for written, scored in zip(found, again, strict=True):
        assert scored.tokens == written.tokens
        assert scored.token_log_probs == pytest.approx(written.token_log_probs, abs=1e-4)
        assert scored.score == pytest.approx(written.score, abs=1e-4)


def test_a_beam_finds_what_is_likelier_in_sum_and_gives_the_numbers_of_its_best_path():
    family, batch = made().eval(), Batch.of(SOURCES, SOURCES)
    memory = family.network.encode(batch.source)
    ids, real = blank_row(slot_counts(memory, 2))
    log_probs = family.network.logits(slot_states(family.network, memory, ids, real)).log_softmax(-1)
    slots = log_probs.split(real.sum(1).tolist())

    def sums(found):
        """Each sentence's log-likelihood over all of its paths."""
        losses = []
        for terms, each in zip(slots, found, strict=True):
            sizes = torch.tensor(len(terms)), torch.tensor(len(each.tokens))
            losses.append(F.ctc_loss(terms, torch.tensor(each.tokens), *sizes, blank=BLANK, reduction="sum"))
        return [-loss.item() for loss in losses]

    best_path = [each[0] for each in family.decode(batch.source, NonAutoregressiveDecodeOptions())]
    searched = [each[0] for each in family.decode(batch.source, NonAutoregressiveDecodeOptions(ctc_beam=15))]
    assert all(a >= b for a, b in zip(sums(searched), sums(best_path), strict=True))
    assert sums(searched) != sums(best_path)
    again = family.score(Batch.of(SOURCES, [[*each.tokens, END] for each in searched]))
    for written, scored in zip(searched, again, strict=True):
        assert scored.tokens == written.tokens
        assert scored.token_log_probs == pytest.approx(written.token_log_probs, abs=1e-4)


def test_what_does_not_fit_has_no_probability():
    scored = made(upsample=1).eval().score(Batch.of(SOURCES, TARGETS))
    assert [each.log_prob > float("-inf") for each in scored] == [True, False, True]
    assert scored[1].tokens == [8] * 5
    assert scored[0].log_prob == pytest.approx(sum(scored[0].token_log_probs))


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.5, 4.0])
def test_a_factor_sets_the_number_of_slots(factor):
    counts = slot_counts(made().network.encode(Batch.of(SOURCES, SOURCES).source), factor)
    assert counts.tolist() == [int(factor * len(s) + 0.5) for s in SOURCES]


def test_a_length_scale_is_refused():
    with pytest.raises(TfmError, match="--length-scale"):
        made().eval().decode(Batch.of(SOURCES, SOURCES).source, NonAutoregressiveDecodeOptions(length_scale=2.0))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_glancing_shows_a_share_of_what_errs_along_the_best_path(share):
    family = made(glancing=True, glancing_start=share, glancing_end=0.0)
    batch = Batch.of(SOURCES, TARGETS)
    memory, target = family.network.encode(batch.source), batch.target.masked_fill(batch.target == END, PAD)
    ids, real = blank_row(slot_counts(memory, 2))
    shown = family._shown(memory, ids, real, target, share)
    assert (shown[1] == MASK).all()  # an unusable pair has no path
    assert (shown[~real] == MASK).all()
    revealed = (shown != MASK).sum(1)
    if share == 1.0:
        # All slots that err are few or many; what is shown says the target as far as it goes.
        words = [t for t in shown[0].tolist() if t not in (MASK, BLANK)]
        assert set(words) <= {7, 8, 9}
        assert revealed[0] > 0
    if share == 0.0:
        assert (shown == MASK).all()


def test_evaluation_never_glances():
    batch = Batch.of(SOURCES, TARGETS)
    plain, glancing = made().eval().loss(batch, 0.0), made(glancing=True).eval().loss(batch, 0.0)
    assert plain.sum.item() == glancing.sum.item()


def test_terms_of_a_row_of_slots():
    ids = torch.tensor([[BLANK, 7, 7, BLANK, 7, BLANK, BLANK], [9, 9, PAD, PAD, PAD, PAD, PAD]])
    log_probs = -torch.tensor([[1.0, 2, 4, 8, 16, 32, 64], [1, 2, 0, 0, 0, 0, 0]])
    first, second = read(ids, log_probs)
    assert (first.tokens, first.token_log_probs) == ([7, 7], [-7.0, -24.0, -96.0])
    assert (second.tokens, second.token_log_probs) == ([9], [-3.0, 0.0])


def test_a_source_that_says_something_is_never_translated_by_nothing():
    family, options = made().eval(), NonAutoregressiveDecodeOptions()
    with torch.no_grad():
        family.network.decoder.norm.bias += 50 * family.network.target_embedding.weight[BLANK]
    sources = Batch.of([*SOURCES, [END]], [*TARGETS, [END]]).source
    searched = family.decode(sources, NonAutoregressiveDecodeOptions(ctc_beam=3, every_candidate=True))
    assert [min(len(each.tokens) for each in rows) for rows in searched] == [1, 1, 1, 0]
    found = [each[0] for each in family.decode(sources, options)]
    assert [len(each.tokens) for each in found] == [1, 1, 1, 0]
    assert all(each.score < 0 and each.score == each.log_prob / len(each.token_log_probs) for each in found[:3])


@pytest.mark.parametrize("upsample", [1, 2, 3])
def test_room_is_what_the_row_can_hold(upsample):
    source = torch.tensor([len(each) for each in SOURCES])
    target = torch.tensor([len(each) for each in TARGETS])
    too_long = (target > made(upsample=upsample).room(source)).tolist()
    slots = [upsample * len(each) for each in SOURCES]
    assert too_long == [len(t) - 1 > count for t, count in zip(TARGETS, slots, strict=True)]
