"""From options to a trainer ready to run: the output folder, the data, the network, what is resumed."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
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
# Another value of these would make it another run; what else differs on resumption is told and obeyed.
FIXED = ("shape", "seed", "family", "data_fingerprint")
# What belongs to a sitting, not to the run.
SITTING = ("resume", "overwrite", "device", "threads", "output", "data")


def prepare(
    options: RunOptions,
    learning: LearningOptions,
    validation: ValidationOptions,
    shape: Shape,
    watchers: Iterable[Watcher] = (),
    began: float | None = None,
) -> Trainer:
    """A trainer whose `Trainer.run` does the rest. ``watchers`` hear of it besides the log file.

    Nothing is written, and no standing run deleted, before all that can be wrong has been looked at.

    Raises:
        TfmError: where a run stands already, the data are missing, or a resumed run's options differ.
    """
    output = Path(options.output)
    _refuse_occupied(output, options)
    if learning.schedule in ("linear", "cosine") and not options.has_end:
        raise TfmError(
            f"a {learning.schedule} schedule falls to zero at the end of the run, and the run has none",
            where="--schedule",
            fix="Give --max-minutes, --max-steps or --max-epochs.",
        )
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
        **{name: value for name, value in asdict(options).items() if name not in SITTING},
        "precision": str(dtype).removeprefix("torch."),
        "data_fingerprint": data.fingerprint,
    }
    heard: list[Watcher] = [*watchers, JsonLines(output / LOG)]
    if options.tensorboard:
        heard.append(TensorBoard(output / EVENTS))
    torch.manual_seed(options.seed)
    trainer = Trainer(
        _fresh_model(data, options.family, shape, learning, configuration),
        data.train,
        _validator(data, validation),
        (options, learning, validation),
        device=device,
        dtype=dtype,
        run=configuration,
        watcher=Watchers(heard),
        began=began,
    )
    if options.resume:
        _check_same_run(output, configuration, trainer.watcher.warned)
        trainer.resume()
    elif options.overwrite:
        _clear(output)
    output.mkdir(parents=True, exist_ok=True)
    (output / CONFIGURATION).write_text(json.dumps(configuration, indent=2) + "\n", encoding="utf-8")
    return trainer


def saved_options(output: str | Path) -> dict[str, Any]:
    """The options that the run in ``output`` was begun with, by field name; for a resumption that does not repeat them.

    Raises:
        TfmError: where no run stands.
    """
    file = Path(output) / CONFIGURATION
    try:
        configuration = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TfmError("there is no run to resume", where=str(output), fix="Train without --resume.") from error
    flat = {name: value for name, value in configuration.items() if not isinstance(value, dict)}
    return flat | configuration["shape"] | configuration["learning"] | configuration["validation"]


def _fresh_model(
    data: DataFolder, family: str, shape: Shape, learning: LearningOptions, configuration: dict[str, Any]
) -> Model:
    settings = {"label_smoothing": learning.label_smoothing}
    sizes = data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size
    about = {
        "source_language": data.source_language,
        "target_language": data.target_language,
        "training_pairs": len(data.train or ()),
        "data_fingerprint": data.fingerprint,
        "training": {name: configuration[name] for name in ("learning", "precision", "seed", "preset")},
    }
    return Model(build_family(family, shape, *sizes, settings), family, data.tokenizers, settings, about)


def _validator(data: DataFolder, options: ValidationOptions) -> Validator | None:
    if data.valid is None or len(data.valid) == 0:
        return None
    decode = DecodeOptions(beam=options.valid_beam)
    return Validator(data.valid, data.tokenizers, data.target_language, options.valid_sentences, decode)


def _refuse_occupied(output: Path, options: RunOptions) -> None:
    if output.is_file():
        raise TfmError("the output is a file", where=str(output), fix="Name a folder by --output.")
    there = sorted(path.name for path in output.iterdir()) if output.is_dir() else []
    stands = CONFIGURATION in there
    if there and not stands:
        raise TfmError(
            f"the folder holds other files ({there[0]})",
            where=str(output),
            fix="Name a new or empty folder by --output.",
        )
    begun = stands and bool(Checkpoints(output, 1).steps())
    if options.resume and not begun:
        fix = "Train without --resume" + (", with --overwrite." if stands else ".")
        raise TfmError("there is no checkpoint to resume from", where=str(output), fix=fix)
    if stands and not options.resume and not options.overwrite:
        go_on = "Continue it with --resume, delete" if begun else "It has no checkpoint yet: delete"
        raise TfmError(
            "a run stands here already",
            where=str(output),
            fix=f"{go_on} it with --overwrite, or name another --output.",
        )


def _clear(output: Path) -> None:
    """Delete a run's files and nothing else."""
    for name in ("checkpoints", EVENTS):
        shutil.rmtree(output / name, ignore_errors=True)
    for leftover in output.glob(".saving-*"):
        shutil.rmtree(leftover)
    tokenizers = [path.name for path in output.glob("*tokenizer.json")]
    for name in (CONFIG, WEIGHTS, CARD, LOG, CONFIGURATION, *tokenizers):
        (output / name).unlink(missing_ok=True)


def _check_same_run(output: Path, configuration: dict[str, Any], warn: Callable[[str], None]) -> None:
    """Hold a resumption's options against those that the run last had."""
    before = json.loads((output / CONFIGURATION).read_text(encoding="utf-8"))
    if before["data_fingerprint"] != configuration["data_fingerprint"]:
        raise TfmError(
            "the data have changed since this run began", where=str(output), fix="Start a new run by --output."
        )
    for name, old, new in _differences(before, configuration):
        option = "--" + name.rpartition(".")[2].replace("_", "-")
        if name.partition(".")[0] in FIXED:
            raise TfmError(
                f"this run was begun with {old}, not {new}",
                where=option,
                fix="Resume without it, or start a new run by --output.",
            )
        if name.startswith("learning.") or name == "precision":
            warn(f"{option} was {old} before and is {new} from now on.")


def _differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in before.keys() & now.keys():
        if isinstance(before[name], dict):
            yield from _differences(before[name], now[name], f"{prefix}{name}.")
        elif before[name] != now[name]:
            yield prefix + name, before[name], now[name]
