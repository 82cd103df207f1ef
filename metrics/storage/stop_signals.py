"""The signals that ask a program to stop, put off or ignored for a while. Only the main thread can have handlers.

On Windows there is no SIGHUP.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
NUMBERS = tuple(signal.Signals[name] for name in NAMES if name in signal.Signals.__members__)


def heeded() -> list[int]:
    """The numbers of those that are not ignored: what nohup or a shell ignores stays so."""
    return [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def put_off(at_end: Callable[[list[int]], object] = list) -> Iterator[list[int]]:
    """Signals that have handlers are handled at the end of the block.

    Args:
        at_end: called before they are, with the numbers of those that came.

    Yields:
        The numbers of those that came so far; what is added there is handled too.
    """
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    handlers = {number: one for number, one in _handlers().items() if callable(one)}
    try:
        with _replaced(handlers, note):
            yield came
    finally:
        at_end(came)
        for number in came:
            if number in handlers:
                handlers[number](number, None)


@contextmanager
def ignored() -> Iterator[None]:
    """Signals change nothing."""
    with _replaced(_handlers(), signal.SIG_IGN):
        yield


def put_back(number: int, handler: Any) -> None:
    """Sets the handler that `signal.getsignal` gave before."""
    # None where it was not set in Python
    signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _handlers() -> dict[int, Any]:
    """The handler of each signal; none outside the main thread, where handlers cannot be set."""
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
            put_back(number, before)
