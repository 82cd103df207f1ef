"""Requests that pass through: the reply upstream as it comes, bytes and status, and only from beneath its address."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from ...metrics.errors import DiscorankError
from ..server.exchange import Exchange, OpenReply
from ..server.server_errors import check_status
from .api_errors import ApiError, from_upstream
from .replies import event

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

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


class Relay:
    """Passes a request on and its reply back, within one place among the open requests.

    Args:
        exchange: requests to the server.
        method, path, content: the request.
        headers: of the request, as far as they pass through.
        reason: why nothing is chosen.
    """

    def __init__(
        self,
        exchange: Exchange,
        method: str,
        path: str,
        content: bytes,
        headers: Mapping[str, str],
        reason: str,
    ) -> None:
        self._exchange, self._method, self._path = exchange, method, path
        self._content, self._headers, self._reason = content, headers, reason
        self._has_started = False

    async def run(self, send: Send) -> int:
        """Sends the reply; returns its status.

        Raises:
            ApiError: there is none.
        """
        try:
            async with self._opened() as reply:
                await self._send(reply, send)
                return reply.status
        except DiscorankError as error:
            problem = from_upstream(error)
        if not self._has_started:
            raise problem
        # a stream that broke off ends with the error
        await send({"type": "http.response.body", "body": event(problem.body)})
        return problem.status

    def _opened(self) -> AbstractAsyncContextManager[OpenReply]:
        return self._exchange.opened(self._method, self._path, self._content, self._headers)

    async def _send(self, reply: OpenReply, send: Send) -> None:
        """Sends a reply: events as they come, anything else when it is whole."""
        is_stream = reply.headers.get("content-type", "").startswith("text/event-stream")
        if not is_stream or reply.status in _ABOUT_THE_KEY:
            content = b"".join([piece async for piece in reply.pieces])
            if reply.status in _ABOUT_THE_KEY:
                check_status(reply.status, reply.headers, content, str)
            await self._begin(reply, send, len(content))
            await send({"type": "http.response.body", "body": content})
            return
        await self._begin(reply, send)
        async for piece in reply.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _begin(self, reply: OpenReply, send: Send, length: int | None = None) -> None:
        """Sends status and headers."""
        headers = {name: reply.headers[name] for name in _HEADERS if name in reply.headers}
        headers["x-discorank"] = f"passed-through; reason={self._reason}"
        if length is not None:
            headers["content-length"] = str(length)
        raw = [
            (name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()
        ]
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        self._has_started = True
