import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli import config
from tfm_cli.config import Project, Settings, find_project, resolve
from tfm_cli.errors import TfmError
from tfm_cli.keys import keys, toml_value
from tfm_cli.options import option


@dataclass(frozen=True)
class Reading:
    source: Sequence[str] = option([], "Text.", is_path=True)
    target: str | None = option(None, "Text.", is_path=True)
    test_source: str | None = option(None, "Text.", is_path=True)
    output: str = option("data", "Folder.", is_path=True)
    target_lang: str | None = option(None, "Code.")
    dataset: str | None = option(None, "Name or path.", may_be_path=True)


@dataclass(frozen=True)
class Running:
    preset: str = option("small", "Size.", choices=("small", "big"))
    data: str = option("data", "Folder.", is_path=True)
    width: int = option(8, "Width.", minimum=1)
    rate: float = option(0.1, "Rate.")
    resume: bool = option(False, "Go on.")


COMMANDS = {"preprocess": (Reading,), "train": (Running,)}
PRESETS = {"small": {"width": 16}, "big": {"width": 64, "rate": 0.5}}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def project(text: str, folder: Path = Path()) -> Project:
    folder.mkdir(exist_ok=True)
    (folder / "tfm.toml").write_text(text, encoding="utf-8")
    return Project.load(folder / "tfm.toml").check(COMMANDS)


def train(file: Project | None = None, **given):
    return resolve("train", (Running,), file, given, lambda values: PRESETS.get(values["preset"], {}))


def message(text: str) -> str:
    with pytest.raises(TfmError) as error:
        project(text)
    return str(error.value)


def test_the_command_line_beats_the_file_the_file_a_preset_a_preset_the_default(here):
    assert train()[Running] == Running(width=16)
    assert train(preset="big")[Running] == Running(preset="big", width=64, rate=0.5)
    file = project('[train]\npreset = "big"\nwidth = 32\n')
    assert train(file)[Running] == Running(preset="big", width=32, rate=0.5)
    settings = train(file, width=5, preset="small")
    assert settings[Running] == Running(width=5)
    assert [settings.origin(name) for name in ("width", "preset", "data")] == [
        "command line",
        "command line",
        "default",
    ]


def test_paths_in_the_file_belong_to_its_folder_and_those_typed_to_the_current_one(here, monkeypatch):
    project('[preprocess]\nsource = ["a", "/b", "-"]\n', here / "top")
    (here / "top" / "below").mkdir()
    monkeypatch.chdir(here / "top" / "below")
    found = find_project()
    assert found is not None
    settings = resolve("preprocess", (Reading,), found.check(COMMANDS), {"target": "c"})[Reading]
    assert settings == Reading(source=["../a", "/b", "-"], target="c", output="../data")


def test_a_name_that_is_a_path_beside_the_file_is_taken_as_one(here, monkeypatch):
    for table, expected in (("pairs.csv", "../pairs.csv"), ("owner/corpus", "owner/corpus")):
        project(f'[preprocess]\ndataset = "{table}"\n', here / "top")
        (here / "top" / "pairs.csv").touch()
        (here / "top" / "below").mkdir(exist_ok=True)
        monkeypatch.chdir(here / "top" / "below")
        assert find_project().check(COMMANDS).tables["preprocess"]["dataset"] == expected
        monkeypatch.chdir(here)


def test_no_file_above_means_no_project(here):
    assert find_project() is None


def test_what_one_command_writes_the_next_one_reads(here):
    file = project('[preprocess]\noutput = "encoded"\n')
    assert train(file)[Running].data == "encoded"
    assert train(file).origin("data") == "link"
    assert train(file).place("data") == "tfm.toml: [preprocess] output"
    assert train(file, data="other")[Running].data == "other"
    assert train(project('[preprocess]\noutput = "encoded"\n[train]\ndata = "mine"\n'))[Running].data == "mine"


def test_a_list_takes_a_linked_value_as_its_only_item(here, monkeypatch):
    monkeypatch.setitem(config.LINKS, ("other", "source"), ("preprocess", "target"))
    file = project('[preprocess]\ntarget = "c"\n')
    assert resolve("other", (Reading,), file)[Reading].source == ["c"]


