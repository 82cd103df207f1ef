"""What an error of a server says beside its message: code, parameter, the request's id, and whose fault it is.

{"error": {"message", "type", "param", "code"}}      OpenAI's form, also without the object around it
{"detail": [{"loc": [...], "msg", "type"}]}          a request that FastAPI could not read

Some servers answer a request that they cannot read with status 500: its own type or message says so then. Repeating it
would bring the same again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json

REQUEST_IDS = ("x-request-id", "request-id")  # headers
_LONGEST = 200  # characters of a code, a parameter or an id
_TYPES_OF_REQUESTS = re.compile(
    r"invalid_?request|bad_?request|invalid_?parameter|validation_?error|value_?error|unsupported",
    re.I,
)
_MESSAGES_OF_REQUESTS = re.compile(
    r"\b(ValueError|TypeError|KeyError|ValidationError|BadRequestError)\b|\bvalidation errors? for\b"
    r"|\bunexpected keyword argument\b|\b(invalid|unknown|unsupported|unrecognized) (parameter|argument|value)\b"
    r"|\b(must|should) be (an?|in|at|one|of|either|less|greater|between|positive|non-negative|strictly)\b",
    re.I,
)


class ErrorDetails(NamedTuple):
    """The code of an error, the parameter that it names, and the id that the server gave the request."""

    code: str | None = None
    param: str | None = None
    request_id: str | None = None


NO_DETAILS = ErrorDetails()


def details_of(
    headers: Mapping[str, str], reply: bytes, shown: Callable[[str], str]
) -> ErrorDetails:
    """The details of a reply that is an error.

    Args:
        headers, reply: what the server answered.
        shown: takes the key out of a text.
    """
    error = _error_of(reply)
    code, param = (_short(error.get(key), shown) for key in ("code", "param"))
    return ErrorDetails(code, param, request_id_of(headers, shown))


def request_id_of(headers: Mapping[str, str], shown: Callable[[str], str]) -> str | None:
    """The id that a server gave a request."""
    return next((_short(headers[name], shown) for name in REQUEST_IDS if name in headers), None)


def is_fault_of_request(status: int, reply: bytes) -> bool:
    """Whether a reply of status 500 or above says that the request is wrong, so that it would fail again."""
    if status < 500:
        return False
    error = _error_of(reply)
    kinds = [error.get("type"), error.get("code")]
    if any(isinstance(kind, str) and _TYPES_OF_REQUESTS.search(kind) for kind in kinds):
        return True
    message = error.get("message")
    return (
        status == 500 and isinstance(message, str) and bool(_MESSAGES_OF_REQUESTS.search(message))
    )


def _error_of(reply: bytes) -> Mapping[str, Any]:
    """The object that tells about an error; empty where there is none."""
    try:
        value = parse_json(reply)
    except (InputError, UnicodeDecodeError, RecursionError):
        return {}
    for key in ("error", "detail"):
        inner = value.get(key) if isinstance(value, dict) else None
        if isinstance(inner, str):
            return {**value, "message": inner}
        value = inner if isinstance(inner, dict) else value
    return value if isinstance(value, dict) else {}


def _short(value: Any, shown: Callable[[str], str]) -> str | None:
    """A word of a server that may stand in a header: printable, of bounded length, without the key."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"{value:.0f}" if abs(value) < 1 << 31 else ""
    if not isinstance(value, str):
        return None
    plain = "".join(letter for letter in shown(value) if " " <= letter <= "~").strip()
    return plain[:_LONGEST] or None
