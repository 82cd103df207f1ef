"""Requests over kept connections, with little work of their own, so that what is measured is the server."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from .processes import Served

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: status (0 where the connection broke), JSON, and the seconds until it was there."""

    status: int
    body: Any
    seconds: float


class Asking:
    """Posts requests; each connection carries one at a time, and as many are opened as are needed.

    Args:
        served: the server.
    """

    def __init__(self, served: Served) -> None:
        self._served = served
        self._idle: list[Line] = []

    async def post(self, path: str, body: dict[str, Any]) -> Reply:
        """The reply to a request."""
        content = json.dumps(body).encode()
        head = (
            f"POST /v1/{path} HTTP/1.1\r\nhost: {self._served.host}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        line = await self._line()
        start = perf_counter()
        try:
            line[1].write(head.encode() + content)
            status, reply = await _read(line[0])
        except (OSError, asyncio.IncompleteReadError):
            line[1].close()
            return Reply(0, None, perf_counter() - start)
        seconds = perf_counter() - start
        self._idle.append(line)
        return Reply(status, json.loads(reply), seconds)

    async def _line(self) -> Line:
        """A connection that waits for a request."""
        while self._idle:
            line = self._idle.pop()
            if not line[0].at_eof():
                return line
            line[1].close()
        return await asyncio.open_connection(self._served.host, self._served.port, limit=1 << 26)

    async def close(self) -> None:
        """Closes all connections."""
        for _, writer in self._idle:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of a reply that says how long it is."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    )
    return status, await reader.readexactly(length)


def quantile(values: list[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
