"""Scores over HTTP: pairs a second with 64 clients against offline `score` of the same pairs, and single requests.

    python -m benchmarks.serving.scores [METRIC ...] [--pairs N] [--rounds N]

Offline and served rounds take turns, and each has texts of its own, so that nothing is known from the round before.
Every value that is served is compared with the offline one, bit by bit. Both run with one thread of torch where
OMP_NUM_THREADS says so; the clients run in the process of the offline rounds, which are over by then. On a machine that
others use, the ratio of the processor's time (offline to the server's) says more than that of the clock.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from contextlib import ExitStack
from statistics import median
from time import perf_counter, process_time

import discorank
from benchmarks.serving.asking import (
    Asking,
    Served,
    load_average,
    processor_seconds,
    quantile,
    scores_process,
)

CLIENTS = 64
WORDS = (
    "the a of to and in is it was on for with as his they be at one have this from or had by hot but some what there",
    "we committee approved budget after long debate river house light paper music people water number sound",
)


def texts(n: int, seed: str) -> list[str]:
    """n sentences of 8 to 40 words."""
    draw, words = random.Random(seed), " ".join(WORDS).split()
    return [" ".join(draw.choices(words, k=draw.randint(8, 40))) for _ in range(n)]


async def served_values(
    server: Served, hypotheses: list[str], references: list[str], per_request: int
) -> tuple[list[float], list[float]]:
    """The values of all pairs, asked for by all clients at once, and the seconds of every request."""
    asking, values = Asking(server), [0.0] * len(hypotheses)
    starts, seconds = iter(range(0, len(hypotheses), per_request)), []

    async def ask() -> None:
        for start in starts:
            part = slice(start, start + per_request)
            body = {"hypotheses": hypotheses[part], "references": references[part]}
            reply = await asking.post("/v1/score", body)
            assert reply.status == 200, reply.body
            values[part] = [result["score"] for result in reply.body["data"]]
            seconds.append(reply.seconds)

    await asyncio.gather(*(ask() for _ in range(CLIENTS)))
    await asking.close()
    return values, seconds


async def single(server: Served, n: int) -> list[float]:
    """The seconds of requests for one pair, one after the other."""
    asking, seconds = Asking(server), []
    for hypothesis, reference in zip(texts(n, "one"), texts(n, "other"), strict=True):
        reply = await asking.post("/v1/score", {"text_1": reference, "text_2": hypothesis})
        assert reply.status == 200
        seconds.append(reply.seconds)
    await asking.close()
    return seconds


def measure(name: str, server: Served, num_pairs: int, rounds: int, per_request: int) -> None:
    """Prints the figures of a metric."""
    metric = discorank.load_metric(name)
    metric.score(texts(64, "warm"), texts(64, "up"))
    asyncio.run(served_values(server, texts(640, "warm"), texts(640, "up"), 10))
    ratios, cpu_ratios, rates, waits, different = [], [], [], [], 0
    for i in range(rounds):
        hypotheses, references = texts(num_pairs, f"h{i}"), texts(num_pairs, f"r{i}")
        start, spent = perf_counter(), process_time()
        offline = metric.score(hypotheses, references).tolist()
        middle, spent = perf_counter(), process_time() - spent
        before = processor_seconds(server.pid)
        values, seconds = asyncio.run(served_values(server, hypotheses, references, per_request))
        end = perf_counter()
        cpu_ratios.append(spent / (processor_seconds(server.pid) - before))
        different += sum(one != other for one, other in zip(values, offline, strict=True))
        ratios.append((middle - start) / (end - middle))
        rates.append((num_pairs / (middle - start), num_pairs / (end - middle)))
        waits += seconds
    alone = asyncio.run(single(server, 100))
    print(
        f"{name}: {per_request} pairs a request, {CLIENTS} clients: "
        f"{median(rate for _, rate in rates):.0f} pairs/s, offline {median(rate for rate, _ in rates):.0f}; "
        f"ratio {median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}, {rounds} rounds); "
        f"ratio of the processor's time {median(cpu_ratios):.3f} ({min(cpu_ratios):.3f} to {max(cpu_ratios):.3f}); "
        f"{different} of {rounds * num_pairs} values differ; "
        f"request p50 {quantile(waits, 0.5) * 1e3:.0f} ms, p95 {quantile(waits, 0.95) * 1e3:.0f} ms; "
        f"single, alone p50 {quantile(alone, 0.5) * 1e3:.1f} ms, p95 {quantile(alone, 0.95) * 1e3:.1f} ms",
        flush=True,
    )


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metric", nargs="*", default=['bertscore(model="minilm")', "chrf"])
    parser.add_argument("--pairs", type=int, default=2048)
    parser.add_argument("--per-request", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--option", action="append", default=[], help="of serve")
    options = parser.parse_args()
    print(f"load: {load_average()}")
    for name in options.metric:
        with ExitStack() as stack:
            server = stack.enter_context(scores_process("-m", name, *options.option))
            measure(name, server, options.pairs, options.rounds, options.per_request)
    print(f"load: {load_average()}")


if __name__ == "__main__":
    main()
