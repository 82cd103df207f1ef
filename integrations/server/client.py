"""The requests of `exchange` for callers without an event loop: it runs in a thread of its own.

An interrupted program can so drop requests at once. It knows nothing of candidates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from threading import Thread
from types import TracebackType
from typing import Any

from .exchange import Exchange
from .settings import Connection


class Client:
    """Posts JSON; a context manager, at whose end open requests are dropped.

    Args:
        connection: how the server is reached.

    Raises:
        InputError: the key cannot be had.
    """

    def __init__(self, connection: Connection) -> None:
        self._exchange = Exchange(connection)
        self._open: set[Future[Any]] = set()

    def __enter__(self) -> Client:
        """Itself."""
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="discorank-server", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        """Drops what is under way."""
        for future in list(self._open):
            future.cancel()
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Waits until all that was cancelled has ended."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)
        await self._exchange.close()

    def post(self, path: str, body: Mapping[str, Any], retries: int | None = None) -> Future[Any]:
        """The JSON value that the server answers, to come; as many requests at a time as there are connections.

        Arguments as `Exchange.post`.

        Raises (where the result is asked for):
            InputError, ResourceError: as `Exchange.post`.
        """
        future = asyncio.run_coroutine_threadsafe(
            self._exchange.post(path, body, retries), self._loop
        )
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future
