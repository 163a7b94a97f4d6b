"""The project file ``tfm.toml``, and how it, the command line and the defaults become one command's options.

Precedence, lowest first: a dataclass's default, what another command's table implies (`LINKS`), a preset, ``[project]``,
the command's own table, the command line. Paths in the file are relative to the file's folder.
"""

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from tfm_cli.autoregressive.options import DecodeOptions
from tfm_cli.errors import TfmError
from tfm_cli.keys import Key, keys, toml_value
from tfm_cli.nonautoregressive.options import NonAutoregressiveDecodeOptions
from tfm_cli.options import check, option

FILE_NAME = "tfm.toml"
NOTHING: tuple[Any, ...] = (None, "", [], ())
T = TypeVar("T")
Presets = Callable[[Mapping[str, Any]], Mapping[str, Any]]

# What one command writes is what the next one reads: {(command, key): the key whose value it takes when it has none, or that
# key's own link where that has none either}.
LINKS: dict[tuple[str, str], tuple[str, str]] = {
    ("train-tokenizer", "source"): ("preprocess", "source"),
    ("train-tokenizer", "target"): ("preprocess", "target"),
    **{
        ("train-tokenizer", key): ("preprocess", key)
        for key in ("dataset", "dataset-config", "source-column", "target-column", "source-lang", "target-lang")
    },
    ("preprocess", "tokenizer"): ("train-tokenizer", "output"),
    ("train", "data"): ("preprocess", "output"),
    ("translate", "model"): ("train", "output"),
    ("eval", "model"): ("translate", "model"),
    ("average", "model"): ("train", "output"),
    ("info", "model"): ("train", "output"),
    ("export", "model"): ("train", "output"),
    ("distill", "data"): ("preprocess", "output"),
    ("bench", "data"): ("preprocess", "output"),
    ("bench", "source"): ("preprocess", "test-source"),
    ("bench", "reference"): ("preprocess", "test-target"),
    ("eval", "engine"): ("translate", "engine"),
    ("eval", "precision"): ("translate", "precision"),
    ("eval", "rerank"): ("translate", "rerank"),
    ("eval", "source"): ("preprocess", "test-source"),
    ("eval", "reference"): ("preprocess", "test-target"),
    ("eval", "data"): ("preprocess", "output"),
    # What is scored is what `translate` writes. Its seed is left out: in `eval` that of the intervals has this name too.
    **{
        ("eval", f.name.replace("_", "-")): ("translate", f.name.replace("_", "-"))
        for f in (*fields(DecodeOptions), *fields(NonAutoregressiveDecodeOptions))
        if "spec" in f.metadata and f.name not in ("n_best", "seed")
    },
}


@dataclass(frozen=True)
class ProjectOptions:
    """The table ``[project]``: what several commands share."""

    source_lang: str | None = option(None, "Code of the source language, such as zh.")
    target_lang: str | None = option(None, "Code of the target language, such as en.")


