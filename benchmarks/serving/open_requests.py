"""Answers a second and memory with 200 requests open at all times; n = 16, chrF, 25 words.

    python -m benchmarks.serving.open_requests [--requests 3000] [--open 200]

The scripted server takes 300 to 600 ms for a reply.
"""

from __future__ import annotations

import argparse
import asyncio
from time import perf_counter

from benchmarks.serving.asking import (
    Served,
    load_average,
    memory_mib,
    processor_seconds,
    proxy_process,
    upstream_process,
)

from .asking import Asking, Reply, quantile


async def asked(served: Served, num_requests: int, num_open: int) -> list[Reply]:
    """The replies to requests, of which so many are open at a time."""
    asking, numbers = Asking(served), iter(range(num_requests))
    replies: list[Reply] = []

    async def ask() -> None:
        for number in numbers:
            body = {"model": "m", "prompt": f"prompt {number}"}
            replies.append(await asking.post("/v1/completions", body))

    await asyncio.gather(*(ask() for _ in range(num_open)))
    await asking.close()
    return replies


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--open", type=int, default=200)
    options = parser.parse_args()
    print(f"load before: {load_average()}; {options.requests} requests, {options.open} open")
    heads = (
        f"{'upstream':24}{'a second':>9}{'p50 s':>7}{'p95 s':>7}{'CPU ms':>8}",
        "MiB at first",
        "at most",
        "after",
    )
    print(f"{heads[0]}{heads[1]:>13}{heads[2]:>9}{heads[3]:>7}")
    for name, words in (
        ("one request for 16", ()),
        ("16 requests for 1", ("--candidates-per-request", "1")),
    ):
        with (
            upstream_process("--latency", "0.3", "--slowest", "0.3") as upstream,
            proxy_process(upstream, *words) as proxy,
        ):
            show(name, proxy, options)
    print(f"load after: {load_average()}")


def show(name: str, proxy: Served, options: argparse.Namespace) -> None:
    """Prints the row of one way."""
    at_first = memory_mib(proxy.pid)
    start, used = perf_counter(), processor_seconds(proxy.pid)
    replies = asyncio.run(asked(proxy, options.requests, options.open))
    seconds, used = perf_counter() - start, processor_seconds(proxy.pid) - used
    if any(reply.status != 200 for reply in replies):
        raise SystemExit(f"not all were answered: {sorted({reply.status for reply in replies})}")
    times = [reply.seconds for reply in replies]
    figures = (
        f"{len(replies) / seconds:9.0f}{quantile(times, 0.5):7.2f}{quantile(times, 0.95):7.2f}"
    )
    figures += f"{1000 * used / len(replies):8.1f}{at_first:13.0f}"
    figures += f"{memory_mib(proxy.pid, 'VmHWM'):9.0f}{memory_mib(proxy.pid):7.0f}"
    print(f"{name:24}{figures}", flush=True)


if __name__ == "__main__":
    main()
