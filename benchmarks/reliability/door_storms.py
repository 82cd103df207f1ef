"""Storms at the door of ``serve``: connections, bodies, values and slow clients, more than it has room for.

The server runs with its defaults and 1,024 descriptors. While clients do their worst, somebody asks all the time if
it is well. Afterwards a request is answered, and the most memory that it ever had is read from the system.
"""

from __future__ import annotations

import json
import multiprocessing
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks.reliability.storms import ENVIRONMENT, Tried
from benchmarks.support.scripted_replies import Script
from benchmarks.support.scripted_upstream import upstream_running

DESCRIPTORS = 1024
MAX_MEMORY = 512  # MiB
MAX_SECONDS = 1.0  # until it says that it is well
MAX_LINES = 100  # of what it says on stderr
STORM_SECONDS = 8.0
ASK_SECONDS = 0.05  # between two looks whether it is well
HEAD = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
BODY = 16 << 20
Address = tuple[str, int]


class Health(NamedTuple):
    """How often it was asked whether it is well, how often it said so in time, and the longest time in seconds."""

    asked: int
    in_time: int
    longest: float


def doors(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Storms of every kind, one after another, at one server each; `tries` and `seed` change nothing."""
    raise_own_descriptors()
    rows = []
    for name, storm in STORMS.items():
        with upstream_running(Script(answer=long_answer)) as upstream, served(upstream.url) as one:
            process, address = one
            health = stormed(storm, address)
            is_well = answers(address)
            memory = most_memory(process)
            process.terminate()
            _, said = process.communicate(timeout=60)
        lines = said.count("\n")
        if lines > MAX_LINES or process.returncode or not is_well:
            print(f"door: {name}: exit {process.returncode}: {said[-500:]}", file=sys.stderr)
        detail = f"{name}: {health.longest:.2f} s at most, {lines} lines said"
        rows += [
            Tried("door", "it says that it is well within 1 s", "serve", *health[:2], detail),
            Tried(
                "door",
                f"at most {MAX_MEMORY} MB of memory, few lines, a request after it is answered",
                "serve",
                3,
                (memory <= MAX_MEMORY) + (lines <= MAX_LINES) + is_well,
                f"{name}: {memory:.0f} MB at most",
            ),
        ]
    return rows


def idle_connections(address: Address, stack: ExitStack) -> None:
    """1,500 connections that send nothing."""
    for _ in range(1500):
        connected(address, stack)


def stalled_bodies(address: Address, stack: ExitStack) -> None:
    """100 requests of 16 MiB, all but the last byte of each."""

    def stall() -> None:
        line = connected(address, stack)
        with suppress(OSError):
            line.sendall(HEAD % BODY + b" " * (BODY - 1))

    at_once([stall] * 100)


def dear_json(address: Address, stack: ExitStack) -> None:
    """100 requests of 3 MB that are objects in objects, whole."""
    content = b'{"prompt": "p", "x": [' + b",".join([b'{"a":{}}'] * 330_000) + b"]}"

    def ask() -> None:
        line = connected(address, stack)
        with suppress(OSError):
            line.sendall(HEAD % len(content) + content)

    at_once([ask] * 100)


def slow_heads(address: Address, stack: ExitStack) -> None:
    """900 connections with the head of a request that does not end."""
    for _ in range(900):
        with suppress(OSError):
            connected(address, stack).sendall(b"GET /healthz HTTP/1.1\r\nx: " + b"y" * 60_000)


def answers_untaken(address: Address, stack: ExitStack) -> None:
    """300 requests whose answers of a megabyte nobody takes."""
    content = json.dumps({"model": "m", "prompt": "p", "temperature": 0}).encode()
    for _ in range(300):
        line = connected(address, stack)
        with suppress(OSError):
            line.sendall(HEAD % len(content) + content)


def small_chunks(address: Address, stack: ExitStack) -> None:
    """20 clients that send bodies in chunks of one byte, one after another."""
    head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    end = time.monotonic() + STORM_SECONDS

    def ask() -> None:
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(address, timeout=5) as line:
                line.sendall(head)
                while time.monotonic() < end:
                    line.sendall(b"1\r\nx\r\n" * 10_000)

    at_once([ask] * 20)


def wide_texts(address: Address, stack: ExitStack) -> None:
    """20 requests of 14 MiB whose one wide character makes every character of theirs take four bytes."""
    prompt = "x" * (14 << 20) + "\U0001f600"
    content = json.dumps({"model": "m", "prompt": prompt}, ensure_ascii=False).encode()

    def ask() -> None:
        line = connected(address, stack)
        with suppress(OSError):
            line.sendall(HEAD % len(content) + content)

    at_once([ask] * 20)


def broken_bodies(address: Address, stack: ExitStack) -> None:
    """6 clients that send bodies of 15 MiB that are no JSON, one after another."""
    content = b"[1," + b" " * (15 << 20) + b"x"
    end = time.monotonic() + STORM_SECONDS

    def ask() -> None:
        while time.monotonic() < end:
            with suppress(OSError), socket.create_connection(address, timeout=5) as line:
                line.sendall(HEAD % len(content) + content)
                line.recv(4096)

    at_once([ask] * 6)


STORMS: dict[str, Callable[[Address, ExitStack], None]] = {
    "1,500 idle connections": idle_connections,
    "100 stalled bodies of 16 MiB": stalled_bodies,
    "100 bodies of 660,000 objects": dear_json,
    "900 heads of 60 kB without end": slow_heads,
    "300 answers of 1 MB that nobody takes": answers_untaken,
    "bodies in chunks of one byte": small_chunks,
    "20 bodies of 14 MiB of wide text": wide_texts,
    "bodies of 15 MiB that are no JSON": broken_bodies,
}


def long_answer(body: object, number: int) -> list[str]:
    """One text of a megabyte."""
    return ["x" * (1 << 20)]


def at_once(actions: list[Callable[[], None]]) -> None:
    """Starts every action in a thread of its own; they end when the server, or the storm, does."""
    for action in actions:
        threading.Thread(target=action, daemon=True).start()


def connected(address: Address, stack: ExitStack) -> socket.socket:
    """A connection that is closed when the storm is over."""
    line = socket.socket()
    stack.callback(line.close)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(STORM_SECONDS)
    with suppress(OSError):
        line.connect(address)
    return line


def stormed(storm: Callable[[Address, ExitStack], None], address: Address) -> Health:
    """How well the server was while a storm went on; a process of its own asks it, which the storm does not hold up."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    asking = spawning.Process(target=ask_on, args=(address, theirs))
    asking.start()
    ours.recv()  # it is about to ask
    with ExitStack() as stack:
        begun = time.monotonic()
        storm(address, stack)
        time.sleep(max(0.0, STORM_SECONDS - (time.monotonic() - begun)))
        ours.send("over")
        seconds: list[float] = ours.recv()
    asking.join()
    in_time = sum(one <= MAX_SECONDS for one in seconds)
    return Health(len(seconds), in_time, max(seconds))


def ask_on(address: Address, told: Connection) -> None:
    """Asks whether the server is well until it is told to end, and tells how many seconds each answer took."""
    told.send("ready")
    seconds = []
    while not told.poll(ASK_SECONDS):
        seconds.append(seconds_to_health(address))
    told.send(seconds)


def seconds_to_health(address: Address) -> float:
    """How long the server takes to say that it is well; infinity where it does not."""
    begun = time.monotonic()
    try:
        with socket.create_connection(address, timeout=10) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            is_well = b"200 OK" in line.recv(4096)
    except OSError:
        is_well = False
    return time.monotonic() - begun if is_well else float("inf")


def answers(address: Address) -> bool:
    """Whether a request is answered when the storm is over, at the latest after as long as stalled ones may stay."""
    content = json.dumps({"model": "m", "prompt": "p"}).encode()
    for _ in range(45):
        with suppress(OSError), socket.create_connection(address, timeout=30) as line:
            line.sendall(HEAD % len(content) + content)
            if b" 200 OK" in line.recv(4096):
                return True
        time.sleep(1)
    return False


def most_memory(process: subprocess.Popen[str]) -> float:
    """The most memory that a process has had, in MiB."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) / 1024


def raise_own_descriptors() -> None:
    """Lets this process have more connections than the server."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))


@contextmanager
def served(upstream: str) -> Iterator[tuple[subprocess.Popen[str], Address]]:
    """A server with its defaults and few descriptors; its process, and where it listens."""
    words = ["serve", "--upstream", upstream, "-u", "chrf", "--port", "0"]
    command = f'ulimit -n {DESCRIPTORS}; exec "$0" -m discorank "$@"'
    process = subprocess.Popen(
        ["bash", "-c", command, sys.executable, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", **ENVIRONMENT},
    )
    assert process.stderr is not None
    with process:
        said = process.stderr.readline()
        url = urlsplit(said.rsplit(" ", 1)[-1].strip())
        assert url.hostname is not None, said
        yield process, (url.hostname, url.port or 0)
        process.kill()
