"""Failures of a request to a server: those that may pass, faults of the request, and those that end everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from time import time

from ...metrics.errors import InputError, ResourceError
from ...metrics.storage.json_and_yaml import parse_json

PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
BUSY = frozenset({429, 503, 529})  # of those: the request was not looked at
REFUSALS = frozenset({400, 413, 422})
NOT_THERE = frozenset({404, 405, 501})
FIXES = {
    401: "Name the environment variable that holds the key in key_variable",
    403: "May the key in key_variable use this model?",
    404: "Do base_url and model exist, and does the server have chats, if chat is set?",
}


class RefusedError(InputError):
    """The server will not do what this request asks for; another request may do."""


class UnusableError(InputError):
    """The server will do nothing: a key, a model or an address that it does not know."""


class NotThereError(UnusableError):
    """It knows no such path, or no such model."""


class ExhaustedError(ResourceError):
    """A failure that may pass did not while the request was repeated; later it may."""


class BusyError(ExhaustedError):
    """The server had no room for the request, whatever stands in it."""


class SlowError(ExhaustedError):
    """No reply came in time."""


class PassingError(Exception):
    """A failure that may pass: the problem, its final error, and the seconds to wait that the server names."""

    def __init__(
        self,
        problem: str,
        kind: type[ResourceError] = ExhaustedError,
        wait_seconds: float | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.kind = kind
        self.wait_seconds = wait_seconds

    def at_last(self, attempts: int) -> ResourceError:
        """The error of a request that is not repeated any more."""
        problem = self.problem if attempts == 1 else f"{self.problem}, {attempts} times"
        fix = "Raise retries, or lower connections"
        if self.kind is ResourceError:
            fix = "Start it, then run the same command again"
        return self.kind(problem, where="server", fix=fix)


def check_status(
    status: int, headers: Mapping[str, str], reply: bytes, shown: Callable[[str], str]
) -> None:
    """Raises for every status but 200.

    Args:
        status, headers, reply: what the server answered.
        shown: takes the key out of a text.

    Raises:
        PassingError: it may pass.
        RefusedError: another request may do.
        UnusableError: none will.
    """
    if status == 200:
        return
    problem = f"status {status}: {shown(message_of(reply))[:300]}"
    if status in PASSING:
        wait_seconds = named_wait(headers.get("retry-after"))
        kind = BusyError if status in BUSY else ExhaustedError
        raise PassingError(problem, kind, wait_seconds)
    if status in REFUSALS:
        raise RefusedError(problem, where="server")
    final_kind = NotThereError if status in NOT_THERE else UnusableError
    fix = FIXES.get(status, "Is base_url that of an OpenAI-compatible server?")
    raise final_kind(problem, where="server", fix=fix)


def message_of(reply: bytes) -> str:
    """A server's message of an error: the innermost value under these keys, or the whole reply."""
    try:
        value = parse_json(reply)
    except (InputError, UnicodeDecodeError, RecursionError):
        return text_of(reply)
    while isinstance(value, dict):
        values = (value[key] for key in ("error", "message", "detail") if key in value)
        value = next(values, str(value))
    return str(value)


def text_of(reply: bytes) -> str:
    """The start of a reply, long enough that a key at the end of what is shown is whole."""
    return reply[:10_000].decode("utf-8", "replace").strip() or "nothing"


def named_wait(header: str | None) -> float | None:
    """Seconds in a ``Retry-After`` header: a number or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except (ValueError, TypeError, OverflowError):
        return None
