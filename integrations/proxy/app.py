"""The application: which path leads where, who may come in, and the form of every answer and error.

POST /v1/chat/completions, /v1/completions    chosen, or passed through
POST /v1/score, /v1/rerank, /get_reward       scores, by `score_endpoints`
GET, POST /v1/...                             passed through
GET /healthz, /metrics                        of this server

Without a server upstream there are scores alone. A request that passes through gets the reply upstream as it is, bytes
and status, and only from beneath its address.

Behind it the server: its address, and its life from loading models to the last open request.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import re
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

from ...metrics.errors import DiscorankError, InputError
from ...metrics.mixture import Utility
from ...metrics.optional_packages import require
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.mbr import MBRDecoder
from ..server.exchange import FEW_BYTES, Exchange
from ..server.server_probe import ServerFacts, copies_problem, facts_of, logprobs_problem
from ..server.settings import key_in
from .api_errors import ApiError
from .candidate_draw import Upstream
from .counters import CHOSEN, COPIES, Counters
from .decisions import CALLS, BatchWindow, ChoosingThread, Decisions
from .document_streams import DocumentStreams
from .door import (
    ClientGoneError,
    HttpRequest,
    LimitedReport,
    Receive,
    RequestRoom,
    RequestShare,
    Scope,
    body_of,
    max_connections,
)
from .panel import Panel
from .passing import Send, check_allowed, checked_path, relayed, start_of
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
from .settings import DoorSettings, DrawingSettings, ScoreSettings

_PASSED_HEADERS = ("content-type", "accept", "openai-beta", "anthropic-version", "anthropic-beta")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_HOST = re.compile(r"(\[[^]]*\]|[^:]*)(?::\d*)?")  # the name in a Host header, before its port
T = TypeVar("T")
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


class App:
    """Answers requests.

    Args:
        behind: the servers upstream and what chooses among their candidates; None where there are none.
        scores: what answers requests for scores.
        door: who may come in, and how many.
        access_key: the key that requests must bring, if there is one.
        counters: of the server.
        report: takes what went wrong here, for people.
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
        counters.watch("open", "Requests being worked at", lambda: self._room.num_open)
        counters.watch("waiting", "Requests waiting", lambda: self._room.num_waiting)
        counters.watch("open_bytes", "Memory of requests", lambda: self._room.num_bytes)

    def close(self) -> None:
        """Ends its thread."""
        self._parsing.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request."""
        if scope["type"] != "http":
            return
        request = HttpRequest(scope, receive)
        try:
            self._check(request)
            await self._answered(request, send)
        except ApiError as error:
            await self._refuse(error, send)
        except ClientGoneError:
            self._counters.answers.labels("gone", str(_GONE_STATUS)).inc()
        except Exception as error:
            self._report(f"discorank: internal error: {type(error).__name__}")
            await self._refuse(ApiError(500, "internal error"), send)

    def _check(self, request: HttpRequest) -> None:
        """Raises ApiError for a request without the key, or sent as none is.

        What the address of a request is may not be taken from its headers, which may say anything.
        """
        if self._access is not None and request.path != "/healthz":
            named = f"Bearer {request.headers.get('x-api-key', '')}"  # as clients of messages do
            brought = request.headers.get("authorization", named).encode("utf-8", "replace")
            if not hmac.compare_digest(brought, self._access):
                raise ApiError(401, "the key is missing or wrong", code="invalid_api_key")
        if request.method not in ("GET", "POST"):
            raise ApiError(405, f"{request.method} is not known here", code="bad_method")
        if "origin" in request.headers:
            # a page in a browser could not read the answer, but make it cost
            raise ApiError(403, "pages of browsers are not answered", code="origin")
        host = _HOST.fullmatch(request.headers.get("host", "localhost"))
        name = "" if host is None else host[1].strip("[]").lower()
        if self._hosts is not None and name not in self._hosts:
            # a page whose name was rebound to this machine could read the answer
            problem = "requests for this host are not answered; who runs the server allows it: --allow-host"
            raise ApiError(403, problem, code="host")
        if request.headers.get("content-encoding", "identity") != "identity":
            raise ApiError(415, "a packed request is not read", code="bad_encoding")

    async def _answered(self, request: HttpRequest, send: Send) -> None:
        """Sends the answer to a request, whose body is read when there is room for it."""
        path, method = request.path, request.method
        if path in ("/healthz", "/metrics"):
            await self._own_page(path, method, send)
            return
        if not (path.startswith("/v1/") or self._scores.takes(path)):
            raise ApiError(404, "there is no such path", code="not_found")
        with self._room.request() as share:
            content = await body_of(request.pieces(), share, self._door.body_seconds)
            answer = self._worked_at(request, path, content, share, send)
            await _while_connected(answer, request.receive)

    async def _worked_at(
        self, request: HttpRequest, path: str, content: bytes, share: RequestShare, send: Send
    ) -> None:
        """Sends what the model says, as soon as there is a place to be worked at.

        The answer ends when the client has taken enough of it: until then its memory counts, but not its place.
        """
        async with self._room.place():
            if self._behind is None or self._scores.takes(path):
                behind = await self._scored(request, path, content, share, send)
            else:
                behind = self._behind
            if behind is not None:
                beneath = path.removeprefix("/v1/")
                await self._of_model(behind, request, beneath, content, share, send)
        await send({"type": "http.response.body"})

    async def _scored(
        self, request: HttpRequest, path: str, content: bytes, share: RequestShare, send: Send
    ) -> Behind | None:
        """Sends scores, but for the end of the answer; or returns the server upstream that is to answer instead.

        Raises:
            ApiError: there are no scores, or something else is asked for.
        """
        if path == MODELS:
            await self._send(send, 200, as_json(self._scores.models()), {}, has_end=False)
            return None
        if not self._scores.takes(path):
            problem = "there is no server upstream: scores alone are answered"
            raise ApiError(404, problem, code="not_found")
        if request.method != "POST":
            raise ApiError(405, f"{request.method} is not known here", code="bad_method")
        body = await self._run(len(content), partial(object_of, content, True))
        if self._behind is not None and not self._scores.is_ours(path, body):
            return self._behind
        query = parse_qs(request.query)
        named = query.get("model", [None])[0]
        answer = await self._scores.answer(path, body, named, share, self._run)
        await self._send(send, 200, answer, {}, has_end=False)
        self._counters.answers.labels("scored", "200").inc()
        return None

    async def _run(self, num_bytes: int, work: Callable[[], T]) -> T:
        """Works on so many bytes; on many in a thread, one after another, as it takes seconds."""
        if num_bytes <= FEW_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._parsing, _uncollected, work)

    async def _own_page(self, path: str, method: str, send: Send) -> None:
        """Sends what this server says of itself."""
        if method != "GET":
            raise ApiError(405, f"{method} is not known here", code="bad_method")
        if path == "/healthz":
            await self._send(send, 200, b'{"status": "ok"}', {})
        else:
            kind = "text/plain; version=0.0.4; charset=utf-8"
            await self._send(send, 200, self._counters.text(), {"content-type": kind})

    async def _of_model(
        self,
        behind: Behind,
        request: HttpRequest,
        path: str,
        content: bytes,
        share: RequestShare,
        send: Send,
    ) -> None:
        """Sends what the model says, chosen or passed through, but for the end of the answer."""
        address = checked_path(path, request.query)
        check_allowed(path, self._door.allow_path)
        if path in CHOSEN_PATHS and request.method != "POST":
            raise ApiError(405, f"{request.method} is not known here", code="bad_method")
        question = await self._read(behind, request, path, content)
        if isinstance(question, Question):
            await self._chosen(behind.decisions, question, share, send)
        else:
            await self._passed(
                behind.upstreams[0].exchange, request, address, question, share, send
            )

    async def _read(
        self, behind: Behind, request: HttpRequest, path: str, content: bytes
    ) -> Question | PassThrough:
        """What a request asks for."""
        read: Callable[[], Question | PassThrough]
        if path in CHOSEN_PATHS:
            read = partial(read_question, content, path, behind.allowed, behind.drawing)
        else:
            kind = request.headers.get("content-type", "")
            read = partial(read_passing, content, path, kind, behind.drawing, behind.allowed.model)
        return await self._run(len(content), read)

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
        await self._send(send, 200, content, headers, has_end=False)
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
        request: HttpRequest,
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

    async def _refuse(self, error: ApiError, send: Send) -> None:
        """Sends an error, and tells people of one that they can mend, where it is not the same as the last."""
        if error.report and error.report != self._last_report:
            self._last_report = error.report
            self._report(f"discorank: {error.report}")
        self._counters.answers.labels("error", str(error.status)).inc()
        await self._send(send, error.status, as_json(error.body), error.headers)

    async def _send(
        self, send: Send, status: int, content: bytes, headers: dict[str, str], has_end: bool = True
    ) -> None:
        """Sends an answer in one piece, which is JSON unless its headers say otherwise."""
        whole = {"content-type": "application/json", **headers, "content-length": str(len(content))}
        await send(start_of(status, whole))
        await send({"type": "http.response.body", "body": content, "more_body": not has_end})


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
        ClientGoneError: the client has gone.
    """
    working = asyncio.current_task()
    watching = asyncio.ensure_future(_disconnected(receive))
    has_gone = False

    def drop(watching: asyncio.Task[None]) -> None:
        nonlocal has_gone
        if working is not None and not watching.cancelled():
            has_gone = True
            working.cancel()

    watching.add_done_callback(drop)
    try:
        await answer
    except asyncio.CancelledError:
        if has_gone and working is not None and not working.uncancel():
            raise ClientGoneError from None
        raise
    finally:
        watching.remove_done_callback(drop)
        watching.cancel()


