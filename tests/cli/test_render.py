import io
import sys

import pytest

from tfm_cli.cli import render
from tfm_cli.cli.render import Screen
from tfm_cli.errors import TfmError


def test_only_results_reach_stdout(capsys):
    screen = Screen(verbose=True)
    screen.say("said [bold]as it is[/bold]")
    screen.detail("detail")
    screen.warn("careful")
    screen.next_step("tfm train", "learn")
    screen.table(("a",), [("b",)])
    screen.result("我是谁\ttext")
    shown = capsys.readouterr()
    assert shown.out == "我是谁\ttext\n"
    assert shown.err == ("said [bold]as it is[/bold]\ndetail\nwarning: careful\n\nNext: tfm train  (learn)\na\nb\n")


def test_quiet_leaves_warnings_and_results(capsys):
    screen = Screen(quiet=True, verbose=True)
    screen.say("said")
    screen.detail("detail")
    screen.next_step("tfm train")
    screen.table(("a",), [("b",)])
    with screen.progress("Working", total=2) as meter:
        meter.advance(2)
    screen.warn("careful")
    screen.table(("a",), [("b",)], result=True)
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("a\nb\n", "warning: careful\n")


def test_details_are_only_for_those_who_ask(capsys):
    Screen().detail("detail")
    assert capsys.readouterr().err == ""


def test_a_message_is_never_folded_outside_a_terminal(capsys):
    Screen().say("word " * 100)
    assert capsys.readouterr().err.count("\n") == 1


def test_numbers_stand_right_and_chinese_takes_two_columns(capsys):
    Screen().table(("name", "score", "text"), [("BLEU", 9.5, "我"), ("我是", 100.0, "ab")], title="Title", result=True)
    assert capsys.readouterr().out == ("Title\nname   score  text\nBLEU    9.50  我\n我是  100.00  ab\n")


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys, monkeypatch):
    times = iter([0.0, 4.0, 12.0, 13.0, 25.0])
    monkeypatch.setattr(render.time, "monotonic", lambda: next(times))
    with Screen().progress("Translating", total=1000, unit="lines") as meter:
        for _ in range(4):
            meter.advance(100, note="beam 5")
    assert capsys.readouterr().err == (
        "Translating: 200/1,000 lines, 17/s, beam 5, 48 s left\nTranslating: 400/1,000 lines, 16/s, beam 5, 38 s left\n"
    )
    assert meter.done == 400


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm-256color")
    return stream


def test_on_a_terminal_there_is_a_bar_and_stdout_stays_clean(monkeypatch, capsys):
    terminal = on_terminal(monkeypatch)
    screen = Screen()
    with screen.progress("Translating", total=2, unit="lines") as meter:
        screen.result("first")
        meter.advance(2, note="half")
    shown = capsys.readouterr().out
    assert shown == "first\n"
    assert "Translating" in terminal.getvalue()
    assert "first" not in terminal.getvalue()


def test_a_question_is_asked_again_until_the_answer_is_a_choice(monkeypatch):
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("huge\n\n"))
    assert Screen().ask("Size", "small", ("small", "big")) == "small"
    assert "'huge' is not one of small, big" in terminal.getvalue()
    with pytest.raises(TfmError, match="the input ended"):
        Screen().ask("Size")