def test_every_link_joins_options_that_exist():
    from tfm_cli.cli import app

    names = {(c.name, key.name) for c in app.COMMANDS for key in keys(c.sections).values()}
    for end, start in config.LINKS.items():
        assert {end, start} <= names


def evaluating(text: str) -> Settings:
    """What `tfm eval` settles by a project file with this text in the current folder."""
    from tfm_cli.cli import app

    sections = {each.name: each.sections for each in app.COMMANDS}
    Path("tfm.toml").write_text(text)
    return resolve("eval", sections["eval"], find_project().check(sections))


def test_eval_searches_as_translate_does_and_keeps_its_own_seed(here):
    values = evaluating("[translate]\nbeam = 7\nlength-penalty = 0.5\nn-best = 3\nseed = 9\n").as_dict()
    assert (values["beam"], values["length-penalty"], values["n-best"], values["seed"]) == (7, 0.5, 1, 12345)


def test_eval_scores_the_models_that_translate(here):
    trained = evaluating('[train]\noutput = "mine"\n')
    assert (trained.as_dict()["model"], trained.place("model")) == (["mine"], "tfm.toml: [train] output")
    both = evaluating('[train]\noutput = "mine"\n[translate]\nmodel = ["mine", "other"]\n')
    assert (both.as_dict()["model"], both.place("model")) == (["mine", "other"], "tfm.toml: [translate] model")
    assert evaluating('[project]\ntarget-lang = "de"\n').origin("model") == "default"


def test_the_languages_of_the_project_reach_every_command(here):
    file = project('[project]\ntarget-lang = "en"\n')
    assert resolve("preprocess", (Reading,), file)[Reading].target_lang == "en"
    assert resolve("preprocess", (Reading,), file, {"target_lang": "de"})[Reading].target_lang == "de"


def test_underscores_and_a_single_value_for_a_list_are_understood(here):
    file = project('[preprocess]\ntest_source = "t"\nsource = "a"\n[train]\nrate = 1\n')
    assert resolve("preprocess", (Reading,), file)[Reading] == Reading(source=["a"], test_source="t")
    assert train(file)[Running].rate == 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[trian]\n", "tfm.toml: unknown table [trian]. Did you mean 'train'?"),
        ("[train]\nwidht = 3\n", "tfm.toml: [train]: unknown key 'widht'. Did you mean 'width'?"),
        ('[train]\nwidth = "3"\n', 'tfm.toml: [train] width: a whole number is needed, not "3".'),
        ("[train]\nwidth = 3.5\n", "tfm.toml: [train] width: a whole number is needed, not 3.5."),
        ("[train]\nwidth = true\n", "tfm.toml: [train] width: a whole number is needed, not true."),
        ("[train]\nresume = 1\n", "tfm.toml: [train] resume: true or false is needed, not 1."),
        ("[preprocess]\ntarget = false\n", "tfm.toml: [preprocess] target: text in quotes is needed, not false."),
        ("[preprocess]\nsource = [1]\n", "tfm.toml: [preprocess] source: text in quotes is needed, not [1]."),
        (
            "width = 3\n",
            "tfm.toml: 'width' stands outside of any table. Write the name of a command, such as [train], on a line above it.",
        ),
        ("[project]\ntarget-lang = no\n", 'tfm.toml:2: invalid value. Text stands in quotes: target-lang = "no".'),
        ("[train]\n\ndata = my data # here\n", 'tfm.toml:3: invalid value. Text stands in quotes: data = "my data".'),
        (
            '[train]\ndata = "C:\\data"\n',
            "tfm.toml:2: unescaped '\\' in a string. Put a path with backslashes in single quotes.",
        ),
        ("[train\n", "tfm.toml:1: expected ']' at the end of a table declaration."),
        ("[train]\nwidth = 1\nwidth = 2\n", "tfm.toml:3: cannot overwrite a value."),
    ],
)
def test_a_mistake_in_the_file_is_placed_and_explained(here, text, expected):
    assert message(text) == expected


