"""`tfm average`: several models' weights into one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.options import option


@dataclass(frozen=True)
class AverageOptions:
    """Which models, and where their mean goes."""

    model: Sequence[str] = option(
        [],
        "Model folders or checkpoints, or one run folder, whose checkpoints are then meant.",
        is_path=True,
        metavar="FOLDER",
        positional=True,
    )
    output: str | None = option(
        None,
        "Folder for the averaged model.",
        short="-o",
        is_path=True,
        metavar="FOLDER",
        required=True,
        example="run-average/",
    )
    last: int = option(5, "Of a run's checkpoints take this many newest.", minimum=1)
    overwrite: bool = option(False, "Replace a model in the output folder.")


def run(settings: Settings, screen: Screen) -> None:
    """Average and save."""
    options = settings[AverageOptions]
    assert options.output is not None
    from tfm_cli.model import CONFIG, average_models, save_model

    folders = _folders(options)
    output = Path(options.output)
    if output.exists() and not output.is_dir():
        raise TfmError("the output is a file", where=str(output), fix="Name a folder by --output.")
    if output.exists() and any(output.iterdir()) and not ((output / CONFIG).exists() and options.overwrite):
        raise TfmError("the folder is not empty", where=str(output), fix="Name another --output, or add --overwrite.")
    model, weights = average_models(folders)
    model.about["averaged"] = [folder.name for folder in folders]
    # Those of one of them, not of the mean.
    for name in ("scores", "signatures", "validation_sentences", "steps", "epochs", "minutes"):
        model.about.pop(name, None)
    save_model(output, model, weights)
    screen.say(f"Averaged {len(folders)} models into {output}: " + ", ".join(folder.name for folder in folders))
    screen.next_step(f"tfm eval --model {output}", "see whether the average is better")


def _folders(options: AverageOptions) -> list[Path]:
    given = [Path(folder) for folder in options.model]
    if len(given) == 1 and (given[0] / "checkpoints").is_dir():
        kept = sorted(path for path in (given[0] / "checkpoints").glob("step-*") if path.is_dir())
        given = kept[-options.last :]
    if len(given) < 2:
        raise TfmError(
            f"an average takes at least two models, here {'is one' if given else 'are none'}",
            where="--model",
            fix="Name several folders, or train with a larger --keep.",
        )
    return given
