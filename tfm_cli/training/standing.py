"""A run that stands in the output folder: whether one may begin or go on there, and whether it is the same one."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tfm_cli.errors import TfmError
from tfm_cli.model import CARD, CONFIG, WEIGHTS
from tfm_cli.training.checkpoint import Checkpoints
from tfm_cli.training.distributed import World
from tfm_cli.training.options import RunOptions

LOG, EVENTS, CONFIGURATION = "log.jsonl", "tensorboard", "training.json"
TYPED = "typed"  # in the configuration: names of the options that came by the command line
# Another value of these would make it another run; what else differs is obeyed, and told where the learning depends on it.
FIXED = ("preset", "shape", "seed", "family", "data_fingerprint", "nonautoregressive")


def saved_options(output: str | Path) -> dict[str, Any]:
    """The options that the run in ``output`` was begun with, by field name; for a resumption that does not repeat them.

    Raises:
        TfmError: where no run stands.
    """
    configuration = saved(output)
    flat = {name: value for name, value in configuration.items() if not isinstance(value, dict)}
    return flat | {
        name: value
        for section in ("shape", "learning", "validation", "nonautoregressive")
        for name, value in configuration.get(section, {}).items()
    }


def saved(output: str | Path) -> dict[str, Any]:
    """The resolved configuration that the run in ``output`` last had."""
    try:
        configuration: dict[str, Any] = json.loads((Path(output) / CONFIGURATION).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TfmError("there is no run to resume", where=str(output), fix="Train without --resume.") from error
    return configuration


def started_again(options: RunOptions, world: World) -> RunOptions:
    """The options of processes that torchrun has started again: they go on by themselves where their last checkpoint stands."""
    output = Path(options.output).resolve()
    again = world.is_first and world.has_begun(str(output))
    again, begun = world.share([again, again and bool(Checkpoints(output, 1).steps())])
    return replace(options, resume=begun, overwrite=not begun) if again else options


def refuse_differences(configuration: dict[str, Any], world: World) -> None:
    """All ranks must train the same network on the same data by the same options."""
    for name, first, mine in _differences(world.share(configuration), configuration):
        raise TfmError(
            f"this process has {mine} and rank 0 has {first}",
            where="the data" if name == "data_fingerprint" else "--" + name.rpartition(".")[2].replace("_", "-"),
            fix="Start all processes with the same options and the same data.",
        )


def refuse_occupied(output: Path, options: RunOptions) -> None:
    """Look whether ``options`` may begin a run in ``output``, or go on with one."""
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


def clear(output: Path) -> None:
    """Delete a run's files and nothing else."""
    for name in ("checkpoints", EVENTS):
        shutil.rmtree(output / name, ignore_errors=True)
    sweep(output)
    tokenizers = [path.name for path in output.glob("*tokenizer.json")]
    for name in (CONFIG, WEIGHTS, CARD, LOG, CONFIGURATION, *tokenizers):
        (output / name).unlink(missing_ok=True)


def sweep(output: Path) -> None:
    """Delete what a process that was killed while it saved has left."""
    for leftover in output.glob(".saving-*"):
        shutil.rmtree(leftover)


def check_same_run(
    output: Path, before: dict[str, Any], configuration: dict[str, Any], warn: Callable[[str], None]
) -> None:
    """Hold a resumption's options against those that the run last had."""
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
        if name == "processes":
            batches = new * configuration["learning"]["accumulate"]
            warn(f"this run had {old} processes before and has {new} from now on: an update takes {batches} batches.")


def _differences(before: dict[str, Any], now: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    for name in before.keys() & now.keys():
        if isinstance(before[name], dict):
            yield from _differences(before[name], now[name], f"{prefix}{name}.")
        elif before[name] != now[name]:
            yield prefix + name, before[name], now[name]
