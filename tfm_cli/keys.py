"""Options as keys of a project file and names on the command line, made from the fields that declare them."""

import json
import types
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from tfm_cli.errors import TfmError
from tfm_cli.options import Spec


@dataclass(frozen=True)
class Key:
    """One option: ``name`` as written in the file and behind ``--``, ``field`` as in Python."""

    field: str
    kind: type
    many: bool
    default: Any
    spec: Spec

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    def expected(self) -> str:
        """What a value must be, in words."""
        one = {int: "a whole number", float: "a number", bool: "true or false", str: "text in quotes"}[self.kind]
        one = " or ".join([one, *(toml_value(word) for word in self.spec.words)])
        return f"a list of {one}, such as [1, 2]" if self.many and self.kind is not str else one

    def parse(self, text: Any) -> Any:
        """Read a value from the command line, where all but flags is text."""
        if isinstance(text, list):
            return [self.parse(item) for item in text]
        if text in self.spec.words:
            return text
        try:
            return self.kind(text)
        except ValueError:
            raise TfmError(f"{self.expected()} is needed, not {text!r}", where=f"--{self.name}") from None

    def accept(self, value: Any) -> Any:
        """Take a value that has a type already; raises `TypeError` where it is not this key's."""
        if self.many:
            return [self._accept_one(item) for item in (value if isinstance(value, list) else [value])]
        return self._accept_one(value)

    def _accept_one(self, value: Any) -> Any:
        if value in self.spec.words:
            return value
        if self.kind is float and type(value) is int:
            return float(value)
        if type(value) is not self.kind:
            raise TypeError
        return value


def keys(sections: Iterable[type]) -> dict[str, Key]:
    """The options of all ``sections`` by field name; where two sections have the same one, the first describes it."""
    found: dict[str, Key] = {}
    for section in sections:
        hints = get_type_hints(section)
        for f in fields(section):
            if "spec" in f.metadata and f.name not in found:
                found[f.name] = _key(f, hints[f.name])
    return found


def _key(f: Field[Any], hint: Any) -> Key:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not types.NoneType)
    many = get_origin(hint) in (list, tuple, Sequence)
    kind = get_args(hint)[0] if many else hint
    default = f.default_factory() if f.default_factory is not MISSING else f.default
    return Key(f.name, kind, many, default, f.metadata["spec"])


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # A JSON string is a TOML string; only DEL is escaped in the one and not in the other.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else str(value)
