"""The application: which path leads where, who may come in, and the form of every answer and error.

POST /v1/chat/completions, /v1/completions    chosen, or passed through
POST /v1/score, /v1/rerank, /get_reward       scores, by `score_endpoints`
GET, POST /v1/...                             passed through
GET /healthz, /metrics                        of this server

Without a server upstream there are scores alone. A request that passes through gets the reply upstream as it is, bytes
and status, and only from beneath its address.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from ...metrics.errors import DiscorankError
from ..server.exchange import FEW_BYTES, Exchange, Hold, OpenReply, check_status, whole
from .api_errors import ApiError, from_upstream
from .candidate_draw import Upstream
from .counters import CHOSEN, COPIES, Counters
from .decisions import Decisions
from .door import RequestRoom, RequestShare, body_of
from .questions import (
    CHOSEN_PATHS,
    Allowed,
    PassThrough,
    Question,
    object_of,
    read_passing,
    read_question,
)
from .replies import as_json, event, reply_events
from .score_endpoints import MODELS, ScoreEndpoints
from .score_forms import FORMS
from .settings import DoorSettings, DrawingSettings

_PASSED_HEADERS = ("content-type", "accept", "openai-beta", "anthropic-version", "anthropic-beta")
# headers of a reply that pass through; what concerns the connection alone does not
_REPLY_HEADERS = ("content-type", "retry-after", "x-request-id")
_ABOUT_THE_KEY = (401, 403)  # statuses of replies that quote parts of the key that they were sent
_SEGMENT = re.compile(r"[A-Za-z0-9_~@:+=,-][A-Za-z0-9._~@:+=,-]*")
_QUERY = re.compile(r"[A-Za-z0-9._~@:+=,&%/-]*")
_MAX_PATH = 1024
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[^]]*\]|[^:]*)(?::\d*)?")  # the name in a Host header, before its port
T = TypeVar("T")
METHODS = ("GET", "POST")
_GONE_STATUS = 499  # the status that is counted where the client has gone


class Behind(NamedTuple):
    """The servers upstream, and what chooses among their candidates.

    Args:
        upstreams: the servers, of which the first gets what passes through.
        decisions: what decides.
        allowed: what requests may choose among.
        drawing: how candidates are drawn.
    """

    upstreams: Sequence[Upstream]
    decisions: Decisions
    allowed: Allowed
    drawing: DrawingSettings


@dataclass(frozen=True, slots=True)
class InRoom:
    """An endpoint whose requests get room before their bodies are read, and keep it until they are answered.

    Args:
        room: for requests.
        answer: sends the answer to a request, given its share of the room.
    """

    room: RequestRoom
    answer: Callable[[Request, RequestShare, Send], Awaitable[None]]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; raises ApiError where there is no room."""
        with self.room.request() as share:
            await self.answer(Request(scope, receive), share, send)


