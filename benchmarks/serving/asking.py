"""Requests over kept connections, with little work of their own, so that what is measured is the server.

The scripted server and `discorank serve` run in a process each.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Any, NamedTuple
from urllib.parse import urlsplit

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
        """The reply to a request to a path, such as /v1/score."""
        content = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {self._served.host}\r\n"
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


class Served(NamedTuple):
    """A running process: its number, and where it listens."""

    pid: int
    host: str
    port: int
    url: str


@contextmanager
def upstream_process(*options: str) -> Iterator[Served]:
    """The scripted server."""
    command = [sys.executable, "-m", "benchmarks.support.scripted_upstream", "--port", "0"]
    with _running([*command, *options], "stdout") as served:
        yield served


@contextmanager
def proxy_process(upstream: Served, *options: str) -> Iterator[Served]:
    """`discorank serve` before it, with chrF and 16 candidates unless options say otherwise."""
    command = [sys.executable, "-m", "discorank", "serve", "--upstream", upstream.url]
    command += ["--port", "0", "-u", "chrf", "-n", "16"]
    with _running([*command, *options], "stderr") as served:
        yield served


@contextmanager
def panel_process(urls: Mapping[str, str], *options: str) -> Iterator[Served]:
    """`discorank serve` before several models by their names."""
    named = [f"{name}={url}" for name, url in urls.items()]
    command = [sys.executable, "-m", "discorank", "serve", "--upstream", *named]
    with _running([*command, "--port", "0", *options], "stderr") as served:
        yield served


@contextmanager
def bare_process(upstream: Served) -> Iterator[Served]:
    """A server before it that passes everything on."""
    command = [sys.executable, "-m", "benchmarks.serving.bare_proxy", "--upstream", upstream.url]
    with _running(command, "stdout") as served:
        yield served


@contextmanager
def _running(command: list[str], says: str) -> Iterator[Served]:
    """A process that says its address on its first line; killed at the end."""
    streams = {says: subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=os.environ.copy(), **streams)  # type: ignore[call-overload]
    stream: IO[str] = getattr(process, says)
    try:
        line = stream.readline()
        match = re.search(r"http://\S+", line)
        if match is None:
            raise SystemExit(f"{' '.join(command)}: {line}{stream.read()}")
        address = urlsplit(match[0])
        yield Served(process.pid, str(address.hostname), int(address.port or 0), match[0])
    finally:
        process.kill()
        process.wait()
        stream.close()


def memory_mib(pid: int, key: str = "VmRSS") -> float:
    """Memory of a process; `VmHWM` is the most that it had."""
    status = Path(f"/proc/{pid}/status").read_text()
    match = re.search(rf"^{key}:\s+(\d+) kB", status, re.MULTILINE)
    return int(match[1]) / 1024 if match else 0.0


def processor_seconds(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pin(pid: int, core: int) -> None:
    """Keeps all threads of a process on one core, on which those that they begin stay too."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), {core})


def load_average() -> str:
    """How busy the machine is: processes that want a core, in the last minute."""
    return f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores"
