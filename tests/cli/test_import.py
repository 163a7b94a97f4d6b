"""`tfm import`: from translation memories to the text files that the other commands read."""

import os
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfm_cli.cli import app
from tfm_cli.data.memories import set_apart
from tfm_cli.errors import TfmError

DE_EN = ["--source-lang", "de", "--target-lang", "en"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def tmx(name: str, *units: dict[str, str], source: str = "de") -> None:
    body = ""
    for unit in units:
        variants = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in unit.items())
        body += f"<tu>{''.join(variants)}</tu>\n"
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    content = f'<tmx version="1.4">\n<header srclang="{source}"/><body>\n{body}</body></tmx>\n'
    Path(name).write_text(content, encoding="utf-8")


def xliff(name: str, *units: tuple[str, str], source: str = "de", target: str = "en") -> None:
    body = "".join(f"<trans-unit><source>{a}</source><target>{b}</target></trans-unit>" for a, b in units)
    content = f'<xliff><file source-language="{source}" target-language="{target}"><body>{body}</body></file></xliff>'
    Path(name).write_text(content, encoding="utf-8")


def numbered(count: int, start: int = 0) -> list[dict[str, str]]:
    return [{"de": f"Satz {i}", "en": f"sentence {i}"} for i in range(start, start + count)]


def run(*words: str) -> int:
    return app.run(["import", *words])


def lines(name: str) -> list[str]:
    return Path(name).read_bytes().decode("utf-8").split("\n")[:-1]


