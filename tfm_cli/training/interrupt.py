"""Ctrl-C and SIGTERM in the middle of a run."""

import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

REPEATED = 2.0  # seconds within which a launcher passes on the Ctrl-C that the terminal has sent already
GRACE = 20.0  # seconds after SIGTERM; torchrun kills after 30


class Interrupt:
    """Turns the first Ctrl-C (or SIGTERM) into the flag ``asked``; a second one interrupts at once.

    Among several processes, ``give_up`` given, two things differ. torchrun passes a Ctrl-C on that the terminal has sent to
    all of them, so what comes within `REPEATED` is the same one. And by SIGTERM it ends the others after one has died: then
    the step in which the flag would be told to all never ends. So `GRACE` after a SIGTERM ``give_up`` is called; by a
    thread, since Python's own handlers wait until a collective returns.
    """

    def __init__(self, say: Callable[[str], None], give_up: Callable[[], None] | None = None) -> None:
        self.asked = False
        self._say, self._give_up = say, give_up
        self._first = 0.0
        self._old: dict[signal.Signals, Any] = {}
        self._over = threading.Event()

    def _ask(self, number: int, frame: object) -> None:
        if self._give_up is not None and (number == signal.SIGTERM or time.monotonic() < self._first + REPEATED):
            self.asked = True
            return
        if self.asked:
            raise KeyboardInterrupt
        self.asked, self._first = True, time.monotonic()
        self._say("stopping: this step is finished and everything saved. Ctrl-C once more stops at once, unsaved.")

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            if self._give_up is not None:
                self._listen(self._give_up)
            self._old = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _listen(self, give_up: Callable[[], None]) -> None:
        """Have the numbers of signals written to a socket as they come, and read them in a thread."""
        receiver, sender = socket.socketpair()
        sender.setblocking(False)
        self._sender, self._wakeup = sender, signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)

        def listen() -> None:
            with receiver:
                while numbers := receiver.recv(64):
                    if signal.SIGTERM in numbers and not self._over.wait(GRACE):
                        give_up()

        threading.Thread(target=listen, daemon=True).start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        if not self._old:
            return
        if self._give_up is not None:
            signal.set_wakeup_fd(self._wakeup)
            self._sender.close()
            if kind is not None:  # the launcher's SIGTERM is on its way, and must not come before the message
                del self._old[signal.SIGTERM]
        for number, handler in self._old.items():
            signal.signal(number, handler)
