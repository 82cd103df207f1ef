"""How much later than its slowest candidate an answer comes: p50 and p95, n = 16, chrF, 25 words, 20 requests a second.

    python -m benchmarks.serving.overhead [--requests 600] [--per-second 20]

The scripted server takes 100 to 200 ms for a reply, and says in its usage how long it took; what is added is the time
of the answer at the client less that of the slowest reply. Requests come by a clock, whether those before are answered
or not. The same client asks the scripted server itself as often, for what it and the client cost alone.
"""

from __future__ import annotations

import argparse
import asyncio
import random

from benchmarks.serving.asking import (
    Served,
    load_average,
    processor_seconds,
    proxy_process,
    upstream_process,
)

from .asking import Asking, Reply, quantile

WARM = 40  # first requests that are not counted


async def asked(served: Served, num_requests: int, per_second: float, n: int | None) -> list[Reply]:
    """The replies to requests that come at a steady rate, with random gaps."""
    asking, chance, tasks = Asking(served), random.Random(1), []
    for number in range(num_requests + WARM):
        body = {"model": "m", "prompt": f"prompt {number}"} | ({"n": n} if n else {})
        tasks.append(asyncio.create_task(asking.post("completions", body)))
        await asyncio.sleep(chance.expovariate(per_second))
    replies = await asyncio.gather(*tasks)
    await asking.close()
    return replies[WARM:]


def added_ms(reply: Reply) -> float:
    """Milliseconds that the answer came after its slowest candidate."""
    if reply.status != 200:
        raise SystemExit(f"status {reply.status}: {reply.body}")
    usages = (
        reply.body["discorank"]["usage"] if "discorank" in reply.body else [reply.body["usage"]]
    )
    slowest: float = max(usage["seconds"] for usage in usages)
    return 1000 * (reply.seconds - slowest)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument("--per-second", type=float, default=20.0)
    options = parser.parse_args()
    print(f"load before: {load_average()}; {options.requests} requests each")
    print(f"{'':44}{'p50 ms':>8}{'p95 ms':>8}{'p99 ms':>8}{'CPU ms':>8}")
    ways: list[tuple[str, tuple[str, ...] | None]] = [
        ("no proxy, one request for 16", None),
        ("serve, one request upstream for 16", ()),
        ("serve, 16 requests upstream for 1", ("--candidates-per-request", "1")),
    ]
    for name, words in ways:
        with upstream_process("--latency", "0.1", "--slowest", "0.1", "--times") as upstream:
            if words is None:
                show(name, upstream, options, 16)
                continue
            with proxy_process(upstream, *words) as proxy:
                show(name, proxy, options, None)
    print(f"load after: {load_average()}")


def show(name: str, served: Served, options: argparse.Namespace, n: int | None) -> None:
    """Prints the row of one way."""
    before = processor_seconds(served.pid)
    replies = asyncio.run(asked(served, options.requests, options.per_second, n))
    used = 1000 * (processor_seconds(served.pid) - before) / (options.requests + WARM)
    added = [added_ms(reply) for reply in replies]
    figures = [quantile(added, share) for share in (0.5, 0.95, 0.99)]
    print(f"{name:44}" + "".join(f"{value:8.1f}" for value in (*figures, used)), flush=True)


if __name__ == "__main__":
    main()
