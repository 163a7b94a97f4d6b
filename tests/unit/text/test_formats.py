"""Translation memories and catalogues into units: what is text, which language it is in, and what is damaged."""

import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.errors import TfmError
from tfm_cli.text.formats import FORMATS, find_files, format_of
from tfm_cli.text.units import LanguagePair, clean, normal

XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
XLIFF_1 = '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="de" {}><body>{}'
XLIFF_1 += "</body></file></xliff>"
XLIFF_2 = '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="de" trgLang="en"><file><unit>{}'
XLIFF_2 += "</unit></file></xliff>"


def read(path: Path, content: str | bytes, encoding: str = "utf-8") -> list:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return [list(unit) for unit in format_of(path).read(path)]


def tmx(*segments: str, header: str = 'srclang="de"') -> str:
    """A TMX of one unit: ``de`` for the first segment, ``en`` for the second."""
    variants = "".join(
        f'<tuv xml:lang="{code}"><seg>{segment}</seg></tuv>'
        for code, segment in zip(("de", "en"), segments, strict=False)
    )
    return f'<tmx version="1.4"><header {header}/><body><tu>{variants}</tu></body></tmx>'


def seg(tmp_path: Path, markup: str) -> str:
    [[(_, text)]] = read(tmp_path / "a.tmx", tmx(markup))
    return text


def xliff_1(tmp_path: Path, unit: str, target: str = 'target-language="en"') -> list:
    return read(tmp_path / "a.xlf", XLIFF_1.format(target, unit))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  a\n\t b\r\nc ", "a b c"),
        ("a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh", "a b c d e f g h"),
        ("Prix\u00a0: 5\u202f€", "Prix\u00a0: 5\u202f€"),
        ("a \u00a0b\u3000\u3000c", "a b c"),
        ("\u3000段落　です。\u3000", "段落　です。"),
        (" \n ", ""),
    ],
)
def test_a_segment_becomes_one_line(text: str, expected: str) -> None:
    assert clean(text) == expected


@settings(deadline=None)
@given(st.text())
def test_no_text_breaks_the_line_or_has_doubled_spaces(text: str) -> None:
    cleaned = clean(text)
    assert cleaned == clean(cleaned) == cleaned.strip()
    assert len(cleaned.splitlines()) <= 1 and "  " not in cleaned
    assert cleaned.split() == text.split()


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('a <bpt i="1">&lt;b&gt;</bpt>big<ept i="1">&lt;/b&gt;</ept> cat', "a big cat"),
        ('un<bpt i="1"/>believ<ept i="1"/>able', "unbelievable"),
        ('a <ph>{0}</ph> b <it pos="begin">x</it>c<ut>{\\b </ut>d', "a b cd"),
        ("with <hi>a part <hi>high</hi>lighted</hi>.", "with a part highlighted."),
        ('Click <ph>ALT="<sub>Start here</sub>"</ph> now', "Click now"),
        ("sub <sub>left out</sub> too", "sub too"),
        ("<ph>[PG]</ph>1.<ph>\\t</ph>One.<ph>\\n</ph><ph>\\n</ph>2.<ph> </ph>Two.", "1. One. 2. Two."),
        ('One<ph type="lb"/>two<ph>&lt;br/&gt;</ph>three<ut>\\line </ut>four', "One two three four"),
        ("a<!-- no text -->b &amp; &lt;c&gt; &#228;", "ab & <c> ä"),
    ],
)
def test_inline_codes_of_tmx(tmp_path: Path, markup: str, expected: str) -> None:
    assert seg(tmp_path, markup) == expected


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ('<g id="1">all <g id="2">of</g> it</g>', "all of it"),
        ('a<x id="1"/>b <bx id="2"/>c<ex id="2"/> <ph id="3">%s</ph>d', "ab c d"),
        ('a<x id="1" ctype="lb"/>b', "a b"),
        ('<mrk mtype="protected">keep</mrk> <it id="1" pos="open">&lt;i&gt;</it>it', "keep it"),
        ('new<mrk mtype="x-sdl-deleted"> old</mrk>', "new"),
        ('<sub>out</sub>in <bpt id="1">&lt;a href=<sub>out</sub>&gt;</bpt>link<ept id="1">&lt;/a&gt;</ept>', "in link"),
    ],
)
def test_inline_codes_of_xliff_1(tmp_path: Path, markup: str, expected: str) -> None:
    unit = f"<trans-unit><source>{markup}</source><target>t</target></trans-unit>"
    assert xliff_1(tmp_path, unit) == [[("de", expected), ("en", "t")]]


