"""What passes through: which paths, and how a reply comes back as the server upstream sent it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import AbstractAsyncContextManager
from fnmatch import fnmatchcase
from typing import Any

from ...metrics.errors import DiscorankError
from ..server.exchange import Hold, OpenReply, check_status, whole
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


_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")


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
            headers = {name: reply.headers[name] for name in _HEADERS if name in reply.headers}
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
