"""Ctrl-C and SIGTERM, alone and among several processes."""

import signal
import threading

import pytest

from tfm_cli.training import interrupt
from tfm_cli.training.interrupt import Interrupt


def quiet(message: str) -> None:
    pass


def test_alone_the_first_one_asks_and_the_second_one_stops() -> None:
    said: list[str] = []
    with Interrupt(said.append) as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked.asked
        assert len(said) == 1
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_among_several_what_the_launcher_passes_on_is_the_same_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with Interrupt(said.append, give_up=lambda: None) as asked:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert asked.asked
        assert len(said) == 1
        monkeypatch.setattr(interrupt, "REPEATED", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_after_a_sigterm_the_process_gives_up_even_where_python_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE", 0.05)
    gave_up = threading.Event()
    with Interrupt(quiet, give_up=gave_up.set) as asked:
        signal.raise_signal(signal.SIGTERM)
        assert asked.asked
        assert gave_up.wait(10)


def test_a_run_that_ends_in_time_does_not_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "GRACE", 0.3)
    gave_up = threading.Event()
    before = signal.getsignal(signal.SIGTERM)
    with Interrupt(quiet, give_up=gave_up.set):
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not gave_up.wait(0.6)


def test_on_the_way_out_with_an_error_sigterm_does_not_kill_before_the_message() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(ValueError), Interrupt(quiet, give_up=lambda: None):
            raise ValueError
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
