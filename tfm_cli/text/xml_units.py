"""Translation units out of TMX and XLIFF.

Both are read element by element, so that memory holds one unit however large the file is. Inline codes are left out: they
stand for the markup of the document that was translated, and are no text of either language.
"""

import codecs
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from tfm_cli.errors import TfmError
from tfm_cli.text.encodings import MEND, marked_encoding, undecodable
from tfm_cli.text.units import Unit, clean, normal, primary

# What stands in these is markup. What stands in any other (hi, g, pc, mrk) is text.
CODES = frozenset(("bpt", "ept", "ph", "it", "ut", "sub", "x", "bx", "ex", "sc", "ec", "cp", "sm", "em"))
DELETED = "x-sdl-deleted"  # text that a tracked change took out
UNTRANSLATED = frozenset(("new", "needs-translation", "initial"))  # states in which a target is a copy or a guess

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z][\w.\-]*)["']""")
_BREAKS = frozenset(("lb", "pb", "xlf:lb", "xlf:pb"))
_BREAK = re.compile(r"^\s+$|\\[nrt](?![A-Za-z])|\\(?:line|par|tab)\b|<br\b", re.IGNORECASE)


def read_tmx(path: Path) -> Iterator[Unit]:
    """The units of a TMX file (1.1 to 1.4) that hold any text.

    Raises:
        TfmError: the file is no TMX, or damaged; it names the line.
    """
    main = ""
    for name, element, _ in _elements(path, "tmx", ("header", "tu")):
        source = normal(element.get("srclang") or "") or main
        if name == "header":
            main = source
            continue
        unit: list[tuple[str | None, str]] = []
        for variant in _children(element, "tuv"):
            code = variant.get(_LANG) or variant.get("lang")
            segment = _child(variant, "seg")
            if code and segment is not None:
                unit.append((normal(code), _plain(segment)))
        unit.sort(key=lambda each: primary(each[0] or "") != primary(source))
        if any(text for _, text in unit):
            yield unit


def read_xliff(path: Path) -> Iterator[Unit]:
    """The segments of an XLIFF file (1.2 or 2.x, or a kind of it such as SDLXLIFF) that hold any text.

    A translation is empty where there is none, or its state says so. ``approved`` does not count: what is not approved has
    most often been translated, and many tools never set it.

    Raises:
        TfmError: the file is no XLIFF, or damaged; it names the line.
    """
    for _, element, above in _elements(path, "xliff", ("trans-unit", "segment")):
        source, target = _child(element, "source"), _child(element, "target")
        codes = (
            _language(source, above, "source-language", "srcLang"),
            _language(target, above, "target-language", "trgLang"),
        )
        state = element.get("state") or ("" if target is None else target.get("state"))
        for texts in _segments(element, source, None if state in UNTRANSLATED else target):
            if any(texts):
                yield list(zip(codes, texts, strict=True))


def _segments(unit: Element, source: Element | None, target: Element | None) -> list[tuple[str, str]]:
    """The pairs of one XLIFF unit: by the segments marked in 1.2, where both sides have marks, else the whole."""
    marked, translated = _marked(_child(unit, "seg-source")), _marked(target)
    if marked and (translated or not _plain(target)):
        return [(_plain(segment), _plain(translated.get(name))) for name, segment in marked.items()]
    return [(_plain(source), _plain(target))]


def _marked(element: Element | None) -> dict[str, Element]:
    found = () if element is None else element.iter()
    return {each.get("mid", ""): each for each in found if _name(each) == "mrk" and each.get("mtype") == "seg"}


def _language(element: Element | None, above: list[Element], old: str, new: str) -> str | None:
    own = None if element is None else element.get(_LANG)
    said = own or next((code for each in reversed(above) if (code := each.get(old) or each.get(new))), None)
    return normal(said) if said else None


def _plain(element: Element | None) -> str:
    """The text without inline codes; one that breaks the line leaves a space."""
    parts: list[str] = []
    todo: list[Element | str] = [] if element is None else [element]
    while todo:  # no recursion, which a file could drive to its limit
        item = todo.pop()
        if isinstance(item, str):
            parts.append(item)
        elif _name(item) in CODES or item.get("mtype") == DELETED:
            parts.append(" " if _breaks(item) else "")
        else:
            for child in reversed(item):
                todo += (child.tail or "", child)
            todo.append(item.text or "")
    return clean("".join(parts))


def _breaks(code: Element) -> bool:
    kinds = {code.get("type"), code.get("ctype"), code.get("subType")}
    return not kinds.isdisjoint(_BREAKS) or bool(_BREAK.search("".join(code.itertext())))


def _elements(path: Path, root: str, names: Collection[str]) -> Iterator[tuple[str, Element, list[Element]]]:
    """Each element of these names when it is complete, with its name and the elements that it stands in."""
    above: list[Element] = []
    within = 0
    encoding = _encoding(path)
    try:
        with _opened(path, encoding) as stream:
            for event, element in ElementTree.iterparse(stream, ("start", "end")):
                name = _name(element)
                if event == "start":
                    if not above and name != root:
                        raise TfmError(f"not {root.upper()}: it begins with <{name}>", where=str(path), fix=MEND)
                    above.append(element)
                    within += name in names
                    continue
                above.pop()
                if name in names:
                    within -= 1
                    yield name, element, above
                if above and not within:
                    del above[-1][:]  # else the whole file would stand in memory in the end
    except ElementTree.ParseError as error:
        what = str(error).rpartition(": line")[0] or str(error)
        raise TfmError(f"damaged XML ({what})", where=f"{path}, line {error.position[0]:,}", fix=MEND) from None
    except UnicodeError:
        raise undecodable(path, encoding) from None


def _opened(path: Path, encoding: str) -> TextIO:
    # Decoded here and not by the parser: it knows no encoding of several bytes, such as Shift_JIS, and trusts a
    # declaration more than a byte order mark.
    return path.open(encoding=encoding, newline="")


def _encoding(path: Path) -> str:
    """By the byte order mark, or the XML declaration; else UTF-8."""
    try:
        with path.open("rb") as file:
            head = file.read(1 << 10)
    except OSError as error:
        raise TfmError(f"cannot be read: {error.strerror}", where=str(path)) from None
    if marked := marked_encoding(head):
        return marked
    if head[:2] in (b"<\0", b"\0<"):
        return "utf-16-le" if head[0] else "utf-16-be"
    declared = _DECLARED.match(head)
    name = declared[1].decode("ascii").lower() if declared else "utf-8"
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"  # the declaration was read byte by byte, so that it cannot be right
    try:
        b" ".decode(name)  # some codecs are known and make no text
        return codecs.lookup(name).name
    except (LookupError, ValueError):
        raise TfmError(f"unknown encoding {name}", where=f"{path}, line 1", fix=MEND) from None


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _children(element: Element, name: str) -> Iterator[Element]:
    return (child for child in element if _name(child) == name)


def _child(element: Element, name: str) -> Element | None:
    return next(_children(element, name), None)
