"""The door: how many requests and bytes of theirs are kept at a time, and how often people are told of trouble.

A request gets room before its body is read, a place to be worked at once it is read. What it takes of memory is one
account over all requests, so that what strangers send is bounded as a whole, whatever stands in one of them.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic

from ...metrics.storage.limits import limits
from .api_errors import ApiError

# memory that a byte of a request takes at most: as it came, as text, and as it goes upstream
BYTES_PER_BYTE = 4
WIDE_BYTES = 4  # beside it, where a text may have characters of four bytes, which all of its characters then take
BYTES_PER_VALUE = 256  # memory of a value of JSON beside it: an object with one key has 232

BEGUN_AT_ONCE = 4  # requests, before the event loop looks at others


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
            if self._given_back > limits().open_bytes // 2:
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
    """What one request takes of the memory for all."""

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
        bound = limits().open_bytes
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
    body, max_bytes = bytearray(), limits().request_bytes
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


class LimitedReport:
    """Tells people what goes wrong, so many lines in a while; what is more is counted, and the count told.

    Args:
        report: takes a line.
        max_lines: lines of a while.
        seconds: how long that is.
        clock: tells the time, in seconds.
    """

    def __init__(
        self,
        report: Callable[[str], object],
        max_lines: int = 10,
        seconds: float = 60.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._report, self._max_lines, self._seconds = report, max_lines, seconds
        self._clock = clock
        self._since, self._num_lines = clock(), 0

    def __call__(self, line: str) -> None:
        """Tells of something, if not too much was told of late."""
        now = self._clock()
        if now - self._since >= self._seconds:
            left_out = self._num_lines - self._max_lines
            if left_out > 0:
                self._report(f"discorank: {left_out} more lines were left out")
            self._since, self._num_lines = now, 0
        self._num_lines += 1
        if self._num_lines <= self._max_lines:
            self._report(line)
