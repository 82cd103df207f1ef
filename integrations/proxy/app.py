"""The application: which path leads where, who may come in, and the form of every answer and error.

POST /v1/chat/completions, /v1/completions    chosen, or passed through
GET, POST /v1/...                             passed through
GET /healthz, /metrics                        of this server

A request that passes through gets the reply upstream as it is, bytes and status, and only from beneath its address.

Behind it the server: its address, and its life from loading models to the last open request.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ...metrics.optional_packages import require
from ...metrics.storage.limits import limits
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.mbr import MBRDecoder
from ..server.exchange import Exchange, OpenReply, check_status
from ..server.settings import Connection
from .api_errors import ApiError, from_upstream
from .candidate_draw import Upstream
from .counters import Counters
from .decisions import ChoosingThread, Decisions
from .document_streams import DocumentStreams
from .questions import Allowed, PassThrough, Question, read_question
from .replies import as_json, event, events
from .settings import DoorSettings, DrawingSettings


class OpenRequests:
    """Places for requests.

    Args:
        max_open: how many are worked at at a time.
        max_waiting: how many wait.
    """

    def __init__(self, max_open: int, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._places = asyncio.Semaphore(max_open)
        self.num_open = 0
        self.num_waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place within the block, as soon as there is one.

        Raises:
            ApiError: too many wait already.
        """
        if self._places.locked() and self.num_waiting >= self._max_waiting:
            problem = f"{self.num_open} requests are open and {self.num_waiting} wait"
            raise ApiError(429, problem, code="too_many_requests")
        self.num_waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.num_waiting -= 1
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1
            self._places.release()


Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_CHOSEN = {"chat/completions": True, "completions": False}  # whether it is a chat
_PASSED_HEADERS = ("content-type", "accept", "openai-beta")
_GONE_STATUS = 499  # the status that is counted where the client has gone