def test_inline_codes_of_xliff_2(tmp_path: Path) -> None:
    source = '<pc id="1">a <mrk id="m">b</mrk></pc><ph id="2"/><sc id="3"/>c<ec startRef="3"/><cp hex="0001"/>'
    source += '<sm id="4"/>d<em startRef="4"/><ph id="5" subType="xlf:lb"/>e'
    segment = f"<segment><source>{source}</source><target>t</target></segment>"
    assert read(tmp_path / "a.xliff", XLIFF_2.format(segment)) == [[("de", "a bcd e"), ("en", "t")]]


def test_codes_within_codes_however_deep(tmp_path: Path) -> None:
    assert seg(tmp_path, "<hi>" * 3000 + "x" + "</hi>" * 3000) == "x"


def test_tmx_units(tmp_path: Path) -> None:
    body = """<tu><note>no text</note><prop type="x">none</prop>
        <tuv xml:lang="EN_us"><seg>one</seg></tuv><tuv lang="DE"><note>n</note><seg> eins\n zwei </seg></tuv></tu>
        <tu srclang="fr"><tuv xml:lang="de"><seg>a</seg></tuv><tuv xml:lang="fr-CA"><seg>b</seg></tuv></tu>
        <tu><tuv xml:lang="de"><seg><ph>x</ph> </seg></tuv></tu>
        <tu><tuv><seg>of no language</seg></tuv><tuv xml:lang="de"><seg>allein</seg></tuv></tu>"""
    content = f'<!DOCTYPE tmx SYSTEM "tmx11.dtd"><tmx><header srclang="de-DE"/><body>{body}</body></tmx>'
    assert read(tmp_path / "a.TMX", content) == [
        [("de", "eins zwei"), ("en-us", "one")],  # the source first
        [("fr-ca", "b"), ("de", "a")],
        [("de", "allein")],
    ]


def test_tmx_for_any_source_keeps_the_order(tmp_path: Path) -> None:
    units = read(tmp_path / "a.tmx", tmx("eins", "one", header='srclang="*all*"'))
    assert units == [[("de", "eins"), ("en", "one")]]


texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn")), max_size=30)


@settings(deadline=None)
@given(
    st.lists(st.tuples(texts, texts), max_size=5),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "us-ascii", "windows-1252", "gb18030"]),
)
def test_what_is_written_as_tmx_is_read_again(tmp_path_factory, pairs: list[tuple[str, str]], encoding: str) -> None:
    root = ElementTree.Element("tmx", version="1.4")
    ElementTree.SubElement(root, "header", srclang="de")
    body = ElementTree.SubElement(root, "body")
    for pair in pairs:
        unit = ElementTree.SubElement(body, "tu")
        for code, text in zip(("de", "en"), pair, strict=True):
            variant = ElementTree.SubElement(unit, "tuv", {XML_LANG: code})
            ElementTree.SubElement(variant, "seg").text = text
    content = ElementTree.tostring(root, encoding, xml_declaration=True)
    path = tmp_path_factory.mktemp("tmx") / "a.tmx"
    expected = [[("de", clean(source)), ("en", clean(target))] for source, target in pairs]
    assert read(path, content) == [unit for unit in expected if unit[0][1] or unit[1][1]]


