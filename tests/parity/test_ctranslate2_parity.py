"""CTranslate2 is the fast path and torch its slow twin: in float32 both write the same, with the same numbers."""

from dataclasses import replace

import pytest
import torch

pytest.importorskip("ctranslate2")

from tests.unit.engines.models import SENTENCES, saved_model
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines import pytorch
from tfm_cli.engines.convert import convert, sinusoids
from tfm_cli.engines.ctranslate2 import CTranslate2Engine
from tfm_cli.engines.engine import Sentences
from tfm_cli.transformer import positions
from tfm_cli.transformer.special import END

SHAPES = {
    "defaults": {},
    "post-norm, gelu": {"norm": "post", "activation": "gelu"},
    "two vocabularies": {"tie": "decoder"},
    "nothing tied": {"tie": "none"},
    "learned positions, fewer than are used": {"positions": "learned", "max_positions": 9},
    "rotary positions": {"positions": "rotary"},
    "uneven stacks": {"encoder_layers": 3, "decoder_layers": 1, "heads": 4},
}
# Caps low enough that some translations are cut, and different for the sentences of a batch.
SHORT = {"max_length_ratio": 0.7, "max_length_extra": 3}
SEARCHES = {
    "greedy": DecodeOptions(beam=1, **SHORT),
    "beam 5": DecodeOptions(**SHORT),
    "default caps": DecodeOptions(beam=3),
    "no length penalty": DecodeOptions(beam=4, length_penalty=0.0, **SHORT),
    "long ones favoured": DecodeOptions(beam=4, length_penalty=2.0, **SHORT),
    "n-best": DecodeOptions(beam=6, n_best=6, **SHORT),
    "n-best without length penalty": DecodeOptions(beam=6, n_best=4, length_penalty=0.0, **SHORT),
    "caps of one token": DecodeOptions(beam=3, max_length_ratio=0.0, max_length_extra=1),
}


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES.keys())
def engines(request, tmp_path_factory):
    folder = saved_model(tmp_path_factory.mktemp("model"), **request.param)
    output = tmp_path_factory.mktemp("converted")
    convert(folder, output)
    torch_engine, tokenizers = pytorch.load([folder], "cpu")
    sources = [[*tokenizers.source.encode(line), END] for line in SENTENCES]
    return torch_engine, CTranslate2Engine(output, tokenizers), Sentences(sources, None, list(range(len(sources))))


def test_the_models_are_worth_testing(engines):
    slow, _, batch = engines
    found = [hypotheses[0] for hypotheses in slow.decode(batch, SEARCHES["beam 5"])]
    assert len({tuple(h.tokens) for h in found}) > 10
    assert 0 < sum(h.finished for h in found) < 40


@pytest.mark.parametrize("options", SEARCHES.values(), ids=SEARCHES.keys())
def test_translations_and_numbers_are_the_same(engines, options):
    slow, quick, batch = engines
    different = 0
    for want, found in zip(slow.decode(batch, options), quick.decode(batch, options), strict=True):
        assert [h.score for h in found] == pytest.approx([h.score for h in want], rel=1e-4, abs=1e-4)
        if [h.tokens for h in found] != [h.tokens for h in want]:
            different += 1
            continue
        for one, other in zip(want, found, strict=True):
            assert one.finished == other.finished
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-3)
    assert different <= 1  # of equal scores


def test_text_alone_is_the_same_text(engines):
    _, quick, batch = engines
    exact, fast = (quick.decode(batch, SEARCHES["beam 5"], with_scores=wish) for wish in (True, False))
    assert [h[0].tokens for h in exact] == [h[0].tokens for h in fast]
    assert [h[0].score for h in fast] == pytest.approx([h[0].score for h in exact], abs=1e-2)


def test_forced_prefixes_of_a_greedy_search(engines):
    slow, quick, batch = engines
    prefixes = [[262 + i % 9] * (i % 4) for i in range(len(batch.sources))]
    batch = replace(batch, targets=prefixes)
    for options in (SEARCHES["greedy"], SEARCHES["caps of one token"]):
        options = replace(options, beam=1)
        want, found = slow.decode(batch, options), quick.decode(batch, options)
        assert [h[0].tokens for h in found] == [h[0].tokens for h in want]
        assert [h[0].score for h in found] == pytest.approx([h[0].score for h in want], abs=1e-4)


def test_given_translations_have_the_same_scores(engines):
    slow, quick, batch = engines
    targets = [[*batch.sources[-1 - i][:-1][: i % 7], END] for i in range(len(batch.sources))]
    batch = replace(batch, targets=targets)
    for want, found in zip(slow.score(batch, DecodeOptions()), quick.score(batch, DecodeOptions()), strict=True):
        assert found.tokens == want.tokens
        assert found.token_log_probs == pytest.approx(want.token_log_probs, abs=1e-3)
        assert found.score == pytest.approx(want.score, abs=1e-4)


@pytest.mark.parametrize("size", [1, 7])
def test_batches_change_nothing(engines, size):
    _, quick, batch = engines
    options = SEARCHES["beam 5"]
    together = quick.decode(batch, options)
    for begin in range(0, len(batch.sources), size):
        part = slice(begin, begin + size)
        apart = quick.decode(Sentences(batch.sources[part], None, batch.lines[part]), options)
        assert [h[0].tokens for h in apart] == [h[0].tokens for h in together[part]]


@pytest.mark.parametrize(("length", "dim"), [(1, 2), (300, 64), (2048, 256)])
def test_the_table_of_positions(length, dim):
    assert torch.equal(torch.from_numpy(sinusoids(length, dim)), positions.sinusoids(length, dim))