def test_a_value_out_of_bounds_names_where_it_was_written(here):
    with pytest.raises(TfmError, match=r"^tfm.toml: \[train\] width: 0 is below the smallest value allowed, 1\.$"):
        train(project("[train]\nwidth = 0\n"))
    with pytest.raises(TfmError, match=r"^--width: 0 is below"):
        train(project("[train]\nwidth = 1\n"), width=0)
    with pytest.raises(TfmError, match=r"^--preset: 'bgi' is not one of small, big. Did you mean big\?$"):
        train(preset="bgi")


def test_a_file_that_is_not_utf8_or_not_there_is_named(here):
    Path("tfm.toml").write_bytes(b'[train]\ndata = "\xff"\n')
    with pytest.raises(TfmError, match=r"^tfm.toml: the file is not UTF-8 text"):
        find_project()
    with pytest.raises(TfmError, match=r"^gone.toml: cannot read it: No such file"):
        Project.load("gone.toml")


def test_a_byte_order_mark_is_no_error(here):
    Path("tfm.toml").write_text("\ufeff[train]\nwidth = 3\n", encoding="utf-8")
    assert find_project().check(COMMANDS).tables == {"train": {"width": 3}}


def test_all_missing_values_are_named_at_once(here):
    with pytest.raises(TfmError) as error:
        resolve("preprocess", (Reading,)).require("source", "output", "target")
    assert str(error.value) == (
        "preprocess needs --source and --target. "
        "There is no tfm.toml here; `tfm init` writes one, or give them as options."
    )
    with pytest.raises(TfmError, match=r"preprocess needs --target\. Add it to \[preprocess\] in tfm.toml, or give it"):
        resolve("preprocess", (Reading,), project('[preprocess]\nsource = "a"\n')).require("source", "target")


def test_a_required_option_without_a_value_is_an_error():
    @dataclass(frozen=True)
    class Needy:
        output: str | None = option(None, "Folder.", required=True, example="mean/")

    with pytest.raises(TfmError, match=r"^average needs --output.*or give it as options, such as --output mean/\.$"):
        resolve("average", (Needy,))
    assert resolve("average", (Needy,), given={"output": "x"})[Needy].output == "x"


def test_an_option_in_two_sections_reaches_both():
    @dataclass(frozen=True)
    class Other:
        rate: float = option(7.0, "Another rate.")

    settings = resolve("train", (Running, Other), given={"rate": 0.3})
    assert (settings[Running].rate, settings[Other].rate) == (0.3, 0.3)
    assert resolve("train", (Running, Other))[Other].rate == 7.0


def test_settings_written_as_toml_are_the_same_settings(here):
    settings = train(width=5, data='a "quoted" \\ path', resume=True)
    file = Path("tfm.toml")
    file.write_text(settings.as_toml(), encoding="utf-8")
    assert train(Project.load(file).check(COMMANDS))[Running] == settings[Running]
    assert settings.as_dict()["data"] == 'a "quoted" \\ path'


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.booleans(), st.lists, max_leaves=5
    )
)
def test_a_value_survives_toml(value):
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


@dataclass(frozen=True)
class Budgeted:
    budget: int | str = option(5, "Budget.", minimum=1, words=("auto",))


def test_a_word_stands_in_place_of_a_number(here):
    """In the file and on the command line; any other word is refused, and the message names it."""
    (here / "tfm.toml").write_text('[train]\nbudget = "auto"\n')
    file = find_project().check({"train": (Budgeted,)})
    key = keys((Budgeted,))["budget"]
    assert resolve("train", (Budgeted,), file)[Budgeted].budget == "auto"
    assert resolve("train", (Budgeted,), given={"budget": key.parse("auto")})[Budgeted].budget == "auto"
    assert key.parse("7") == 7
    with pytest.raises(TfmError, match=r'^--budget: a whole number or "auto" is needed, not \'many\'\.$'):
        key.parse("many")
    (here / "tfm.toml").write_text('[train]\nbudget = "many"\n')
    with pytest.raises(TfmError, match=r'tfm.toml: \[train\] budget: a whole number or "auto" is needed, not "many"'):
        find_project().check({"train": (Budgeted,)})