@pytest.mark.parametrize(
    ("declared", "encoding"),
    [
        (None, "utf-8"),
        ("utf-8", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16", "utf-8"),  # what .NET declares of a string in memory
        ("utf-8", "utf-16"),
        ("utf-16", "utf-8-sig"),
        (None, "utf-16-le"),
        (None, "utf-16-be"),
        ("windows-1252", "windows-1252"),
        ("WINDOWS-1250", "windows-1250"),
        ("iso-8859-1", "iso-8859-1"),
        ("big5", "utf-16"),
    ],
)
def test_encodings_by_declaration_and_byte_order_mark(tmp_path: Path, declared: str | None, encoding: str) -> None:
    head = f'<?xml version="1.0" encoding="{declared}"?>\n' if declared else '<?xml version="1.0"?>'
    content = head + tmx("Grüße, größer", "é")
    if encoding == "windows-1250":
        content = content.replace("ß", "ő")
    expected = "Grüőe, gröőer" if encoding == "windows-1250" else "Grüße, größer"
    assert read(tmp_path / "a.tmx", content, encoding) == [[("de", expected), ("en", "é")]]


def test_an_asian_encoding_that_the_parser_alone_does_not_know(tmp_path: Path) -> None:
    content = '<?xml version="1.0" encoding="Shift_JIS"?>' + tmx("日本語の表示", "Japanese")
    assert read(tmp_path / "a.tmx", content, "shift_jis")[0][0] == ("de", "日本語の表示")


def test_xliff_1_units(tmp_path: Path) -> None:
    units = """<group><trans-unit><source>eins</source><target>one</target>
        <alt-trans><source>wrong</source><target>wrong</target></alt-trans></trans-unit></group>
        <trans-unit><source>ohne</source></trans-unit>
        <trans-unit><source>leer</source><target> </target></trans-unit>
        <trans-unit><source>neu</source><target state="new">neu</target></trans-unit>
        <trans-unit><source>offen</source><target state="needs-translation">offen</target></trans-unit>
        <trans-unit approved="no"><source>fertig</source><target state="translated">done</target></trans-unit>
        <trans-unit><source><x id="1"/></source></trans-unit>"""
    assert xliff_1(tmp_path, units) == [
        [("de", "eins"), ("en", "one")],
        [("de", "ohne"), ("en", "")],
        [("de", "leer"), ("en", "")],
        [("de", "neu"), ("en", "")],
        [("de", "offen"), ("en", "")],
        [("de", "fertig"), ("en", "done")],
    ]


def test_xliff_1_segments_are_pairs_of_their_own(tmp_path: Path) -> None:
    def mark(number: int, text: str) -> str:
        return f'<mrk mtype="seg" mid="{number}">{text}</mrk>'

    marked = f"<source>Eins. Zwei.</source><seg-source><g>{mark(1, 'Eins.')} {mark(2, 'Zwei.')}</g></seg-source>"
    both = f"<trans-unit>{marked}<target>{mark(2, 'Two.')} {mark(1, 'One.')}</target></trans-unit>"
    half = f"<trans-unit>{marked}<target>{mark(1, 'One.')}{mark(2, '')}</target></trans-unit>"
    none = f"<trans-unit>{marked}</trans-unit>"
    whole = f"<trans-unit>{marked}<target>One. Two.</target></trans-unit>"
    pairs = [(a[1], b[1]) for a, b in xliff_1(tmp_path, both + half + none + whole)]
    assert pairs[:2] == [("Eins.", "One."), ("Zwei.", "Two.")]
    assert pairs[2:4] == [("Eins.", "One."), ("Zwei.", "")]
    assert pairs[4:6] == [("Eins.", ""), ("Zwei.", "")]
    assert pairs[6:] == [("Eins. Zwei.", "One. Two.")]


def test_xliff_2_units(tmp_path: Path) -> None:
    units = """<segment><source>eins</source><target>one</target></segment>
        <ignorable><source> </source></ignorable>
        <segment state="initial"><source>neu</source><target>neu</target></segment>
        <segment state="final"><source>fertig</source><target>done</target></segment>
        <segment><source>ohne</source></segment>"""
    assert [[text for _, text in unit] for unit in read(tmp_path / "a.xlf", XLIFF_2.format(units))] == [
        ["eins", "one"],
        ["neu", ""],
        ["fertig", "done"],
        ["ohne", ""],
    ]


def test_xliff_languages(tmp_path: Path) -> None:
    unit = "<trans-unit><source>a</source><target{}>b</target></trans-unit>"
    assert xliff_1(tmp_path, unit.format(""), "") == [[("de", "a"), (None, "b")]]
    assert xliff_1(tmp_path, unit.format(' xml:lang="fr_CA"')) == [[("de", "a"), ("fr-ca", "b")]]


def test_tsv(tmp_path: Path) -> None:
    lines = 'winter\thiver\r\n\r\n  \t \r\nallein\r\n"x"\t a  b \t\r\n\tseul\r\n'
    expected = [("winter", "hiver"), ("allein", ""), ('"x"', "a b"), ("", "seul")]
    for name, encoding in (("a.tsv", "utf-8"), ("a.tab", "utf-8-sig"), ("b.TSV", "utf-16")):
        assert [(a[1], b[1]) for a, b in read(tmp_path / name, lines, encoding)] == expected


PO = r"""# a comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=windows-1252\n"
"Language: de_AT\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

msgid "open \"file\"\n"
"now"
msgstr "Datei öffnen"

#, fuzzy
#| msgid "before"
msgid "maybe"
msgstr "vielleicht"

msgctxt "menu"
msgid "todo"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

#~ msgid "gone"
#~ msgstr "weg"
"""


def test_po(tmp_path: Path) -> None:
    assert read(tmp_path / "a.po", PO, "windows-1252") == [
        [(None, 'open "file" now'), ("de-at", "Datei öffnen")],
        [(None, "maybe"), ("de-at", "")],
        [(None, "todo"), ("de-at", "")],
        [(None, "%d file"), ("de-at", "%d Datei")],
        [(None, "%d files"), ("de-at", "%d Dateien")],
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_po_without_a_header(tmp_path: Path, encoding: str) -> None:
    content = 'msgid "a\u2028b"\nmsgstr "ö"\n'
    assert read(tmp_path / "a.po", content, encoding) == [[(None, "a b"), (None, "ö")]]


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        ("nplurals=1; plural=0;", ("0", "0")),
        ("nplurals=2; plural=n>1;", ("0", "1")),
        ("nplurals=3; plural=(n%10==1 ? 0 : n%10<5 ? 1 : 2);", ("0", "1")),
        # Arabic: none, one, two, a few ...
        ("nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n<11 ? 3 : n<100 ? 4 : 5;", ("1", "3")),
        ("nplurals=2; plural=EXPRESSION;", ("0", "1")),
        ("nplurals=2; plural=1/(n-1);", ("0", "1")),
    ],
)
def test_plural_forms_by_the_header(tmp_path: Path, forms: str, expected: tuple[str, str]) -> None:
    entry = "".join(f'msgstr[{i}] "{i}"\n' for i in range(6))
    content = f'msgid ""\nmsgstr "Plural-Forms: {forms}\\n"\n\nmsgid "one"\nmsgid_plural "many"\n{entry}'
    assert tuple(unit[1][1] for unit in read(tmp_path / "a.po", content)) == expected


