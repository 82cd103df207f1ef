"""The scripted server and `discorank serve`, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import urlsplit


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


def load_average() -> str:
    """How busy the machine is: processes that want a core, in the last minute."""
    return f"{os.getloadavg()[0]:.1f} processes on {os.cpu_count()} cores"