async def _disconnected(receive: Receive) -> None:
    """Waits until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


PACKAGES = ("uvicorn", "prometheus_client", "jsonschema", "aiohttp", "httptools")
STOP_SECONDS = 5.0  # for the thread that chooses, when nothing waits any more


class ProxyServer:
    """A server; `serve` serves until it is asked to stop.

    Args:
        panel: the upstreams; None without one.
        deciders: what chooses, by name, of which the first does where a request names none.
        engine: what values lists.
        drawing: how candidates are drawn.
        door: who may come in.
        report: takes what went wrong here, for people.
        utilities: the metrics that answer requests for scores, by name, of which the first does where one names none.
        scoring: how.

    Raises:
        DiscorankError: a key, a metric or the address cannot be had; a package of the extra is missing.
    """

    def __init__(
        self,
        panel: Panel | None,
        deciders: Mapping[str, Decider],
        engine: Engine,
        drawing: DrawingSettings,
        door: DoorSettings,
        report: Callable[[str], object],
        utilities: Mapping[str, Utility] | None = None,
        scoring: ScoreSettings | None = None,
    ) -> None:
        require("serve", *PACKAGES)
        from .connections import Connections, HttpServer

        models = [] if panel is None else panel.models
        if panel is not None:
            panel.check(deciders.values(), drawing.adaptive)
        if drawing.adaptive:
            deciders = {name: _with_matrix(name, one) for name, one in deciders.items()}
        utilities, scoring = utilities or {}, scoring or ScoreSettings()
        self._door, self._drawing = door, drawing
        self._reads_logprobs = any(decider.reads_logprobs for decider in deciders.values())
        used = [*deciders.values(), CALLS] if models else []
        self._metrics = [metric for decider in used for metric in decider.metrics]
        self._metrics += utilities.values()
        self._report = LimitedReport(report)
        self._upstreams = [
            Upstream(Exchange(connection, len(models) == 1), spec.name, spec.model, self._report)
            for spec, connection in models
        ]
        access_key = key_in(door.access_key_variable, "access_key_variable")
        num_requests = door.max_open + door.max_waiting
        num_upstream = sum(model.connection.connections for model in models)
        most = max_connections(num_requests, num_upstream)
        window = BatchWindow(scoring.window_seconds)
        self._choosing = ChoosingThread(engine, num_requests, window)
        counters = Counters()
        choosing, seconds = self._choosing, door.choice_seconds
        counters.watch("choices", "Choices that wait or are made", lambda: choosing.num_waiting)
        scores = ScoreEndpoints(utilities, choosing, scoring, seconds, counters)
        behind = None
        if models:
            own_sizes = tuple(model.spec.n for model in models)
            names = frozenset(deciders), next(iter(deciders))
            first = models[0].spec.model
            allowed = Allowed(*names, drawing.most_candidates, own_sizes, first)
            quorum = None if panel is None else panel.quorum
            behind = self._chosen_from(allowed, deciders, drawing, counters, quorum)
        self._app = App(behind, scores, door, access_key, counters, self._report)
        self._socket = _listening(door)
        connections = Connections(most, door.body_seconds)
        self._server = HttpServer(self._app, connections, door.grace_seconds)

    def _chosen_from(
        self,
        allowed: Allowed,
        deciders: Mapping[str, Decider],
        drawing: DrawingSettings,
        counters: Counters,
        quorum: int | None,
    ) -> Behind:
        """The servers upstream, and the decisions of requests, with the documents that they keep."""
        door = self._door
        width = max(decider.width for decider in deciders.values())
        documents = DocumentStreams(width, door.max_documents, door.document_seconds)
        counters.watch("documents", "Documents that are kept", lambda: len(documents))
        decisions = Decisions(
            deciders,
            self._upstreams,
            self._choosing,
            documents,
            drawing,
            door.choice_seconds,
            counters,
            quorum,
        )
        return Behind(self._upstreams, decisions, allowed, drawing)

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
        gc.freeze()  # what is loaded stays: no search for garbage has to look at it again

    async def serve(self, probes: bool = False, model: str | None = None) -> None:
        """Serves until `stop` is called, and until what is open then is done.

        Args:
            probes: whether the servers upstream are asked what they do, and people are told what they do not.
            model: which of its models is asked; the only one if not given.
        """
        asyncio.get_running_loop().set_exception_handler(self._tell)
        probed = self._upstreams if probes else []
        beside = [asyncio.ensure_future(self._probed(one, model)) for one in probed]
        try:
            await self._server.serve([self._socket])
        finally:
            for task in beside:
                task.cancel()
            if beside:
                await asyncio.wait(beside)
            await self._close_upstreams()
            self._app.close()
            await asyncio.to_thread(self._choosing.stop, STOP_SECONDS)

    async def _close_upstreams(self) -> None:
        """Closes the connections to the servers upstream."""
        for upstream in self._upstreams:
            await upstream.exchange.close()

    async def facts(self, model: str | None) -> AsyncIterator[tuple[str, ServerFacts]]:
        """The name of each server upstream and what it does; closes its connections.

        Raises:
            DiscorankError: one cannot be asked.
        """
        self._socket.close()
        if not self._upstreams:
            raise InputError("there is no server upstream", where="--probe", fix="Add --upstream")
        try:
            for upstream in self._upstreams:
                yield upstream.name, await self._facts_of(upstream, model)
        finally:
            await self._close_upstreams()
            self._app.close()

    async def _probed(self, upstream: Upstream, model: str | None) -> None:
        """Tells people what a server upstream does not do; says nothing of one that is not there yet."""
        name = f"upstream {upstream.name}".rstrip()
        try:
            facts = await self._facts_of(upstream, model)
        except InputError as error:
            self._report(f"discorank: {name}: not asked what it does: {error}")
            return
        except DiscorankError:
            return
        problems = [copies_problem(facts, self._drawing.sampling_temperature or 1.0)]
        if self._reads_logprobs:
            problems.append(logprobs_problem(facts))
        for problem in filter(None, problems):
            self._report(f"discorank: {name}: {problem}")

    async def _facts_of(self, upstream: Upstream, model: str | None) -> ServerFacts:
        """What a server upstream does with requests as they are made here."""
        drawing, named = self._drawing, upstream.model or model
        temperature = drawing.sampling_temperature
        return await facts_of(upstream.exchange, named, drawing.further, temperature)

    def _tell(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Tells people of an error that came of no request."""
        error = context.get("exception")
        kind = "" if error is None else f": {type(error).__name__}"
        self._report(f"discorank: {context['message']}{kind}")

    def stop(self) -> None:
        """Lets nobody in any more; what is open is finished."""
        self._server.should_exit = True


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
