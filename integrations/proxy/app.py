"""The application: paths, access, and the form of every answer and error.

POST /v1/chat/completions, /v1/completions    chosen, or passed through
POST /v1/score, /v1/rerank, /get_reward       scores, by `score_endpoints`
GET, POST /v1/...                             passed through
GET /healthz, /metrics                        of this server

Without an upstream there are scores alone. A request that passes through gets the reply of the upstream as it is, bytes
and status, and only from beneath its address. A stream that breaks off upstream breaks off here.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from ...metrics.errors import DiscorankError
from ..server.exchange import FEW_BYTES, OpenReply, check_status, whole
from .api_errors import ApiError, from_upstream
from .candidate_draw import Upstream
from .connections import RequestRoom, RequestShare, body_of
from .counters import Counters
from .decisions import Decisions
from .questions import (
    CHOSEN_PATHS,
    Allowed,
    PassThrough,
    Question,
    object_of,
    read_passing,
    read_question,
)
from .replies import as_json, reply_events
from .score_endpoints import MODELS, ScoreEndpoints
from .settings import DoorSettings

_PASSED_HEADERS = ("content-type", "accept", "openai-beta", "anthropic-version", "anthropic-beta")
# headers of a reply that pass through; what concerns the connection alone does not
_REPLY_HEADERS = ("content-type", "retry-after", "x-request-id")
_ABOUT_THE_KEY = (401, 403)  # statuses of replies that quote parts of the key that they were sent
_SEGMENT = re.compile(r"[A-Za-z0-9_~@:+=,-][A-Za-z0-9._~@:+=,-]*")
_QUERY = re.compile(r"[A-Za-z0-9._~@:+=,&%/-]*")
_MAX_PATH = 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[^]]*\]|[^:]*)(?::\d*)?")  # the name in a Host header, before its port
_GONE_STATUS = 499  # the status that is counted if the client has gone
_JSON = {"content-type": "application/json"}
T = TypeVar("T")


class StreamBrokenError(Exception):
    """A stream broke off upstream after its answer had begun."""


class Behind(NamedTuple):
    """The upstreams, of which the first gets what passes through, and the choice among their candidates."""

    upstreams: Sequence[Upstream]
    decisions: Decisions
    allowed: Allowed


class App:
    """Answers requests.

    Args:
        behind: the upstreams and the choice among their candidates; None without any.
        scores: answers requests for scores.
        door: who may come in, and how many.
        access_key: the key that requests must bring, if there is one.
        counters: of the server.
        report: takes lines for the operator.
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
        self._room = RequestRoom(door.max_open, door.max_waiting)
        self._parsing = ThreadPoolExecutor(1, "discorank-json")
        counters.watch("open", "Requests in progress", lambda: self._room.num_open)
        counters.watch("waiting", "Requests waiting", lambda: self._room.num_waiting)
        counters.watch("open_bytes", "Memory of requests", lambda: self._room.num_bytes)

    def close(self) -> None:
        """End its thread."""
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        try:
            response = await self._answered(Request(scope, receive), send)
        except ApiError as error:
            response = self._refusal(error)
        except ClientDisconnect:
            self._counters.answers.labels("gone", str(_GONE_STATUS)).inc()
            return
        except StreamBrokenError:
            # an answer that is not complete: the connection is closed
            self._counters.answers.labels("error", "502").inc()
            return
        except Exception as error:
            self._report(f"discorank: internal error: {type(error).__name__}")
            response = self._refusal(ApiError(500, "internal error"))
        if response is not None:
            await response(scope, receive, send)

    async def _answered(self, request: Request, send: Send) -> Response | None:
        """The answer to a request; None if it was sent already. The body is read once there is room."""
        self._check(request)
        path = request.scope["path"]
        if path == "/healthz":
            return Response(b'{"status": "ok"}', media_type="application/json")
        if path == "/metrics":
            return Response(self._counters.text(), media_type="text/plain; version=0.0.4")
        if not path.startswith("/v1/") and not self._scores.takes(path):
            raise ApiError(404, "Not Found", code="not_found")
        with self._room.request() as share:
            content = await body_of(request.stream(), share, self._door.body_seconds)
            await _while_connected(self._in_progress(request, content, share, send), request)
        return None

    def _check(self, request: Request) -> None:
        """Raises ApiError for a request without the key, or sent in a way that none is.

        The address of a request may not be taken from its headers, which anybody writes.
        """
        headers = request.headers
        if self._access is not None and request.scope["path"] != "/healthz":
            named = f"Bearer {headers.get('x-api-key', '')}"  # as clients of messages do
            brought = headers.get("authorization", named).encode("utf-8", "replace")
            if not hmac.compare_digest(brought, self._access):
                raise ApiError(401, "the key is missing or wrong", code="invalid_api_key")
        if request.method not in ("GET", "POST"):
            raise _bad_method(request)
        if "origin" in headers:
            # a page in a browser could not read the answer, but make it cost
            raise ApiError(403, "pages of browsers are not answered", code="origin")
        host = _HOST.fullmatch(headers.get("host", "localhost"))
        name = "" if host is None else host[1].strip("[]").lower()
        if self._hosts is not None and name not in self._hosts:
            # a page whose name was rebound to this machine could read the answer
            problem = (
                "requests for this host are not answered; the operator allows it: --allow-host"
            )
            raise ApiError(403, problem, code="host")
        if headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "a packed request is not read", code="bad_encoding")

    async def _in_progress(
        self, request: Request, content: bytes, share: RequestShare, send: Send
    ) -> None:
        """Send the answer as soon as there is a place for it.

        The answer ends when the client has taken enough of it: until then its memory counts, but not its place.
        """
        path = request.scope["path"]
        async with self._room.place():
            if not (self._scores.takes(path) and await self._scored(request, content, share, send)):
                if self._behind is not None:
                    await self._of_model(self._behind, request, content, share, send)
                elif path == MODELS:
                    await send_answer(send, as_json(self._scores.models()), _JSON)
                else:
                    problem = "there is no upstream: scores alone are answered"
                    raise ApiError(404, problem, code="not_found")
        await send({"type": "http.response.body"})

    async def _scored(
        self, request: Request, content: bytes, share: RequestShare, send: Send
    ) -> bool:
        """Send scores, but for the end of the answer; False if the upstream is to answer instead."""
        path = request.scope["path"]
        if request.method != "POST":
            raise _bad_method(request)
        body = await self._run(len(content), partial(object_of, content, True))
        if self._behind is not None and not self._scores.is_ours(path, body):
            return False
        named = request.query_params.get("model")
        answer = await self._scores.answer(path, body, named, share, self._run)
        await send_answer(send, answer, _JSON)
        self._counters.answers.labels("scored", "200").inc()
        return True

    async def _run(self, num_bytes: int, work: Callable[[], T]) -> T:
        """Work on so many bytes; on many in a thread, one after another, as it takes seconds."""
        if num_bytes <= FEW_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._parsing, _uncollected, work)

    async def _of_model(
        self, behind: Behind, request: Request, content: bytes, share: RequestShare, send: Send
    ) -> None:
        """Send what the model says, chosen or passed through, but for the end of the answer."""
        path = request.scope["path"].removeprefix("/v1/")
        address = checked_path(path, request.scope["query_string"].decode("latin-1"))
        check_allowed(path, self._door.allow_path)
        read: Callable[[], Question | PassThrough]
        if path in CHOSEN_PATHS:
            if request.method != "POST":
                raise _bad_method(request)
            read = partial(read_question, content, path, behind.allowed)
        else:
            kind = request.headers.get("content-type", "")
            read = partial(read_passing, content, path, kind, behind.allowed)
        question = await self._run(len(content), read)
        if isinstance(question, Question):
            await self._chosen(behind.decisions, question, share, send)
        else:
            await self._passed(behind.upstreams[0], request, address, question, share, send)

    async def _chosen(
        self, decisions: Decisions, question: Question, share: RequestShare, send: Send
    ) -> None:
        """Send the choice."""
        answer = await decisions.answer(question, share.take_reply)
        headers = {**_JSON, "x-discorank": answer.header}
        if answer.request_id is not None:
            headers["x-request-id"] = answer.request_id
        if question.stream:
            headers |= {"content-type": "text/event-stream", "cache-control": "no-cache"}
            content = b"".join(reply_events(answer.body, question.chat, question.with_usage))
        else:
            content = as_json(answer.body)
        await send_answer(send, content, headers)
        kind = "chosen" if answer.is_chosen else "passed-through"
        self._counters.answers.labels(kind, "200").inc()

    async def _passed(
        self,
        upstream: Upstream,
        request: Request,
        path: str,
        passed: PassThrough,
        share: RequestShare,
        send: Send,
    ) -> None:
        """Pass a request through, and the reply back: a stream as it comes, anything else when it is whole."""
        names = [name for name in _PASSED_HEADERS if name in request.headers]
        sent = {name: request.headers[name] for name in names}
        exchange, has_started = upstream.exchange, False
        try:
            async with exchange.opened(request.method, path, passed.content, sent) as reply:
                known = [name for name in _REPLY_HEADERS if name in reply.headers]
                headers = {name: reply.headers[name] for name in known}
                headers["x-discorank"] = f"passed-through; reason={passed.reason}"
                is_stream = headers.get("content-type", "").startswith("text/event-stream")
                if is_stream and reply.status < 400:
                    await send(start_of(reply.status, headers))
                    has_started = True
                    async for piece in reply.pieces:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                else:
                    content = await whole(reply.pieces, share.take_reply)
                    content = _without_key(reply, content, exchange.shown)
                    await send_answer(send, content, headers, reply.status)
        except DiscorankError as error:
            if has_started:
                raise StreamBrokenError from error
            raise from_upstream(error) from None
        self._counters.passed.labels(passed.reason).inc()
        self._counters.answers.labels("passed-through", str(reply.status)).inc()

    def _refusal(self, error: ApiError) -> Response:
        """An error as an answer; one of this server is reported."""
        if error.report:
            self._report(f"discorank: {error.report}")
        self._counters.answers.labels("error", str(error.status)).inc()
        return Response(as_json(error.body), error.status, error.headers, "application/json")


