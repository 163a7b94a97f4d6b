"""Which engine runs what: everything that CTranslate2 does otherwise than torch is named."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.models import saved_model
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.engines.choice import Wish, obstacle


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(saved_model(tmp_path_factory.mktemp("model")))


CAN = {
    "beam": Wish([""], DecodeOptions()),
    "greedy": Wish([""], DecodeOptions(beam=1)),
    "greedy with prefixes": Wish([""], DecodeOptions(beam=1), prefixed=True),
    "n-best without length penalty": Wish([""], DecodeOptions(n_best=5, length_penalty=0.0)),
    "int8": Wish([""], DecodeOptions(), precision="int8"),
    "any precision": Wish([""], DecodeOptions(), precision="auto"),
    "the longest sentences": Wish([""], DecodeOptions(max_length_extra=47)),
}
CANNOT = {
    "samples": (Wish([""], DecodeOptions(sample=True)), "samples"),
    "repetitions": (Wish([""], DecodeOptions(no_repeat_ngram=3)), "repetitions"),
    "least lengths": (Wish([""], DecodeOptions(min_length_ratio=0.5)), "early end"),
    "prefixes in a beam": (Wish([""], DecodeOptions(), prefixed=True), "prefix"),
    "bfloat16": (Wish([""], DecodeOptions(), precision="bfloat16"), "bfloat16"),
    "generated code": (Wish([""], DecodeOptions(), compile=True), "kernels of its own"),
    "long translations": (Wish([""], DecodeOptions(max_length_ratio=3.0)), "2,048 positions.*3,011"),
    "long translations that are given": (Wish([""], DecodeOptions(), longest_target=3000), "3,001"),
    "long sources": (Wish([""], DecodeOptions(max_length_ratio=0.1), longest=5000), "5,001"),
}


def named(wish, folder):
    return replace(wish, folders=[folder])


@pytest.mark.parametrize("wish", CAN.values(), ids=CAN.keys())
def test_what_it_can(wish, folder):
    assert obstacle(named(wish, folder)) is None


@pytest.mark.parametrize(("wish", "reason"), CANNOT.values(), ids=CANNOT.keys())
def test_what_it_cannot(wish, reason, folder):
    assert re.search(reason, obstacle(named(wish, folder)))


def test_an_ensemble(folder):
    assert "ensemble" in obstacle(Wish([folder, folder], DecodeOptions()))


def test_another_family(folder, tmp_path):
    config = json.loads((Path(folder) / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "family": "ctc"}))
    assert "ctc" in obstacle(Wish([str(tmp_path)], DecodeOptions()))
