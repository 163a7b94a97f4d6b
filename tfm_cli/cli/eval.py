"""`tfm eval`: translate and score, or score what is there."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.files import write_whole
from tfm_cli.cli.init import guess_language
from tfm_cli.cli.options import EvalOptions
from tfm_cli.cli.render import Screen
from tfm_cli.cli.translate import as_text
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.evaluation.options import EvaluateOptions
from tfm_cli.text.corpus import read_lines

if TYPE_CHECKING:
    from tfm_cli.evaluation.metrics import Comparison, Score


def run(settings: Settings, screen: Screen) -> None:
    """Score the hypothesis file, or the model's translations of the source; results on stdout."""
    options, scoring = settings[EvalOptions], settings[EvaluateOptions]
    from tfm_cli.evaluation.metrics import compare, evaluate, looks_tokenized, tokenizer_for

    settings.require("reference", *([] if options.hypothesis else ["source"]))
    references = [list(read_lines(path)) for path in options.reference]
    others = {path: list(read_lines(path)) for path in options.compare}
    given = options.hypothesis or options.source or ""
    lines = list(read_lines(given))
    _same_length([(given, lines), *zip(options.reference, references, strict=True), *others.items()])
    name, hypotheses, model_language = given, lines, None
    if not options.hypothesis:
        name = options.model
        hypotheses, model_language = _translate(lines, settings, screen)
    if options.output:
        write_whole(options.output, "".join(f"{line}\n" for line in hypotheses))
        screen.say(f"Translations kept in {options.output}.")

    language = _language(settings, model_language)
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
            "references": list(options.reference),
            "sentences": len(hypotheses),
            "language": language,
        }
        found = {"scores": [s.as_dict() for s in scores], "comparisons": [c.as_dict() for c in comparisons]}
        screen.result(json.dumps(about | found, ensure_ascii=False, indent=2))
    else:
        _show(scores, comparisons, screen)


def _translate(source: list[str], settings: Settings, screen: Screen) -> tuple[list[str], str | None]:
    options = settings[EvalOptions]
    from tfm_cli.device import set_threads
    from tfm_cli.model import read_config
    from tfm_cli.translator import Translator

    set_threads(options.threads)
    about = read_config(Path(options.model))["about"]
    translator = Translator.load(options.model, options.device)
    hypotheses = []
    with screen.progress("Translating", total=len(source), unit="lines") as meter:
        for translation in translator.stream(source, settings[DecodeOptions], warn=screen.warn):
            hypotheses.append(as_text(translation))
            meter.advance()
    return hypotheses, about.get("target_language")


def _language(settings: Settings, model_language: str | None) -> str | None:
    """What the user says, then the model, then the project, then the reference's file name."""
    options = settings[EvalOptions]
    said = options.target_lang if settings.origin("target_lang") in ("command line", "file") else None
    return said or model_language or options.target_lang or guess_language(options.reference[0])


def _same_length(files: Sequence[tuple[str, list[str]]]) -> None:
    (first, lines), *rest = files
    for name, others in rest:
        if len(others) != len(lines):
            raise TfmError(
                f"{first} has {len(lines):,} lines and {name} has {len(others):,}",
                fix="Line n of one must belong to line n of the other.",
            )


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
