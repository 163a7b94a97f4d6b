"""Runs that stop, go on, break and end."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.toys import TINY, trainer
from tfm_cli.errors import Interrupted, TfmError
from tfm_cli.model import load_model
from tfm_cli.training import saving
from tfm_cli.training.checkpoint import STATE, TENSORS
from tfm_cli.training.trainer import MAX_BROKEN_STEPS, Trainer
from tfm_cli.transformer.batch import Batch

SLOW_VALIDATION = {"valid_every": 1000, "valid_sentences": 4}


def newest(run: Path) -> Path:
    return max((run / "checkpoints").glob("step-*"))


def log(run: Path, kind: str) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [event for event in events if event["event"] == kind]


def losses(run: Path) -> dict[int, float]:
    return {event["step"]: event["loss"] for event in log(run, "step")}


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_twenty_steps_are_eight_and_twelve_resumed_bit_by_bit(
    reverse_data: Path, tmp_path: Path, accumulate: int, optimizer: str
) -> None:
    """Cut inside an epoch, dropout on: weights, optimizer state, random state and losses are equal."""
    settings = {
        "learning": {"accumulate": accumulate, "batch_tokens": 128, "optimizer": optimizer},
        "validation": {"log_every": 1, **SLOW_VALIDATION},
    }
    whole = trainer(reverse_data, tmp_path / "whole", max_steps=20, **settings)
    whole.run()
    cut = trainer(reverse_data, tmp_path / "cut", max_steps=8, **settings)
    cut.run()
    assert cut.progress.batch > 0
    torch.manual_seed(99)  # what happens between the sittings must not matter
    trainer(reverse_data, tmp_path / "cut", max_steps=20, resume=True, **settings).run()
    for name in (TENSORS, "model.safetensors"):
        first, second = load_file(newest(tmp_path / "whole") / name), load_file(newest(tmp_path / "cut") / name)
        assert first.keys() == second.keys()
        for key in first:
            assert torch.equal(first[key], second[key]), key
    assert len(losses(tmp_path / "whole")) == 20
    assert losses(tmp_path / "whole") == losses(tmp_path / "cut")


def test_resume_goes_on_into_later_epochs(reverse_data: Path, tmp_path: Path) -> None:
    whole = trainer(reverse_data, tmp_path / "whole", max_epochs=3, validation=SLOW_VALIDATION)
    whole.run()
    trainer(reverse_data, tmp_path / "cut", max_epochs=1, validation=SLOW_VALIDATION).run()
    second = trainer(reverse_data, tmp_path / "cut", max_epochs=3, resume=True, validation=SLOW_VALIDATION)
    second.run()
    assert second.progress.step == whole.progress.step
    assert torch.equal(second.optimizer.master, whole.optimizer.master)


def test_a_damaged_newest_checkpoint_falls_back_with_a_warning(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {"valid_every": 5, "valid_sentences": 4}
    trainer(reverse_data, tmp_path, max_steps=10, overwrite=True, validation=every).run()
    weights = newest(tmp_path) / TENSORS
    weights.write_bytes(weights.read_bytes()[:1000])
    warnings: list[str] = []
    monkeypatch.setattr("tfm_cli.training.watching.Watchers.warned", lambda self, message: warnings.append(message))
    resumed = trainer(reverse_data, tmp_path, max_steps=12, resume=True, validation=every)
    assert resumed.progress.step == 5
    assert "step-00000010" in warnings[0]
    assert resumed.run().progress.step == 12


def test_a_full_disk_leaves_the_earlier_checkpoint(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer(reverse_data, tmp_path, max_steps=5, validation=SLOW_VALIDATION).run()
    before = newest(tmp_path)
    monkeypatch.setattr("tfm_cli.training.checkpoint.save_file", _full_disk)
    second = trainer(reverse_data, tmp_path, max_steps=8, resume=True, validation=SLOW_VALIDATION)
    with pytest.raises(TfmError, match="No space left"):
        second.run()
    monkeypatch.undo()
    assert newest(tmp_path) == before
    assert not list((tmp_path / "checkpoints").glob(".partial-*"))
    third = trainer(reverse_data, tmp_path, max_steps=6, resume=True, validation=SLOW_VALIDATION)
    assert third.progress.step == 5


@pytest.mark.parametrize("place", ["tfm_cli.model.save_file", "tfm_cli.training.checkpoint.save_file"])
def test_what_is_not_saved_is_an_error_that_tells_to_resume(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    run = trainer(reverse_data, tmp_path, max_steps=1, validation=SLOW_VALIDATION)
    monkeypatch.setattr(place, _full_disk)
    with pytest.raises(TfmError) as caught:
        run.run()
    what, where = ("model", tmp_path) if "model" in place else ("checkpoint", run.saver.checkpoints.path(1))
    assert caught.value.what == f"the {what} cannot be saved ([Errno 28] No space left on device)"
    assert (caught.value.where, caught.value.fix) == (str(where), "Make room, then continue with --resume.")


@pytest.mark.parametrize("moment", ["the model is saved", "the checkpoint is saved", "it gets its name"])
def test_a_kill_at_any_moment_of_saving_leaves_a_run_that_goes_on(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whatever was saved of the step, the resumed run ends with the model that an undisturbed one ends with."""
    watch = {"valid_every": 5, "valid_sentences": 4, "best_by": "loss", "log_every": 1}
    trainer(reverse_data, tmp_path / "whole", max_steps=12, validation=watch).run()
    trainer(reverse_data, tmp_path / "cut", max_steps=5, validation=watch).run()
    run = trainer(reverse_data, tmp_path / "cut", max_steps=12, resume=True, validation=watch)
    places = {
        "the model is saved": (saving, "save_model"),
        "the checkpoint is saved": (run.saver.checkpoints, "save"),
        "it gets its name": (run.saver.checkpoints, "_rotate"),
    }
    monkeypatch.setattr(*places[moment], _killed)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    monkeypatch.undo()
    trainer(reverse_data, tmp_path / "cut", max_steps=12, resume=True, validation=watch).run()
    for folder in ("whole", "cut"):
        steps = [event["step"] for event in log(tmp_path / folder, "validation")]
        assert steps[-1] == 12
    first, second = (load_file(tmp_path / each / "model.safetensors") for each in ("whole", "cut"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    about = [json.loads((tmp_path / each / "config.json").read_text())["about"]["steps"] for each in ("whole", "cut")]
    assert about[0] == about[1]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_configuration_that_cannot_be_written_leaves_the_one_before(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer(reverse_data, tmp_path, max_steps=2, validation=SLOW_VALIDATION).run()
    before = (tmp_path / "training.json").read_text()
    (tmp_path / ".saving-left").mkdir()
    monkeypatch.setattr("pathlib.Path.replace", _full_disk)
    with pytest.raises(OSError, match="No space left"):
        trainer(reverse_data, tmp_path, max_steps=4, resume=True, validation=SLOW_VALIDATION)
    monkeypatch.undo()
    assert (tmp_path / "training.json").read_text() == before
    trainer(reverse_data, tmp_path, max_steps=4, resume=True, validation=SLOW_VALIDATION).run()
    assert not (tmp_path / ".saving-left").exists()


def test_the_last_step_is_looked_at_though_it_was_saved_before(reverse_data: Path, tmp_path: Path) -> None:
    """As after Ctrl-C, when the resumed run finds its limit reached."""
    run = trainer(reverse_data, tmp_path, max_steps=5, validation=SLOW_VALIDATION)
    learn = run.learner.learn

    def interrupted(batch: Batch, progress: float) -> object:
        if run.progress.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return learn(batch, progress)

    run.learner.learn = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(Interrupted):
        run.run()
    resumed = trainer(reverse_data, tmp_path, max_steps=5, resume=True, validation=SLOW_VALIDATION)
    resumed.run()
    assert [event["step"] for event in log(tmp_path, "validation")] == [5]
    assert resumed.progress.best_step == 5
    again = trainer(reverse_data, tmp_path, max_steps=5, resume=True, validation=SLOW_VALIDATION)
    again.run()
    assert len(log(tmp_path, "validation")) == 1


def _full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_rotation_keeps_the_newest_and_the_best(reverse_data: Path, tmp_path: Path) -> None:
    run = trainer(
        reverse_data,
        tmp_path,
        max_steps=30,
        validation={"valid_every": 5, "valid_sentences": 4, "keep": 2, "best_by": "loss"},
    )
    # From here on every validation is worse, so the best is an old one.
    real = run.validator.measure  # type: ignore[union-attr]
    run.validator.measure = lambda family, device, step, epoch, samples: replace(  # type: ignore[union-attr, method-assign]
        real(family, device, step, epoch, samples), loss=float(abs(step - 10))
    )
    outcome = run.run()
    assert outcome.progress.best_step == 10
    assert run.saver.checkpoints.steps() == [10, 25, 30]
    best = load_model(run.saver.checkpoints.path(10)).weights()
    assert all(torch.equal(tensor, best[name]) for name, tensor in load_model(tmp_path).weights().items())


def test_interrupt_finishes_the_step_saves_and_resumes_exactly(reverse_data: Path, tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGINT)
    whole = trainer(reverse_data, tmp_path / "whole", max_steps=12, validation=SLOW_VALIDATION)
    whole.run()
    cut = trainer(reverse_data, tmp_path / "cut", max_steps=12, validation=SLOW_VALIDATION)
    _at_step(cut, 7, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match="step 7"):
        cut.run()
    assert load_model(tmp_path / "cut").about["steps"] == 7
    second = trainer(reverse_data, tmp_path / "cut", max_steps=12, resume=True, validation=SLOW_VALIDATION)
    second.run()
    assert torch.equal(second.optimizer.master, whole.optimizer.master)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_interrupt_leaves_no_half_file(reverse_data: Path, tmp_path: Path) -> None:
    run = trainer(reverse_data, tmp_path, max_steps=12, validation=SLOW_VALIDATION)

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    _at_step(run, 3, twice)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert not (tmp_path / "model.safetensors").exists()
    assert not (tmp_path / "checkpoints").exists()


def _at_step(run: Trainer, step: int, act: object) -> None:
    ticked = run.watcher.ticked

    def tick(now: int, epoch: float, fraction: float) -> None:
        ticked(now, epoch, fraction)
        if now == step:
            act()  # type: ignore[operator]

    run.watcher.ticked = tick  # type: ignore[method-assign]


def test_broken_gradients_are_skipped_counted_and_end_the_run(reverse_data: Path, tmp_path: Path) -> None:
    run = trainer(reverse_data, tmp_path, max_steps=50, validation=SLOW_VALIDATION)
    before = run.optimizer.master.detach().clone()
    run.family.register_forward_hook(
        lambda module, inputs, report: type(report)(report.sum * float("nan"), report.count)
    )
    with pytest.raises(TfmError, match="not finite"):
        run.run()
    assert run.progress.skipped == MAX_BROKEN_STEPS
    assert load_model(tmp_path).parameters == run.model.parameters  # a usable model, and a checkpoint to go on from
    assert newest(tmp_path).name == f"step-{MAX_BROKEN_STEPS:08d}"
    assert torch.equal(run.optimizer.master.detach(), before)


def test_ends_by_the_clock_with_a_usable_model(reverse_data: Path, tmp_path: Path) -> None:
    outcome = trainer(reverse_data, tmp_path, max_minutes=0.02, validation=SLOW_VALIDATION).run()
    assert outcome.reason == "0.02 minutes"
    assert load_model(tmp_path).about["steps"] == outcome.progress.step > 0


def test_early_stopping(reverse_data: Path, tmp_path: Path) -> None:
    watch = {"valid_every": 2, "valid_sentences": 0, "patience": 3}
    run = trainer(reverse_data, tmp_path, learning={"learning_rate": 0.0}, validation=watch)
    outcome = run.run()
    assert outcome.reason == "no better model in 3 validations"
    assert outcome.progress.step == 8
    assert outcome.progress.best_step == 2


def test_a_standing_run_is_refused_resumed_or_overwritten(reverse_data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trainer(reverse_data, run, max_steps=2, validation=SLOW_VALIDATION).run()
    with pytest.raises(TfmError, match="--resume, delete it with --overwrite"):
        trainer(reverse_data, run, max_steps=2)
    with pytest.raises(TfmError, match="was begun with 32, not 64"):
        trainer(reverse_data, run, replace(TINY, dim=64), max_steps=4, resume=True)
    # What was saved just above is what a user is told to change after gradients that are not finite.
    lower = trainer(reverse_data, run, max_steps=4, resume=True, learning={"learning_rate": 0.001})
    assert lower.learning.learning_rate == 0.001
    assert trainer(reverse_data, run, max_steps=2, overwrite=True).progress.step == 0
    assert not (run / "checkpoints").exists()
    assert not (run / "model.safetensors").exists()


def test_a_folder_with_other_files_is_left_alone(reverse_data: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(TfmError, match="holds other files"):
        trainer(reverse_data, tmp_path, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_nothing_to_resume(reverse_data: Path, tmp_path: Path) -> None:
    with pytest.raises(TfmError, match="no checkpoint to resume from"):
        trainer(reverse_data, tmp_path, resume=True)


def test_the_run_saves_its_resolved_configuration(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path, max_steps=1, validation=SLOW_VALIDATION).run()
    saved = json.loads((tmp_path / "training.json").read_text())
    assert saved["learning"]["learning_rate"] == 5e-3
    assert saved["shape"]["dim"] == 32
    assert json.loads((newest(tmp_path) / STATE).read_text())["run"] == saved


def test_every_step_obeys_the_token_budget_and_the_outlier_is_counted(reverse_data: Path, tmp_path: Path) -> None:
    run = trainer(reverse_data, tmp_path, max_epochs=1, learning={"batch_tokens": 40}, validation=SLOW_VALIDATION)
    seen: list[int] = []
    run.family.register_forward_pre_hook(
        lambda module, inputs: seen.append(max(inputs[0].source.numel(), inputs[0].target.numel()))
    )
    run.run()
    assert max(seen) <= 40


def test_a_start_that_fails_leaves_everything_as_it_was(reverse_data: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    with pytest.raises(TfmError, match="fits into 2 tokens"):
        trainer(reverse_data, fresh, learning={"batch_tokens": 2})
    assert not fresh.exists()
    run = tmp_path / "run"
    trainer(reverse_data, run, max_steps=2, validation=SLOW_VALIDATION).run()
    with pytest.raises(TfmError, match="fits into 2 tokens"):
        trainer(reverse_data, run, overwrite=True, learning={"batch_tokens": 2})
    assert load_model(run).about["steps"] == 2
    with pytest.raises(TfmError, match="the run has none"):
        trainer(reverse_data, run, overwrite=True, learning={"schedule": "linear"})


def test_bfloat16_trains_and_resumes_bit_by_bit(reverse_data: Path, tmp_path: Path) -> None:
    from tfm_cli.training.setup import prepare

    def run(name: str, steps: int, resume: bool = False) -> Trainer:
        base = trainer(reverse_data, tmp_path / f"unused-{name}-{steps}", max_steps=steps)
        options, learning, watching = base.options, base.learning, base.watching
        options = replace(options, precision="bfloat16", output=str(tmp_path / name), resume=resume)
        made = prepare(options, learning, watching, base.model.shape)
        made.run()
        return made

    whole = run("whole", 8)
    run("cut", 4)
    cut = run("cut", 8, resume=True)
    assert whole.optimizer.working.dtype == torch.bfloat16
    assert torch.equal(whole.optimizer.master, cut.optimizer.master)


def test_a_plateau_is_told(reverse_data: Path, tmp_path: Path) -> None:
    run = trainer(reverse_data, tmp_path, max_steps=1, validation=SLOW_VALIDATION)
    run.validator.translate = lambda family, device: ["ba"] * 4  # type: ignore[union-attr, method-assign]
    run.run()
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert any("same translation" in event.get("message", "") for event in events)


def test_validation_disturbs_nothing(reverse_data: Path, tmp_path: Path) -> None:
    """Bit by bit the same weights, however often the run looks at itself."""
    often = trainer(reverse_data, tmp_path / "often", max_steps=8, validation={"valid_every": 2, "valid_sentences": 4})
    often.run()
    seldom = trainer(reverse_data, tmp_path / "seldom", max_steps=8, validation=SLOW_VALIDATION)
    seldom.run()
    assert torch.equal(often.optimizer.master, seldom.optimizer.master)


class Clock:
    """Time that passes only where a test lets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("every", [0, 28, 46, 103])
def test_the_minutes_are_used_up_and_not_overdrawn(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    """Wherever a validation falls, the last one ends with the clock, and is of the last step: no minute is left over."""
    clock = Clock()
    monkeypatch.setattr("tfm_cli.training.trainer.time", clock)
    watch = {"valid_every": every, "valid_sentences": 2}
    run = trainer(reverse_data, tmp_path, max_minutes=2, learning={"batch_tokens": 128}, validation=watch)
    measure, learn = run.validator.measure, run.learner.learn  # type: ignore[union-attr]

    def slow_measure(*arguments: object) -> object:
        clock.now += 10
        return replace(measure(*arguments), seconds=10.0)  # type: ignore[arg-type]

    def slow_learn(*arguments: object) -> object:
        clock.now += 1
        return learn(*arguments)  # type: ignore[arg-type]

    run.validator.measure, run.learner.learn = slow_measure, slow_learn  # type: ignore[union-attr, method-assign, assignment]
    run.progress.validation_seconds = 10.0  # as in a resumed run
    outcome = run.run()
    assert outcome.reason == "2 minutes"
    assert 117 <= clock.now <= 121
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [e["step"] for e in events if e["event"] == "validation"][-1] == outcome.progress.step


def test_a_lack_of_memory_is_told_once_and_counted(reverse_data: Path, tmp_path: Path) -> None:
    run = trainer(reverse_data, tmp_path, max_steps=4, validation=SLOW_VALIDATION)
    loss = run.family.loss
    most = 10

    def cramped(batch: Batch, progress: float) -> object:
        if len(batch.source) > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return loss(batch, progress)

    run.family.loss = cramped  # type: ignore[method-assign, assignment]
    progress = run.run().progress
    assert (progress.step, progress.halved, progress.unfit) == (4, 4, 0)
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    told = [event["message"] for event in events if event["event"] == "warning" and "memory" in event["message"]]
    assert len(told) == 1 and "--batch-tokens" in told[0]


@pytest.mark.skipif(shutil.which(os.environ.get("CXX", "g++")) is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.skipif(not hasattr(torch.nn.Module, "compile"), reason="this torch cannot compile")
def test_a_compiled_network_learns_the_same(reverse_data: Path, tmp_path: Path) -> None:
    shape = replace(TINY, dropout=0.0)
    learned = {}
    for compile in (False, True):
        output = tmp_path / str(compile)
        watch = {**SLOW_VALIDATION, "log_every": 1}
        trainer(reverse_data, output, shape, validation=watch, max_steps=4, compile=compile).run()
        learned[compile] = losses(output)
    assert learned[True] == pytest.approx(learned[False], rel=1e-4)


def test_compiling_without_a_compiler_is_refused_before_anything_is_written(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(TfmError, match="no-such-compiler") as error:
        trainer(reverse_data, tmp_path / "run", compile=True)
    assert error.value.where == "--compile"
    assert not (tmp_path / "run").exists()


def test_an_epoch_of_other_batches_starts_anew(reverse_data: Path, tmp_path: Path) -> None:
    small = {"batch_tokens": 64}
    first = trainer(reverse_data, tmp_path, max_steps=6, learning=small, validation=SLOW_VALIDATION)
    first.run()
    assert (first.progress.epoch, first.progress.batch) == (0, 6)
    large = {"batch_tokens": 2048}  # with fewer batches an epoch than are done
    second = trainer(reverse_data, tmp_path, max_steps=8, learning=large, resume=True, validation=SLOW_VALIDATION)
    assert len(second.feed.plan.batches) < 6
    assert (second.progress.epoch, second.progress.batch, second.progress.step) == (0, 0, 6)
    assert second.run().progress.step == 8
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert any("starts anew" in event.get("message", "") for event in events)


def test_what_a_validation_takes_is_remembered(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path, max_steps=2).run()
    again = trainer(reverse_data, tmp_path, max_steps=4, resume=True)
    assert again.progress.validation_seconds > 0


def test_it_saves_by_the_clock_between_distant_validations(
    reverse_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr("tfm_cli.training.trainer.time", clock)
    run = trainer(reverse_data, tmp_path, max_steps=10, validation={"valid_every": 1000, "keep": 9})
    learn = run.learner.learn

    def slow_learn(*arguments: object) -> object:
        clock.now += 310
        return learn(*arguments)  # type: ignore[arg-type]

    run.learner.learn = slow_learn  # type: ignore[method-assign, assignment]
    run.run()
    assert run.saver.checkpoints.steps() == [3, 6, 9, 10]


def test_a_run_keeps_its_preset(reverse_data: Path, tmp_path: Path) -> None:
    trainer(reverse_data, tmp_path, max_steps=2).run()
    with pytest.raises(TfmError, match="begun with auto, not base"):
        trainer(reverse_data, tmp_path, max_steps=4, resume=True, preset="base")
