"""An engine judged by another: the candidate is chosen that the judge finds likeliest a token, and a batch changes nothing."""

from typing import Any

import pytest
import torch

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.engine import Sentences
from tfm_cli.engines.pytorch import TorchEngine
from tfm_cli.engines.rerank import Reranked
from tfm_cli.model import build_family
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.transformer.shape import Shape
from tfm_cli.transformer.special import END

SHAPE = Shape(dim=16, ffn_dim=32, heads=2, encoder_layers=1, decoder_layers=1, dropout=0.0)
SOURCES = [[7, 8, 9, 10, END], [8, END], [5, 6, 5, END]]


def engine(name: str, **settings: Any) -> TorchEngine:
    torch.manual_seed(3)
    family = build_family(name, SHAPE, 30, 30, settings).eval()
    with torch.no_grad():
        family.network.target_embedding.weight.mul_(3)
    return TorchEngine(family)


WRITERS: list[tuple[str, dict[str, Any], dict[str, int]]] = [
    ("oneshot", {"length": "predict"}, {"length_beam": 5}),
    ("maskpredict", {}, {"length_beam": 4}),
    ("ctc", {}, {"ctc_beam": 6}),
]
every_writer = pytest.mark.parametrize(("name", "settings", "beam"), WRITERS)


@every_writer
def test_the_likeliest_of_all_candidates_is_chosen(name: str, settings: dict[str, Any], beam: dict[str, int]) -> None:
    writer, judge = engine(name, **settings), engine("autoregressive")
    options = NonAutoregressiveDecodeOptions(**beam)
    found = Reranked(writer, judge).decode(Sentences(SOURCES, None, [1, 2, 3]), options)
    for source, answers in zip(SOURCES, found, strict=True):
        candidates = []
        every = NonAutoregressiveDecodeOptions(**beam, every_candidate=True)
        for each in writer.decode(Sentences([source], None, [1]), every)[0]:
            scored = judge.score(Sentences([source], [[*each.tokens, END]], [1]), DecodeOptions())[0]
            candidates.append((scored.log_prob / (len(each.tokens) + 1), each.tokens))
        best, tokens = max(candidates)
        assert len(answers) == 1
        assert answers[0].tokens == tokens
        assert answers[0].score == pytest.approx(best, abs=1e-5)


@every_writer
def test_every_candidate_begins_with_the_one_that_is_given_without_a_judge(
    name: str, settings: dict[str, Any], beam: dict[str, int]
) -> None:
    writer, batch = engine(name, **settings), Sentences(SOURCES, None, [1, 2, 3])
    one = writer.decode(batch, NonAutoregressiveDecodeOptions(**beam))
    every = writer.decode(batch, NonAutoregressiveDecodeOptions(**beam, every_candidate=True))
    assert [len(found) for found in every] == [*beam.values()] * 3
    for (found,), (first, *_) in zip(one, every, strict=True):
        assert found.tokens == first.tokens
        # Other candidates beside it make other shapes of CTC's products, which round otherwise.
        assert found == first or name == "ctc"
        assert found.token_log_probs == pytest.approx(first.token_log_probs, abs=1e-5)
