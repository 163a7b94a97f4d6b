"""The command ``tfm``: its table of commands, and the one place where errors become messages and exit codes.

Nothing heavy is imported here, so that ``tfm --help`` answers at once: a command names its function and the module is
imported when it runs.
"""

import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tfm_cli import __version__
from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.cli.average import AverageOptions
from tfm_cli.cli.bench import BenchOptions
from tfm_cli.cli.command import Command, Invocation, expand_lists, help_option, list_options, register
from tfm_cli.cli.distill import DistillOptions
from tfm_cli.cli.export import ExportOptions
from tfm_cli.cli.info import InfoOptions
from tfm_cli.cli.machine import MachineOptions
from tfm_cli.cli.options import DemoOptions, EvalOptions, InitOptions
from tfm_cli.cli.translate_options import TranslateOptions
from tfm_cli.config import Project, find_project, resolve
from tfm_cli.data.options import PreprocessOptions, TableOptions
from tfm_cli.errors import Interrupted, TfmError
from tfm_cli.evaluation.options import EvaluateOptions
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions, NonAutoregressiveOptions
from tfm_cli.recipes import preset
from tfm_cli.text.options import TokenizerOptions
from tfm_cli.training.options import LearningOptions, RunOptions, ValidationOptions
from tfm_cli.transformer.shape import Shape

# Typer brings its own Click or uses an installed one, depending on its version; its errors descend from either.
UsageError: Any = typer.BadParameter.__base__

START, BUILD, USE = "Start", "Build a translator", "Use it"

