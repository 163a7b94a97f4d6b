"""Every family goes through the one loop: it resumes bit by bit, validates by its own decoding, starts from another model."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.toys import make_data, reverse, trainer
from tfm_cli.errors import TfmError
from tfm_cli.model import load_model
from tfm_cli.nonautoregressive.family import NonAutoregressive
from tfm_cli.nonautoregressive.options import NonAutoregressiveOptions
from tfm_cli.training.checkpoint import TENSORS
from tfm_cli.transformer.shape import Shape

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "oneshot": ("oneshot", {}),
    "oneshot, glancing": ("oneshot", {"glancing": True}),
    "oneshot, length predicted": ("oneshot", {"length": "predict", "glancing": True}),
    "ctc": ("ctc", {"glancing": True}),
    "dag": ("dag", {"glancing": True}),
    "maskpredict": ("maskpredict", {}),
}
every_case = pytest.mark.parametrize(("name", "given"), CASES.values(), ids=CASES)
FEW: dict[str, Any] = {"validation": {"valid_every": 7, "valid_sentences": 4, "log_every": 1}}


@every_case
def test_twenty_steps_are_eight_and_twelve_resumed_bit_by_bit(
    reverse_data: Path, tmp_path: Path, name: str, given: dict[str, Any]
) -> None:
    """Dropout, glancing and masks at random; a validation before the cut and after."""
    settings: dict[str, Any] = {"family": name, "nonautoregressive": given, "learning": {"batch_tokens": 128}, **FEW}
    whole = trainer(reverse_data, tmp_path / "whole", max_steps=20, **settings)
    assert set(whole.run().progress.scores) == {"loss", "BLEU", "chrF"}
    # The share of the run that has passed steers glancing, so the first sitting must have the same end.
    cut = trainer(reverse_data, tmp_path / "cut", max_steps=20, **settings)
    cut.watcher.stepped = lambda report: _stop(cut, report.step == 8)  # type: ignore[method-assign]
    with pytest.raises(StopIteration):
        cut.run()
    torch.manual_seed(99)
    trainer(reverse_data, tmp_path / "cut", max_steps=20, resume=True, **settings).run()
    for file in (TENSORS, "model.safetensors"):
        first, second = (load_file(_newest(tmp_path / run) / file) for run in ("whole", "cut"))
        assert first.keys() == second.keys()
        for key in first:
            assert torch.equal(first[key], second[key]), key


def _stop(run: Any, now: bool) -> None:
    if now:
        run._save()
        raise StopIteration


def _newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


@every_case
def test_a_folder_brings_back_the_family_with_its_settings(
    reverse_data: Path, tmp_path: Path, name: str, given: dict[str, Any]
) -> None:
    run = trainer(reverse_data, tmp_path, max_steps=2, family=name, nonautoregressive=given)
    run.run()
    model = load_model(tmp_path)
    assert isinstance(model.family, NonAutoregressive)
    assert model.family_name == name
    assert model.settings.items() >= given.items()
    assert model.settings.keys() <= model.family.obeys
    assert model.weights().keys() == run.learner.weights.keys()
    assert all(torch.equal(tensor, model.weights()[name]) for name, tensor in run.learner.weights.items())


def test_another_setting_is_another_run(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path, max_steps=2, family="oneshot").run()
    with pytest.raises(TfmError, match="begun with cap, not predict") as error:
        trainer(
            reverse_data, tmp_path, max_steps=4, family="oneshot", nonautoregressive={"length": "predict"}, resume=True
        )
    assert error.value.where == "--length"


def test_starts_from_every_weight_of_a_teacher_that_fits(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path / "teacher", max_steps=3).run()
    student = trainer(
        reverse_data,
        tmp_path / "student",
        max_steps=1,
        family="oneshot",
        init_from=str(tmp_path / "teacher"),
        nonautoregressive={"length": "predict"},
    )
    teacher = load_model(tmp_path / "teacher").weights()
    taken = student.model.weights()
    assert taken.keys() - teacher.keys() == {"classifier.output.weight", "classifier.output.bias"}
    assert all(torch.equal(tensor, taken[name]) for name, tensor in teacher.items())
    count = sum(tensor.numel() for tensor in teacher.values())
    told = f"{tmp_path / 'teacher'} ({count:,} of {student.model.parameters:,} weights)"
    assert student.model.about["initialised_from"] == told
    student.run()
    again = trainer(
        reverse_data,
        tmp_path / "student",
        max_steps=2,
        family="oneshot",
        resume=True,
        nonautoregressive={"length": "predict"},
    )  # the teacher is not needed any more
    assert again.model.about["initialised_from"] == told


def test_a_shallower_student_takes_the_layers_it_has(reverse_data: Path, tmp_path: Path) -> None:
    deep = Shape(dim=32, ffn_dim=64, heads=4, encoder_layers=2, decoder_layers=2)
    trainer(reverse_data, tmp_path / "teacher", deep, max_steps=2).run()
    student = trainer(reverse_data, tmp_path / "student", max_steps=1, init_from=str(tmp_path / "teacher"))
    teacher = load_model(tmp_path / "teacher").weights()
    assert all(torch.equal(tensor, teacher[name]) for name, tensor in student.model.weights().items())


def test_a_teacher_of_another_tokenizer_or_width_is_refused(reverse_data: Path, tmp_path: Path) -> None:
    other = make_data(tmp_path / "other", lambda line: reverse(line).upper())
    trainer(other, tmp_path / "stranger", max_steps=1).run()
    with pytest.raises(TfmError, match="another tokenizer"):
        trainer(reverse_data, tmp_path / "a", init_from=str(tmp_path / "stranger"))
    trainer(
        reverse_data,
        tmp_path / "wide",
        Shape(dim=48, ffn_dim=80, heads=4, encoder_layers=1, decoder_layers=1),
        max_steps=1,
    ).run()
    with pytest.raises(TfmError, match="none of its weights fits"):
        trainer(reverse_data, tmp_path / "b", init_from=str(tmp_path / "wide"))
    assert not (tmp_path / "a").exists() and not (tmp_path / "b").exists()


def test_glancing_needs_its_switch() -> None:
    with pytest.raises(TfmError, match="means nothing without it"):
        NonAutoregressiveOptions(glancing_end=0.1)


def test_pairs_without_room_are_told_of_before_the_training(reverse_data: Path, tmp_path: Path) -> None:
    told = trainer(reverse_data, tmp_path / "short", max_steps=1, family="oneshot", nonautoregressive={"cap": 2}).notes
    assert ["training pairs" in told[0], "validation pairs" in told[1]] == [True, True]
    assert trainer(reverse_data, tmp_path / "ample", max_steps=1, family="dag").notes == ()


def test_validation_counts_the_pairs_that_have_no_probability(tmp_path: Path) -> None:
    def grown(sentence: str) -> str:
        return f"{sentence} {sentence}" if len(sentence.split()) > 3 else reverse(sentence)

    data = make_data(tmp_path, grown)
    long = sum(len(line.split()) > 3 for line in (tmp_path / "valid.xx").read_text().splitlines())
    run = trainer(data, tmp_path / "run", max_steps=2, family="ctc", nonautoregressive={"upsample": 1})
    run.run()
    assert run.last_validation is not None
    assert 0 < run.last_validation.unusable == long < 24
    assert math.isfinite(run.last_validation.loss)


def test_a_score_carries_its_signature(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path, max_steps=2, validation={"valid_sentences": 8}).run()
    about = json.loads((tmp_path / "config.json").read_text())["about"]
    assert about["signatures"].keys() == {"BLEU", "chrF"}
    assert about["signatures"]["BLEU"].startswith("nrefs:1|")
    assert about["validation_sentences"] == 8
    assert "(nrefs:1, " in (tmp_path / "README.md").read_text()
