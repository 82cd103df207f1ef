"""Signals that ask to stop, kept away from Ray: an exception that a handler raises inside it is turned or lost.

Calls into Ray end within a second or so, and what was put off comes then.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from ....metrics.storage import stop_signals


@contextmanager
def put_off() -> Iterator[None]:
    """Signals that have handlers are handled at the end of the block.

    While Ray starts, it has handlers of its own for SIGTERM: one in Python that exits, and one in C++ that prints where
    it came and has the process aborted three seconds later.
    """
    with stop_signals.put_off(_keep_running) as came:
        try:
            yield
        except SystemExit:
            came.append(signal.SIGTERM)
            raise


def _keep_running(came: list[int]) -> None:
    """Takes back the alarm that Ray sets at SIGTERM."""
    if signal.SIGTERM in came:
        signal.alarm(0)
