"""10,000 requests to a server upstream that fails at 1 % of them in each of nine ways: what clients get, and memory.

    python -m benchmarks.serving.faults [--requests 10000]

Every text ends with the marker of its prompt, and every answer lists all of its candidates (`explain`), so that one of
another request shows. A request is lost if it gets no answer, or one that is neither a
choice nor an error in OpenAI's form.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from time import perf_counter

from benchmarks.serving.asking import (
    Served,
    load_average,
    memory_mib,
    proxy_process,
    upstream_process,
)

from ..support.scripted_replies import marker
from .asking import Asking, Reply

FAULTS = (
    *("status-500", "reset", "half-json", "stall", "huge", "huge-length"),
    *("few", "many", "ignore-n"),
)
OPEN = 64
WORDS = ("--timeout-seconds", "2", "--retries", "2", "--backoff-seconds", "0.05")
# 64 MiB otherwise, which takes long to send a hundred times
BOUND = (
    "--max",
    "file_bytes=1048576",
)


async def asked(proxy: Served, num_requests: int, memory: list[float]) -> Counter[str]:
    """What came of all requests; memory is read at every tenth of them."""
    asking, numbers, outcomes = Asking(proxy), iter(range(num_requests)), Counter[str]()

    async def ask() -> None:
        for number in numbers:
            prompt = f"prompt {number}"
            body = {"model": "m", "prompt": prompt, "discorank": {"explain": True}}
            outcomes[outcome(await asking.post("/v1/completions", body), prompt)] += 1
            if outcomes.total() % (num_requests // 10) == 0:
                memory.append(memory_mib(proxy.pid))

    await asyncio.gather(*(ask() for _ in range(OPEN)))
    await asking.close()
    return outcomes


def outcome(reply: Reply, prompt: str) -> str:
    """What came of a request."""
    body = reply.body
    if reply.status == 200 and "discorank" in body:
        about, own = body["discorank"], marker(prompt)
        texts = [candidate["text"] for candidate in about["candidates"]]
        texts += [choice["text"] for choice in body["choices"]]
        if not all(text.endswith(own) for text in texts):
            return "WRONG: a candidate of another request"
        counts = sum(candidate["count"] for candidate in about["candidates"])
        return "chosen of 16" if counts == about["n"] == 16 else "chosen of fewer"
    if isinstance(body, dict) and set(body.get("error") or ()) == {
        "message",
        "type",
        "param",
        "code",
    }:
        return f"error {reply.status} {body['error']['code']}"
    return "LOST"


def main() -> None:
    """Asks and prints tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    options = parser.parse_args()
    print(f"load before: {load_average()}; {options.requests} requests, {OPEN} open")
    faults = [word for fault in FAULTS for word in ("--fault", f"{fault}=0.01")]
    memory: list[float] = []
    with upstream_process(*faults) as upstream, proxy_process(upstream, *WORDS, *BOUND) as proxy:
        memory.append(memory_mib(proxy.pid))
        start = perf_counter()
        outcomes = asyncio.run(asked(proxy, options.requests, memory))
        seconds = perf_counter() - start
        most = memory_mib(proxy.pid, "VmHWM")
    for name, count in outcomes.most_common():
        print(f"{count:8} {name}")
    print(f"{options.requests - outcomes.total():8} without any answer")
    print(f"seconds: {seconds:.0f}; memory in MiB at the beginning and after every tenth:")
    print(" ".join(f"{mib:.0f}" for mib in memory), f"(at most {most:.0f})")
    print(f"load after: {load_average()}")


if __name__ == "__main__":
    main()
