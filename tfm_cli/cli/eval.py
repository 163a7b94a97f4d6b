"""`tfm eval`: translate and score, or score what is there."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.families import decoding
from tfm_cli.cli.init import guess_language
from tfm_cli.cli.machine import MachineOptions
from tfm_cli.cli.options import EvalOptions
from tfm_cli.cli.render import Screen
from tfm_cli.cli.rerank import open_ranked
from tfm_cli.cli.translate import Warnings, as_text
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.evaluation.options import EvaluateOptions
from tfm_cli.files import check_no_input, write_whole
from tfm_cli.text.corpus import read_lines, unaligned

if TYPE_CHECKING:
    from tfm_cli.evaluation.metrics import Comparison, Score


def run(settings: Settings, screen: Screen) -> None:
    """Score the hypothesis file, or the model's translations of the source; results on stdout."""
    options, scoring = settings[EvalOptions], settings[EvaluateOptions]
    from tfm_cli.evaluation.metrics import compare, evaluate, looks_tokenized, tokenizer_for

    if settings[DecodeOptions].n_best != 1:
        raise TfmError("a score is of one translation a line", where="--n-best", fix="Leave it out.")
    if options.output:
        check_no_input(options.output, (options.hypothesis, options.source, *options.reference, *options.compare))
    test = _test(settings)
    others = {path: list(read_lines(path, options.errors)) for path in options.compare}
    lines = list(read_lines(options.hypothesis, options.errors)) if options.hypothesis else test.source
    name = options.hypothesis or test.name
    _same_length([(name, lines), *test.references, *others.items()])
    hypotheses, model_language = lines, None
    if not options.hypothesis:
        name = " + ".join(options.model)
        hypotheses, model_language = _translate(lines, settings, screen)
    if options.output:
        write_whole(options.output, "".join(f"{line}\n" for line in hypotheses))
        screen.say(f"Translations kept in {options.output}.")

    language = _language(settings, model_language, test.language)
    references = [reference for _, reference in test.references]
    screen.detail(
        f"Target language: {language or 'unknown'}; BLEU's tokenizer: {scoring.tokenize or tokenizer_for(language)}"
    )
    for path, lines in {name: hypotheses, **others}.items():
        if looks_tokenized(lines):
            screen.warn(f"{path} looks tokenised; scores are comparable only for plain text as a reader sees it.")
    scores = evaluate(hypotheses, references, scoring, language)
    comparisons = compare({name: hypotheses, **others}, references, scoring, language) if others else []
    if options.json:
        about = {
            "system": name,
            "references": [path for path, _ in test.references],
            "sentences": len(hypotheses),
            "language": language,
        }
        found = {"scores": [s.as_dict() for s in scores], "comparisons": [c.as_dict() for c in comparisons]}
        screen.result(json.dumps(about | found, ensure_ascii=False, indent=2))
    else:
        _show(scores, comparisons, screen)


@dataclass(frozen=True)
class TestSet:
    """What is translated, and what that is held against, each with the name it is shown under."""

    name: str
    source: list[str]
    references: list[tuple[str, list[str]]]
    language: str | None


def _test(settings: Settings) -> TestSet:
    """The user's files; without any, the test pairs in the folder of `tfm preprocess`."""
    options = settings[EvalOptions]
    if not (options.source or options.reference) and (kept := _kept_test(options.data)):
        return kept
    settings.require("reference", *([] if options.hypothesis else ["source"]))
    references = [(path, list(read_lines(path, options.errors))) for path in options.reference]
    source = [] if options.hypothesis else list(read_lines(options.source or "", options.errors))
    return TestSet(options.source or "", source, references, guess_language(options.reference[0]))


def _kept_test(folder: str) -> TestSet | None:
    from tfm_cli.data.dataset import ABOUT, DataFolder

    if not (Path(folder) / ABOUT).is_file():
        return None
    data = DataFolder.load(folder)
    if data.test is None:
        return None
    source, reference = (list(side) for side in zip(*data.test.texts(), strict=True))
    return TestSet(f"{folder} (test)", source, [(f"{folder} (test)", reference)], data.target_language)


def _translate(source: list[str], settings: Settings, screen: Screen) -> tuple[list[str], str | None]:
    options = settings[EvalOptions]
    from tfm_cli.engines.choice import Wish
    from tfm_cli.folder import read_config
    from tfm_cli.translator import Batching

    machine, search = settings[MachineOptions], decoding(settings, options.model)
    about = read_config(Path(options.model[0]))["about"]
    wish = Wish(options.model, search, machine.precision)
    translator = open_ranked(wish, options.rerank, settings, screen)
    hypotheses, batching = [], Batching()
    with (
        closing(Warnings(screen, batching.max_source)) as warnings,
        screen.progress("Translating", total=len(source), unit="lines") as meter,
    ):
        for translation in translator.stream(
            source, search, batching, warn=warnings.unfinished, on_cut=warnings.cut, with_scores=False
        ):
            hypotheses.append(as_text(translation))
            meter.advance()
    return hypotheses, about.get("target_language")


def _language(settings: Settings, model_language: str | None, test_language: str | None) -> str | None:
    """What the user says, then the model, then the project, then the data folder or the reference's file name."""
    options = settings[EvalOptions]
    said = options.target_lang if settings.origin("target_lang") in ("command line", "file") else None
    return said or model_language or options.target_lang or test_language


def _same_length(files: Sequence[tuple[str, list[str]]]) -> None:
    (first, lines), *rest = files
    for name, others in rest:
        if len(others) != len(lines):
            raise unaligned(first, len(lines), name, len(others))


def _show(scores: "list[Score]", comparisons: "list[Comparison]", screen: Screen) -> None:
    rows = [(score.metric, score.value, _interval(score.interval)) for score in scores]
    screen.table(("metric", "score", "95 % interval"), rows, result=True)
    if comparisons:
        screen.result("")
        paired = [(c.metric, c.system, c.value, _interval(c.interval), _p_value(c.p_value)) for c in comparisons]
        screen.table(("metric", "system", "score", "95 % interval", "p"), paired, result=True)
    screen.result("")
    for score in scores:
        screen.result(f"{score.metric}: {score.signature}")


def _interval(interval: tuple[float, float] | None) -> str:
    return f"{interval[0]:.2f} to {interval[1]:.2f}" if interval else "-"


def _p_value(p_value: float | None) -> str:
    return "baseline" if p_value is None else f"{p_value:.3f}"