@pytest.mark.parametrize(
    ("name", "content", "place", "what"),
    [
        ("a.tsv", b"a\tb\na\tb\tc\n", "line 2", "3 columns, where two are needed"),
        ("a.tsv", b"a\tb\n\xff\tb\n", "line 2", "not valid UTF-8"),
        ("a.po", b'msgid "a"\nmsgstr "b"\n\nmsgid "c"\nmsgid "d"\n', "line 5", "damaged PO"),
        ("a.po", b'msgid "a"b"\n', "line 1", "unescaped double quote"),
        ("a.po", b'msgid "a"\nmsgstr "\xff"\n', "line 2", "not valid UTF-8"),
    ],
)
def test_a_damaged_file_is_named_with_its_line(
    tmp_path: Path, name: str, content: bytes, place: str, what: str
) -> None:
    with pytest.raises(TfmError, match=what) as caught:
        read(tmp_path / name, content)
    assert caught.value.where == f"{tmp_path / name}, {place}"
    assert "--skip-broken" in caught.value.fix


def test_po_without_polib_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polib", None)
    with pytest.raises(TfmError, match=r"pip install 'tfm-cli\[formats\]'"):
        read(tmp_path / "a.po", PO)


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 11))


@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        ("", 1, "no element found"),
        (tmx("a", "b")[:60], 1, "unclosed token|no element found"),
        (tmx("a\n", "b").replace("</tu>", "</tv>"), 2, "mismatched tag"),
        (tmx("a\n\n\x01", "b"), 3, "invalid token"),
        (f'<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n{tmx("&nbsp;")}', 2, "undefined entity &nbsp;"),
        (f'<!DOCTYPE tmx [<!ENTITY x SYSTEM "a.tmx">]>\n{tmx("&x;")}', 2, "undefined entity &x;"),
        (f'<!DOCTYPE tmx [<!ENTITY l0 "haha">{LAUGHS}]>\n{tmx("&l10;")}', 2, "amplification"),
        (b'<?xml version="1.0" encoding="us-ascii"?>\n\n<tmx>\xe4</tmx>', 3, "not valid ASCII"),
        (b"<tmx>\n\xe4</tmx>", 2, "not valid UTF-8"),
        (tmx("a").encode("utf-16")[:-1], 1, "not valid UTF-16"),
        (b'<?xml version="1.0" encoding="no-such"?><tmx/>', 1, "unknown encoding no-such"),
        (b'<?xml version="1.0" encoding="hex"?><tmx/>', 1, "unknown encoding hex"),
    ],
)
def test_damaged_xml_names_file_and_line(tmp_path: Path, content: str | bytes, line: int, what: str) -> None:
    with pytest.raises(TfmError, match=what) as caught:
        read(tmp_path / "a.tmx", content)
    assert caught.value.where == f"{tmp_path / 'a.tmx'}, line {line}"
    assert "\n" not in str(caught.value)


