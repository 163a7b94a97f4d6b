"""A model folder of format 1 must load, and answer as it did, for ever."""

import json
from pathlib import Path

import pytest

from tfm_cli.translator import Translator

V1 = Path(__file__).parent / "v1"
EXPECTED = json.loads((V1 / "expected.json").read_text())


@pytest.mark.parametrize("beam", [1, 5])
def test_the_first_format_still_answers(beam: int) -> None:
    assert Translator.load(V1, device="cpu").translate(EXPECTED["sources"], beam=beam) == EXPECTED[f"beam {beam}"]


def test_the_committed_model_has_learnt_its_task() -> None:
    right = sum(
        answer == " ".join(reversed(source.split()))
        for source, answer in zip(EXPECTED["sources"], EXPECTED["beam 5"], strict=True)
    )
    assert right >= 11
