"""The edge of the server: connections, requests and bytes of theirs are bounded.

The HTTP server is uvicorn over h11, with as many connections as there are descriptors for.
h11 bounds what comes beside bodies (heads, frames of chunks, trailers), and a request for another protocol is answered
in this one. What they leave open is bounded here: a body of very small chunks is refused; a connection without a
request in progress, or with an answer that nobody reads, ends after a while; where all connections are taken, the one
that has been idle longest gives way, and where none is idle, the new one is refused.
"""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits
from .api_errors import ApiError
from .settings import DoorSettings

MAX_BESIDE = 1 << 16  # bytes of a head, of the frame of a chunk, or of trailers
MAX_FRAMES = 1 << 14  # bytes of the frames of chunks, beside an eighth of the body
READ_BYTES = 1 << 12  # of a connection at a time, before others are looked at
ACCEPTED_AT_ONCE = 32  # connections that are accepted before others are looked at
QUEUED = 2048  # connections that wait to be accepted
OTHER_DESCRIPTORS = 128  # files, pipes, libraries, and connections that are about to be refused
REFUSED_AT_A_TIME = 32  # connections beside those of requests that have room
# memory that a byte of a request takes at most: as it came, as text, and as it goes upstream
BYTES_PER_BYTE = 4
WIDE_BYTES = 4  # beside it, where a text may have characters of four bytes, which all of its characters then take
BYTES_PER_VALUE = 256  # memory of a value of JSON beside it: an object with one key has 232
BEGUN_AT_ONCE = 4  # requests, before the event loop looks at others


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 over one connection, one of so many, each of which may be idle for so long.

    Args:
        max_connections: how many there may be.
        idle_seconds: how long one may be without a request in progress, or an answer unread.
    """

    def __init__(
        self, *arguments: Any, max_connections: int, idle_seconds: float, **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self._max_connections, self._idle_seconds = max_connections, idle_seconds
        self._ending: asyncio.TimerHandle | None = None
        self._num_beside = 0  # bytes of frames of a body, less those that its size allows

    @property
    def _is_idle(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _standing(self) -> tuple[bool, float]:
        """The order in which idle connections give way: unread answers last, then by the time of being idle."""
        ends_at = 0.0 if self._ending is None else self._ending.when()
        return self.transport.get_write_buffer_size() > 0, ends_at

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request; of too many connections, one has to go."""
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        self._wait()
        if len(self.connections) > self._max_connections:
            others = (one for one in self.connections if one is not self)
            idle = [one for one in others if isinstance(one, BoundedProtocol) and one._is_idle]
            leaving = min(idle, key=lambda one: one._standing, default=self)
            self.connections.discard(leaving)
            leaving.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; the waiting ends with the head of a request."""
        cycle = self.cycle
        num_held = 0 if cycle is None else len(cycle.body)
        super().data_received(data)
        if self._is_idle:
            return
        self._stop_waiting()
        if self.cycle is not cycle:
            self._num_beside = 0
        elif cycle.more_body:
            self._note_frames(len(data), len(cycle.body) - num_held)

    def _note_frames(self, num_bytes: int, num_body: int) -> None:
        """Refuse a body of very small chunks, each of which takes its time, given bytes that came and those in it."""
        self._num_beside = max(0, self._num_beside + num_bytes - num_body - num_body // 8)
        if self._num_beside > MAX_FRAMES and not self.transport.is_closing():
            self.send_400_response("chunks are too small")

    def on_response_complete(self) -> None:
        """Wait for the answer to be read, and for the next request, unless it has come already."""
        self._wait()
        super().on_response_complete()
        if not self._is_idle:
            self._stop_waiting()

    def pause_writing(self) -> None:
        """Wait for the answer to be read."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Go on with an answer of which enough was read."""
        super().resume_writing()
        if not self._is_idle:
            self._stop_waiting()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP, unless an answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def _wait(self) -> None:
        self._stop_waiting()
        self._ending = self.loop.call_later(self._idle_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None


class HttpServer(uvicorn.Server):
    """The HTTP server, which logs nothing of requests.

    Args:
        app: answers requests.
        max_connections: how many connections there may be.
        door: its address and its times.

    Raises:
        InputError: the address cannot be had.
    """

    def __init__(self, app: Any, max_connections: int, door: DoorSettings) -> None:
        protocol = partial(
            BoundedProtocol, max_connections=max_connections, idle_seconds=door.body_seconds
        )
        config = uvicorn.Config(
            app,
            http=protocol,  # type: ignore[arg-type]
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            backlog=ACCEPTED_AT_ONCE,
            timeout_keep_alive=max(1, round(door.body_seconds)),
            timeout_graceful_shutdown=max(1, round(door.grace_seconds)),
            h11_max_incomplete_event_size=MAX_BESIDE,
        )
        super().__init__(config)
        self.socket = listening(door)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections: few at a time, while many may wait."""
        await super().startup(sockets)
        self.socket.listen(QUEUED)


def listening(door: DoorSettings) -> socket.socket:
    """A socket at the address; raises InputError if it cannot be had."""
    family = socket.AF_INET6 if ":" in door.host else socket.AF_INET
    try:
        opened = socket.create_server((door.host, door.port), family=family, backlog=QUEUED)
    except OSError as error:
        problem = f"cannot listen at {door.host} port {door.port} ({error.strerror or error})"
        fix = "Is the port taken? Give another: --port"
        raise InputError(problem, where="host", fix=fix) from None
    # a socket that knows its protocol: only then asyncio turns off Nagle's algorithm, which costs each answer 40 ms
    return socket.socket(fileno=opened.detach())


def max_connections(num_requests: int, num_upstream: int) -> int:
    """How many connections of clients there may be, so that the system has descriptors for all of them.

    The limit of this process is raised as far as it may be where it is too low.

    Args:
        num_requests: requests that have room at a time; each is to find a connection, and others their refusal.
        num_upstream: connections to the servers upstream.

    Raises:
        InputError: there are too few.
    """
    wanted = 4 * num_requests + 256
    try:
        import resource
    except ImportError:  # there is no such limit on Windows
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = num_upstream + OTHER_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted + others:
        soft = wanted + others if hard == resource.RLIM_INFINITY else min(hard, wanted + others)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        wanted = soft - others
    least = num_requests + REFUSED_AT_A_TIME
    if wanted < least:
        problem = f"the system gives {soft} descriptors, expected {least + others}"
        fix = "Raise them (ulimit -n), or lower --max-open, --max-waiting or --connections"
        raise InputError(problem, where="max_open", fix=fix)
    return wanted


class RequestRoom:
    """Room for requests.

    Args:
        max_open: how many are worked at at a time.
        max_waiting: how many come in, or wait, beside them.
    """

    def __init__(self, max_open: int, max_waiting: int) -> None:
        self._max_requests = max_open + max_waiting
        self._places = asyncio.Semaphore(max_open)
        self._beginning = asyncio.Semaphore(BEGUN_AT_ONCE)
        self.num_requests = 0
        self.num_open = 0
        self.num_bytes = 0
        self._given_back = 0  # bytes, since garbage was collected

    @property
    def num_waiting(self) -> int:
        """Requests whose body comes, or that wait for a place."""
        return self.num_requests - self.num_open

    @contextmanager
    def request(self) -> Iterator[RequestShare]:
        """Room for one request within the block.

        Raises:
            ApiError: there is none.
        """
        if self.num_requests >= self._max_requests:
            problem = f"{self.num_open} requests are open and {self.num_waiting} wait"
            raise ApiError(429, problem, code="too_many_requests")
        self.num_requests += 1
        share = RequestShare(self)
        try:
            yield share
        finally:
            self.num_requests -= 1
            self.num_bytes -= share.num_bytes
            self._given_back += share.num_bytes
            if self._given_back > limits().memory_bytes // 2:
                # a request that fails is in a circle with its error, and might stay for long
                self._given_back = 0
                gc.collect()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place to be worked at within the block, as soon as there is one."""
        async with self._places:
            # begun a few at a time, so that others do not wait until all that came together have begun
            await self._beginning.acquire()
            asyncio.get_running_loop().call_soon(self._beginning.release)
            self.num_open += 1
            try:
                yield
            finally:
                self.num_open -= 1


class RequestShare:
    """The share of one request in the memory for all."""

    def __init__(self, room: RequestRoom) -> None:
        self._room = room
        self.num_bytes = 0

    def take_reply(self, num_bytes: int) -> None:
        """Takes what so many bytes of a reply from upstream need; raises as `take`."""
        self.take(BYTES_PER_BYTE * num_bytes)

    def take(self, num_bytes: int) -> None:
        """Takes so much more.

        Raises:
            ApiError: there is not so much now, or ever.
        """
        bound = limits().memory_bytes
        if self.num_bytes + num_bytes > bound:
            problem = f"the request takes more memory than the {bound} bytes that there are for all"
            raise ApiError(413, problem, code="too_large")
        if self._room.num_bytes + num_bytes > bound:
            problem = f"open requests take the {bound} bytes of memory that there are for them"
            raise ApiError(429, problem, code="too_many_bytes")
        self.num_bytes += num_bytes
        self._room.num_bytes += num_bytes


async def body_of(pieces: AsyncIterator[bytes], share: RequestShare, seconds: float) -> bytes:
    """The body of a request, whose memory is accounted for as it comes.

    Args:
        pieces: of the body.
        share: what the request takes of the memory for all.
        seconds: how long it may take to come.

    Raises:
        ApiError: it is too large, or does not come, or there is no memory for it.
    """
    body, max_bytes = bytearray(), limits().line_bytes
    try:
        async with asyncio.timeout(seconds):
            async for piece in pieces:
                if len(body) + len(piece) > max_bytes:
                    problem = f"the request has more than {max_bytes} bytes"
                    raise ApiError(413, problem, code="too_large")
                share.take(BYTES_PER_BYTE * len(piece))
                body += piece
    except TimeoutError:
        problem = f"the request did not come within {seconds:g} seconds"
        raise ApiError(408, problem, code="slow_request") from None
    if not body.isascii() or b"\\u" in body:
        share.take(WIDE_BYTES * len(body))
    # every value of JSON stands behind one of these
    share.take(BYTES_PER_VALUE * sum(map(body.count, (b",", b"[", b"{"))))
    return bytes(body)
