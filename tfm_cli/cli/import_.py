"""`tfm import`: translation memories into two text files, a sentence a line."""

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.files import check_no_input
from tfm_cli.options import check, option

if TYPE_CHECKING:
    from tfm_cli.data.memories import ImportReport, Outputs, Survey

_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_LANGUAGE = "such as {}; needed unless the files say it and hold two languages."


@dataclass(frozen=True)
class ImportOptions:
    """What is read and what is written."""

    input: Sequence[str] = option(
        [],
        "Files, and folders to search for them.",
        short="-i",
        positional=True,
        is_path=True,
    )
    source_lang: str | None = option(None, f"Source language, {_LANGUAGE.format('de')}", metavar="CODE")
    target_lang: str | None = option(None, f"Target language, {_LANGUAGE.format('en')}", metavar="CODE")
    output: str = option(
        "train", "What the files to write begin with: train gives train.de and train.en.", short="-o", is_path=True
    )
    test: int = option(0, "Pairs to set apart for testing, in test.de and test.en.", minimum=0)
    seed: int = option(1, "Another seed sets other pairs apart.", minimum=0)
    skip_broken: bool = option(False, "Leave out damaged files, with a warning each; reads everything twice.")
    overwrite: bool = option(False, "Replace files that are already there.")

    def __post_init__(self) -> None:
        check(self)
        for side in ("source", "target"):
            code = getattr(self, f"{side}_lang")
            if code is not None and not _CODE.fullmatch(code):
                raise TfmError(
                    f"{code!r} is no language code", where=f"--{side}-lang", fix="Give one such as de or pt-BR."
                )


def run(settings: Settings, screen: Screen) -> None:
    """Read the files, write the text, report."""
    options = settings[ImportOptions]
    from tfm_cli.data.memories import Survey, import_pairs, survey
    from tfm_cli.text.formats import find_files
    from tfm_cli.text.units import LanguagePair, normal

    if not options.input:
        raise TfmError("import needs files to read", fix="Name them, or their folder: tfm import memories/.")
    files = find_files(options.input)
    found = Survey()
    if options.skip_broken or not (options.source_lang and options.target_lang):
        with screen.progress("Looking through the files", unit="units") as meter:
            found = survey(files, options.skip_broken, meter.advance)
    for error in found.broken.values():
        screen.warn(f"{TfmError(error.what, where=error.where)} This file is left out.")
    if len(found.broken) == len(files):
        raise TfmError("all files are damaged, so nothing was written")
    source, target = _languages(options, found)
    outputs = _outputs(options, source, target, files)
    with screen.progress("Reading", unit="units") as meter:
        report = import_pairs(
            files,
            LanguagePair(normal(source), normal(target)),
            outputs,
            options.test,
            options.seed,
            found.broken,
            meter.advance,
        )
    _show(report, screen)
    _tell_variants(report, (source, target), screen)
    _tell_written(report, outputs, options.test, screen)


def _languages(options: ImportOptions, found: "Survey") -> tuple[str, str]:
    """The two codes as the files' names end with them: as typed, but for the case of the language itself."""
    from tfm_cli.data.memories import choose_languages
    from tfm_cli.text.units import normal

    typed = [code and _tidy(code) for code in (options.source_lang, options.target_lang)]
    codes = [code and normal(code) for code in typed]
    if codes[0] and codes[0] == codes[1]:
        raise TfmError("source and target are the same language", where="--target-lang", fix="Give two.")
    chosen = ("", "") if all(codes) else choose_languages(found, codes[0], codes[1])
    return typed[0] or chosen[0], typed[1] or chosen[1]


def _tidy(code: str) -> str:
    language = re.split("[-_]", code)[0]
    return language.lower() + code.removeprefix(language)


def _outputs(options: ImportOptions, source: str, target: str, files: Sequence[Path]) -> "Outputs":
    """Where to write; a `TfmError` where something stands there."""
    from tfm_cli.data.memories import TEST, Outputs

    prefix = Path(options.output)
    if prefix.is_dir() or options.output.endswith(("/", os.sep)):
        prefix = prefix / "train"
    if options.test and prefix.name == TEST:
        raise TfmError("training and test text would go to the same files", where="--output", fix="Name another.")
    outputs = Outputs.at(prefix, source, target)
    for path in (*outputs.train, *(outputs.test if options.test else ())):
        check_no_input(path, map(str, files))
        if path.exists() and not options.overwrite:
            fix = "Replace it with --overwrite, or name another --output."
            raise TfmError("there is already a file", where=str(path), fix=fix)
    return outputs


def _show(report: "ImportReport", screen: Screen) -> None:
    rows: list[tuple[str, ...]] = []
    for each in report.files:
        counts = (each.pairs, each.untranslated, each.duplicates)
        numbers = ("-", "-", "-") if each.is_broken else tuple(f"{count:,}" for count in counts)
        rows.append((str(each.path), f"{each.format}, left out" if each.is_broken else each.format, *numbers))
    if len(rows) > 1:
        sums = [sum(getattr(each, name) for each in report.files) for name in ("pairs", "untranslated", "duplicates")]
        rows.append((f"all {len(rows):,} files", "", *(f"{count:,}" for count in sums)))
    screen.table(("file", "format", "pairs", "no translation", "duplicates"), rows)


def _tell_variants(report: "ImportReport", codes: tuple[str, str], screen: Screen) -> None:
    """Say which codes were taken for a language, and warn where a region was asked for and another came."""
    from tfm_cli.data.memories import listed
    from tfm_cli.text.units import normal

    for side, code, variants in zip(("source", "target"), codes, report.variants, strict=True):
        wanted = normal(code)
        others = {each: count for each, count in variants.items() if each != wanted and "-" in each}
        if "-" in wanted and others:
            screen.warn(f"--{side}-lang {code}: among the pairs are other variants, {listed(others)}.")
        elif set(variants) - {wanted}:
            screen.say(f"Taken as {code}: {listed(variants)}.")


def _tell_written(report: "ImportReport", outputs: "Outputs", wanted: int, screen: Screen) -> None:
    sets = [("", report.train, outputs.train)]
    if report.test:
        sets.append(("test-", report.test, outputs.test))
    told = [f"{source} and {target}, {count:,} pairs" for _, count, (source, target) in sets]
    screen.say(f"Written: {'; '.join(told)}.")
    if report.test < wanted:
        what = f"{report.test:,} of {wanted:,} pairs are set apart for testing"
        screen.warn(f"{what}: with one more, a source would stand in both sets.")
    words = ["tfm", "init"]
    for prefix, _, (source, target) in sets:
        words += [f"--{prefix}source", str(source), f"--{prefix}target", str(target)]
    screen.next_step(shlex.join(words), "writes a tfm.toml for them")
