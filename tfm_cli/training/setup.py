"""From options to a trainer ready to run: the data, the network, the size of its batches, what is resumed."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.data.batching import collate
from tfm_cli.data.dataset import DataFolder
from tfm_cli.data.storage import Split
from tfm_cli.device import pick_device, pick_precision, set_threads
from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry
from tfm_cli.files import write_whole
from tfm_cli.model import Model, build_family, take_weights
from tfm_cli.nonautoregressive.options import NonAutoregressiveOptions
from tfm_cli.options import AUTO
from tfm_cli.training.checkpoint import seed_of_rank
from tfm_cli.training.compiling import compile_family
from tfm_cli.training.distributed import World
from tfm_cli.training.feeding import Feed
from tfm_cli.training.learner import Learner
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.training.sizing import largest_batch
from tfm_cli.training.standing import (
    CONFIGURATION,
    EVENTS,
    LOG,
    TYPED,
    check_same_run,
    clear,
    refuse_differences,
    refuse_occupied,
    saved,
    started_again,
    sweep,
)
from tfm_cli.training.trainer import Trainer
from tfm_cli.training.validation import Validator
from tfm_cli.training.watching import JsonLines, TensorBoard, Watcher, Watchers
from tfm_cli.transformer.shape import Shape

# What belongs to a sitting, not to the run.
SITTING = ("resume", "overwrite", "device", "threads", "output", "data", "init_from")


@dataclass(frozen=True)
class Sitting:
    """What one start of a run brings along besides options.

    ``watchers`` hear of it besides the log file; ``began`` is the moment on `time.monotonic` from which its minutes count;
    ``typed`` names the options that came by the command line: in later sittings they outlast what a project file says.
    """

    watchers: Sequence[Watcher] = ()
    began: float | None = None
    world: World = field(default_factory=World)
    typed: Sequence[str] = ()


def prepare(
    options: RunOptions,
    learning: LearningOptions,
    validation: ValidationOptions,
    shape: Shape,
    nonautoregressive: NonAutoregressiveOptions | None = None,
    sitting: Sitting | None = None,
) -> Trainer:
    """A trainer whose `Trainer.run` does the rest.

    Of ``learning`` and ``nonautoregressive``, the family keeps what it obeys among its settings.

    Nothing is written, and no standing run deleted, before all that can be wrong has been looked at. Of several processes
    rank 0 alone touches the output folder.

    Raises:
        TfmError: where a run stands already, the data are missing, or a resumed run's options differ.
    """
    sitting = sitting or Sitting()
    world, output = sitting.world, Path(options.output)
    options = started_again(options, world)
    if world.is_first:
        refuse_occupied(output, options)
    before = world.share(saved(output) if options.resume and world.is_first else {})
    if learning.batch_tokens == AUTO and before:
        learning = replace(learning, batch_tokens=before["learning"]["batch_tokens"])
    _refuse_endless(options, learning)
    data = DataFolder.load(options.data)
    if data.train is None:
        raise TfmError(
            "the data hold no training pairs", where=options.data, fix="Give `tfm preprocess` a --source and --target."
        )
    device = pick_device(options.device, world.local_rank)
    set_threads(options.threads, world.local_size)
    dtype = pick_precision(options.precision, device)
    configuration: dict[str, Any] = {
        "shape": asdict(shape),
        "learning": asdict(learning),
        "validation": asdict(validation),
        "nonautoregressive": obeyed(options.family, nonautoregressive or NonAutoregressiveOptions()),
        **{name: value for name, value in asdict(options).items() if name not in SITTING},
        "precision": str(dtype).removeprefix("torch."),
        "data_fingerprint": data.fingerprint,
        "processes": world.size,
    }
    torch.manual_seed(options.seed)
    model = _fresh_model(data, options, shape, learning, configuration, before)
    refuse_differences(configuration, world)
    configuration[TYPED] = sorted({*sitting.typed, *before.get(TYPED, ())} - {*SITTING})
    for parameter in model.family.parameters():  # another machine's torch might draw others
        world.spread(parameter.data)
    learner = Learner(model, learning, device, dtype)
    feed, notes = _feed(learner, data.train, options, learning, world)
    configuration["learning"]["batch_tokens"] = feed.batch_tokens
    trainer = Trainer(
        learner,
        feed,
        _validator(data, options.family, validation),
        (options, learning, validation),
        run=configuration,
        watcher=_watchers(output, options, sitting),
        began=sitting.began,
        notes=(*notes, *_without_room(model, data)),
    )
    if options.resume:
        check_same_run(output, before, configuration, trainer.watcher.warned)
        trainer.resume()
    elif world.rank:
        torch.manual_seed(seed_of_rank(options.seed, world.rank))
    if world.is_first:
        if options.overwrite and not options.resume:
            clear(output)
        sweep(output)
        output.mkdir(parents=True, exist_ok=True)
        write_whole(output / CONFIGURATION, json.dumps(configuration, indent=2) + "\n")
        world.begins(str(output.resolve()))
    return trainer


def _feed(
    learner: Learner, split: Split, options: RunOptions, learning: LearningOptions, world: World
) -> tuple[Feed, tuple[str, ...]]:
    """The feed for a network that is compiled and has its size of batch; and what is to be told of that."""
    if options.compile:
        some = range(min(8, len(split)))
        compile_family(learner, collate(split.pairs(some), learner.multiple).to(learner.device))
    tokens, notes = learning.batch_tokens, tuple[str, ...]()
    if isinstance(tokens, str):
        sizing = largest_batch(learner, split, world)
        tokens, notes = sizing.batch_tokens, (f"Batches of {sizing.batch_tokens:,} tokens: {sizing.reason}.",)
    feed = Feed(
        split,
        tokens,
        learning.accumulate,
        options.seed,
        device=learner.device,
        multiple=learner.multiple,
        world=world,
    )
    return feed, notes


def _without_room(model: Model, data: DataFolder) -> list[str]:
    """What is to be told of pairs whose translation is longer than the family's rows."""
    notes = []
    for kind, split in (("training", data.train), ("validation", data.valid)):
        if split is None:
            continue
        source, target = torch.as_tensor(np.asarray(split.lengths, dtype=np.int64)).unbind(1)
        if count := int((target > model.family.room(source)).sum()):
            notes.append(
                f"At least {count:,} of {len(split):,} {kind} pairs ({count / len(split):.1%}) have more target tokens "
                f"than this {model.family_name} model's rows have room for; the loss leaves out what does not fit."
            )
    return notes


