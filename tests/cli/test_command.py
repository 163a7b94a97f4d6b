from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from tfm_cli.cli.command import Command, Invocation, expand_lists, list_options, register
from tfm_cli.errors import TfmError
from tfm_cli.options import option


@dataclass(frozen=True)
class Sample:
    input: Sequence[str] = option([], "Files.", short="-i")
    count: int | None = option(None, "Count [of things].", minimum=0)
    rate: float = option(0.5, "Rate.")
    kind: str = option("small", "Kind.", choices=("small", "large"))
    fast: bool = option(False, "Fast.")
    careful: bool = option(True, "Careful.")


@dataclass(frozen=True)
class Bare:
    model: str = option("run", "Model folder.", positional=True)
    others: Sequence[str] = option([], "More.", positional=True)


SAMPLE = Command("sample", "Do it.", "", (Sample,), "nowhere:run", examples=("# why", "tfm sample --kind [x]"))


BARE = Command("bare", "Look.", "", (Bare,), "nowhere:run")


def parse(*words: str, command: Command = SAMPLE) -> dict[str, object]:
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.callback()(lambda: None)
    register(app, command)
    invocation = app([command.name, *expand_lists(words, list_options(command))], standalone_mode=False)
    assert isinstance(invocation, Invocation)
    return invocation.given


def test_only_what_was_typed_is_given():
    assert parse() == {}


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["--input", "a", "b"], {"input": ["a", "b"]}),
        (["--input", "a", "--input", "b"], {"input": ["a", "b"]}),
        (["-i", "a", "-", "--count", "3"], {"input": ["a", "-"], "count": 3}),
        (["--input=a", "b", "--fast"], {"input": ["a", "b"], "fast": True}),
        (["--count", "-1"], {"count": -1}),
        (["--rate", "1e-3"], {"rate": 0.001}),
        (["--rate=-2"], {"rate": -2.0}),
        (["--no-fast", "--no-careful"], {"fast": False, "careful": False}),
        (["--careful"], {"careful": True}),
        (["--kind", "large"], {"kind": "large"}),
    ],
)
def test_values_are_read_by_their_types(words, given):
    assert parse(*words) == given


def test_a_value_of_the_wrong_type_is_our_own_error():
    with pytest.raises(TfmError, match=r"^--count: a whole number is needed, not '3.5'\.$"):
        parse("--count", "3.5")


def test_nothing_after_two_dashes_is_touched():
    assert expand_lists(["--input", "a", "--", "b", "c"], frozenset({"--input"})) == ["--input", "a", "--", "b", "c"]


@given(st.lists(st.sampled_from(["--input", "--other", "a", "b", "-", "--input=c", "--"])))
def test_words_in_their_order_are_all_kept(words):
    expanded = expand_lists(words, frozenset({"--input"}))
    rest = iter(expanded)
    assert all(word in rest for word in words)
    assert set(expanded) <= {*words, "--input"}
    assert len(expanded) <= 2 * len(words)


@given(st.lists(st.text("ab-", min_size=1).filter(lambda v: v == "-" or not v.startswith("-")), min_size=1))
def test_several_values_are_the_same_as_a_repeated_option(values):
    repeated = [word for value in values for word in ("--input", value)]
    assert expand_lists(["--input", *values], frozenset({"--input"})) == repeated
    assert expand_lists(repeated, frozenset({"--input"})) == repeated


def test_the_help_shows_defaults_choices_brackets_and_examples(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.callback()(lambda: None)
    register(app, SAMPLE)
    app(["sample", "--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    for text in (
        "Count [of things].",
        "Rate. [default: 0.5]",
        "small|large",
        "Careful. [default: yes]",
        "# why",
        "$ tfm sample --kind [x]",
    ):
        assert text in shown
    assert "--no-careful" in shown
    assert "--no-fast" not in shown


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], {}),
        (["a"], {"model": "a"}),
        (["--model", "a"], {"model": "a"}),
        (["a", "b", "c"], {"model": "a", "others": ["b", "c"]}),
        (["a", "--others", "b", "c"], {"model": "a", "others": ["b", "c"]}),
    ],
)
def test_a_value_may_stand_without_the_name_of_its_option(words, given):
    assert parse(*words, command=BARE) == given


def test_a_value_given_with_and_without_its_name_is_an_error():
    with pytest.raises(TfmError, match=r"^--model: it is given twice"):
        parse("a", "--model", "b", command=BARE)


def test_the_help_tells_which_name_may_be_left_out(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    app = typer.Typer(add_completion=False, rich_markup_mode="rich")
    app.callback()(lambda: None)
    register(app, BARE)
    app(["bare", "--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "[MODEL] [OTHERS]..." in shown
    assert "Model folder. [default: run; --model may be left out]" in shown
