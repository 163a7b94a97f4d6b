"""The command ``tfm``, and the one place where errors become messages and exit codes.

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
from tfm_cli.cli.command import Invocation, expand_lists, help_option, list_options, register
from tfm_cli.cli.commands import COMMANDS
from tfm_cli.config import Project, find_project, resolve
from tfm_cli.errors import Interrupted, TfmError

# Typer brings its own Click or uses an installed one, depending on its version; its errors descend from either.
UsageError: Any = typer.BadParameter.__base__

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
