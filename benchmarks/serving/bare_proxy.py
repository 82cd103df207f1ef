"""A server that passes every request on and its reply back, and does nothing else: what HTTP alone costs.

    python -m benchmarks.serving.bare_proxy --upstream http://127.0.0.1:9000/v1

uvicorn with h11 and httpx, as they come: no bound, no time limit, no JSON is read.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx2
import uvicorn

Message = MutableMapping[str, Any]


class BareProxy:
    """The application.

    Args:
        upstream: the address that requests go to.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.removesuffix("/v1")
        self._http = httpx2.AsyncClient(
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None), timeout=None
        )

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Passes a request on."""
        content, more = b"", True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        reply = await self._http.request(
            scope["method"],
            self._upstream + scope["path"],
            content=content,
            headers={"content-type": "application/json", "accept-encoding": "identity"},
        )
        headers = [
            (b"content-type", reply.headers["content-type"].encode()),
            (b"content-length", str(len(reply.content)).encode()),
        ]
        start = {"type": "http.response.start", "status": reply.status_code, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": reply.content})


def main() -> None:
    """Serves until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    options = parser.parse_args()
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"passes on at http://127.0.0.1:{listening.getsockname()[1]}/v1", flush=True)
    # a socket that knows its protocol, so that small packets do not wait for each other
    listening = socket.socket(fileno=listening.detach())
    config = uvicorn.Config(
        BareProxy(options.upstream),
        http="h11",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
    )
    asyncio.run(uvicorn.Server(config).serve([listening]))


if __name__ == "__main__":
    main()
