"""Errors in OpenAI's form: ``{"error": {"message", "type", "param", "code"}}``, with a status that says whose they are.

400 the request         401 its key          404 no such path or model      408, 413, 415 how it was sent
429 no room, here or upstream                502 upstream failed            503 no choice can be made
504 upstream took too long
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ..server.error_details import NO_DETAILS, ErrorDetails
from ..server.exchange import BusyError, NotThereError, RefusedError, SlowError, UnusableError

RETRY_SECONDS = {429: 1, 503: 5}  # by the status of a reply, if nothing else is known
_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


@dataclass(eq=False)
class ApiError(Exception):
    """An answer that is an error.

    Args:
        status: of the reply.
        message: what is wrong.
        param: the key of the request that is.
        code: a word for it.
        retry_seconds: when to come again.
        report: what those who run the server are told of it.
        request_id: that the server upstream gave the request.
    """

    status: int
    message: str
    param: str | None = None
    code: str | None = None
    retry_seconds: int | None = None
    report: str = ""
    request_id: str | None = None

    def __post_init__(self) -> None:
        super().__init__(self.message)
        self.retry_seconds = self.retry_seconds or RETRY_SECONDS.get(self.status)

    @property
    def body(self) -> dict[str, Any]:
        """The reply."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {
            "message": self.message,
            "type": _TYPES.get(self.status, kind),
            "param": self.param,
            "code": self.code,
        }
        return {"error": error}

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the reply."""
        headers = {"retry-after": self.retry_seconds, "x-request-id": self.request_id}
        return {name: str(value) for name, value in headers.items() if value is not None}


def shown(value: Any) -> str:
    """The start of a value that came with a request, for a message.

    >>> shown(10**5000), shown("ab")
    ('a number of more than 4300 digits', "'ab'")
    """
    try:
        return f"{value!r:.60}"
    except ValueError:  # as Python does not write such numbers
        return "a number of more than 4300 digits"


def bad(problem: str, param: str, fix: str = "", code: str | None = None) -> ApiError:
    """The refusal of a request for what stands under a key."""
    return ApiError(400, str(InputError(problem, where=param, fix=fix)), param, code)


class NoLogprobsError(InputError):
    """An upstream gives no log-probabilities, so that its candidates would be paid for nothing."""

    def __init__(self) -> None:
        super().__init__("gives no log-probabilities, which the choice reads", where="server")


# the status of a failure upstream, and the code where the server names none
_FAILURES: tuple[tuple[type[DiscorankError], int, str], ...] = (
    (RefusedError, 400, "refused_upstream"),
    (NotThereError, 404, "not_found_upstream"),
    (BusyError, 429, "busy_upstream"),
    (SlowError, 504, "slow_upstream"),
    (DiscorankError, 502, "failed_upstream"),
)


def from_upstream(error: DiscorankError) -> ApiError:
    """The failure upstream, as the answer to a request, with the code, the parameter and the id that it came with."""
    details: ErrorDetails = getattr(error, "details", NO_DETAILS)
    if isinstance(error, UnusableError) and not isinstance(error, NotThereError):
        # what the server quotes of the key it was sent is nobody's business
        problem = "upstream: it refuses this server, or its address is wrong"
        report = f"upstream: {error}"
        return ApiError(502, problem, code="unusable_upstream", report=report)
    if isinstance(error, NoLogprobsError):
        problem = f"upstream: {error.problem}"
        return ApiError(503, problem, code="no_choice", retry_seconds=60, report=problem)
    status, code = next(row[1:] for row in _FAILURES if isinstance(error, row[0]))
    return ApiError(
        status,
        f"upstream: {error.problem}",
        details.param,
        details.code or code,
        request_id=details.request_id,
    )


def no_choice(error: DiscorankError) -> ApiError:
    """Why a choice could not be made, as the answer to a request."""
    problem = f"no choice could be made: {error}"
    return ApiError(503, problem, code="no_choice", report=problem)