class App:
    """Answers requests.

    Args:
        exchange: requests to the server upstream.
        decisions: what decides.
        allowed: what requests may choose among.
        drawing: how candidates are drawn.
        door: who may come in, and how many.
        access_key: the key that requests must bring, if there is one.
        counters: of the server.
        report: takes what went wrong here, for people.
    """

    def __init__(
        self,
        exchange: Exchange,
        decisions: Decisions,
        allowed: Allowed,
        drawing: DrawingSettings,
        door: DoorSettings,
        access_key: str | None,
        counters: Counters,
        report: Callable[[str], object],
    ) -> None:
        self._exchange, self._decisions = exchange, decisions
        self._allowed, self._drawing, self._door = allowed, drawing, door
        self._access = None if access_key is None else f"Bearer {access_key}".encode()
        self._counters, self._report = counters, report
        self._last_report = ""
        self._requests = OpenRequests(door.max_open, door.max_waiting)
        counters.watch("open", "Requests being worked at", lambda: self._requests.num_open)
        counters.watch("waiting", "Requests waiting", lambda: self._requests.num_waiting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        from starlette.requests import ClientDisconnect, Request

        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            self._check(request)
            content = await _body_of(request.stream(), self._door.body_seconds)
            answer = self._answered(request, content, send)
            await _while_connected(answer, receive)
        except ApiError as error:
            await self._refuse(error, send)
        except ClientDisconnect:
            self._counters.answers.labels("gone", str(_GONE_STATUS)).inc()
        except Exception as error:
            self._report(f"discorank: internal error: {type(error).__name__}")
            await self._refuse(ApiError(500, "internal error"), send)

    def _check(self, request: Any) -> None:
        """Raises ApiError for a request without the key, or sent as none is.

        What the address of a request is may not be taken from its headers, which may say anything.
        """
        if self._access is not None and request.scope["path"] != "/healthz":
            brought = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(brought, self._access):
                raise ApiError(401, "the key is missing or wrong", code="invalid_api_key")
        if request.method not in ("GET", "POST"):
            raise ApiError(405, f"{request.method} is not known here", code="bad_method")
        if "origin" in request.headers:
            # a page in a browser could not read the answer, but make it cost
            raise ApiError(403, "pages of browsers are not answered", code="origin")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "a packed request is not read", code="bad_encoding")

    async def _answered(self, request: Any, content: bytes, send: Send) -> None:
        """Sends the answer to a request."""
        path, method = request.scope["path"], request.method
        if path in ("/healthz", "/metrics"):
            await self._own_page(path, method, send)
        elif not path.startswith("/v1/"):
            raise ApiError(404, "there is no such path", code="not_found")
        else:
            async with self._requests.place():
                await self._of_model(request, path.removeprefix("/v1/"), content, send)

    async def _own_page(self, path: str, method: str, send: Send) -> None:
        """Sends what this server says of itself."""
        if method != "GET":
            raise ApiError(405, f"{method} is not known here", code="bad_method")
        if path == "/healthz":
            await _send(send, 200, b'{"status": "ok"}', {})
        else:
            kind = "text/plain; version=0.0.4; charset=utf-8"
            await _send(send, 200, self._counters.text(), {"content-type": kind})

    async def _of_model(self, request: Any, path: str, content: bytes, send: Send) -> None:
        """Sends what the model says: chosen, or passed through."""
        if path in _CHOSEN:
            if request.method != "POST":
                raise ApiError(405, f"{request.method} is not known here", code="bad_method")
            question = read_question(content, _CHOSEN[path], self._allowed, self._drawing)
        else:
            question = PassThrough("path", content)
        if isinstance(question, Question):
            await self._chosen(question, send)
        else:
            address = checked_path(path, request.scope["query_string"].decode("latin-1"))
            await self._passed(request, address, question, send)

    async def _chosen(self, question: Question, send: Send) -> None:
        """Sends the choice."""
        answer = await self._decisions.answer(question)
        headers = {"x-discorank": answer.header}
        if question.stream:
            headers |= {"content-type": "text/event-stream", "cache-control": "no-cache"}
            content = b"".join(events(answer, question))
        else:
            content = as_json(answer.body)
        await _send(send, 200, content, headers)
        kind = "chosen" if answer.is_chosen else "passed-through"
        self._counters.answers.labels(kind, "200").inc()

    async def _passed(self, request: Any, path: str, passed: PassThrough, send: Send) -> None:
        """Passes a request through."""
        names = [name for name in _PASSED_HEADERS if name in request.headers]
        headers = {name: request.headers[name] for name in names}
        opened = self._exchange.opened(request.method, path, passed.content, headers)
        status = await relayed(opened, passed.reason, send)
        self._counters.passed.labels(passed.reason).inc()
        self._counters.answers.labels("passed-through", str(status)).inc()

    async def _refuse(self, error: ApiError, send: Send) -> None:
        """Sends an error, and tells people of one that they can mend, where it is not the same as the last."""
        if error.report and error.report != self._last_report:
            self._last_report = error.report
            self._report(f"discorank: {error.report}")
        self._counters.answers.labels("error", str(error.status)).inc()
        await _send(send, error.status, as_json(error.body), error.headers)


async def _body_of(pieces: AsyncIterator[bytes], seconds: float) -> bytes:
    """The body of a request.

    Raises:
        ApiError: it is too large, or does not come.
    """
    body, max_bytes = bytearray(), limits().request_bytes
    try:
        async with asyncio.timeout(seconds):
            async for piece in pieces:
                body += piece
                if len(body) > max_bytes:
                    problem = f"the request has more than {max_bytes} bytes"
                    raise ApiError(413, problem, code="too_large")
    except TimeoutError:
        problem = f"the request did not come within {seconds:g} seconds"
        raise ApiError(408, problem, code="slow_request") from None
    return bytes(body)