class App:
    """Answers requests.

    Args:
        behind: the servers upstream and what chooses among their candidates; None where there are none.
        scores: answers requests for scores.
        door: who may come in, and how many.
        access_key: the key that requests must bring, if there is one.
        counters: of the server.
        report: takes what went wrong here, for the operator.
    """

    def __init__(
        self,
        behind: Behind | None,
        scores: ScoreEndpoints,
        door: DoorSettings,
        access_key: str | None,
        counters: Counters,
        report: Callable[[str], object],
    ) -> None:
        self._behind, self._scores, self._door = behind, scores, door
        names = {name.lower() for name in (*_LOOPBACK, door.host, *door.allow_host)}
        self._hosts = names if door.host in _LOOPBACK or door.allow_host else None
        self._access = None if access_key is None else f"Bearer {access_key}".encode()
        self._counters, self._report = counters, report
        self._last_report = ""
        self._room = RequestRoom(door.max_open, door.max_waiting)
        self._parsing = ThreadPoolExecutor(1, "discorank-json")
        counters.watch("open", "Requests in progress", lambda: self._room.num_open)
        counters.watch("waiting", "Requests waiting", lambda: self._room.num_waiting)
        counters.watch("open_bytes", "Memory of requests", lambda: self._room.num_bytes)
        routes = [Route("/healthz", _health), Route("/metrics", self._shown_counters)]
        for path in ("/v1/{path:path}", *filter(scores.takes, FORMS)):
            routes.append(Route(path, InRoom(self._room, self._answered), methods=METHODS))
        self._router = Router(routes, redirect_slashes=False)

    def close(self) -> None:
        """Ends its thread."""
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        scope["app"] = self  # the router raises for a path that is not there
        try:
            self._check(Request(scope))
            await self._router(scope, receive, send)
        except ApiError as error:
            await self._refusal(error)(scope, receive, send)
        except HTTPException as error:
            code = {404: "not_found", 405: "bad_method"}.get(error.status_code)
            refused = ApiError(error.status_code, error.detail, code=code)
            await self._refusal(refused)(scope, receive, send)
        except ClientDisconnect:
            self._counters.answers.labels("gone", str(_GONE_STATUS)).inc()
        except Exception as error:
            self._report(f"discorank: internal error: {type(error).__name__}")
            await self._refusal(ApiError(500, "internal error"))(scope, receive, send)

    def _check(self, request: Request) -> None:
        """Raises ApiError for a request without the key, or sent as none is.

        The address of a request may not be taken from its headers, which anybody writes.
        """
        headers = request.headers
        if self._access is not None and request.scope["path"] != "/healthz":
            named = f"Bearer {headers.get('x-api-key', '')}"  # as clients of messages do
            brought = headers.get("authorization", named).encode("utf-8", "replace")
            if not hmac.compare_digest(brought, self._access):
                raise ApiError(401, "the key is missing or wrong", code="invalid_api_key")
        if request.method not in METHODS:
            raise ApiError(405, f"{request.method} is not known here", code="bad_method")
        if "origin" in headers:
            # a page in a browser could not read the answer, but make it cost
            raise ApiError(403, "pages of browsers are not answered", code="origin")
        host = _HOST.fullmatch(headers.get("host", "localhost"))
        name = "" if host is None else host[1].strip("[]").lower()
        if self._hosts is not None and name not in self._hosts:
            # a page whose name was rebound to this machine could read the answer
            problem = "requests for this host are not answered; who runs the server allows it: --allow-host"
            raise ApiError(403, problem, code="host")
        if headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "a packed request is not read", code="bad_encoding")

    async def _shown_counters(self, request: Request) -> Response:
        """The counters."""
        return Response(self._counters.text(), media_type="text/plain; version=0.0.4")

    async def _answered(self, request: Request, share: RequestShare, send: Send) -> None:
        """Sends the answer to a request, whose body is read first."""
        content = await body_of(request.stream(), share, self._door.body_seconds)
        answer = self._in_progress(request, content, share, send)
        await _while_connected(answer, request.receive)

    async def _in_progress(
        self, request: Request, content: bytes, share: RequestShare, send: Send
    ) -> None:
        """Sends the answer of the model or its scores, as soon as there is a place for it.

        The answer ends when the client has taken enough of it: until then its memory counts, but not its place.
        """
        path = request.scope["path"]
        async with self._room.place():
            if self._behind is None or self._scores.takes(path):
                behind = await self._scored(request, path, content, share, send)
            else:
                behind = self._behind
            if behind is not None:
                await self._of_model(behind, request, content, share, send)
        await send({"type": "http.response.body"})

    async def _scored(
        self, request: Request, path: str, content: bytes, share: RequestShare, send: Send
    ) -> Behind | None:
        """Sends scores, but for the end of the answer; or returns the server upstream that is to answer instead.

        Raises:
            ApiError: there are no scores, or something else is asked for.
        """
        if path == MODELS:
            await send_answer(send, as_json(self._scores.models()), {})
            return None
        if not self._scores.takes(path):
            problem = "there is no server upstream: scores alone are answered"
            raise ApiError(404, problem, code="not_found")
        if request.method != "POST":
            raise ApiError(405, f"{request.method} is not known here", code="bad_method")
        body = await self._run(len(content), partial(object_of, content, True))
        if self._behind is not None and not self._scores.is_ours(path, body):
            return self._behind
        named = request.query_params.get("model")
        answer = await self._scores.answer(path, body, named, share, self._run)
        await send_answer(send, answer, {})
        self._counters.answers.labels("scored", "200").inc()
        return None

    async def _run(self, num_bytes: int, work: Callable[[], T]) -> T:
        """Works on so many bytes; on many in a thread, one after another, as it takes seconds."""
        if num_bytes <= FEW_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._parsing, _uncollected, work)

    async def _of_model(
        self, behind: Behind, request: Request, content: bytes, share: RequestShare, send: Send
    ) -> None:
        """Sends what the model says, chosen or passed through, but for the end of the answer."""
        path = request.path_params["path"]
        address = checked_path(path, request.scope["query_string"].decode("latin-1"))
        check_allowed(path, self._door.allow_path)
        read: Callable[[], Question | PassThrough]
        if path in CHOSEN_PATHS:
            if request.method != "POST":
                raise ApiError(405, f"{request.method} is not known here", code="bad_method")
            read = partial(read_question, content, path, behind.allowed, behind.drawing)
        else:
            kind = request.headers.get("content-type", "")
            read = partial(read_passing, content, path, kind, behind.drawing, behind.allowed.model)
        question = await self._run(len(content), read)
        if isinstance(question, Question):
            await self._chosen(behind.decisions, question, share, send)
        else:
            exchange = behind.upstreams[0].exchange
            await self._passed(exchange, request, address, question, share, send)

    async def _chosen(
        self, decisions: Decisions, question: Question, share: RequestShare, send: Send
    ) -> None:
        """Sends the choice."""
        answer = await decisions.answer(question, share.take_reply)
        headers = {"x-discorank": answer.header}
        if answer.request_id is not None:
            headers["x-request-id"] = answer.request_id
        if answer.costs:
            headers["x-discorank-models"] = answer.costs
        if question.stream:
            headers |= {"content-type": "text/event-stream", "cache-control": "no-cache"}
            content = b"".join(reply_events(answer.body, question.chat, question.with_usage))
        else:
            content = as_json(answer.body)
        await send_answer(send, content, headers)
        kind = "chosen" if answer.is_chosen else "passed-through"
        self._counters.answers.labels(kind, "200").inc()
        self._note_traffic(COPIES if answer.is_copy else CHOSEN if answer.is_chosen else "no-text")

    def _note_traffic(self, kind: str) -> None:
        """Tells people where most requests are not chosen, or of copies."""
        line = self._counters.traffic.note(kind)
        if line is not None:
            self._report(f"discorank: {line}")

    async def _passed(
        self,
        exchange: Exchange,
        request: Request,
        path: str,
        passed: PassThrough,
        share: RequestShare,
        send: Send,
    ) -> None:
        """Passes a request through."""
        names = [name for name in _PASSED_HEADERS if name in request.headers]
        headers = {name: request.headers[name] for name in names}
        opened = exchange.opened(request.method, path, passed.content, headers)
        status = await relayed(opened, passed.reason, send, share.take_reply, exchange.shown)
        self._counters.passed.labels(passed.reason).inc()
        if passed.reason != "path":
            self._note_traffic(passed.reason)
        self._counters.answers.labels("passed-through", str(status)).inc()

    def _refusal(self, error: ApiError) -> Response:
        """An error as an answer; the operator is told of one of this server, where it is not the same as the last."""
        if error.report and error.report != self._last_report:
            self._last_report = error.report
            self._report(f"discorank: {error.report}")
        self._counters.answers.labels("error", str(error.status)).inc()
        return Response(as_json(error.body), error.status, error.headers, "application/json")