@dataclass(frozen=True)
class Project:
    """A ``tfm.toml`` as read: ``tables[table][key]``, every name with hyphens."""

    path: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | Path) -> "Project":
        """Read a project file; `TfmError` names the file and line of what is wrong."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8-sig")
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise _syntax_error(path, text, str(error)) from None
        except UnicodeDecodeError:
            raise TfmError("the file is not UTF-8 text", where=str(path), fix="Save it as UTF-8.") from None
        except OSError as error:
            raise TfmError(f"cannot read it: {error.strerror}", where=str(path)) from None
        for name, table in content.items():
            if not isinstance(table, dict):
                fix = "Write the name of a command, such as [train], on a line above it."
                raise TfmError(f"{name!r} stands outside of any table", where=str(path), fix=fix)
        tables = {_hyphens(name): {_hyphens(key): v for key, v in table.items()} for name, table in content.items()}
        return cls(path, tables)

    def check(self, commands: Mapping[str, Sequence[type]]) -> "Project":
        """Hold every table and key against ``commands``, {command: its sections}; the same project with typed values."""
        tables = {}
        for name, table in self.tables.items():
            if name != "project" and name not in commands:
                fix = _suggest(name, [*commands, "project"])
                raise TfmError(f"unknown table [{name}]", where=str(self.path), fix=fix)
            sections = (ProjectOptions,) if name == "project" else commands[name]
            known = {key.name: key for key in keys(sections).values()}
            tables[name] = {key: self._accept(name, key, value, known) for key, value in table.items()}
        return Project(self.path, tables)

    def _accept(self, table: str, name: str, value: Any, known: Mapping[str, Key]) -> Any:
        if name not in known:
            raise TfmError(f"unknown key {name!r}", where=f"{self.path}: [{table}]", fix=_suggest(name, known))
        key = known[name]
        try:
            value = key.accept(value)
        except TypeError:
            what = f"{key.expected()} is needed, not {toml_value(value)}"
            raise TfmError(what, where=f"{self.path}: [{table}] {name}") from None
        if key.spec.is_path or (key.spec.may_be_path and Path(self.locate(value)).exists()):
            return self.locate(value)
        return value

    def locate(self, value: Any) -> Any:
        """Make paths written in the file, one or a list, usable from the current folder."""
        if isinstance(value, list | tuple):
            return [self.locate(item) for item in value]
        if not isinstance(value, str) or value in ("", "-"):
            return value
        path = Path(value).expanduser()
        here = Path(os.path.relpath(self.path.parent))
        return str(path if path.is_absolute() else here / path)


def find_project(start: str | Path = ".") -> Project | None:
    """The project file in ``start`` or the nearest folder above it."""
    folder = Path(start).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / FILE_NAME).is_file():
            return Project.load(Path(os.path.relpath(candidate / FILE_NAME)))
    return None


class Settings:
    """The options of one command, each section an instance of its dataclass: ``settings[Shape].dim``."""

    def __init__(self, command: str, sections: Iterable[Any], origins: Mapping[str, str], project: Project | None):
        self.command = command
        self.project = project
        self._sections = {type(section): section for section in sections}
        self._origins = dict(origins)

    def __getitem__(self, kind: type[T]) -> T:
        return self._sections[kind]

    def having(self, section: Any) -> "Settings":
        """The same with ``section`` in the place of the one of its kind."""
        sections = self._sections | {type(section): section}
        return Settings(self.command, sections.values(), self._origins, self.project)

    def origin(self, field_name: str) -> str:
        """Where a value comes from: ``default``, ``link``, ``preset``, ``project``, ``file`` or ``command line``."""
        return self._origins.get(field_name, "default")

    def given(self, *kinds: type) -> list[str]:
        """The options of these sections, by field name, that the user wrote: on the command line or in the project file.

        A name that a section before them has too is that one's.
        """
        found: list[str] = []
        seen: set[str] = set()
        for section in self._sections:
            names = [f.name for f in fields(section) if f.name not in seen]
            seen |= set(names)
            if section in kinds:
                found += [name for name in names if self.origin(name) in ("project", "file", "command line")]
        return found

    def typed(self) -> list[str]:
        """The options that came by the command line, by field name."""
        return [name for name, origin in self._origins.items() if origin == "command line"]

    def place(self, field_name: str) -> str:
        """Where the user wrote an option, for a message: the file, table and key, or the option's name."""
        name, origin = _hyphens(field_name), self.origin(field_name)
        if self.project is None:
            return f"--{name}"
        linked = _link(self.command, name, self.project)
        place = {"file": (self.command, name), "project": ("project", name), "link": linked}.get(origin)
        return f"{self.project.path}: [{place[0]}] {place[1]}" if place else f"--{name}"

    def require(self, *field_names: str) -> None:
        """Raise a `TfmError` that names all of these options which have no value, and where to write them."""
        known, values = keys(self._sections), self.as_dict()
        if missing := [known[name] for name in field_names if values[known[name].name] in NOTHING]:
            raise _missing(self.command, missing, self.project)

    def as_dict(self) -> dict[str, Any]:
        """Every option with its final value, by its name with hyphens."""
        names = keys(self._sections)
        values = {f: getattr(s, f) for s in reversed(self._sections.values()) for f in names if hasattr(s, f)}
        return {key.name: values[f] for f, key in names.items()}

    def as_toml(self) -> str:
        """The same as a table of a project file; options without a value are left out."""
        lines = [f"{name} = {toml_value(value)}" for name, value in self.as_dict().items() if value is not None]
        return "\n".join([f"[{self.command}]", *lines, ""])


