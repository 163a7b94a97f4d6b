"""`tfm distill`: a data folder whose training targets a teacher wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.machine import MACHINE, MachineOptions, open_set_up
from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.folder import read_config
from tfm_cli.options import check, option
from tfm_cli.text.corpus import read_lines

if TYPE_CHECKING:
    from tfm_cli.data.dataset import DataFolder
    from tfm_cli.distill.writing import DistillReport


@dataclass(frozen=True)
class DistillOptions:
    """Who teaches, what is translated, and where it goes."""

    model: str | None = option(
        None,
        "The teacher, an autoregressive model.",
        short="-m",
        is_path=True,
        metavar="FOLDER",
        required=True,
        example="run/",
    )
    data: str = option("data", "Folder that preprocess wrote.", is_path=True, metavar="FOLDER")
    output: str | None = option(
        None, "Folder to write.", short="-o", is_path=True, metavar="FOLDER", required=True, example="data-kd/"
    )
    monolingual: Sequence[str] = option(
        (),
        "More text in the source language alone: its translations join the pairs. A student that has seen more sources "
        "comes nearer to its teacher.",
        is_path=True,
        metavar="FILE",
    )
    beam: int = option(5, "Beam size of the teacher.", minimum=1, maximum=1000)
    originals: float = option(0.0, "Share of the pairs kept as they are.", minimum=0, maximum=1)
    seed: int = option(1, "Another seed keeps other pairs.", minimum=0)
    overwrite: bool = option(False, "Replace a data folder that is already there.")
    batch_tokens: int = option(1024, "Most source tokens in a batch.", minimum=1, group=MACHINE)

    def __post_init__(self) -> None:
        check(self)


def run(settings: Settings, screen: Screen) -> None:
    """Translate the training sources and report."""
    options, machine = settings[DistillOptions], settings[MachineOptions]
    assert options.model is not None and options.output is not None
    from tfm_cli.data.dataset import DataFolder, check_replaceable
    from tfm_cli.distill.monolingual import Monolingual
    from tfm_cli.distill.plan import Plan, is_distilled
    from tfm_cli.distill.teacher import distill, longest_read
    from tfm_cli.engines.choice import Wish
    from tfm_cli.engines.store import fingerprint

    teacher, output = Path(options.model), Path(options.output)
    _check_teacher(teacher)
    data = DataFolder.load(options.data)
    _check_languages(teacher, data, screen)
    check_replaceable(output)
    if output.exists() and output.samefile(data.folder):
        raise TfmError("these are the data themselves", where=f"--output {output}", fix="Name another folder.")
    more = Monolingual.of(chain.from_iterable(read_lines(path) for path in options.monolingual), data)
    search = DecodeOptions(beam=options.beam)
    # Which engine it is, and in which numbers, is known when the teacher is loaded.
    wish = Wish([options.model], search, machine.precision, longest_read(data))
    translator, setup = open_set_up(wish, machine, screen)
    plan = Plan(
        fingerprint(teacher), search, setup.engine, setup.precision, options.originals, options.seed, more.fingerprint
    )
    if is_distilled(data, output, plan) and not options.overwrite:
        screen.say(f"{output}/ is up to date: neither model, data nor options have changed, so nothing was done.")
        return
    if output.exists() and any(output.iterdir()) and not options.overwrite:
        fix = "Name another --output, or add --overwrite."
        raise TfmError("there are other data already", where=str(output), fix=fix)
    wanted = data.pairs - round(options.originals * data.pairs) + len(more.lines)
    with screen.progress("Distilling", total=wanted, unit="sentences") as meter:
        report = distill(
            data,
            translator,
            output,
            plan,
            options.batch_tokens,
            lambda done, total, before: meter.reach(done, total, before=before),
            more,
        )
    _show(report, more.dropped, output, screen)


def _check_teacher(folder: Path) -> None:
    if (family := read_config(folder)["family"]) != "autoregressive":
        raise TfmError(
            f"a teacher writes from left to right, and this model is {family}",
            where=f"--model {folder}",
            fix="Name an autoregressive model.",
        )


def _check_languages(teacher: Path, data: "DataFolder", screen: Screen) -> None:
    about = read_config(teacher)["about"]
    for side, code in (("source", data.source_language), ("target", data.target_language)):
        known = about.get(f"{side}_language")
        if known and code and known != code:
            screen.warn(f"the teacher's {side} language is {known}, that of the data {code}")


def _show(report: "DistillReport", dropped: int, output: Path, screen: Screen) -> None:
    reasons = {
        "did not end": report.cut,
        "were empty": report.empty,
        "had a length that preprocess drops": report.unfit,
    }
    told = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    parts = [f"{report.distilled:,} translated by the teacher"]
    if report.originals:
        parts.append(f"{report.originals:,} kept as they were")
    if told:
        parts.append(f"{sum(reasons.values()):,} with their own translation, since the teacher's {told}")
    elif report.distilled:
        parts.append("no translation was empty or cut")
    if report.long:
        parts.append(f"{report.long:,} with their own translation, since the source is longer than a teacher is given")
    if report.added or report.unadded:
        parts.append(f"and {report.added:,} pairs of monolingual text")
        if report.unadded:
            parts.append(f"{report.unadded:,} of its lines had no good translation")
        if dropped:
            parts.append(f"{dropped:,} were empty, repeated, or stand in the validation or test text")
    pace = f"{report.seconds / 60:.1f} minutes, {report.rate:,.1f} sentences/s"
    before = f" ({report.resumed:,} from an earlier start)" if report.resumed else ""
    screen.say(f"{report.pairs:,} pairs in {output}/ in {pace}{before}: {'; '.join(parts)}.")
    screen.next_step(f"tfm train --data {output}", "train a student on them")
