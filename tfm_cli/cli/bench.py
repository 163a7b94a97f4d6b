"""`tfm bench`: models side by side, how well and how fast."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.init import guess_language
from tfm_cli.cli.machine import CompileOptions, MachineOptions, is_compiled, open_set_up, torch_shares
from tfm_cli.cli.render import Screen
from tfm_cli.cli.rerank import judged, obstacle_to_judge
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.families import obeyed_by, that_obey
from tfm_cli.files import check_no_input, check_writable, write_whole
from tfm_cli.folder import read_config
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.options import check, option
from tfm_cli.text.corpus import read_pairs

if TYPE_CHECKING:
    from tfm_cli.bench.measure import Figures, Opened, System

COLUMNS = ("model", "engine", "BLEU", "chrF", "ms", "ms p90", "sent/s", "batch", "passes", "repeats", "length")
NOTES = (
    "ms: a sentence in batches of one, from text to text, median and what nine of ten stay below.",
    "sent/s: sentences a second at the batch size with the most of them.",
    "passes: runs of the decoder for one sentence, on average; of a left-to-right model the tokens it wrote and their end.",
    "threads: batches translated at once x threads of each.",
    "repeats: tokens in 1,000 that repeat the one before. length: words written over words in the references.",
)


@dataclass(frozen=True)
class BenchOptions:
    """Which models, on what text, and where the results go."""

    model: Sequence[str] = option([], "Model folders.", short="-m", is_path=True, metavar="FOLDER", required=True)
    beam: Sequence[int] = option(
        [1, 5], "Beam sizes of autoregressive models, each measured by itself.", minimum=1, maximum=1000
    )
    rerank: str | None = option(
        None,
        "Autoregressive model that chooses among the candidates of --ctc-beam or --length-beam: a row more for each model "
        "that has some.",
        is_path=True,
        metavar="FOLDER",
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
    options = settings[BenchOptions]
    searches = _searches(settings)
    able = _with_candidates(searches, settings, screen)
    _check_outputs(options)
    name, sources, references, language = _test(settings)
    language = options.target_lang or read_config(Path(options.model[0]))["about"].get("target_language") or language
    from tfm_cli.bench.machine import machine as describe
    from tfm_cli.bench.machine import sentence
    from tfm_cli.bench.measure import BATCHES, measure, steps

    systems = _opened(searches, able, settings, screen)
    _tell_cuts(systems, sources, screen)
    about = describe([each.alone.setup for each in systems], [each.together.setup for each in systems])
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
    configs = {folder: read_config(Path(folder)) for folder in options.model}
    obeys = {folder: obeyed_by(config["family"], config["settings"]) for folder, config in configs.items()}
    for name in given:
        if not any(name in own for own in obeys.values()):
            until_end = [folder for folder, each in configs.items() if each["family"] in that_obey(name)]
            what = f"none of the models is of a family that obeys it ({', '.join(that_obey(name))})"
            if until_end:
                what = f"{until_end[0]} writes until END and predicts no length"
            raise TfmError(what, where=settings.place(name), fix="Leave it out.")
    if settings[CompileOptions].compile and all(each["family"] == "autoregressive" for each in configs.values()):
        raise TfmError(
            "none of the models writes all words at once", where=settings.place("compile"), fix="Leave it out."
        )
    searches: list[tuple[str, Any]] = []
    for folder, config in configs.items():
        if config["family"] == "autoregressive":
            searches += [(folder, DecodeOptions(beam=beam)) for beam in options.beam]
            continue
        own = settings[NonAutoregressiveDecodeOptions]
        obeyed = {name: getattr(own, name) for name in given if name in obeys[folder]}
        searches.append((folder, replace(NonAutoregressiveDecodeOptions(), **obeyed)))
    return searches


def _test(settings: Settings) -> tuple[str, list[str], list[str], str | None]:
    """What is translated, under its name: sources, references, and the target language if it is known."""
    options = settings[BenchOptions]
    if options.source or options.reference:
        settings.require("source", "reference")
        assert options.source and options.reference
        # All are read, to see that line belongs to line.
        pairs = list(read_pairs(options.source, options.reference, options.errors))[: options.sentences]
        name, language = options.source, guess_language(options.reference)
    else:
        from tfm_cli.data.dataset import ABOUT, DataFolder

        data = DataFolder.load(options.data) if (Path(options.data) / ABOUT).is_file() else None
        if data is None or data.test is None:
            settings.require("source", "reference")
        assert data is not None and data.test is not None
        pairs = data.test.texts(range(min(options.sentences, len(data.test))))
        name, language = f"{options.data} (test)", data.target_language
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    if not any(source.strip() for source in sources):
        raise TfmError("there is no sentence in it", where=name)
    return name, sources, references, language


def _opened(searches: Sequence[tuple[str, Any]], able: set[str], settings: Settings, screen: Screen) -> "list[System]":
    """A system for each search, and behind each of a model that is ``able`` to give candidates the same with their judge."""
    from tfm_cli.engines.rerank import MEAN

    ranker, systems = settings[BenchOptions].rerank, []
    judge = _open(ranker, MEAN, settings, screen) if ranker else None
    for folder, search in searches:
        system = _open(folder, search, settings, screen)
        systems.append(system)
        if judge and folder in able:
            name = f"{system.name} rerank {ranker}"
            alone, together = _judged(system.alone, judge.alone), _judged(system.together, judge.together)
            systems.append(replace(system, name=name, alone=alone, together=together, is_judged=True))
    return systems


def _judged(writer: "Opened", judge: "Opened") -> "Opened":
    return writer._replace(translator=judged(writer.translator, judge.translator))


def _open(folder: str, search: Any, settings: Settings, screen: Screen) -> "System":
    from tfm_cli.bench.measure import Opened, System
    from tfm_cli.engines.choice import Wish

    machine = settings[MachineOptions]
    family = read_config(Path(folder))["family"]
    compile = family != "autoregressive" and is_compiled(settings, [folder], one_by_one=True)
    wish = Wish([folder], search, machine.precision, compile=compile)
    alone = Opened(*open_set_up(wish, replace(machine, workers=None), screen, one_by_one=True))
    is_torch = alone.setup.engine == "torch"
    together = _shared(alone, machine) if is_torch else Opened(*open_set_up(wish, machine, screen))
    told = {name: value for name, value in asdict(search).items() if value != getattr(type(search)(), name)}
    if isinstance(search, DecodeOptions):
        told = {"beam": search.beam}
    name = " ".join([folder.rstrip("/"), *(f"{key.replace('_', '-')} {value}" for key, value in told.items())])
    return System(name, family, search, alone, together)


def _with_candidates(searches: Sequence[tuple[str, Any]], settings: Settings, screen: Screen) -> set[str]:
    """The models whose candidates ``--rerank`` judges; why another is not judged is said.

    Raises:
        TfmError: there is none.
    """
    ranker = settings[BenchOptions].rerank
    if not ranker:
        return set()
    from tfm_cli.engines.choice import Wish

    troubles = {}
    for folder, search in searches:
        if trouble := obstacle_to_judge(Wish([folder], search), ranker):
            troubles[folder] = trouble
    able = {folder for folder, _ in searches} - set(troubles)
    if not able:
        what, fix = list(troubles.values())[-1]
        raise TfmError(what, where=settings.place("rerank"), fix=fix)
    for folder, (what, _) in troubles.items():
        if read_config(Path(folder))["family"] != "autoregressive":
            screen.say(f"{folder} without a judge: {what}.")
    return able


def _shared(alone: "Opened", machine: MachineOptions) -> "Opened":
    """The same model in torch, for batches that share the threads as those of `tfm translate` do."""
    from tfm_cli.bench.measure import Opened
    from tfm_cli.engines.pytorch import TorchEngine
    from tfm_cli.translator import Translator

    translator, setup = alone
    device = translator.engine.device  # type: ignore[attr-defined]
    workers, threads = torch_shares(device, machine)
    engine = TorchEngine(translator.family, device, workers)
    return Opened(Translator(engine, translator.tokenizers), replace(setup, workers=workers, threads=threads))


def _check_outputs(options: BenchOptions) -> None:
    """See that the results can be written where they are to go, before anything is measured."""
    outputs = {f"--{name}": path for name in ("json", "picture") if (path := getattr(options, name))}
    for name, path in outputs.items():
        check_no_input(path, (options.source, options.reference), name)
        check_writable(path, name)
    if len({Path(path).resolve() for path in outputs.values()}) < len(outputs):
        raise TfmError("--json goes to the same file", where=f"--picture {options.picture}", fix="Name another file.")


def _tell_cuts(systems: "Sequence[System]", sources: Sequence[str], screen: Screen) -> None:
    """Say of which model how many sentences are too long to be read whole."""
    from tfm_cli.translator import Batching

    limit = Batching().max_source
    for system in systems:
        count = sum(len(ids) > limit for ids in system.alone.translator.tokenizers.source.encode_batch(sources))
        if count:
            screen.warn(f"{system.name}: {count:,} of {len(sources):,} sentences are cut to {limit:,} tokens.")


def _show(figures: "Sequence[Figures]", screen: Screen) -> None:
    rows = []
    for each in figures:
        speed = (each.milliseconds, each.milliseconds_p90, each.per_second, each.batch)
        engine = each.alone.engine + (", compiled" if each.alone.compiled else "")
        quality = (each.name, engine, each.bleu, each.chrf)
        rows.append((*quality, *speed, each.passes, each.repeats, each.length_ratio))
    screen.table(COLUMNS, rows, result=True)
