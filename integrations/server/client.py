"""Requests to a server: retries with back-off, limits on time, size and number, errors that never show the key.

What may pass is tried again: connections that fail or break, requests that take too long, the status codes of `PASSING`
(after the time in ``Retry-After``, if the server names one), and replies that are no JSON. It knows nothing of
candidates. Requests run in an event loop in a thread of its own, so that an interrupted program can drop them at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from concurrent.futures import Future
from email.utils import parsedate_to_datetime
from threading import Thread
from time import time
from types import TracebackType
from typing import Any

from ...metrics.errors import InputError, ResourceError
from ...metrics.spec.limits import limits
from ...metrics.spec.small_files import check_json_size
from ..files.strict_json import parse_json
from .settings import Connection

PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
BUSY = frozenset({429, 503, 529})  # of those: the request was not looked at
REFUSALS = frozenset({400, 413, 422})
NOT_THERE = frozenset({404, 405, 501})
FIXES = {
    401: "Name the environment variable that holds the key in key_variable",
    403: "May the key in key_variable use this model?",
    404: "Do base_url and model exist, and does the server have chats, if chat is set?",
}
LONGEST_WAIT_SECONDS = 60.0


class RefusedError(InputError):
    """The server will not do what this request asks for; another request may do."""


class UnusableError(InputError):
    """The server will do nothing: a key, a model or an address that it does not know."""


class NotThereError(UnusableError):
    """It knows no such path, or no such model."""


class ExhaustedError(ResourceError):
    """What may pass did not while the request was repeated; later it may."""


class BusyError(ExhaustedError):
    """The server had no room for the request, whatever stands in it."""


class _PassingError(Exception):
    """What may pass: the problem, whether the server was reached, had room, and the seconds to wait that it names."""

    def __init__(
        self,
        problem: str,
        reached: bool = True,
        wait_seconds: float | None = None,
        busy: bool = False,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.reached = reached
        self.busy = busy
        self.wait_seconds = wait_seconds


class Client:
    """Posts JSON; a context manager, at whose end open requests are dropped.

    Args:
        connection: how the server is reached.

    Raises:
        InputError: the key cannot be had.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._key = connection.key()
        self._open: set[Future[Any]] = set()

    def __enter__(self) -> Client:
        """Itself."""
        import httpx2

        headers = {"Content-Type": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        http_limits = httpx2.Limits(max_connections=self._connection.connections)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="discorank-server", daemon=True)
        self._slots = asyncio.Semaphore(self._connection.connections)
        self._http = httpx2.AsyncClient(headers=headers, limits=http_limits, timeout=None)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Drops what is under way."""
        for future in list(self._open):
            future.cancel()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Waits until all that was cancelled has ended."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await self._http.aclose()

    def post(self, path: str, body: Mapping[str, Any]) -> Future[Any]:
        """The JSON value that the server answers, to come; as many requests at a time as there are connections.

        Raises (where the result is asked for):
            ResourceError: the server cannot be reached.
            RefusedError: it answers that the request is wrong.
            UnusableError: it answers with any other code that will not pass.
            ExhaustedError: what may pass did not.
            InputError: a reply is too large; the request cannot be written as JSON.
        """
        future = asyncio.run_coroutine_threadsafe(self._posted(path, body), self._loop)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    async def _posted(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a request that is repeated while what may pass goes wrong."""
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt

        content = _request_content(body)
        url = f"{self._connection.base_url.rstrip('/')}/{path}"
        attempts = self._connection.retries + 1
        retrying = AsyncRetrying(
            stop=stop_after_attempt(attempts),
            wait=self._wait_seconds,
            retry=retry_if_exception_type(_PassingError),
            reraise=True,
        )
        try:
            return await retrying(self._attempt, url, content)
        except _PassingError as error:
            problem = error.problem
            if attempts > 1:
                problem = f"{problem}, {attempts} times"
            if not error.reached:
                raise ResourceError(
                    problem,
                    where="server",
                    fix="Start it, then run the same command again",
                ) from None
            kind = BusyError if error.busy else ExhaustedError
            raise kind(
                problem,
                where="server",
                fix="Raise retries, or lower connections",
            ) from None

    def _wait_seconds(self, state: Any) -> float:
        """How long to wait before the next attempt: as the server says, or twice as long as before."""
        from tenacity import wait_exponential, wait_random

        named_seconds = state.outcome.exception().wait_seconds
        if named_seconds is not None:
            return float(min(named_seconds, LONGEST_WAIT_SECONDS))
        first_seconds = self._connection.backoff_seconds
        growing = wait_exponential(multiplier=first_seconds, max=LONGEST_WAIT_SECONDS)
        # by chance, so that requests that failed together are not repeated together
        scattered = growing + wait_random(0, first_seconds)
        return min(float(scattered(state)), LONGEST_WAIT_SECONDS)

    async def _attempt(self, url: str, content: bytes) -> Any:
        """The JSON value that one request brings; `_PassingError` for what may pass."""
        status, headers, reply = await self._sent(url, content)
        self._check(status, headers, reply)
        _check_size(reply)
        try:
            value = parse_json(reply)
        except (InputError, UnicodeDecodeError, RecursionError):
            shown = self._shown(_text(reply))[:300]
            raise _PassingError(f"a reply that is no JSON: {shown}") from None
        if isinstance(value, dict) and value.get("error"):
            shown = self._shown(_message(reply))[:300]
            raise _PassingError(f"a reply with an error: {shown}")
        return value

    async def _sent(self, url: str, content: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and the reply of one request; everything that breaks a connection as `_PassingError`."""
        import httpx2

        seconds = self._connection.timeout_seconds
        try:
            async with self._slots, asyncio.timeout(seconds):
                return await self._exchanged(url, content)
        except TimeoutError:
            raise _PassingError(f"no reply within {seconds:g} seconds") from None
        except httpx2.ConnectError as error:
            shown = self._shown(f"cannot be reached ({error})")
            raise _PassingError(shown, reached=False) from None
        except (httpx2.TransportError, httpx2.DecodingError) as error:
            shown = self._shown(f"the connection broke ({type(error).__name__}: {error})")
            raise _PassingError(shown) from None
        except httpx2.InvalidURL as error:
            raise UnusableError(f"cannot be asked ({error})", where="base_url") from None

    async def _exchanged(self, url: str, content: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and the reply, of limited size."""
        reply = bytearray()
        async with self._http.stream("POST", url, content=content) as response:
            async for piece in response.aiter_bytes():
                reply += piece
                if len(reply) > limits().reply_bytes:
                    problem = f"a reply of more than {limits().reply_bytes} bytes"
                    raise InputError(problem, where="server")
        return response.status_code, response.headers, bytes(reply)

    def _check(self, status: int, headers: Mapping[str, str], reply: bytes) -> None:
        """Raises for every status but 200."""
        if status == 200:
            return
        shown = self._shown(_message(reply))[:300]
        problem = f"status {status}: {shown}"
        if status in PASSING:
            wait_seconds = _named_wait(headers.get("retry-after"))
            raise _PassingError(problem, wait_seconds=wait_seconds, busy=status in BUSY)
        if status in REFUSALS:
            raise RefusedError(problem, where="server")
        kind = NotThereError if status in NOT_THERE else UnusableError
        raise kind(
            problem,
            where="server",
            fix=FIXES.get(status, "Is base_url that of an OpenAI-compatible server?"),
        )

    def _shown(self, text: str) -> str:
        """Text for a message, in which the key does not stand: servers quote it."""
        return text.replace(self._key, "[key]") if self._key else text


def _request_content(body: Mapping[str, Any]) -> bytes:
    """A request as JSON; raises InputError for NaN, or for half of a surrogate pair."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        problem = f"a request that cannot be written as JSON ({error})"
        raise InputError(problem, where="server") from None


def _message(reply: bytes) -> str:
    """What a server says is wrong: the innermost value under these keys, or the whole reply."""
    try:
        value = parse_json(reply)
    except (InputError, UnicodeDecodeError, RecursionError):
        return _text(reply)
    while isinstance(value, dict):
        values = (value[key] for key in ("error", "message", "detail") if key in value)
        value = next(values, str(value))
    return str(value)


def _text(reply: bytes) -> str:
    """The start of a reply, long enough that a key at the end of what is shown is whole."""
    return reply[:10_000].decode("utf-8", "replace").strip() or "nothing"


def _check_size(reply: bytes) -> None:
    """Raises InputError for a reply of more values than are read, which is no fault that passes."""
    try:
        check_json_size(reply)
    except InputError as error:
        raise error.inside("server") from None


def _named_wait(header: str | None) -> float | None:
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