async def _health(request: Request) -> Response:
    return Response(b'{"status": "ok"}', media_type="application/json")


def _uncollected(work: Callable[[], T]) -> T:
    """Works without the search for circles, which hold up everybody and which JSON cannot have."""
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


async def _while_connected(answer: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Runs an answer to its end, or until the client goes: then all that is done for it is dropped.

    Raises:
        ClientDisconnect: the client has gone.
    """
    answering, watching = asyncio.ensure_future(answer), asyncio.ensure_future(_gone(receive))
    both = (answering, watching)
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not answering.done():
            raise ClientDisconnect
        answering.result()
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    """Waits until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


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


def check_allowed(path: str, allowed: Sequence[str]) -> None:
    """Raises ApiError for a path that is none of those allowed, in which * stands for one part.

    >>> check_allowed("models/gpt-4", ["models/*"])
    """
    parts = path.split("/")
    for pattern in allowed:
        wanted = pattern.strip("/").split("/")
        if len(wanted) == len(parts) and all(map(fnmatchcase, parts, wanted)):
            return
    problem = "this path does not pass here; who runs the server names those that do: --allow-path"
    raise ApiError(404, problem, code="path_not_allowed")


async def whole_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The events of a stream, each whole as soon as its end has come, and what stands behind the last one.

    Where the pieces break off, what has come of an event is left out, so that others may be sent behind it.
    """
    kept = bytearray()
    async for piece in pieces:
        searched = max(0, len(kept) - 3)
        kept += piece
        ends = [match.end() for match in _EVENT_END.finditer(kept, searched)]
        if ends:
            yield bytes(kept[: ends[-1]])
            del kept[: ends[-1]]
    if kept:
        yield bytes(kept)


def start_of(status: int, headers: Mapping[str, str]) -> Message:
    """The start of an answer."""
    raw = [(name.encode(), text.encode("latin-1", "replace")) for name, text in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}


async def send_answer(send: Send, content: bytes, headers: Mapping[str, str]) -> None:
    """Send an answer, which is JSON unless its headers say otherwise, in one piece but for its end."""
    length = {"content-length": str(len(content))}
    await send(start_of(200, {"content-type": "application/json", **headers, **length}))
    await send({"type": "http.response.body", "body": content, "more_body": True})


def _shown(reply: OpenReply, content: bytes, shown: Callable[[str], str]) -> bytes:
    """A whole reply, without the key if it is an error; raises as `check_status` for one about the key."""
    if reply.status < 400:
        return content
    if reply.status in _ABOUT_THE_KEY:
        check_status(reply.status, reply.headers, content, shown)
    return shown(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


async def relayed(
    opened: AbstractAsyncContextManager[OpenReply],
    reason: str,
    send: Send,
    hold: Hold,
    shown: Callable[[str], str],
) -> int:
    """Pass a reply back, events as they come, anything else when it is whole, but for its end; return its status.

    Args:
        opened: the reply.
        reason: why nothing is chosen.
        send: takes what is passed back.
        hold: takes the size of each piece of what is kept until it is whole.
        shown: takes the key out of an error.

    Raises:
        ApiError: there is none, or no memory for it.
    """
    has_started = False
    try:
        async with opened as reply:
            headers = {
                name: reply.headers[name] for name in _REPLY_HEADERS if name in reply.headers
            }
            headers["x-discorank"] = f"passed-through; reason={reason}"
            content = None
            is_stream = headers.get("content-type", "").startswith("text/event-stream")
            if not is_stream or reply.status >= 400:
                content = _shown(reply, await whole(reply.pieces, hold), shown)
                headers["content-length"] = str(len(content))
            await send(start_of(reply.status, headers))
            has_started = True
            if content is None:
                async for events in whole_events(reply.pieces):
                    await send({"type": "http.response.body", "body": events, "more_body": True})
            if content is not None:
                await send({"type": "http.response.body", "body": content, "more_body": True})
            return reply.status
    except DiscorankError as error:
        problem = from_upstream(error)
    if not has_started:
        raise problem
    # a stream that broke off ends with the error
    broken = event(problem.body)
    await send({"type": "http.response.body", "body": broken, "more_body": True})
    return problem.status
