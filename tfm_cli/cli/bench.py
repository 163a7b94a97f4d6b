"""`tfm bench`: models side by side, how well and how fast."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.init import guess_language
from tfm_cli.cli.machine import MachineOptions, open_translator
from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.families import family_entry, that_obey
from tfm_cli.files import check_no_input, write_whole
from tfm_cli.folder import read_config
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.options import check, option
from tfm_cli.text.corpus import read_lines

if TYPE_CHECKING:
    from tfm_cli.bench.measure import Figures, System

COLUMNS = ("model", "engine", "BLEU", "chrF", "ms", "ms p90", "sent/s", "batch", "passes", "repeats", "length")
NOTES = (
    "ms: a sentence in batches of one, from text to text, median and what nine of ten stay below.",
    "sent/s: sentences a second at the batch size with the most of them.",
    "passes: runs of the decoder for one sentence, on average; of a left-to-right model the tokens it wrote and their end.",
    "repeats: tokens in 1,000 that repeat the one before. length: words written over words in the references.",
)


@dataclass(frozen=True)
class BenchOptions:
    """Which models, on what text, and where the results go."""

    model: Sequence[str] = option([], "Model folders.", short="-m", is_path=True, metavar="FOLDER", required=True)
    beam: Sequence[int] = option(
        [1, 5], "Beam sizes of autoregressive models, each measured by itself.", minimum=1, maximum=1000
    )
    source: str | None = option(None, "Text to translate.", is_path=True, metavar="FILE")
    reference: str | None = option(None, "Its right translation.", is_path=True, metavar="FILE")
    data: str = option(
        "data",
        "Folder that preprocess wrote, whose test pairs stand in for these files.",
        is_path=True,
        metavar="FOLDER",
    )
    sentences: int = option(200, "Take this many, from the beginning.", minimum=1)
    rounds: int = option(3, "How often all models take their turn; medians are shown.", minimum=1)
    target_lang: str | None = option(None, "Target language, which picks BLEU's tokenizer.", metavar="CODE")
    errors: str = option("strict", "Invalid UTF-8: stop there, or put U+FFFD.", choices=("strict", "replace"))
    json: str | None = option(None, "Write all figures to this file.", is_path=True, metavar="FILE")
    picture: str | None = option(None, "Draw quality over latency as SVG.", is_path=True, metavar="FILE")

    def __post_init__(self) -> None:
        check(self)


def run(settings: Settings, screen: Screen) -> None:
    """Measure and show; the table on stdout."""
    options, machine = settings[BenchOptions], settings[MachineOptions]
    searches = _searches(settings)
    for output in filter(None, (options.json, options.picture)):
        check_no_input(output, (options.source, options.reference))
    name, sources, references, language = _test(settings)
    language = options.target_lang or read_config(Path(options.model[0]))["about"].get("target_language") or language
    from tfm_cli.bench.machine import machine as describe
    from tfm_cli.bench.machine import sentence
    from tfm_cli.bench.measure import BATCHES, measure, steps
    from tfm_cli.threads import thread_count

    systems = [_open(folder, search, settings, screen) for folder, search in searches]
    about = describe(_device(systems), _precision(systems, machine), thread_count(machine.threads))
    with screen.progress("Measuring", total=steps(len(systems), options.rounds), unit="steps") as meter:
        figures = measure(systems, sources, references, language, options.rounds, BATCHES, meter.advance)
    _show(figures, screen)
    rounds = f"{options.rounds} round{'s' if options.rounds != 1 else ''}"
    screen.result(f"\n{name}, {len(sources):,} sentences, {rounds}. {sentence(about)}")
    for note in NOTES:
        screen.say(note)
    if options.json:
        content = {"machine": about, "text": name, "sentences": len(sources), "rounds": options.rounds}
        content |= {"language": language, "models": [asdict(each) for each in figures]}
        write_whole(options.json, json.dumps(content, ensure_ascii=False, indent=2) + "\n")
    if options.picture:
        from tfm_cli.bench.picture import picture

        write_whole(options.picture, picture(figures, sentence(about)))


def _searches(settings: Settings) -> list[tuple[str, Any]]:
    """Each model folder with the ways it is to decode; an option that none of the models obeys is refused."""
    options, given = settings[BenchOptions], settings.given(NonAutoregressiveDecodeOptions)
    families = {folder: read_config(Path(folder))["family"] for folder in options.model}
    for name in given:
        if not any(name in family_entry(family).obeys for family in families.values()):
            raise TfmError(
                f"none of the models is of a family that obeys it ({', '.join(that_obey(name))})",
                where=settings.place(name),
                fix="Leave it out.",
            )
    searches: list[tuple[str, Any]] = []
    for folder, family in families.items():
        if family == "autoregressive":
            searches += [(folder, DecodeOptions(beam=beam)) for beam in options.beam]
            continue
        own = settings[NonAutoregressiveDecodeOptions]
        obeyed = {name: getattr(own, name) for name in given if name in family_entry(family).obeys}
        searches.append((folder, replace(NonAutoregressiveDecodeOptions(), **obeyed)))
    return searches


def _test(settings: Settings) -> tuple[str, list[str], list[str], str | None]:
    """What is translated, under its name: sources, references, and the target language if it is known."""
    options = settings[BenchOptions]
    if options.source or options.reference:
        settings.require("source", "reference")
        assert options.source and options.reference
        sources, references = (
            list(islice(read_lines(path, options.errors), options.sentences))
            for path in (options.source, options.reference)
        )
        if len(sources) != len(references):
            raise TfmError(
                f"{options.source} has {len(sources):,} lines and {options.reference} has {len(references):,}",
                fix="Line n of one must belong to line n of the other.",
            )
        name, language = options.source, guess_language(options.reference)
    else:
        from tfm_cli.data.dataset import ABOUT, DataFolder

        data = DataFolder.load(options.data) if (Path(options.data) / ABOUT).is_file() else None
        if data is None or data.test is None:
            settings.require("source", "reference")
        assert data is not None and data.test is not None
        pairs = data.test.texts(range(min(options.sentences, len(data.test))))
        sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
        name, language = f"{options.data} (test)", data.target_language
    if not sources:
        raise TfmError("there is no sentence in it", where=name)
    return name, sources, references, language


def _open(folder: str, search: Any, settings: Settings, screen: Screen) -> "System":
    from tfm_cli.bench.measure import System
    from tfm_cli.engines.choice import Wish

    machine = settings[MachineOptions]
    wish = Wish([folder], search, machine.precision)
    alone = open_translator(wish, replace(machine, workers=None), screen, one_by_one=True)
    is_torch = hasattr(alone.engine, "family")
    together = alone if is_torch else open_translator(wish, machine, screen)
    told = {name: value for name, value in asdict(search).items() if value != getattr(type(search)(), name)}
    if isinstance(search, DecodeOptions):
        told = {"beam": search.beam}
    name = " ".join([folder.rstrip("/"), *(f"{key.replace('_', '-')} {value}" for key, value in told.items())])
    family = read_config(Path(folder))["family"]
    return System(name, family, "torch" if is_torch else "ctranslate2", search, alone, together)


def _device(systems: "Sequence[System]") -> str:
    devices = {str(getattr(system.alone.engine, "device", "cpu")) for system in systems}
    return " and ".join(sorted(devices))


def _precision(systems: "Sequence[System]", machine: MachineOptions) -> str:
    if machine.precision != "auto":
        return machine.precision
    types = {
        str(next(each.alone.family.parameters()).dtype).removeprefix("torch.") if each.engine == "torch" else "float32"
        for each in systems
    }
    return " and ".join(sorted(types))


def _show(figures: "Sequence[Figures]", screen: Screen) -> None:
    rows = []
    for each in figures:
        speed = (each.milliseconds, each.milliseconds_p90, each.per_second, each.batch)
        quality = (each.name, each.engine, each.bleu, each.chrf)
        rows.append((*quality, *speed, each.passes, each.repeats, each.length_ratio))
    screen.table(COLUMNS, rows, result=True)
