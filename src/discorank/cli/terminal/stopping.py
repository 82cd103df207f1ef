"""Signals that ask a command to stop: SIGINT, SIGTERM and SIGHUP are one exception, once, wherever they come.

The first is recorded and raised as a KeyboardInterrupt, which passes every `except Exception`; should a library turn it
into something else, or lose it, the record tells. Those that come while the command ends change nothing, unless it
takes long. A signal that was ignored at the start, as nohup has it, stays ignored.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Any

from ...metrics.storage.stop_signals import heeded, put_back

PATIENCE_SECONDS = 10.0  # in which a further signal does not disturb the ending
AGAIN_SECONDS = 0.05  # until a signal is sent again whose exception was lost


class TerminatedError(KeyboardInterrupt):
    """SIGTERM or SIGHUP; what saves and cleans up at Ctrl-C does so here."""


class Stop:
    """The signal that a command was stopped by, if it was.

    Attributes:
        number: that of the first signal; None if there was none.
        ended: whether nothing more is to be disturbed.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self.raised_at = 0.0
        self.ended = False

    def exit_code(self, error: KeyboardInterrupt) -> int:
        """128 and the number of the signal, as in shells: 130, 143, 129."""
        raised_by = signal.SIGTERM if isinstance(error, TerminatedError) else signal.SIGINT
        return 128 + (self.number or raised_by)

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal.

        Raises:
            KeyboardInterrupt: it is the first, or the command has been ending for long.
        """
        is_first = self.number is None
        if self.ended or not (is_first or monotonic() - self.raised_at > PATIENCE_SECONDS):
            return
        self.number = self.number or number
        self.raised_at = monotonic()
        raise KeyboardInterrupt if self.number == signal.SIGINT else TerminatedError

    def lost(self, unraisable: Any) -> None:
        """Takes note of an exception that nobody could catch, such as one in a destructor; a stop is sent again."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt) or self.number is None:
            sys.__unraisablehook__(unraisable)
            return
        number, self.number = self.number, None
        timer = threading.Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
        timer.daemon = True
        timer.start()


@contextmanager
def stoppable(is_program: bool) -> Iterator[Stop]:
    """Handles the signals within the block; behind it those of a program that ends are ignored.

    Args:
        is_program: whether nothing follows but the end of the process; otherwise the handlers before are put back.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread can have handlers
        return
    handlers = {number: signal.getsignal(number) for number in heeded()}
    hook, sys.unraisablehook = sys.unraisablehook, stop.lost
    for number in handlers:
        signal.signal(number, stop.take)
    try:
        yield stop
    finally:
        stop.ended = True
        sys.unraisablehook = hook
        for number, handler in handlers.items():
            put_back(number, signal.SIG_IGN if is_program else handler)
