"""Connections to one server, in pools of a few.

A pool of the HTTP client looks at all of its connections whenever a request begins or ends, so that one pool of
hundreds would cost each request more than the request itself. It knows nothing of what is sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

POOL_CONNECTIONS = 8


@dataclass(slots=True, eq=False)
class _Pool:
    """A client with a few connections, and how many of its requests are open."""

    http: Any
    num_open: int = 0


class ConnectionPools:
    """Sends requests; as many connections are opened as requests are open at a time.

    Args:
        headers: of every request.
    """

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = headers
        self._pools: list[_Pool] = []
        self._certificates: Any = None

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, content: bytes, headers: Mapping[str, str]
    ) -> AsyncIterator[Any]:
        """The response to a request, which is open within the block; redirects are not followed."""
        pool = next((pool for pool in self._pools if pool.num_open < POOL_CONNECTIONS), None)
        pool = pool or self._added()
        pool.num_open += 1
        try:
            sending = pool.http.stream(method, url, content=content, headers=headers)
            async with sending as response:
                yield response
        finally:
            pool.num_open -= 1

    async def close(self) -> None:
        """Closes the connections."""
        for pool in self._pools:
            await pool.http.aclose()

    def _added(self) -> _Pool:
        """One more pool; certificates are read once."""
        import httpx2

        if self._certificates is None:
            self._certificates = httpx2.create_ssl_context()
        http = httpx2.AsyncClient(
            headers=dict(self._headers),
            limits=httpx2.Limits(max_connections=POOL_CONNECTIONS),
            timeout=None,
            follow_redirects=False,
            verify=self._certificates,
        )
        self._pools.append(_Pool(http))
        return self._pools[-1]
