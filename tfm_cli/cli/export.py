"""`tfm export`: a model for other programs."""

from dataclasses import dataclass
from pathlib import Path

from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.options import check, option


@dataclass(frozen=True)
class ExportOptions:
    """What to export, and how."""

    model: str = option("run", "Model folder.", short="-m", is_path=True, metavar="FOLDER", positional=True)
    to: str = option("ctranslate2", "Program that is to read it.", choices=("ctranslate2",))
    output: str | None = option(
        None, "Folder to write (default: beside the model, its name with the program's).", short="-o", is_path=True
    )
    quantization: str = option(
        "float32",
        "Number type of the weights: int8 takes a quarter of the space.",
        choices=(
            "float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16",
        ),
    )  # fmt: skip
    overwrite: bool = option(False, "Replace an earlier export.")

    def __post_init__(self) -> None:
        check(self)


def run(settings: Settings, screen: Screen) -> None:
    """Write the export, and name its folder on stdout."""
    options = settings[ExportOptions]
    from tfm_cli.engines.choice import INSTALL, trouble

    if reason := trouble():
        raise TfmError(reason, where="--to ctranslate2", fix=f"{INSTALL}.")
    from tfm_cli.engines.export import export_ctranslate2

    model = Path(options.model).resolve()  # "." and ".." have no name to build on
    output = Path(options.output) if options.output else model.with_name(f"{model.name}-{options.to}")
    export_ctranslate2(model, output, options.quantization, options.overwrite)
    size = sum(file.stat().st_size for file in output.iterdir())
    screen.say(
        f"Exported for CTranslate2 in {options.quantization}, {size / 1e6:.1f} MB; README.md there says how to use it."
    )
    screen.result(str(output))