async def _send(send: Send, status: int, content: bytes, headers: dict[str, str]) -> None:
    """Sends an answer in one piece, which is JSON unless its headers say otherwise."""
    whole = {"content-type": "application/json", **headers, "content-length": str(len(content))}
    raw = [(name.encode(), value.encode()) for name, value in whole.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": content})


async def _while_connected(answer: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Runs an answer to its end, or until the client goes: then all that is done for it is dropped.

    Raises:
        ClientDisconnect: the client has gone.
    """
    from starlette.requests import ClientDisconnect

    working = asyncio.ensure_future(answer)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
            return
        raise ClientDisconnect
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.wait({working, gone})


async def _disconnected(receive: Receive) -> None:
    """Waits until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


# headers of a reply that pass through; what concerns the connection alone does not
_HEADERS = ("content-type", "retry-after", "x-request-id")
_ABOUT_THE_KEY = (401, 403)  # statuses of replies that quote parts of the key that they were sent
_SEGMENT = re.compile(r"[A-Za-z0-9_~@:+=,-][A-Za-z0-9._~@:+=,-]*")
_QUERY = re.compile(r"[A-Za-z0-9._~@:+=,&%/-]*")
_MAX_PATH = 1024


def checked_path(path: str, query: str) -> str:
    """A path beneath the address of the server, with its query.

    >>> checked_path("embeddings", "")
    'embeddings'

    Raises:
        ApiError: it is none: it could leave that address.
    """
    segments = path.split("/")
    is_plain = all(_SEGMENT.fullmatch(segment) for segment in segments)
    if not is_plain or not _QUERY.fullmatch(query) or len(path) + len(query) > _MAX_PATH:
        raise ApiError(404, "there is no such path", code="not_found")
    return f"{path}?{query}" if query else path


async def relayed(opened: AbstractAsyncContextManager[OpenReply], reason: str, send: Send) -> int:
    """Passes a reply back, events as they come, anything else when it is whole; returns its status.

    Args:
        opened: the reply.
        reason: why nothing is chosen.
        send: takes what is passed back.

    Raises:
        ApiError: there is none.
    """
    has_started = False
    try:
        async with opened as reply:
            headers = {name: reply.headers[name] for name in _HEADERS if name in reply.headers}
            headers["x-discorank"] = f"passed-through; reason={reason}"
            content = None
            is_stream = headers.get("content-type", "").startswith("text/event-stream")
            if not is_stream or reply.status in _ABOUT_THE_KEY:
                content = b"".join([piece async for piece in reply.pieces])
                if reply.status in _ABOUT_THE_KEY:
                    check_status(reply.status, reply.headers, content, str)
                headers["content-length"] = str(len(content))
            raw = [
                (name.encode(), text.encode("latin-1", "replace")) for name, text in headers.items()
            ]
            await send({"type": "http.response.start", "status": reply.status, "headers": raw})
            has_started = True
            if content is None:
                async for piece in reply.pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": content or b""})
            return reply.status
    except DiscorankError as error:
        problem = from_upstream(error)
    if not has_started:
        raise problem
    # a stream that broke off ends with the error
    await send({"type": "http.response.body", "body": event(problem.body)})
    return problem.status


HEADER_BYTES = 1 << 16
PACKAGES = ("starlette", "uvicorn", "prometheus_client", "jsonschema", "httpx2", "tenacity")
STOP_SECONDS = 5.0  # for the thread that chooses, when nothing waits any more


class ProxyServer:
    """A server; `serve` serves until it is asked to stop.

    Args:
        connection: how the server upstream is reached.
        deciders: what chooses, by name, of which the first does where a request names none.
        engine: what values lists.
        drawing: how candidates are drawn.
        door: who may come in.
        report: takes what went wrong here, for people.

    Raises:
        DiscorankError: a key, a metric or the address cannot be had; a package of the extra is missing.
    """

    def __init__(
        self,
        connection: Connection,
        deciders: Mapping[str, Decider],
        engine: Engine,
        drawing: DrawingSettings,
        door: DoorSettings,
        report: Callable[[str], object],
    ) -> None:
        require("serve", *PACKAGES)
        if drawing.adaptive:
            deciders = {name: _with_matrix(name, one) for name, one in deciders.items()}
        self._door = door
        self._metrics = [metric for decider in deciders.values() for metric in decider.metrics]
        self._exchange = Exchange(connection)
        access_key = _access_key(door.access_key_variable)
        self._choosing = ChoosingThread(engine, door.max_open + door.max_waiting)
        counters = Counters()
        decisions = self._decisions(deciders, drawing, counters)
        allowed = Allowed(frozenset(deciders), next(iter(deciders)), drawing.most_candidates)
        self._app = App(
            self._exchange, decisions, allowed, drawing, door, access_key, counters, report
        )
        self._socket = _listening(door)
        self._server = self._uvicorn()

    def _decisions(
        self, deciders: Mapping[str, Decider], drawing: DrawingSettings, counters: Counters
    ) -> Decisions:
        """The decisions of requests, with the documents that they keep."""
        door, choosing = self._door, self._choosing
        width = max(decider.width for decider in deciders.values())
        documents = DocumentStreams(width, door.max_documents, door.document_seconds)
        counters.watch("documents", "Documents that are kept", lambda: len(documents))
        counters.watch("choices", "Choices that wait or are made", lambda: choosing.num_waiting)
        upstream = Upstream(self._exchange)
        seconds = door.choice_seconds
        return Decisions(deciders, upstream, choosing, documents, drawing, seconds, counters)

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def load(self) -> None:
        """Loads the metrics; raises DiscorankError for one that cannot be loaded."""
        try:
            self._choosing.start(self._metrics)
        except BaseException:
            self._socket.close()
            raise

    async def serve(self) -> None:
        """Serves until `stop` is called, and until what is open then is done."""
        try:
            await self._server.serve([self._socket])
        finally:
            await self._exchange.close()
            await asyncio.to_thread(self._choosing.stop, STOP_SECONDS)

    def stop(self) -> None:
        """Lets nobody in any more; what is open is finished."""
        self._server.should_exit = True

    def _uvicorn(self) -> Any:
        """The HTTP server, which logs nothing of requests."""
        import uvicorn

        from .slow_clients import TimedProtocol

        protocol: Any = partial(TimedProtocol, idle_seconds=self._door.body_seconds)
        config = uvicorn.Config(
            self._app,
            http=protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=4 * (self._door.max_open + self._door.max_waiting) + 256,
            timeout_graceful_shutdown=max(1, round(self._door.grace_seconds)),
            h11_max_incomplete_event_size=HEADER_BYTES,
        )
        return uvicorn.Server(config)


def _with_matrix(name: str, decider: Decider) -> MBRDecoder:
    """A decoder whose rankings tell whether drawing may stop; raises InputError if none can."""
    if isinstance(decider, MBRDecoder) and decider.estimator.shortlist is None:
        parts = [part for _, part in decider.metrics[-1].parts]
        if all(part.info.needs_references for part in parts):
            return decider.with_settings(keep_matrix=True)
    raise InputError(
        f"{name} does not compare candidates with each other",
        where="adaptive",
        fix="Give a utility (-u) with references, without a shortlist, or leave adaptive out",
    )


def _access_key(variable: str | None) -> str | None:
    """The key that requests must bring, from the environment; raises InputError if it is not set."""
    if variable is None:
        return None
    key = os.environ.get(variable, "")
    if not key:
        raise InputError(
            f"{variable} is not set", where="access_key_variable", fix="Export it before running"
        )
    return key


def _listening(door: DoorSettings) -> socket.socket:
    """A socket at the address; raises InputError if it cannot be had."""
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    try:
        listening = socket.create_server((door.host, door.port), family=family, backlog=2048)
    except OSError as error:
        problem = f"cannot listen at {door.host} port {door.port} ({error.strerror or error})"
        raise InputError(
            problem, where="host", fix="Is the port taken? Give another: --port"
        ) from None
    # a socket that knows its protocol: only then asyncio turns off Nagle's algorithm, which costs each answer 40 ms
    return socket.socket(fileno=listening.detach())
