"""What `serve` costs: how much later than its slowest candidate an answer comes, and how many a core gives in a second.

    python -m benchmarks.serving.overhead [--requests 600] [--per-second 20] [--open 32]

Chats, n = 16, chrF, texts of 40 words (some 50 tokens). Every way is measured twice, with 20 requests a second that
come by a clock, whether those before are answered or not, and with 32 open at all times. First the scripted server
takes 100 to 200 ms for a reply, and says in its usage how long it took; what is added is the time of the answer at the
client less that of the slowest reply. Then it takes no time. The server that is measured has one core for itself. The
same client asks the scripted server itself, for what it and the client cost alone, and through a server that passes
everything on (`bare_proxy`), for what HTTP costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from benchmarks.serving.asking import (
    Asking,
    Reply,
    Served,
    bare_process,
    load_average,
    pin,
    processor_seconds,
    proxy_process,
    quantile,
    upstream_process,
)

WARM = 40  # first requests that are not counted
WORDS = ("--words", "40")
WAYS: dict[str, tuple[str, ...] | None] = {
    "no proxy": None,
    "passed on, nothing else": None,
    "serve, one request upstream for 16": (),
    "serve, 16 requests upstream for 1": ("--candidates-per-request", "1"),
}


@contextmanager
def server_of(way: str, upstream: Served) -> Iterator[Served]:
    """The server that is asked."""
    options = WAYS[way]
    if way == "no proxy":
        yield upstream
    elif options is None:
        with bare_process(upstream) as bare:
            yield bare
    else:
        with proxy_process(upstream, *options) as proxy:
            yield proxy


def chat(way: str, number: int) -> dict[str, Any]:
    """A request; where nothing is chosen, for all candidates."""
    messages = [{"role": "user", "content": f"prompt {number}"}]
    return {"model": "m", "messages": messages} | ({"n": 16} if WAYS[way] is None else {})


async def by_the_clock(served: Served, way: str, num_requests: int, rate: float) -> list[Reply]:
    """The replies to requests that come at a steady rate, with random gaps."""
    asking, chance, tasks = Asking(served), random.Random(1), []
    for number in range(num_requests + WARM):
        asked = asking.post("/v1/chat/completions", chat(way, number))
        tasks.append(asyncio.create_task(asked))
        await asyncio.sleep(chance.expovariate(rate))
    replies = await asyncio.gather(*tasks)
    await asking.close()
    return replies[WARM:]


async def all_open(served: Served, way: str, num_requests: int, num_open: int) -> None:
    """Has so many requests open until all are answered."""
    asking, numbers = Asking(served), iter(range(num_requests))

    async def ask() -> None:
        for number in numbers:
            check(await asking.post("/v1/chat/completions", chat(way, number)))

    await asyncio.gather(*(ask() for _ in range(num_open)))
    await asking.close()


def check(reply: Reply) -> None:
    """Ends the run at a reply that is none."""
    if reply.status != 200:
        raise SystemExit(f"status {reply.status}: {reply.body}")


def added_ms(reply: Reply) -> float:
    """Milliseconds that the answer came after its slowest candidate."""
    check(reply)
    own = reply.body.get("discorank")
    usages = [reply.body["usage"]] if own is None else own["usage"]
    slowest: float = max(usage["seconds"] for usage in usages)
    return 1000 * (reply.seconds - slowest)


def pin_apart(way: str, served: Served, upstream: Served) -> None:
    """Gives the server that is measured a core for itself, where there is another one for the rest."""
    last = (os.cpu_count() or 1) - 1
    if way != "no proxy" and last:
        pin(served.pid, last)
        pin(upstream.pid, 0)
        pin(os.getpid(), 0)


def late(way: str, options: argparse.Namespace) -> str:
    """The first cells of a row: milliseconds added, and of the processor's time."""
    with (
        upstream_process("--latency", "0.1", "--slowest", "0.1", "--times", *WORDS) as upstream,
        server_of(way, upstream) as served,
    ):
        pin_apart(way, served, upstream)
        before = processor_seconds(served.pid)
        replies = asyncio.run(by_the_clock(served, way, options.requests, options.per_second))
        used = 1000 * (processor_seconds(served.pid) - before) / (options.requests + WARM)
    added = [added_ms(reply) for reply in replies]
    figures = [quantile(added, share) for share in (0.5, 0.95, 0.99)]
    return "".join(f"{value:8.1f}" for value in (*figures, used))


def most(way: str, options: argparse.Namespace) -> str:
    """The last cells: answers a second on one core, and milliseconds of the processor's time."""
    with upstream_process(*WORDS) as upstream, server_of(way, upstream) as served:
        asyncio.run(all_open(served, way, options.requests // 4, options.open))  # warm
        pin_apart(way, served, upstream)
        before, start = processor_seconds(served.pid), perf_counter()
        asyncio.run(all_open(served, way, options.requests, options.open))
        seconds = perf_counter() - start
        used = 1000 * (processor_seconds(served.pid) - before) / options.requests
    return f"{options.requests / seconds:10.0f}{used:8.2f}"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--per-second", type=float, default=20.0)
    parser.add_argument("--open", type=int, default=32)
    options = parser.parse_args()
    print(f"load before: {load_average()}; {options.requests} requests each")
    print(
        f"{'':36}{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}{'CPU ms':>8}{'a second':>10}{'CPU ms':>8}"
    )
    for way in WAYS:
        print(f"{way:36}{late(way, options)}{most(way, options)}", flush=True)
    print(f"load after: {load_average()}")


if __name__ == "__main__":
    main()
