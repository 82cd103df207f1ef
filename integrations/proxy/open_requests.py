"""How many requests are worked at, and how many wait behind them: the others are told to come again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from .api_errors import ApiError


class OpenRequests:
    """Places for requests.

    Args:
        max_open: how many are worked at at a time.
        max_waiting: how many wait.
    """

    def __init__(self, max_open: int, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._places = asyncio.Semaphore(max_open)
        self.num_open = 0
        self.num_waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place within the block, as soon as there is one.

        Raises:
            ApiError: too many wait already.
        """
        if self._places.locked() and self.num_waiting >= self._max_waiting:
            problem = f"{self.num_open} requests are open and {self.num_waiting} wait"
            raise ApiError(429, problem, code="too_many_requests")
        self.num_waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.num_waiting -= 1
        self.num_open += 1
        try:
            yield
        finally:
            self.num_open -= 1
            self._places.release()
