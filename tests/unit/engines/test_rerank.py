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


WRITERS = [("oneshot", {"length": "predict"}), ("maskpredict", {})]


@pytest.mark.parametrize(("name", "settings"), WRITERS)
def test_the_likeliest_of_all_lengths_is_chosen(name: str, settings: dict[str, Any]) -> None:
    writer, judge = engine(name, **settings), engine("autoregressive")
    options = NonAutoregressiveDecodeOptions(length_beam=5)
    found = Reranked(writer, judge).decode(Sentences(SOURCES, None, [1, 2, 3]), options)
    for source, answers in zip(SOURCES, found, strict=True):
        candidates = []
        every = NonAutoregressiveDecodeOptions(length_beam=5, every_length=True)
        for each in writer.decode(Sentences([source], None, [1]), every)[0]:
            scored = judge.score(Sentences([source], [[*each.tokens, END]], [1]), DecodeOptions())[0]
            candidates.append((scored.log_prob / (len(each.tokens) + 1), each.tokens))
        best, tokens = max(candidates)
        assert len(answers) == 1
        assert answers[0].tokens == tokens
        assert answers[0].score == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize(("name", "settings"), WRITERS)
def test_every_length_begins_with_the_one_that_is_given_without_a_judge(name: str, settings: dict[str, Any]) -> None:
    writer, batch = engine(name, **settings), Sentences(SOURCES, None, [1, 2, 3])
    one = writer.decode(batch, NonAutoregressiveDecodeOptions(length_beam=4))
    every = writer.decode(batch, NonAutoregressiveDecodeOptions(length_beam=4, every_length=True))
    assert [len(found) for found in every] == [4, 4, 4]
    assert [found[0] for found in every] == [found[0] for found in one]