def _bad_method(request: Request) -> ApiError:
    return ApiError(405, f"{request.method} is not known here", code="bad_method")


def _uncollected(work: Callable[[], T]) -> T:
    """Work without the search for cycles, which holds up everybody and which JSON cannot have."""
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()


async def _while_connected(answer: Coroutine[Any, Any, None], request: Request) -> None:
    """Answer, unless the client goes: then the work is dropped.

    Raises:
        ClientDisconnect: the client has gone.
    """
    answering = asyncio.ensure_future(answer)
    watching = asyncio.ensure_future(_gone(request.receive))
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
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


def checked_path(path: str, query: str) -> str:
    """A path beneath the address of the upstream, with its query.

    >>> checked_path("embeddings", "")
    'embeddings'

    Raises:
        ApiError: it could leave that address.
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
    patterns = (pattern.strip("/") for pattern in allowed)
    if not any(fnmatchcase(path, one) and path.count("/") == one.count("/") for one in patterns):
        problem = "this path does not pass here; the operator names those that do: --allow-path"
        raise ApiError(404, problem, code="path_not_allowed")


def start_of(status: int, headers: Mapping[str, str]) -> Message:
    """The start of an answer."""
    raw = [(name.encode(), text.encode("latin-1", "replace")) for name, text in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}


async def send_answer(
    send: Send, content: bytes, headers: Mapping[str, str], status: int = 200
) -> None:
    """Send an answer in one piece, but for its end."""
    await send(start_of(status, {**headers, "content-length": str(len(content))}))
    await send({"type": "http.response.body", "body": content, "more_body": True})


def _without_key(reply: OpenReply, content: bytes, shown: Callable[[str], str]) -> bytes:
    """A whole reply, without the key if it is an error; raises as `check_status` for one about the key."""
    if reply.status < 400:
        return content
    if reply.status in _ABOUT_THE_KEY:
        check_status(reply.status, reply.headers, content, shown)
    return shown(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