COMMANDS = (
    Command(
        "demo",
        "See the whole chain at work, in under three minutes.",
        "Writes a small Chinese-English corpus and a tfm.toml, then trains, translates and scores with the commands below.",
        (DemoOptions,),
        "tfm_cli.cli.demo:run",
        examples=("tfm demo", "tfm demo --output /tmp/demo"),
        group=START,
        project=False,
    ),
    Command(
        "init",
        "Write a tfm.toml for your own text.",
        "Asks a few questions where --source and --target are not given. The text is two files, a sentence a line, line n of "
        "the one the translation of line n of the other.",
        (InitOptions,),
        "tfm_cli.cli.init:run",
        examples=(
            "tfm init",
            "tfm init --source train.de --target train.en --test-source test.de --test-target test.en",
        ),
        group=START,
        project=False,
    ),
    Command(
        "train-tokenizer",
        "Learn the vocabulary from text.",
        "Byte-pair encoding, one vocabulary for both languages. It keeps every text exactly: what it encodes, it gives back.",
        (TokenizerOptions, TableOptions),
        "tfm_cli.cli.train_tokenizer:run",
        examples=("tfm train-tokenizer", "tfm train-tokenizer --input train.de train.en --vocab-size 16000"),
        group=BUILD,
    ),
    Command(
        "preprocess",
        "Clean the sentence pairs and encode them.",
        "Reads the training, validation and test text, drops what no model should learn from and says why, and writes the "
        "folder that `tfm train` reads.",
        (PreprocessOptions,),
        "tfm_cli.cli.preprocess:run",
        examples=(
            "tfm preprocess",
            "tfm preprocess --source train.de --target train.en --valid-source valid.de --valid-target valid.en",
        ),
        group=BUILD,
    ),
    Command(
        "train",
        "Train a model.",
        "Reads the folder that `tfm preprocess` wrote. Ctrl-C saves before it stops, and --resume goes on exactly there.",
        (RunOptions, Shape, LearningOptions, NonAutoregressiveOptions, ValidationOptions),
        "tfm_cli.cli.train:run",
        examples=("tfm train", "tfm train --preset base --max-minutes 60", "tfm train --resume"),
        group=BUILD,
        presets=preset,
    ),
    Command(
        "distill",
        "Have a model translate the training text anew, for a student.",
        "Writes a data folder for `tfm train` with the same sources and the translations of a trained model, from which a model "
        "that writes all words at once learns better (Kim and Rush 2016). Stopped, it goes on where it was. Where the model's "
        "translation is empty or does not end, the pair keeps its own.",
        (DistillOptions, MachineOptions),
        "tfm_cli.cli.distill:run",
        examples=(
            "tfm distill --model run/ --output data-kd/",
            "tfm distill --model run/ --output data-kd/ --beam 1 --originals 0.2",
        ),
        group=BUILD,
    ),
    Command(
        "translate",
        "Translate text, a sentence a line.",
        "As many lines come out as go in, in their order, on stdout; everything else is on stderr.",
        (TranslateOptions, MachineOptions, DecodeOptions, NonAutoregressiveDecodeOptions),
        "tfm_cli.cli.translate:run",
        examples=(
            "tfm translate < input.txt > output.txt",
            "tfm translate --model run/ --beam 1 --input input.txt.gz",
            'echo "我是谁" | tfm translate',
        ),
        group=USE,
    ),
    Command(
        "eval",
        "Score translations: BLEU, chrF, TER.",
        "Translates --source with the model, or takes --hypothesis, and compares with --reference by sacreBLEU; without "
        "these files, the test pairs that `tfm preprocess` kept. The signature under the scores says how they were computed.",
        (EvalOptions, EvaluateOptions, MachineOptions, DecodeOptions, NonAutoregressiveDecodeOptions),
        "tfm_cli.cli.eval:run",
        examples=(
            "tfm eval --bleu",
            "tfm eval --hypothesis output.txt --reference test.en",
            "tfm eval --hypothesis a.txt --compare b.txt --reference test.en",
        ),
        group=USE,
    ),
    Command(
        "bench",
        "Measure models side by side: quality and speed.",
        "All translate the same sentences in turn, in one run on this machine, alone and in batches. The table tells BLEU and "
        "chrF; ms, the time of a sentence in batches of one, median and 90 %; sentences a second at the best of the batch "
        "sizes 16, 64 and 256; passes, how often the decoder runs for a sentence; repeats, tokens in 1,000 that repeat the one "
        "before; length, words written over words in the references.",
        (BenchOptions, MachineOptions, NonAutoregressiveDecodeOptions),
        "tfm_cli.cli.bench:run",
        examples=(
            "tfm bench --model run/ student/",
            "tfm bench --model run/ student/ --source test.de --reference test.en --json bench.json --picture bench.svg",
        ),
        group=USE,
    ),
    Command(
        "average",
        "Average several models' weights into one.",
        "The mean of a run's last checkpoints is often better than the last, and costs no more to use.",
        (AverageOptions,),
        "tfm_cli.cli.average:run",
        examples=("tfm average --output run-average/", "tfm average a/ b/ c/ --output mean/"),
        group=USE,
    ),
    Command(
        "export",
        "Write a model for other programs.",
        "For CTranslate2: a folder that it loads without tfm and without torch, the tokenizer beside it. A dozen sentences are "
        "translated by both before it is there.",
        (ExportOptions,),
        "tfm_cli.cli.export:run",
        examples=("tfm export", "tfm export run/ --quantization int8 --output run-int8/"),
        group=USE,
    ),
    Command(
        "info",
        "Show what a model folder holds.",
        "Languages, size, shape, vocabulary, training data and scores.",
        (InfoOptions,),
        "tfm_cli.cli.info:run",
        examples=("tfm info", "tfm info run/ --json"),
        group=USE,
    ),
)

HELP = "Translation models from two columns of text: train, translate and score Transformers."
STEPS = (
    "[bold]The whole way[/bold], in a folder with a tfm.toml\n"
    "$ tfm train-tokenizer\n$ tfm preprocess\n$ tfm train\n$ tfm translate < input.txt\n$ tfm eval --bleu"
)


