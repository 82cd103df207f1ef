"""Connections that are dropped when nothing comes of them: no whole head of a request in time, or an answer not taken.

The HTTP server waits for both without end, so that clients that do nothing would take all of its connections.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


class TimedProtocol(H11Protocol):
    """HTTP/1.1 over one connection.

    Args:
        idle_seconds: how long it may be without a request that is worked at.
    """

    def __init__(self, *arguments: Any, idle_seconds: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._idle_seconds = idle_seconds
        self._ending: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Takes what has come; the waiting ends where it completes the head of a request."""
        super().handle_events()
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """Waits for the answer to be taken, and for the next request."""
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self._stop_waiting()
        self._ending = self.loop.call_later(self._idle_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
