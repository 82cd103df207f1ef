"""Requests to a server: retries with back-off, limits on time, size and number, errors that never show the key.

What may pass is tried again: connections that fail or break, requests that take too long, the status codes of `PASSING`
(after the time in ``Retry-After``, if the server names one), and replies that are no JSON. Other errors are the fault
of the request, or end everything. Redirects are not followed, and replies are not unpacked. It knows nothing of
candidates. `client` is the same for callers without an event loop.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.utils import parsedate_to_datetime
from random import uniform
from threading import Thread
from time import monotonic, time
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ...metrics.errors import LOG, DiscorankError, InputError, ResourceError
from ...metrics.optional_packages import require
from ...metrics.storage.json_and_yaml import check_json_size, parse_json
from ...metrics.storage.limits import limits
from .error_details import (
    NO_DETAILS,
    ErrorDetails,
    details_of,
    is_fault_of_request,
    request_id_of,
)
from .settings import Connection, http_address

# characters of a key: a shorter one, such as `token`, may be a word of any message
MASKED_FROM = 16
Hold = Callable[[int], None]
Parts = tuple[bytes | memoryview, ...]
V = TypeVar("V")


def proxy_of(address: str) -> str | None:
    """The proxy before a server, as the environment names it (https_proxy, no_proxy and the like).

    Raises:
        InputError: it is no proxy of HTTP, or no address.
    """
    parts = urlsplit(address)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme, proxies.get("all"))
    # no_proxy has the hosts of IPv6 without brackets
    if not proxy or any(map(proxy_bypass, (parts.netloc, parts.hostname or ""))):
        return None
    named = proxy if "://" in proxy else f"http://{proxy}"
    if http_address(named) is None:
        problem = "a proxy that is not an http address"
        fix = "Name one of HTTP, or the server in no_proxy"
        raise InputError(problem, where="environment", fix=fix)
    return named


LONGEST_WAIT_SECONDS = 60.0
MAX_DOUBLINGS = 64  # times that a wait is twice as long: more would be no float
FEW_BYTES = 1 << 16  # of JSON, which are read in a moment


class OpenReply(NamedTuple):
    """A reply that is coming: its status, its headers in small letters, and its bytes as the server sent them."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class JsonReply(NamedTuple):
    """The JSON value that a server answered, and the id that it gave the request."""

    value: Any
    request_id: str | None = None


