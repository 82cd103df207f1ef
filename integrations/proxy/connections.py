"""Connections of clients: as many as there are descriptors for, and none that nothing comes of.

The HTTP server alone waits without end for the head of a request and for an answer to be taken, and where descriptors
run out it logs an error for each connection that it cannot accept. Here connections are accepted one by one; where all
are taken, the one that has been idle longest gives way; where none is idle, those to come wait unaccepted.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_BESIDE = (
    1 << 16
)  # bytes of a request beside its body, whose frames have a sixteenth of its bytes more
READ_BYTES = 1 << 15  # of a connection at a time, before others are looked at
FEW_CHUNKS = 256  # of a body; each of more has at least so many bytes, on average:
CHUNK_BYTES = 1024
MAX_AT_ONCE = 32  # connections that are accepted before others are looked at
MIN_IDLE_SECONDS = 0.1  # before a connection may have to go: its request may be on the way
PAUSE_SECONDS = 0.1  # before another try, where the system has no descriptor left


class Connections:
    """The connections of a server.

    Args:
        max_connections: how many there may be.
        idle_seconds: how long one may be without a request that is worked at, or an answer untaken.
    """

    def __init__(self, max_connections: int, idle_seconds: float) -> None:
        self._max_connections, self.idle_seconds = max_connections, idle_seconds
        self._num_open = 0
        self._idle: dict[TimedProtocol, float] = {}  # since when, the longest first
        self._changed = asyncio.Event()
        self._beginning: set[asyncio.Task[Any]] = set()

    async def accept(self, listening: socket.socket, protocol: Callable[[], TimedProtocol]) -> None:
        """Accepts connections until it is cancelled."""
        loop, come = asyncio.get_running_loop(), asyncio.Event()
        listening.setblocking(False)

        def note() -> None:
            loop.remove_reader(listening)
            come.set()

        try:
            while True:
                loop.add_reader(listening, note)
                await come.wait()
                come.clear()
                waiting = _waiting(listening, MAX_AT_ONCE)
                if not waiting:  # the client has gone, or there is no descriptor
                    await asyncio.sleep(PAUSE_SECONDS)
                while waiting:
                    await self._begin(loop, waiting.pop(0), protocol)
        finally:
            loop.remove_reader(listening)

    async def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: socket.socket,
        protocol: Callable[[], TimedProtocol],
    ) -> None:
        """Begins a connection, as soon as there may be one more."""
        try:
            while self._num_open >= self._max_connections:
                self._changed.clear()
                self._drop(loop.time() - MIN_IDLE_SECONDS)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), MIN_IDLE_SECONDS)
        except asyncio.CancelledError:
            accepted.close()
            raise
        accepted.setblocking(False)
        self._num_open += 1
        beginning = loop.create_task(loop.connect_accepted_socket(protocol, accepted))
        # others are accepted meanwhile; a failure is that of the client, whose connection has its end as any other
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    def closed(self, connection: TimedProtocol) -> None:
        """Forgets a connection."""
        self._num_open -= 1
        self.busy(connection)
        self._changed.set()

    def idle(self, connection: TimedProtocol) -> None:
        """Notes that a connection waits for its client."""
        self._idle[connection] = connection.loop.time()

    def busy(self, connection: TimedProtocol) -> None:
        """Notes that a request of a connection is worked at."""
        self._idle.pop(connection, None)

    def _drop(self, before: float) -> None:
        """Ends the connection that has been idle longest, if it has been since before a time of the event loop.

        One whose answer is not yet taken has to go only if all are so.
        """
        idle = [one for one, since in self._idle.items() if since <= before]
        taken = (one for one in idle if not one.transport.get_write_buffer_size())
        connection = next(taken, None)
        if connection is not None:
            connection.transport.close()
        elif idle:
            connection = idle[0]
            connection.transport.abort()
        if connection is not None:
            self.busy(connection)  # it is counted until its end has come


def _waiting(listening: socket.socket, most: int) -> list[socket.socket]:
    """Connections that wait to be accepted, so many at most."""
    accepted = []
    with suppress(OSError):  # none waits, or there is no descriptor
        for _ in range(most):
            accepted.append(listening.accept()[0])
    return accepted


class TinyChunksError(Exception):
    """A body of very small chunks, each of which takes its time."""


class TimedProtocol(HttpToolsProtocol):
    """HTTP/1.1 over one connection, within bounds of what comes beside bodies: heads, frames of chunks, trailers.

    Args:
        connections: the connections of the server.
    """

    def __init__(self, *arguments: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connections = connections
        self._ending: asyncio.TimerHandle | None = None
        self._num_bytes = self._num_body_bytes = self._num_chunks = 0  # of a request
        self._given = self._unread = b""  # to the parser, and what it is to read again

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the waiting."""
        self._stop_waiting()
        super().connection_lost(exc)
        self._connections.closed(self)

    def data_received(self, data: bytes) -> None:
        """Takes what has come; the waiting ends where it completes the head of a request."""
        unread = data
        while unread:
            self._given, self._unread = unread, b""
            super().data_received(unread)
            unread = self._unread
        self._num_bytes += len(data)
        beside = self._num_bytes - self._num_body_bytes
        if beside > MAX_BESIDE + self._num_body_bytes // 16 and not self.transport.is_closing():
            self.send_400_response("too much beside the body")
        if self._is_answering:
            self._stop_waiting()

    def on_message_begin(self) -> None:
        """Begins a request."""
        super().on_message_begin()
        self._num_bytes = self._num_body_bytes = self._num_chunks = 0

    @property
    def _asks_for_other(self) -> bool:
        """Whether a request asks for another protocol, as the JDK's client does for HTTP/2.

        The parser leaves its body unread. It is read again as one that does not ask, which is what answers it.
        """
        asks: bool = self.parser.should_upgrade()
        return asks and self.parser.get_method() != b"CONNECT"

    def on_headers_complete(self) -> None:
        """Begins to work at a request."""
        if not self._asks_for_other:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Notes the end of a body."""
        if not self._asks_for_other:
            super().on_message_complete()

    def _unsupported_upgrade_warning(self) -> None:
        """Notes what of a request that asks for another protocol is to be read again."""
        upgrade = sys.exception()
        if upgrade is None or not self._asks_for_other:
            return
        version = self.parser.get_http_version().encode()
        lines = [b" ".join((self.parser.get_method(), self.url, b"HTTP/" + version))]
        lines += [b": ".join(pair) for pair in self.headers if pair[0] != b"upgrade"]
        self._unread = b"\r\n".join((*lines, b"", self._given[upgrade.args[0] :]))

    def on_chunk_header(self) -> None:
        """Counts a chunk of a body.

        Raises:
            TinyChunksError: they are too small; the request is then refused.
        """
        self._num_chunks += 1
        if self._num_chunks > max(FEW_CHUNKS, self._num_body_bytes // CHUNK_BYTES):
            raise TinyChunksError

    def on_body(self, body: bytes) -> None:
        """Takes a piece of a body."""
        self._num_body_bytes += len(body)
        super().on_body(body)

    @property
    def _is_answering(self) -> bool:
        """Whether a request is worked at."""
        return self.cycle is not None and not self.cycle.response_complete

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP, unless an answer has begun."""
        if self._is_answering and self.cycle.response_started:
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def on_response_complete(self) -> None:
        """Waits for the answer to be taken, and for the next request."""
        self._wait()
        super().on_response_complete()
        if self._is_answering:  # the next has come already
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Waits for what was sent of an answer to be taken."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Goes on with an answer of which enough was taken."""
        super().resume_writing()
        if self._is_answering:
            self._stop_waiting()

    def _wait(self) -> None:
        self._stop_waiting()
        self._connections.idle(self)
        seconds = self._connections.idle_seconds
        self._ending = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._connections.busy(self)
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None


class HttpServer(uvicorn.Server):
    """The HTTP server, which logs nothing of requests.

    Args:
        app: what answers.
        connections: its connections.
        grace_seconds: how long open requests may take when it is stopped.
    """

    def __init__(self, app: Any, connections: Connections, grace_seconds: float) -> None:
        config = uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(grace_seconds)),
        )
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to accept connections at one socket."""
        self.servers = []
        [listening] = sockets or []
        accepting = self._connections.accept(listening, self._protocol)
        self._accepting = asyncio.create_task(accepting)
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts no more, and ends what is open in its time."""
        self._accepting.cancel()
        await asyncio.wait([self._accepting])
        await super().shutdown(sockets)

    def _protocol(self) -> TimedProtocol:
        return TimedProtocol(
            config=self.config,
            server_state=self.server_state,
            app_state={},
            connections=self._connections,
        )
