"""From the options that the rooms declare to a command line: every dataclass field becomes one option of its command."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from tfm_cli.config import FILE_NAME, Presets
from tfm_cli.errors import TfmError
from tfm_cli.keys import Key, keys

COMMON = "Every command"
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_METAVARS = {str: "TEXT", int: "N", float: "X"}
_CONFIG = f"Project file, instead of the nearest {FILE_NAME} in this folder or above."


@dataclass(frozen=True)
class Command:
    """A command as data. ``run`` is "module:function", imported when the command runs and not before."""

    name: str
    summary: str
    help: str
    sections: tuple[type, ...]
    run: str
    examples: tuple[str, ...] = ()
    group: str = "Commands"
    presets: Presets | None = None
    project: bool = True  # whether it reads tfm.toml


@dataclass(frozen=True)
class Invocation:
    """What the user typed: ``given`` holds only the options that stand on the command line, by field name."""

    command: Command
    given: dict[str, Any] = field(default_factory=dict)
    config: str | None = None
    quiet: bool = False
    verbose: bool = False


def register(app: typer.Typer, command: Command) -> None:
    """Add ``command`` to ``app``; calling it parses the options and returns an `Invocation`."""
    text = f"{command.summary}\n\n{command.help}" if command.help else command.summary
    app.command(
        command.name,
        help=_escape(text),
        short_help=_escape(command.summary),
        epilog=_examples(command.examples),
        rich_help_panel=command.group,
        add_help_option=False,
    )(_parser(command))


def expand_lists(arguments: Sequence[str], lists: frozenset[str]) -> list[str]:
    """Write ``--input a b`` as ``--input a --input b`` for the options in ``lists``, which is how Click takes several values.

    The first word after such an option is its value whatever it looks like; further ones go up to the next that starts
    with a dash, where a dash alone is a value (standard input).
    """
    expanded: list[str] = []
    current, values = "", 0
    for position, word in enumerate(arguments):
        if word == "--":
            return expanded + list(arguments[position:])
        if current and (values == 0 or word == "-" or not word.startswith("-")):
            expanded += [current, word] if values else [word]
            values += 1
            continue
        name, _, value = word.partition("=")
        current, values = (name, int(bool(value))) if name in lists else ("", 0)
        expanded.append(word)
    return expanded


def list_options(command: Command) -> frozenset[str]:
    """The names, long and short, of the options that take several values."""
    many = [key for key in keys(command.sections).values() if key.many]
    return frozenset(name for key in many for name in (f"--{key.name}", key.spec.short) if name)


def help_option(group: str) -> Any:
    """``--help`` and ``-h`` under a heading of our choice; Typer's own would stand in a panel alone."""
    about: dict[str, Any] = {
        "help": "Show this message and exit.",
        "rich_help_panel": group,
        "metavar": "",
        "show_default": False,
    }
    return typer.Option("--help", "-h", is_eager=True, callback=_show_help, expose_value=False, **about)


def _show_help(context: typer.Context, value: bool) -> None:
    if value:
        print(context.get_help(), end="")  # Rich has printed it already, and the text is empty
        raise typer.Exit


def _parser(command: Command) -> Callable[..., Invocation]:
    """The function that Typer reads the options from: one keyword-only parameter an option, None where not given."""
    known = keys(command.sections)

    def parse(**values: Any) -> Invocation:
        given = {name: known[name].parse(values[name]) for name in known if values[name] not in (None, [], ())}
        given |= {name: False for name in known if values.get(f"no_{name}")}
        for name, key in known.items():
            if bare := values.get(f"bare_{name}"):
                if name in given:
                    raise TfmError("it is given twice, with the option's name and without", where=f"--{key.name}")
                given[name] = key.parse(bare)
        return Invocation(command, given, values.get("config"), values["quiet"], values["verbose"])

    parameters = [_argument(key) for key in known.values() if key.spec.positional]
    parameters += [parameter for key in known.values() for parameter in _parameters(key)]
    if command.project:
        parameters.append(_parameter("config", str | None, None, "--config", help=_CONFIG, metavar="FILE"))
    parameters += [
        _parameter("quiet", bool, False, "--quiet", "-q", help="Say nothing but warnings and errors."),
        _parameter("verbose", bool, False, "--verbose", "-v", help="Say more, and show where an error comes from."),
        inspect.Parameter("help", _KEYWORD, default=False, annotation=Annotated[bool, help_option(COMMON)]),
    ]
    parse.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    parse.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return parse


def _parameters(key: Key) -> list[inspect.Parameter]:
    names = (f"--{key.name}", *([key.spec.short] if key.spec.short else []))
    style = {"help": _help(key), "rich_help_panel": key.spec.group, "metavar": _metavar(key)}
    if key.kind is not bool:
        # Typer passes the text on as it is: the file and the command line are then read by one set of rules.
        return [_parameter(key.field, list[str] | None if key.many else str | None, None, *names, **style)]
    if key.default:
        return [_parameter(key.field, bool | None, None, f"{names[0]}/--no-{key.name}", *names[1:], **style)]
    negative = _parameter(f"no_{key.field}", bool, False, f"--no-{key.name}", hidden=True)
    return [_parameter(key.field, bool | None, None, *names, **style), negative]


def _argument(key: Key) -> inspect.Parameter:
    """An option's value written without its name. The usage line shows it, and the option explains it."""
    kind = list[str] | None if key.many else str | None
    about = typer.Argument(metavar=key.name.upper(), hidden=True)
    return inspect.Parameter(f"bare_{key.field}", _KEYWORD, default=None, annotation=Annotated[kind, about])


def _parameter(name: str, kind: Any, default: Any, *names: str, **style: Any) -> inspect.Parameter:
    style = {"rich_help_panel": COMMON, "show_default": False, "metavar": "" if kind is bool else None} | style
    annotation = Annotated[kind, typer.Option(*names, **style)]
    return inspect.Parameter(name, _KEYWORD, default=default, annotation=annotation)


def _metavar(key: Key) -> str:
    if key.kind is bool:
        return ""
    if key.spec.choices:
        short = "|".join(key.spec.choices)
        return short if len(short) <= 20 else "NAME"
    name = key.spec.metavar or ("PATH" if key.spec.is_path else "|".join([_METAVARS[key.kind], *key.spec.words]))
    return f"{name}..." if key.many else name


def _help(key: Key) -> str:
    notes = []
    if key.spec.choices and _metavar(key) != "|".join(key.spec.choices):
        notes.append(f"one of {', '.join(key.spec.choices)}")
    if key.spec.required:
        notes.append("needed")
    elif key.default is not None and key.default is not False and key.default not in ("", [], ()):
        default = key.default
        if isinstance(default, list | tuple):
            default = " ".join(map(str, default))
        notes.append(f"default: {'yes' if default is True else default}")
    if key.spec.positional:
        notes.append(f"--{key.name} may be left out")
    note = f"[{'; '.join(notes)}]" if notes else ""
    return f"{_escape(key.spec.help)} [dim]{_escape(note)}[/dim]" if note else _escape(key.spec.help)


def _examples(examples: Sequence[str]) -> str | None:
    """Shell lines, each shown as it is typed; a line that starts with # explains the next one."""
    if not examples:
        return None
    lines = [f"[dim]{_escape(e)}[/dim]" if e.startswith("#") else _escape(f"$ {e}") for e in examples]
    return "\n".join(["[bold]Examples[/bold]", *lines])


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