def _watchers(output: Path, options: RunOptions, sitting: Sitting) -> Watchers:
    if not sitting.world.is_first:
        return Watchers([])
    heard: list[Watcher] = [*sitting.watchers, JsonLines(output / LOG)]
    if options.tensorboard:
        heard.append(TensorBoard(output / EVENTS))
    return Watchers(heard)


def _refuse_endless(options: RunOptions, learning: LearningOptions) -> None:
    if learning.schedule in ("linear", "cosine") and not options.has_end:
        raise TfmError(
            f"a {learning.schedule} schedule falls to zero at the end of the run, and the run has none",
            where="--schedule",
            fix="Give --max-minutes, --max-steps or --max-epochs.",
        )


def obeyed(family: str, options: Any) -> dict[str, Any]:
    """Those of ``options`` that only some families obey, and this one does: what a family keeps of them as settings."""
    return {name: value for name, value in asdict(options).items() if name in family_entry(family).obeys}


def _fresh_model(
    data: DataFolder,
    options: RunOptions,
    shape: Shape,
    learning: LearningOptions,
    configuration: dict[str, Any],
    before: dict[str, Any],
) -> Model:
    settings = obeyed(options.family, learning) | configuration["nonautoregressive"]
    sizes = data.tokenizers.source.vocab_size, data.tokenizers.target.vocab_size
    about = {
        "source_language": data.source_language,
        "target_language": data.target_language,
        "training_pairs": len(data.train or ()),
        "data_fingerprint": data.fingerprint,
        "training": {name: configuration[name] for name in ("learning", "precision", "seed", "preset")},
    }
    family = build_family(options.family, shape, *sizes, settings)
    model = Model(family, options.family, data.tokenizers, settings, about)
    if start := _initialised(model, options, before):
        about["initialised_from"] = configuration["initialised_from"] = start
    return model


def _initialised(model: Model, options: RunOptions, before: dict[str, Any]) -> str | None:
    """Start from the weights of ``init_from``; what was taken, in words. A resumed run knows what it once started from."""
    if options.resume:
        return before.get("initialised_from")
    if not options.init_from:
        return None
    count = take_weights(model, Path(options.init_from))
    return f"{options.init_from} ({count:,} of {model.parameters:,} weights)"


def _validator(data: DataFolder, family: str, options: ValidationOptions) -> Validator | None:
    if data.valid is None or len(data.valid) == 0:
        return None
    entry = family_entry(family)
    decode = DecodeOptions(beam=options.valid_beam) if "valid_beam" in entry.obeys else entry.decode_options()
    return Validator(data.valid, data.tokenizers, data.target_language, options.valid_sentences, decode)