def files() -> set[str]:
    return {str(path) for path in Path().rglob("*") if path.is_file()}


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The error of a command line that must not change a file."""
    before = {name: Path(name).read_bytes() for name in files()}
    capsys.readouterr()
    assert run(*words) == 2
    shown = capsys.readouterr()
    assert {name: Path(name).read_bytes() for name in files()} == before
    assert shown.out == "" and shown.err.count("error: ") == 1
    return shown.err.splitlines()[-1]


def test_a_folder_and_a_file_become_two_texts(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("memories/a.tmx", *numbered(3), {"de": "nur deutsch"}, {"en": " sentence\n 1", "de": "Satz 1"})
    xliff("memories/b.xlf", ("eins", "one"), ("Satz 2", "sentence 2"), ("leer", ""))
    Path("c.tsv").write_text("Satz 2\tsentence two\n", encoding="utf-8")
    assert run("memories", "c.tsv", *DE_EN) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "file            format  pairs  no translation  duplicates",
        "memories/a.tmx  TMX         3               1           1",
        "memories/b.xlf  XLIFF       1               1           1",
        "c.tsv           TSV         1               0           0",
        "all 3 files                 5               2           2",
        "Written: train.de and train.en, 5 pairs.",
        "",
        "Next: tfm init --source train.de --target train.en  (writes a tfm.toml for them)",
    ]
    assert lines("train.de") == ["Satz 0", "Satz 1", "Satz 2", "eins", "Satz 2"]
    assert lines("train.en") == ["sentence 0", "sentence 1", "sentence 2", "one", "sentence two"]
    assert files() == {"memories/a.tmx", "memories/b.xlf", "c.tsv", "train.de", "train.en"}


def test_the_next_command_takes_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(20))
    assert run("a.tmx", *DE_EN, "--output", "my text/legal", "--test", "5") == 0
    shown = capsys.readouterr().err
    assert (
        "Written: my text/legal.de and my text/legal.en, 15 pairs; my text/test.de and my text/test.en, 5 pairs."
        in shown
    )
    words = next(line for line in shown.splitlines() if line.startswith("Next: ")).split("  (")[0]
    assert app.run(shlex.split(words)[2:]) == 0
    assert "Next: tfm train-tokenizer" in capsys.readouterr().err


def test_no_source_stands_in_both_sets() -> None:
    units = [{"de": f"Satz {i // 3}", "en": f"version {i}"} for i in range(60)] + numbered(1, 100)
    tmx("a.tmx", *units)
    assert run("a.tmx", *DE_EN, "--test", "10") == 0
    assert len(lines("test.de")) == len(lines("test.en")) == 10
    assert not set(lines("test.de")) & set(lines("train.de"))
    pairs = [(unit["de"], unit["en"]) for unit in units]
    read = {name: list(zip(lines(f"{name}.de"), lines(f"{name}.en"), strict=True)) for name in ("train", "test")}
    assert sorted(read["train"] + read["test"]) == sorted(pairs)
    assert read["train"] == [pair for pair in pairs if pair in set(read["train"])]  # in the order of the file


def test_the_seed_chooses_and_the_order_of_files_does_not() -> None:
    tmx("a.tmx", *numbered(50))
    tmx("b.tmx", *numbered(50, 50))
    tested = []
    for words in (("a.tmx", "b.tmx"), ("b.tmx", "a.tmx"), ("a.tmx", "b.tmx", "--seed", "2")):
        assert run(*words, *DE_EN, "--test", "10", "--overwrite") == 0
        tested.append(set(lines("test.de")))
    assert tested[0] == tested[1] != tested[2]


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 15))
def test_setting_apart_keeps_groups_together(keys: list[int], size: int) -> None:
    try:
        apart = set_apart(keys, size)
    except TfmError:
        assert 2 * size > len(keys) or min(map(keys.count, keys)) > size
        return
    assert apart.sum() <= size
    chosen = {key for key, is_apart in zip(keys, apart, strict=True) if is_apart}
    assert [key in chosen for key in keys] == apart.tolist()
    if len(set(keys)) == len(keys):
        assert apart.sum() == size


def test_a_test_set_that_is_too_large_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(10))
    assert "--test: 6 of 10 pairs would leave fewer than half for training." in refused(
        capsys, "a.tmx", *DE_EN, "--test", "6"
    )
    assert run("a.tmx", *DE_EN, "--test", "5") == 0
    assert len(lines("train.de")) == len(lines("test.de")) == 5
    tmx("b.tmx", *[{"de": "immer", "en": f"always {i}"} for i in range(9)])
    assert "no pairs can be set apart" in refused(capsys, "b.tmx", *DE_EN, "--test", "2", "--overwrite")
    tmx("b.tmx", *[{"de": "immer", "en": f"always {i}"} for i in range(9)], {"de": "nie", "en": "never"})
    assert run("b.tmx", *DE_EN, "--test", "2", "--overwrite") == 0
    assert "warning: 1 of 2 pairs are set apart for testing" in capsys.readouterr().err
    assert lines("test.en") == ["never"]


def test_what_is_there_stays_unless_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(10))
    for name in ("train.en", "test.de"):
        Path(name).write_text("mine")
        assert f"error: {name}: there is already a file. Replace it with --overwrite" in refused(
            capsys, "a.tmx", *DE_EN, "--test", "2"
        )
        Path(name).unlink()
    Path("test.de").write_text("mine")
    assert run("a.tmx", *DE_EN) == 0  # no test set is written
    assert Path("test.de").read_text() == "mine"
    assert run("a.tmx", *DE_EN, "--test", "2", "--overwrite") == 0
    assert len(lines("test.de")) == 2


@pytest.mark.parametrize(
    ("output", "name"), [("out/", "out/train.de"), ("there", "there/train.de"), ("a/b/c", "a/b/c.de")]
)
def test_folders_are_made(output: str, name: str) -> None:
    Path("there").mkdir()
    tmx("a.tmx", *numbered(1))
    assert run("a.tmx", *DE_EN, "--output", output) == 0
    assert Path(name).is_file() and Path(name).with_suffix(".en").is_file()


def test_a_damaged_file_stops_it_before_anything_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(3000))
    tmx("b.tmx", *numbered(2))
    Path("b.tmx").write_text(Path("b.tmx").read_text().replace("</tu>", "", 1))
    message = refused(capsys, "a.tmx", "b.tmx", *DE_EN, "--output", "new/train")
    assert message.startswith("error: b.tmx, line 5: damaged XML (mismatched tag). Mend the file, or leave out")
    assert not Path("new").exists()
    assert refused(capsys, "a.tmx", "b.tmx").startswith("error: b.tmx, line 5")


def test_a_damaged_file_may_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(2000))
    text = Path("a.tmx").read_text()
    Path("a.tmx").write_text(text.replace("</body>", ""))  # what stands before the damage must not count as read
    tmx("b.tmx", *numbered(3))
    assert run("a.tmx", "b.tmx", "--skip-broken") == 0
    shown = capsys.readouterr().err
    assert "warning: a.tmx, line 2,003: damaged XML (mismatched tag). This file is left out.\n" in shown
    assert "a.tmx        TMX, left out      -               -           -\n" in shown
    assert "b.tmx        TMX                3               0           0\n" in shown
    assert lines("train.de") == ["Satz 0", "Satz 1", "Satz 2"]
    assert "all files are damaged, so nothing was written" in refused(
        capsys, "a.tmx", "--skip-broken", "--overwrite", *DE_EN
    )


def test_a_bomb_of_entities_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", {"de": "&l10;", "en": "boom"})
    entities = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 11))
    Path("a.tmx").write_text(f'<!DOCTYPE tmx [<!ENTITY l0 "haha">{entities}]>{Path("a.tmx").read_text()}')
    assert "damaged XML (limit on input amplification factor" in refused(capsys, "a.tmx", *DE_EN)


@pytest.mark.parametrize(
    ("units", "source", "written"),
    [
        ([{"DE-de": "eins", "en-US": "one"}, {"de-AT": "zwei", "en": "two"}], "en-us", ("train.en", "train.de")),
        ([{"de": "eins", "en": "one"}], "*all*", ("train.de", "train.en")),
        ([{"en-us": "color", "en-GB": "colour"}], "en-gb", ("train.en-gb", "train.en-us")),
    ],
)
def test_two_languages_need_no_naming(units: list[dict[str, str]], source: str, written: tuple[str, str]) -> None:
    tmx("a.tmx", *units, source=source)
    assert run("a.tmx") == 0
    assert files() == {"a.tmx", *written}
    sides = [lines(name) for name in written]
    assert list(zip(*sides, strict=True)) == [
        tuple(unit.values())[:: -1 if source[:2] == "en" else 1] for unit in units
    ]


@pytest.mark.parametrize("words", [["--source-lang", "en"], ["--target-lang", "de"], ["--source-lang", "EN-us"]])
def test_one_of_two_languages_is_enough(words: list[str]) -> None:
    tmx("a.tmx", *numbered(2))
    assert run("a.tmx", *words) == 0
    assert files() == {"a.tmx", "train.en-us" if words[1] == "EN-us" else "train.en", "train.de"}


def test_more_languages_have_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", {"de": "eins", "en": "one", "fr": "un"}, {"de": "zwei", "fr": "deux"})
    error = "error: the files hold de (2), fr (2), en (1). Name the two by --source-lang and --target-lang."
    assert refused(capsys, "a.tmx") == error
    assert refused(capsys, "a.tmx", "--source-lang", "de") == error
    assert run("a.tmx", "--source-lang", "fr", "--target-lang", "de") == 0
    assert (lines("train.fr"), lines("train.de")) == (["un", "deux"], ["eins", "zwei"])


def test_languages_that_cannot_be_told(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(1))
    xliff("b.xlf", ("two", "zwei"), source="en", target="de")
    Path("c.tab").write_text("a\tb\n")
    assert "do not agree on which is the source. Name the two" in refused(capsys, "a.tmx", "b.xlf")
    assert "error: c.tab: this TSV file does not say its languages. Name the two" in refused(capsys, "a.tmx", "c.tab")
    tmx("empty.tmx")
    assert "the files hold no text in a named language." in refused(capsys, "empty.tmx")
    assert "no pairs of de and fr. The files hold de (1), en (1)." in refused(
        capsys, "a.tmx", "--source-lang", "de", "--target-lang", "fr"
    )
    assert run("a.tmx", "b.xlf", *DE_EN) == 0  # either direction will do
    assert (lines("train.de"), lines("train.en")) == (["Satz 0", "zwei"], ["sentence 0", "two"])


def test_po_takes_the_languages_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    header = 'msgid ""\nmsgstr "Language: {}\\nContent-Type: text/plain; charset=UTF-8\\n"\n\n'
    for code, word in (("de", "Öffnen"), ("fr", "Ouvrir")):
        text = header.format(code) + f'msgid "Open"\nmsgstr "{word}"\n'
        Path(f"{code}.po").write_text(text, encoding="utf-8")
    assert "does not say its languages" in refused(capsys, "de.po")
    assert run("de.po", "fr.po", "--source-lang", "en", "--target-lang", "de") == 0
    assert (lines("train.en"), lines("train.de")) == (["Open"], ["Öffnen"])  # the header of fr.po says another language


def test_variants_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", {"de-AT": "eins", "pt-PT": "um"}, {"de": "zwei", "pt-BR": "dois"}, {"de": "drei", "pt": "tres"})
    assert run("a.tmx", "--source-lang", "DE", "--target-lang", "pt-BR") == 0
    shown = capsys.readouterr().err
    assert "Taken as de: de (2), de-at (1).\n" in shown
    assert "warning: --target-lang pt-BR: among the pairs are other variants, pt-pt (1).\n" in shown
    assert files() == {"a.tmx", "train.de", "train.pt-BR"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "import needs files to read. Name them, or their folder: tfm import memories/."),
        (["gone.tmx"], "gone.tmx: no such file"),
        (["a.tmx", "--source-lang", "de/x", "--target-lang", "en"], "--source-lang: 'de/x' is no language code."),
        (["a.tmx", "--source-lang", "en", "--target-lang", "EN"], "--target-lang: source and target are the same"),
        (["a.tmx", "--test", "-1"], "--test: -1 is below the smallest value allowed"),
        (["a.tmx", "--test", "1", "--output", "test"], "--output: training and test text would go to the same files."),
        (["a.tmx", *DE_EN, "--output", "a.tmx/x"], "a.tmx/x.de: cannot be written"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(2))
    assert message in refused(capsys, *words)


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    tmx("a.tmx", *numbered(2))
    assert run("a.tmx", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_real_files_make_two_texts_of_one_length(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = corpora / "formats"
    if not folder.is_dir():
        pytest.skip(f"{os.fspath(corpora)} holds no folder `formats`")
    assert run(str(folder), "--skip-broken", "--source-lang", "en", "--target-lang", "fr", "--test", "20") == 0
    source, target = (lines(f"train.{code}") + lines(f"test.{code}") for code in ("en", "fr"))
    assert len(source) == len(target) > 100
    assert "Une phrase simple sans rien de spécial." in target  # windows-1252
    assert "warning: " in capsys.readouterr().err