class Exchange:
    """Requests to one server, in the event loop that runs; closed by `close`.

    Args:
        connection: how the server is reached.
        waits: whether requests wait for as long as the server says (``Retry-After``); else they fail at once until
            then.

    Raises:
        InputError: the key cannot be had, or the environment names a proxy that cannot be gone through.
        ModelLoadError: a package of the extra is not installed.
    """

    def __init__(self, connection: Connection, waits: bool = True) -> None:
        require("server", "aiohttp")
        self._connection, self._waits = connection, waits
        self._paused_until = 0.0
        self._key = connection.key()
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._headers, self._proxy = headers, proxy_of(connection.base_url)
        self._slots = asyncio.Semaphore(connection.connections)
        self._session: Any = None

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    def _request(
        self, method: str, url: str, parts: Parts, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Any]:
        """The response to a request, which is open within a block; redirects are not followed."""
        import aiohttp
        from yarl import URL

        if self._session is None:
            # it needs a running event loop, keeps nothing but connections, and takes bytes as they come
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(),
                auto_decompress=False,
            )
        content, further = _as_sent(parts)
        sending: AbstractAsyncContextManager[Any] = self._session.request(
            method,
            URL(url, encoded=True),
            data=content or None,
            headers={**headers, **further},
            allow_redirects=False,
            proxy=self._proxy,
        )
        return sending

    async def post(
        self,
        path: str,
        body: Mapping[str, Any] | Parts,
        retries: int | None = None,
        surrogates: bool = False,
        hold: Hold | None = None,
    ) -> Any:
        """The JSON value that the server answers; the request is repeated while what may pass goes wrong.

        Args:
            path: beneath the address of the server.
            body: the request, or the parts of its JSON.
            retries: how often it is repeated at most; as the connection says if not given.
            surrogates: whether texts of the reply may hold half of a surrogate pair.
            hold: takes the size of each piece of a reply as it comes; what it raises ends the request.

        Raises:
            ResourceError: the server cannot be reached.
            RefusedError: it answers that the request is wrong.
            UnusableError: it answers with any other code that will not pass.
            ExhaustedError: what may pass did not.
            InputError: a reply is too large; the request cannot be written as JSON.
        """
        return (await self.reply_to(path, body, retries, surrogates, hold)).value

    async def reply_to(
        self,
        path: str,
        body: Mapping[str, Any] | Parts,
        retries: int | None = None,
        surrogates: bool = False,
        hold: Hold | None = None,
    ) -> JsonReply:
        """As `post`, with the id of the request."""
        content = body if isinstance(body, tuple) else (request_content(body),)
        url = self._url(path)
        if not self._waits and self.pause_seconds:
            problem = f"busy; it may be asked again in {self.pause_seconds:.0f} seconds"
            raise BusyError(problem, where="server")
        attempts = (self._connection.retries if retries is None else retries) + 1
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(url, content, surrogates, hold)
            except PassingError as error:
                seconds = self._wait_seconds(attempt, error.wait_seconds)
                is_pause = error.wait_seconds is not None
                if is_pause:
                    self._paused_until = monotonic() + seconds
                if attempt == attempts or (is_pause and not self._waits):
                    raise error.at_last(attempt) from None
                LOG.warning("attempt %d failed: %s; trying again", attempt, error)
            await asyncio.sleep(seconds)

    @property
    def pause_seconds(self) -> float:
        """Seconds until the time at which the server last said that requests may come again."""
        return max(0.0, self._paused_until - monotonic())

    @asynccontextmanager
    async def opened(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: Mapping[str, str],
    ) -> AsyncIterator[OpenReply]:
        """A reply of any status, as it comes, to a request that is made once; its headers do not show the key.

        Raises (also while the pieces are read):
            ResourceError: the server cannot be reached, breaks off, or takes longer than it may.
            InputError: the reply is too large.
        """
        try:
            url = self._url(path)
            # called within the time, as what it gives has to be entered
            async with (
                self._in_time(),
                self._request(method, url, (content,), headers) as response,
            ):
                shown = {
                    name.lower(): self.shown(value) for name, value in response.headers.items()
                }
                yield OpenReply(response.status, shown, _bounded(response))
        except PassingError as error:
            raise error.at_last(1) from None

    def shown(self, text: str) -> str:
        """Text of an error or a header without the key, which servers quote, if it has `MASKED_FROM` characters."""
        key = self._key or ""
        return text.replace(key, "[key]") if len(key) >= MASKED_FROM else text

    def _url(self, path: str) -> str:
        """The address of a path beneath that of the server."""
        return f"{self._connection.base_url.rstrip('/')}/{path}"

    def _wait_seconds(self, attempt: int, named_seconds: float | None) -> float:
        """How long to wait after an attempt, counted from 1: as the server says, or twice as long each time."""
        if named_seconds is not None:
            return min(named_seconds, LONGEST_WAIT_SECONDS)
        first_seconds = self._connection.backoff_seconds
        growing = first_seconds * 2.0 ** min(attempt - 1, MAX_DOUBLINGS)
        # by chance, so that requests that failed together are not repeated together
        return min(growing + uniform(0, first_seconds), LONGEST_WAIT_SECONDS)

    async def _attempt(
        self, url: str, content: Parts, surrogates: bool, hold: Hold | None
    ) -> JsonReply:
        """The JSON value that one request brings; `PassingError` for what may pass."""
        status, headers, reply = await self._sent(url, content, hold)
        check_status(status, headers, reply, self.shown)
        _check_size(reply)
        try:
            value = await _parsed(reply, surrogates)
        except (InputError, UnicodeDecodeError, RecursionError):
            shown = self.shown(text_of(reply))[:300]
            raise PassingError(f"a reply that is no JSON: {shown}") from None
        if isinstance(value, dict) and value.get("error"):
            shown = self.shown(message_of(reply))[:300]
            problem = f"a reply with an error: {shown}"
            details = details_of(headers, reply, self.shown)
            if is_fault_of_request(500, reply):
                raise RefusedError(problem, where="server").with_details(details)
            raise PassingError(problem, details=details)
        return JsonReply(value, request_id_of(headers, self.shown))

    async def _sent(
        self, url: str, content: Parts, hold: Hold | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and the reply of one request, of limited size."""
        async with self._in_time(), self._request("POST", url, content, {}) as response:
            reply = await whole(_bounded(response), hold)
        return response.status, response.headers, reply

    @asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        """One of the connections, for a limited time; everything that breaks it is a `PassingError`."""
        import aiohttp

        seconds = self._connection.timeout_seconds
        try:
            async with self._slots, asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise PassingError(f"no reply within {seconds:g} seconds", SlowError) from None
        except aiohttp.ClientConnectorError as error:
            shown = self.shown(f"cannot be reached ({error})")
            raise PassingError(shown, ResourceError) from None
        except aiohttp.InvalidURL as error:
            raise UnusableError(f"cannot be asked ({error})", where="base_url") from None
        except aiohttp.ClientHttpProxyError as error:
            # the text of the error has the login of the proxy
            problem = f"the proxy answers {error.status} {error.message:.100}"
            raise PassingError(problem) from None
        except aiohttp.ClientError as error:
            shown = self.shown(f"the connection broke ({type(error).__name__}: {error})")
            raise PassingError(shown) from None


def _as_sent(parts: Parts) -> tuple[bytes | AsyncIterator[bytes], dict[str, str]]:
    """The content of a request as it is sent, and its headers: a long one in pieces, as others share its parts."""
    num_bytes = sum(map(len, parts))
    if num_bytes <= FEW_BYTES:
        return b"".join(parts), {}
    return _pieces(parts), {"Content-Length": str(num_bytes)}


async def _pieces(parts: Parts) -> AsyncIterator[bytes]:
    """The bytes of some parts, a few at a time."""
    for part in parts:
        for start in range(0, len(part), FEW_BYTES):
            yield bytes(part[start : start + FEW_BYTES])


async def whole(pieces: AsyncIterator[bytes], hold: Hold | None) -> bytes:
    """All pieces of a reply, whose sizes `hold` takes as they come."""
    reply = bytearray()
    async for piece in pieces:
        if hold is not None:
            hold(len(piece))
        reply += piece
    return bytes(reply)


async def _parsed(reply: bytes, surrogates: bool) -> Any:
    """The JSON value of a reply; a long one is read in a thread, as it takes seconds."""
    if len(reply) <= FEW_BYTES:
        return parse_json(reply, surrogates)
    return await asyncio.to_thread(parse_json, reply, surrogates)


async def _bounded(response: Any) -> AsyncIterator[bytes]:
    """The pieces of a reply.

    Raises:
        InputError: they are too many bytes, or are said to be.
        PassingError: they are packed, and might be any number of bytes.
    """
    packing = response.headers.get("content-encoding", "identity")
    if packing != "identity":
        raise PassingError(f"a reply packed by {packing:.40}, which was not asked for")
    length = response.headers.get("content-length", "")
    _check_bytes(int(length) if length.isascii() and length.isdecimal() else 0)
    num_bytes = 0
    async for piece in response.content.iter_any():
        num_bytes += len(piece)
        _check_bytes(num_bytes)
        yield piece


def _check_bytes(num_bytes: int) -> None:
    """Raises InputError for a reply of more bytes than are read."""
    if num_bytes > limits().file_bytes:
        raise InputError(f"a reply of more than {limits().file_bytes} bytes", where="server")


def request_content(body: Mapping[str, Any]) -> bytes:
    """A request as JSON; raises InputError for NaN, or for half of a surrogate pair."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        problem = f"a request that cannot be written as JSON ({error})"
        raise NotJsonError(problem, where="server") from None


def _check_size(reply: bytes) -> None:
    """Raises InputError for a reply of more values than are read, which is no fault that passes."""
    try:
        check_json_size(reply)
    except InputError as error:
        raise error.inside("server") from None


class Client:
    """Posts JSON; a context manager, at whose end open requests are dropped.

    Args:
        connection: how the server is reached.

    Raises:
        InputError: the key cannot be had.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._exchange = Exchange(connection)
        self._open: set[Future[Any]] = set()

    def __enter__(self) -> Client:
        """Itself."""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="discorank-server", daemon=True)
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
        await self._exchange.close()

    def post(self, path: str, body: Mapping[str, Any], retries: int | None = None) -> Future[Any]:
        """The JSON value that the server answers, to come; as many requests at a time as there are connections.

        Arguments as `Exchange.post`.

        Raises (where the result is asked for):
            InputError, ResourceError: as `Exchange.post`.
        """
        return self._begun(self._exchange.post(path, body, retries))

    def result_of(self, ask: Callable[[Exchange], Coroutine[Any, Any, V]]) -> V:
        """The outcome of requests that depend on each other, which is waited for."""
        return self._begun(ask(self._exchange)).result()

    def _begun(self, asking: Coroutine[Any, Any, V]) -> Future[V]:
        """What is asked, to come."""
        future = asyncio.run_coroutine_threadsafe(asking, self._loop)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future


PASSING = frozenset({408, 409, 429, 500, 502, 503, 504, 520, 522, 524, 529})
BUSY = frozenset({429, 503, 529})  # of those: the request was not looked at
REFUSALS = frozenset({400, 413, 422})
NOT_THERE = frozenset({404, 405, 501})
FIXES = {
    401: "Name the environment variable that holds the key in key_variable",
    403: "May the key in key_variable use this model?",
    404: "Do base_url and model exist, and does the server have chats, if chat is set?",
}


class _DetailedError(DiscorankError):
    """An error whose details a server gave."""

    details: ErrorDetails = NO_DETAILS

    def with_details(self, details: ErrorDetails) -> Self:
        """Itself, with these."""
        self.details = details
        return self


class NotJsonError(InputError):
    """A request that JSON cannot hold."""


class RefusedError(_DetailedError, InputError):
    """The server will not do what this request asks for; another request may do."""


class UnusableError(_DetailedError, InputError):
    """The server will do nothing: a key, a model or an address that it does not know."""


class NotThereError(UnusableError):
    """It knows no such path, or no such model."""


class ExhaustedError(_DetailedError, ResourceError):
    """The end of repeated requests; later one may succeed."""


class BusyError(ExhaustedError):
    """The server had no room for the request, whatever stands in it."""


class SlowError(ExhaustedError):
    """No reply came in time."""


class PassingError(Exception):
    """A passing failure: the problem, the error in the end, seconds to wait and details that the server names."""

    def __init__(
        self,
        problem: str,
        kind: type[ResourceError] = ExhaustedError,
        wait_seconds: float | None = None,
        details: ErrorDetails = NO_DETAILS,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.kind = kind
        self.wait_seconds = wait_seconds
        self.details = details

    def at_last(self, attempts: int) -> ResourceError:
        """The error of a request that is not repeated any more."""
        problem = self.problem if attempts == 1 else f"{self.problem}, {attempts} times"
        fix = "Raise retries, or lower connections"
        if self.kind is ResourceError:
            fix = "Start it, then run the same command again"
        error = self.kind(problem, where="server", fix=fix)
        return error.with_details(self.details) if isinstance(error, ExhaustedError) else error


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
    details = details_of(headers, reply, shown)
    if status in REFUSALS or is_fault_of_request(status, reply):
        raise RefusedError(problem, where="server").with_details(details)
    if status in PASSING:
        wait_seconds = named_wait(headers.get("retry-after"))
        kind = BusyError if status in BUSY else ExhaustedError
        raise PassingError(problem, kind, wait_seconds, details)
    final_kind = NotThereError if status in NOT_THERE else UnusableError
    fix = FIXES.get(status, "Is base_url that of an OpenAI-compatible server?")
    raise final_kind(problem, where="server", fix=fix).with_details(details)


def message_of(reply: bytes) -> str:
    """The message of a server's error: the innermost value under these keys, or the whole reply."""
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
