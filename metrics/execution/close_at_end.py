"""Closes at the end of a ``with`` whatever was opened inside it: the caches of a command."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from typing import Protocol, TypeVar

# of this thread: what other threads open is theirs to close
_in_force: ContextVar[ExitStack | None] = ContextVar("close_at_end", default=None)


class Closable(Protocol):
    """A resource that can be closed, more than once."""

    def close(self) -> None:
        """Lets go of what it holds."""


Opened = TypeVar("Opened", bound=Closable)


@contextmanager
def close_all_at_end() -> Iterator[None]:
    """Closes at its end what `close_at_end` is told inside it, the last first.

    An error of what is inside is raised as it is, whatever goes wrong with closing then.
    """
    stack = ExitStack()
    outer = _in_force.set(stack)
    try:
        try:
            yield
        finally:
            _in_force.reset(outer)
    except BaseException:
        with suppress(Exception):
            stack.close()
        raise
    stack.close()


def close_at_end(opened: Opened) -> Opened:
    """The same, to be closed by the `close_all_at_end` that this thread is in, if any."""
    stack = _in_force.get()
    if stack is not None:
        stack.callback(opened.close)
    return opened