def main() -> None:
    """The entry point ``tfm``."""
    for stream in (sys.stdin, sys.stdout):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", newline="\n" if stream is sys.stdout else None)
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; the exit code: 0 done, 2 the user's mistake, 130 interrupted, 1 a failure of ours."""
    verbose = bool(os.environ.get("TFM_DEBUG")) or not {"--verbose", "-v"}.isdisjoint(arguments)
    try:
        invocation = parse(arguments)
        if isinstance(invocation, Invocation):
            execute(invocation)
        sys.stdout.flush()
    except UsageError as error:
        return _complain(_usage_message(error), 2)
    except TfmError as error:
        if verbose:
            traceback.print_exc()
        return _complain(str(error), 2)
    except (Interrupted, KeyboardInterrupt) as error:
        return _complain(str(error) or "stopped by Ctrl-C.", 130, label="interrupted")
    except BrokenPipeError:
        # What is still in the buffer goes nowhere; without this Python complains once more when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        return _failure(error, verbose)
    return 0


def parse(arguments: Sequence[str]) -> Invocation | int:
    """Read a command line; an exit code where there is nothing to run (--help, --version)."""
    name = next((word for word in arguments if not word.startswith("-")), "")
    chosen = next((command for command in COMMANDS if command.name == name), None)
    app = typer.Typer(
        help=HELP,
        epilog=STEPS,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback(invoke_without_command=True, add_help_option=False)(_root)
    for command in COMMANDS:
        register(app, command)
    words = expand_lists(arguments, list_options(chosen)) if chosen else list(arguments)
    parsed: Invocation | int = app(words or ["--help"], prog_name="tfm", standalone_mode=False)
    return parsed


def execute(invocation: Invocation) -> None:
    """Settle the command's options and call its function."""
    from tfm_cli.cli.render import Screen

    command = invocation.command
    if not invocation.verbose:
        warnings.simplefilter("ignore")  # those of libraries, to developers; a room speaks to the user by `Screen.warn`
    project = None
    if command.project:
        project = Project.load(invocation.config) if invocation.config else find_project()
    if project:
        project = project.check({each.name: each.sections for each in COMMANDS if each.project})
    settings = resolve(command.name, command.sections, project, invocation.given, command.presets)
    screen = Screen(invocation.quiet, invocation.verbose)
    if project:
        screen.detail(f"Project file: {project.path}")
    module, function = command.run.split(":")
    getattr(importlib.import_module(module), function)(settings, screen)


def _root(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", metavar="")] = False,
    help: Annotated[bool, help_option("Options")] = False,
) -> None:
    if version:
        print(f"tfm {__version__}")
        raise typer.Exit


def _usage_message(error: Any) -> str:
    """Click's message as one line that ends in a remedy."""
    context, message = error.ctx, str(error.message).rstrip(".")
    command = context.command_path if context else "tfm"
    option = getattr(error, "option_name", "")
    near = list(getattr(error, "possibilities", None) or [])
    if "requires an argument" in message:
        return f"{option}: a value is needed."
    if message.startswith("No such option"):
        message = f"{command} has no option {option}"
    elif message.startswith("Got unexpected extra argument"):
        message += "; a value stands behind its option, as in --input FILE"
    message = message[0].lower() + message[1:]
    if message.endswith("?"):  # Typer has a suggestion of its own
        return message
    hint = f"Did you mean {near[0]}?" if near else f"See `{command} --help`."
    return f"{message}. {hint}"


def _complain(message: str, code: int, label: str = "error") -> int:
    from tfm_cli.cli.render import Screen

    Screen().complain(message, label)
    return code


def _failure(error: Exception, verbose: bool) -> int:
    if verbose:
        traceback.print_exception(error)
    kind = type(error).__name__
    if kind in ("MemoryError", "OutOfMemoryError"):  # the latter is torch's, which is not imported here
        return _complain("out of memory. A smaller --batch-tokens, or a smaller network, takes less.", 1)
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        return _complain(f"{place}{error.strerror}.", 1)
    trace = "" if verbose else " Run it again with --verbose to see where."
    return _complain(f"tfm itself failed ({kind}: {error}). Please report this.{trace}", 1)