def test_what_is_something_else(tmp_path: Path) -> None:
    with pytest.raises(TfmError, match="not TMX: it begins with <html>"):
        read(tmp_path / "a.tmx", "<html/>")
    with pytest.raises(TfmError, match="not XLIFF: it begins with <tmx>"):
        read(tmp_path / "a.sdlxliff", tmx("a", "b"))


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """What was read goes: else the elements of a memory of a gigabyte would all stay."""
    import tracemalloc

    def peak(units: int) -> int:
        unit = tmx("eins " * 50, "one " * 50).partition("<body>")[2].partition("</body>")[0]
        path = tmp_path / f"{units}.tmx"
        path.write_text(f"<tmx><header><note>{'x' * 99}</note></header><body>{unit * units}</body></tmx>")
        tracemalloc.start()
        assert sum(1 for _ in format_of(path).read(path)) == units
        high = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return high

    assert peak(2000) < 1.5 * peak(200)


def test_files_are_found_in_folders(tmp_path: Path) -> None:
    wanted = ["a.tmx", "b/c.PO", "b/d/e.sdlxliff", "z.tab"]
    for name in [*wanted, "readme.txt", "._a.tmx", ".git/x.tmx", "b/folder.tmx/none.txt"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    paths = [tmp_path / name for name in wanted]
    assert find_files([tmp_path]) == paths
    assert find_files([paths[3], tmp_path, tmp_path / "b" / ".." / "a.tmx"]) == [paths[3], *paths[:3]]
    with pytest.raises(TfmError, match=r"format of this file is not known. Known are \.tmx, \.xlf"):
        find_files([tmp_path / "readme.txt"])
    with pytest.raises(TfmError, match="no file to read in this folder"):
        find_files([tmp_path / "b" / "folder.tmx"])
    with pytest.raises(TfmError, match=r"no such file\. Did you mean a\.tmx"):
        find_files([tmp_path / "aa.tmx"])


@pytest.mark.parametrize(
    ("codes", "wanted", "expected"),
    [
        (("de", "en"), ("de", "en"), (0, 1)),
        (("en", "de"), ("de", "en"), (1, 0)),
        (("de-DE", "EN_us"), ("de", "en"), (0, 1)),
        (("de", "en"), ("de-AT", "en-GB"), (0, 1)),
        (("en-us", "en-gb", "fr-fr", "fr-ca"), ("fr-CA", "en-GB"), (3, 1)),
        (("en-us", "en-gb", "fr"), ("en", "fr"), (0, 2)),
        (("en-us", "en-gb"), ("en-GB", "en-US"), (1, 0)),
        (("en", "en-gb"), ("en-US", "en-GB"), None),
        (("de", "fr"), ("de", "en"), None),
        (("den", "en"), ("de", "en"), None),
        ((None, None), ("de", "en"), (0, 1)),
        ((None, "de"), ("en", "de"), (0, 1)),
        ((None, "en"), ("en", "de"), (1, 0)),
        (("de", None), ("de", "en"), (0, 1)),
        ((None, "fr"), ("en", "de"), None),
        ((), ("en", "de"), None),
    ],
)
def test_two_languages_are_picked(codes: tuple, wanted: tuple[str, str], expected: tuple[int, int] | None) -> None:
    unit = [(code and normal(code), "text") for code in codes]
    assert LanguagePair(*map(normal, wanted)).pick(unit) == expected


@pytest.fixture(scope="module")
def real_files(corpora: Path) -> list[Path]:
    folder = corpora / "formats"
    if not folder.is_dir():
        pytest.skip(f"{os.fspath(corpora)} holds no folder `formats`")
    return find_files([folder])


def test_real_files_are_read_or_refused_in_one_line(real_files: list[Path]) -> None:
    units = 0
    for path in real_files:
        try:
            for unit in format_of(path).read(path):
                units += 1
                for code, text in unit:
                    assert text == clean(text) and "\ufffd" not in text and "\n" not in text, path
                    assert code is None or code == normal(code), path
                    if FORMATS[path.suffix.lower()].name in ("TMX", "XLIFF"):
                        assert not any(code in text for code in ("<bpt", "<ph", "<ept", "\\par", "{\\b")), path
        except TfmError as error:
            assert "\n" not in str(error) and str(path) in error.where
    assert units > 200