def resolve(
    command: str,
    sections: Sequence[type],
    project: Project | None = None,
    given: Mapping[str, Any] | None = None,
    presets: Presets | None = None,
) -> Settings:
    """Settle every option of ``command``.

    Args:
        project: a checked project (`Project.check`).
        given: values from the command line by field name; only those that the user wrote.
        presets: the values that the option ``preset`` stands for, from all options settled without it.

    Raises:
        TfmError: a value out of bounds, naming the file and key or the option; or all required values that are missing.
    """
    known, given = keys(sections), given or {}
    table = project.tables.get(command, {}) if project else {}
    shared = project.tables.get("project", {}) if project else {}
    layers: list[tuple[str, dict[str, Any]]] = [
        ("default", {f: project.locate(k.default) for f, k in known.items() if project and k.spec.is_path}),
        ("link", _linked(command, known, project)),
        ("project", {f: shared[k.name] for f, k in known.items() if k.name in shared}),
        ("file", {f: table[k.name] for f, k in known.items() if k.name in table}),
        ("command line", {f: given[f] for f in known if f in given}),
    ]
    if presets:
        settled = {f: k.default for f, k in known.items()} | {f: v for _, layer in layers for f, v in layer.items()}
        layers.insert(2, ("preset", {f: v for f, v in presets(settled).items() if f in known}))
    values, origins = {}, {}
    for origin, layer in layers:
        for name, value in layer.items():
            values[name], origins[name] = value, origin

    missing = [key for f, key in known.items() if key.spec.required and values.get(f, key.default) in NOTHING]
    if missing:
        raise _missing(command, missing, project)
    made = [_build(section, values, origins, command, project) for section in sections]
    return Settings(command, made, origins, project)


def _linked(command: str, known: Mapping[str, Key], project: Project | None) -> dict[str, Any]:
    if project is None:
        return {}
    found: dict[str, Any] = {}
    for name, key in known.items():
        if place := _link(command, key.name, project):
            value = project.tables[place[0]][place[1]]
            found[name] = [value] if key.many and not isinstance(value, list) else value
    return found


def _link(command: str, name: str, project: Project) -> tuple[str, str] | None:
    """The table and key of the project file that an option's links lead to; None where none of them has a value."""
    place = LINKS.get((command, name))
    while place and project.tables.get(place[0], {}).get(place[1]) is None:
        place = LINKS.get(place)
    return place


def _build(section: type, values: Mapping[str, Any], origins: Mapping[str, str], command: str, project: Any) -> Any:
    names = {f.name for f in fields(section) if f.init}
    try:
        made = section(**{name: value for name, value in values.items() if name in names})
        check(made)
    except TfmError as error:
        name = error.where.removeprefix("--")
        origin = origins.get(name.replace("-", "_"), "default")
        table = {"file": command, "project": "project"}.get(origin)
        if not error.where.startswith("--") or table is None:
            raise
        raise TfmError(error.what, where=f"{project.path}: [{table}] {name}", fix=error.fix) from None
    return made


def _missing(command: str, missing: Sequence[Key], project: Project | None) -> TfmError:
    names = [f"--{key.name}" for key in missing]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    it = "it" if len(names) == 1 else "them"
    shown = " ".join(f"--{key.name} {key.spec.example}" for key in missing if key.spec.example)
    options = f"options, such as {shown}" if shown else "options"
    if project:
        fix = f"Add {it} to [{command}] in {project.path}, or give {it} as {options}."
    else:
        fix = f"There is no {FILE_NAME} here; `tfm init` writes one, or give {it} as {options}."
    return TfmError(f"{command} needs {listed}", fix=fix)


def _syntax_error(path: Path, text: str, message: str) -> TfmError:
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", message)
    what = message.replace(place[0], "") if place else message
    number = int(place[1]) if place and place[1] else text.count("\n") + 1
    line = (text.splitlines() or [""])[min(number, text.count("\n") + 1) - 1]
    fix = ""
    unquoted = re.match(r"""\s*([\w-]+)\s*=\s*([^\s"'\[{#][^#]*)""", line)
    if "\\" in line:
        fix = "Put a path with backslashes in single quotes."
    elif unquoted and what in ("Invalid value", "Expected newline or end of document after a statement"):
        fix = f'Text stands in quotes: {unquoted[1]} = "{unquoted[2].strip()}".'
    return TfmError(what[0].lower() + what[1:], where=f"{path}:{number}", fix=fix)


def _suggest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}."


def _hyphens(name: str) -> str:
    return name.replace("_", "-")
