"""From options to a trainer ready to run: the output folder, the data, the network, what is resumed."""

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.data.dataset import DataFolder
from tfm_cli.device import pick_device, pick_precision, set_threads
from tfm_cli.errors import TfmError
from tfm_cli.model import CARD, CONFIG, WEIGHTS, Model, build_family
from tfm_cli.training.checkpoint import Checkpoints
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.training.trainer import Trainer
from tfm_cli.training.validation import Validator
from tfm_cli.training.watching import JsonLines, TensorBoard, Watcher, Watchers
from tfm_cli.transformer.shape import Shape

LOG, EVENTS, CONFIGURATION = "log.jsonl", "tensorboard", "training.json"
# What a run must not change halfway: it would no longer be the same run.
FIXED = ("shape", "learning", "seed", "family", "precision", "data_fingerprint")


def prepare(
    options: RunOptions,
    learning: LearningOptions,
    validation: ValidationOptions,
    shape: Shape,
    watchers: Iterable[Watcher] = (),
    began: float | None = None,
) -> Trainer:
    """A trainer whose `Trainer.run` does the rest. ``watchers`` hear of it besides the log file.

    Raises:
        TfmError: where a run stands already, the data are missing, or a resumed run's options differ.
    """
    output = Path(options.output)
    data = DataFolder.load(options.data)
    if data.train is None:
        raise TfmError(
            "the data hold no training pairs", where=options.data, fix="Give `tfm preprocess` a --source and --target."
        )
    device = pick_device(options.device)
    set_threads(options.threads)
    dtype = pick_precision(options.precision, device)
    configuration: dict[str, Any] = {
        "shape": asdict(shape),
        "learning": asdict(learning),
        "validation": asdict(validation),
        **{name: value for name, value in asdict(options).items() if name not in ("resume", "overwrite")},
        "precision": str(dtype).removeprefix("torch."),
        "data_fingerprint": data.fingerprint,
    }
    _claim(output, options, configuration)
    torch.manual_seed(options.seed)
    settings = {"label_smoothing": learning.label_smoothing}
    sizes = data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size
    model = Model(
        build_family(options.family, shape, *sizes, settings),
        options.family,
        data.tokenizers,
        settings,
        _about(data, configuration),
    )
    heard: list[Watcher] = [*watchers, JsonLines(output / LOG)]
    if options.tensorboard:
        heard.append(TensorBoard(output / EVENTS))
    trainer = Trainer(
        model,
        data.train,
        _validator(data, validation),
        (options, learning, validation),
        device=device,
        dtype=dtype,
        run=configuration,
        watcher=Watchers(heard),
        began=began,
    )
    (output / CONFIGURATION).write_text(json.dumps(configuration, indent=2) + "\n", encoding="utf-8")
    if options.resume:
        trainer.resume()
    return trainer


def _validator(data: DataFolder, options: ValidationOptions) -> Validator | None:
    if data.valid is None or len(data.valid) == 0:
        return None
    decode = DecodeOptions(beam=options.valid_beam)
    return Validator(data.valid, data.tokenizers, data.target_language, options.valid_sentences, decode)


def _about(data: DataFolder, configuration: dict[str, Any]) -> dict[str, Any]:
    return {
        "source_language": data.source_language,
        "target_language": data.target_language,
        "training_pairs": len(data.train or ()),
        "data_fingerprint": data.fingerprint,
        "training": {name: configuration[name] for name in ("learning", "precision", "seed", "preset")},
    }


def _claim(output: Path, options: RunOptions, configuration: dict[str, Any]) -> None:
    """Make the output folder this run's, or refuse."""
    there = sorted(path.name for path in output.iterdir()) if output.is_dir() else []
    if output.is_file():
        raise TfmError("the output is a file", where=str(output), fix="Name a folder by --output.")
    stands = CONFIGURATION in there or "checkpoints" in there
    if options.resume:
        _same_run(output, configuration)
    elif there and not stands:
        raise TfmError(
            f"the folder holds other files ({there[0]})",
            where=str(output),
            fix="Name a new or empty folder by --output.",
        )
    elif stands and not options.overwrite:
        raise TfmError(
            "a run stands here already",
            where=str(output),
            fix="Continue it with --resume, delete it with --overwrite, or name another --output.",
        )
    elif stands:
        _clear(output)
    output.mkdir(parents=True, exist_ok=True)


def _clear(output: Path) -> None:
    """Delete a run's files and nothing else."""
    for name in ("checkpoints", EVENTS):
        shutil.rmtree(output / name, ignore_errors=True)
    tokenizers = [path.name for path in output.glob("*tokenizer.json")]
    for name in (CONFIG, WEIGHTS, CARD, LOG, CONFIGURATION, *tokenizers):
        (output / name).unlink(missing_ok=True)


def _same_run(output: Path, configuration: dict[str, Any]) -> None:
    if not Checkpoints(output, 1).steps():
        raise TfmError("there is no checkpoint to resume from", where=str(output), fix="Train without --resume.")
    _, _, before = Checkpoints(output, 1).newest(_silent)
    for name in FIXED:
        old, new = before[name], configuration[name]
        if old == new:
            continue
        if isinstance(old, dict):
            name = next(key for key in new if old.get(key) != new[key])
            old, new = old.get(name), new[name]
        if name == "data_fingerprint":
            raise TfmError(
                "the data have changed since this run began", where=str(output), fix="Start a new run by --output."
            )
        raise TfmError(
            f"this run was begun with {old}, not {new}",
            where="--" + name.replace("_", "-"),
            fix="Resume with the same options, or start a new run by --output.",
        )


_silent: Callable[[str], None] = lambda message: None  # noqa: E731
