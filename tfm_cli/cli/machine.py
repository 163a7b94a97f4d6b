"""What machine does the work of `translate` and `eval`, and with which engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfm_cli.cli.render import Screen
from tfm_cli.config import Settings
from tfm_cli.errors import TfmError
from tfm_cli.options import check, option

if TYPE_CHECKING:
    import torch

    from tfm_cli.engines.choice import Wish
    from tfm_cli.engines.engine import Setup
    from tfm_cli.translator import Translator

MACHINE = "Machine"


@dataclass(frozen=True)
class MachineOptions:
    """Engine, device, precision and threads."""

    engine: str = option(
        "auto",
        "What runs the model: torch; or ctranslate2, which is faster on a CPU and writes the same; "
        "auto takes it where it is installed and can do what is asked for.",
        choices=("auto", "torch", "ctranslate2"),
        group=MACHINE,
    )
    device: str = option("auto", "cpu, cuda, mps, or auto for the best one here.", group=MACHINE)
    precision: str = option(
        "float32",
        "Number type of the weights; int8, on a CPU, is smaller and faster, with not quite the same translations.",
        choices=("auto", "float32", "bfloat16", "int8"),
        group=MACHINE,
    )
    threads: int | None = option(
        None, "CPU threads in all (default: OMP_NUM_THREADS, else the cores here).", minimum=1, group=MACHINE
    )
    workers: int | None = option(
        None,
        "On a CPU: batches translated at once, which share the threads (default: one a thread, with batches of 1 line one).",
        minimum=1,
        group=MACHINE,
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class CompileOptions:
    """Whether code is generated."""

    compile: bool = option(
        False,
        "On a CPU, for a model that writes all words at once and lines that come one at a time: generate code, once, with a C++ "
        "compiler; it is kept in the user's cache.",
        group=MACHINE,
    )

    def __post_init__(self) -> None:
        check(self)


def is_compiled(settings: Settings, folders: Sequence[str], one_by_one: bool) -> bool:
    """Whether code is to be generated for models; what a project file says of it is meant for lines that come one at a time.

    Raises:
        TfmError: it is asked for and cannot be.
    """
    if not settings[CompileOptions].compile:
        return False
    from tfm_cli.engines.choice import obstacle_to_code

    place, is_typed = settings.place("compile"), "compile" in settings.typed()
    out = "leave it out" if is_typed else "add --no-compile"
    if not one_by_one:
        if is_typed:
            what = "generated code serves lines that come one at a time, and here they come in batches"
            raise TfmError(what, where=place, fix=f"Add --batch-size 1, or {out}.")
        return False
    if trouble := obstacle_to_code(folders, settings[MachineOptions].precision):
        raise TfmError(trouble[0], where=place, fix=f"{trouble[1]}, or {out}.")
    return True


def open_translator(wish: "Wish", machine: MachineOptions, screen: Screen, one_by_one: bool = False) -> "Translator":
    """Load the model with the engine asked for, or with torch where ``auto`` finds that CTranslate2 cannot do what is wished.

    Args:
        one_by_one: lines come one at a time, so that batches cannot share the threads.

    Raises:
        TfmError: the engine asked for cannot do what is wished.
    """
    return open_set_up(wish, machine, screen, one_by_one)[0]


def open_set_up(
    wish: "Wish", machine: MachineOptions, screen: Screen, one_by_one: bool = False
) -> "tuple[Translator, Setup]":
    """`open_translator`, and with what the translator works."""
    if not _is_for_torch(wish, machine, screen):
        from tfm_cli.engines.store import Unsuited

        try:
            return _open_ctranslate2(wish, machine, screen, one_by_one)
        except Unsuited as error:
            if machine.engine == "ctranslate2":
                raise TfmError(error.what, where=error.where, fix="Use --engine torch.") from error
            screen.say(f"Engine: torch, since CTranslate2 does not take this model: {error.what}.")
    return _open_torch(wish, machine, screen, one_by_one)


def _is_for_torch(wish: "Wish", machine: MachineOptions, screen: Screen) -> bool:
    """Whether torch runs the model, and not CTranslate2. What the user may not expect is said."""
    from tfm_cli.engines.choice import ABSENT, INSTALL, is_cpu, obstacle, trouble

    if machine.engine == "torch":
        return True
    must = machine.engine == "ctranslate2"
    if missing := trouble():
        if must:
            raise TfmError(missing, where="--engine ctranslate2", fix=f"{INSTALL}, or use --engine torch.")
        if missing != ABSENT:
            screen.say(f"Engine: torch, since {missing}.")
        return True
    if must and machine.device not in ("auto", "cpu"):
        raise TfmError(f"it runs on the CPU here, not on {machine.device}", where="--engine ctranslate2")
    if not must and not is_cpu(machine.device):
        return True
    reason = obstacle(wish)
    if reason and must:
        raise TfmError(f"CTranslate2 {reason}", where="--engine ctranslate2", fix="Use --engine torch.")
    if reason:
        screen.say(f"Engine: torch, since CTranslate2 {reason}.")
    return reason is not None


def _open_ctranslate2(
    wish: "Wish", machine: MachineOptions, screen: Screen, one_by_one: bool
) -> "tuple[Translator, Setup]":
    from tfm_cli.engines import ctranslate2
    from tfm_cli.engines.engine import Setup
    from tfm_cli.threads import thread_count
    from tfm_cli.translator import Translator

    precision = "float32" if machine.precision == "auto" else machine.precision
    threads = thread_count(machine.threads)
    workers, each = _shared_out(threads, machine, one_by_one)
    if one_by_one and precision == "int8" and machine.threads is None:
        each = 1  # the products of one line are small in int8, too small to share out
    engine, tokenizers = ctranslate2.load(wish.folders[0], precision, workers, each, screen.detail)
    screen.detail(f"Model: {wish.folders[0]}; cpu, {precision}, {max(threads, workers)} threads.")
    screen.detail(f"Engine: ctranslate2; {workers} workers with {each} threads each.")
    return Translator(engine, tokenizers), Setup("ctranslate2", "cpu", precision, workers, each)


def _open_torch(wish: "Wish", machine: MachineOptions, screen: Screen, one_by_one: bool) -> "tuple[Translator, Setup]":
    from tfm_cli.device import pick_device, precision_name, set_threads
    from tfm_cli.engines import pytorch
    from tfm_cli.engines.engine import Setup
    from tfm_cli.translator import Translator

    device = pick_device(machine.device)
    workers, threads = torch_shares(device, machine, one_by_one)
    precision = precision_name(machine.precision, device)
    set_threads(threads)
    engine, tokenizers = pytorch.load(wish.folders, str(device), machine.precision, workers, wish.compile, screen.say)
    screen.detail(f"Model: {', '.join(wish.folders)}; {device}, {precision}.")
    screen.detail(f"Engine: torch; {workers} workers with {threads} threads each.")
    return Translator(engine, tokenizers), Setup("torch", str(device), precision, workers, threads, wish.compile)


def torch_shares(device: "torch.device", machine: MachineOptions, one_by_one: bool = False) -> tuple[int, int]:
    """How many batches torch translates at once on ``device``, and how many threads each has."""
    from tfm_cli.threads import thread_count

    threads = thread_count(machine.threads)
    if device.type == "cpu":
        return _shared_out(threads, machine, one_by_one)
    if machine.workers is not None:
        raise TfmError(f"{device} translates one batch at a time", where="--workers", fix="Leave it out.")
    return 1, threads


def _shared_out(threads: int, machine: MachineOptions, one_by_one: bool) -> tuple[int, int]:
    """How many batches are translated at once, and how many of the threads each has."""
    if machine.workers and machine.workers > 1 and one_by_one:
        raise TfmError("lines come one at a time, so there is no second batch", where="--workers", fix="Use 1 here.")
    if machine.workers and machine.threads and machine.workers > machine.threads:
        raise TfmError(
            f"{machine.workers} workers cannot share {machine.threads} threads", where="--workers", fix="Lower it."
        )
    workers = machine.workers or (1 if one_by_one else threads)
    return workers, max(1, threads // workers)
