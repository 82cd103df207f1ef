"""Signals that ask to stop, kept away from Ray: an exception that a handler raises inside it is turned or lost.

Calls into Ray end within a second or so, and what was put off comes then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def put_off() -> Iterator[None]:
    """Signals that have handlers are handled at the end of the block.

    While Ray starts, it has handlers of its own for SIGTERM: one in Python that exits, and one in C++ that prints where
    it came and has the process aborted three seconds later.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    handlers = {number: one for number, one in _handlers().items() if callable(one)}
    try:
        with _replaced(handlers, note):
            yield
    except SystemExit:
        if signal.SIGTERM in handlers:
            came.append(signal.SIGTERM)
        raise
    finally:
        if signal.SIGTERM in came:
            signal.alarm(0)
        for number in came:
            handlers[number](number, None)


@contextmanager
def ignored() -> Iterator[None]:
    """Signals change nothing."""
    with _replaced(_handlers(), signal.SIG_IGN):
        yield


def _handlers() -> dict[int, Any]:
    """What handles each signal; nothing outside the main thread, where handlers cannot be set."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in NUMBERS}


@contextmanager
def _replaced(handlers: Mapping[int, Any], handler: Any) -> Iterator[None]:
    """Another handler stands in the place of some."""
    try:
        for number in handlers:
            signal.signal(number, handler)
        yield
    finally:
        for number, before in handlers.items():
            # None where it was not set in Python
            signal.signal(number, signal.SIG_DFL if before is None else before)
