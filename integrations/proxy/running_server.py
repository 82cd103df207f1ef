"""Starts the server and stops it: its address, its life from loading models to the last open request."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ...metrics.errors import InputError
from ...metrics.optional_packages import require
from ...rerank.decider import Decider
from ...rerank.engines.interface import Engine
from ...rerank.mbr import MBRDecoder
from ..server.exchange import Exchange
from ..server.settings import Connection
from .app import App
from .candidate_draw import Upstream
from .counters import Counters
from .decisions import ChoosingThread, Decisions
from .document_streams import DocumentStreams
from .questions import Allowed
from .settings import DoorSettings, DrawingSettings

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
