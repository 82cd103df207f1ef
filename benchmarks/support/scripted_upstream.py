"""A server in OpenAI's form that generates nothing: it says what its script says, and fails as it is told.

python -m benchmarks.support.scripted_upstream --port 9000 --fault reset=0.01 --fault stall=0.01 --latency 0.05
"""

from __future__ import annotations

import argparse
import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NoReturn

from benchmarks.support.scripted_replies import FAULTS, Script, events_of, reply_value

PIECE = b" " * (1 << 16)
GATE_SECONDS = 0.02  # between two looks whether a gate is open


@dataclass
class Request:
    """A request that came."""

    method: str
    path: str
    headers: dict[str, str]
    content: bytes
    fault: str | None = None
    is_dropped: bool = False  # the client went before it had its reply
    came_at: float = field(default_factory=perf_counter)

    @property
    def body(self) -> dict[str, Any]:
        """Its JSON; empty where it has none."""
        try:
            value = json.loads(self.content)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


class ScriptedUpstream:
    """The server; its requests are in `seen` if they are kept.

    Args:
        script: how it behaves.
        keeps: how many requests are kept.
    """

    def __init__(self, script: Script | None = None, keeps: int = 10_000) -> None:
        self.script, self.keeps = script or Script(), keeps
        self.seen: list[Request] = []
        self.met: Counter[str] = Counter()  # faults
        self.num_requests = 0
        self.num_open = 0
        self.most_open = 0
        self.url = ""
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, port: int = 0) -> asyncio.Server:
        """Listens at loopback."""
        server = await asyncio.start_server(self._connected, "127.0.0.1", port, backlog=2048)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        return server

    async def stop(self, server: asyncio.Server) -> None:
        """Ends, with all connections."""
        server.close()
        for task in list(self._open):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            while (request := await _read(reader)) is not None:
                if not await self._answered(request, reader, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._open.discard(task)
            writer.close()

    async def _answered(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answers a request; returns whether the connection goes on."""
        number = self.num_requests
        self.num_requests += 1
        if len(self.seen) < self.keeps:
            self.seen.append(request)
        self.num_open += 1
        self.most_open = max(self.most_open, self.num_open)
        try:
            return await self._reply(request, number, reader, writer)
        except ConnectionError:
            request.is_dropped = True
            raise
        finally:
            self.num_open -= 1

    async def _reply(
        self,
        request: Request,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Replies, or fails as the script says."""
        script = self.script
        request.fault = script.fault_of(request.body, number)
        extra = script.slowest_seconds * script.random("latency", number).random()
        is_there = await _waited(script.latency_seconds + extra, reader)
        while is_there and script.gate is not None and not script.gate.is_set():
            is_there = await _waited(GATE_SECONDS, reader)
        if not is_there:
            request.is_dropped = True
            return False
        if request.fault is None:
            return await _send(writer, 200, *self._good(request, number))
        self.met[request.fault] += 1
        return await self._failed(request, number, reader, writer)

    def _good(self, request: Request, number: int) -> tuple[bytes, str]:
        """A good reply and its kind."""
        path = request.path.partition("?")[0]
        if path == "/v1/models":
            model = {"id": "scripted", "object": "model", "created": 0, "owned_by": "nobody"}
            return json.dumps({"object": "list", "data": [model]}).encode(), "application/json"
        if path == "/v1/embeddings":
            item = {"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}
            body = {"object": "list", "data": [item], "model": "scripted"}
            return json.dumps(body).encode(), "application/json"
        value = reply_value(self.script, request.path, request.body, number, request.fault)
        if self.script.times:
            value["usage"]["seconds"] = perf_counter() - request.came_at
        if request.body.get("stream"):
            return b"".join(events_of(value, request.path)), "text/event-stream"
        return json.dumps(value, ensure_ascii=False).encode(), "application/json"

    async def _failed(
        self,
        request: Request,
        number: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Fails at a request; returns whether the connection goes on."""
        fault = request.fault
        if fault == "reset":
            writer.transport.abort()
            return False
        if fault == "redirect":
            location = {"location": "/v1/elsewhere"}
            return await _send(writer, 307, b"{}", "application/json", location)
        if fault is not None and fault.startswith("status-"):
            key = request.headers.get("authorization", "")
            error = {"error": {"message": f"scripted fault for {key}"}}
            status, _, seconds = fault.removeprefix("status-").partition("-after-")
            headers = {"retry-after": seconds} if seconds else {}
            content = json.dumps(error).encode()
            return await _send(writer, int(status), content, "application/json", headers)
        content, kind = self._good(request, number)
        if fault == "half-json":
            return await _send(writer, 200, content[: len(content) // 2], kind)
        if fault == "stall":
            writer.write(_head(200, kind, {"content-length": str(len(content))}))
            writer.write(content[: len(content) // 2])
            await writer.drain()
            await _waited(3600.0, reader)
            request.is_dropped = True
            return False
        if fault == "huge-length":
            writer.write(_head(200, kind, {"content-length": str(1 << 40)}))
            await _endless(writer, b'{"choices": [', PIECE)
        if fault == "huge":
            writer.write(_head(200, kind, {"transfer-encoding": "chunked"}))
            await _endless(writer, b"", b"%x\r\n%s\r\n" % (len(PIECE), PIECE))
        return await _send(writer, 200, content, kind)


async def _endless(writer: asyncio.StreamWriter, start: bytes, piece: bytes) -> NoReturn:
    """Sends for ever, with time for other connections in between; raises ConnectionError when the client goes."""
    writer.write(start)
    while True:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.001)


async def _waited(seconds: float, reader: asyncio.StreamReader) -> bool:
    """Waits; returns whether the client is still there."""
    if not seconds:
        return True
    peek = asyncio.ensure_future(reader.read(1))  # a client sends nothing before it has its reply
    done, _ = await asyncio.wait({peek}, timeout=seconds)
    peek.cancel()
    with suppress(asyncio.CancelledError, ConnectionError):
        await peek
    return not done


async def _read(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    content = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, content)


def _head(status: int, kind: str, headers: Mapping[str, str]) -> bytes:
    """Status and headers of a reply."""
    lines = [f"HTTP/1.1 {status} -", f"content-type: {kind}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _send(
    writer: asyncio.StreamWriter,
    status: int,
    content: bytes,
    kind: str,
    headers: Mapping[str, str] | None = None,
) -> bool:
    """Sends a whole reply; the connection goes on."""
    length = {"content-length": str(len(content)), **(headers or {})}
    writer.write(_head(status, kind, length) + content)
    await writer.drain()
    return True


@contextmanager
def upstream_running(script: Script | None = None) -> Iterator[ScriptedUpstream]:
    """A running server, in an event loop in a thread of its own."""
    upstream = ScriptedUpstream(script)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(upstream.start(), loop).result()
    try:
        yield upstream
    finally:
        asyncio.run_coroutine_threadsafe(upstream.stop(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def main() -> None:
    """Runs until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    parser.add_argument("--fault", action="append", default=[], help="NAME=SHARE")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds")
    parser.add_argument("--slowest", type=float, default=0.0, help="seconds on top, at most")
    parser.add_argument("--words", type=int, default=Script.words, help="of a text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--times", action="store_true", help="say in the usage how long a reply took"
    )
    options = parser.parse_args()
    faults = {}
    for fault in options.fault:
        name, _, share = fault.partition("=")
        if name not in FAULTS:
            parser.error(f"unknown fault {name!r}; all: {', '.join(FAULTS)}")
        faults[name] = float(share)
    script = Script(
        faults,
        options.latency,
        options.slowest,
        words=options.words,
        seed=options.seed,
        times=options.times,
    )

    async def run() -> None:
        upstream = ScriptedUpstream(script, keeps=0)
        server = await upstream.start(options.port)
        print(f"scripted upstream at {upstream.url}", flush=True)
        await server.serve_forever()

    with suppress(KeyboardInterrupt):
        asyncio.run(run())


if __name__ == "__main__":
    main()
