"""10,000 requests for scores with faults: what clients get, and whether any number is wrong.

    python -m benchmarks.serving.score_faults [--requests 10000] [--kills 8] [--option=--engine --option=ray]

Faults of pairs, each in 1 % of the requests: a metric that raises, ends its process by `sys.exit`, runs out of memory,
gives NaN, or is slow. Faults of clients, 1 % each: one that goes before its answer, one that goes in the middle of its
request, JSON that is broken, and more pairs than are allowed. Besides, a worker of the engine is killed now and then.
Every number is compared with what the metric says of its pair; a number for a pair at fault is wrong, and so is a
missing one without an error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.serving.asking import (
    Asking,
    Reply,
    Served,
    load_average,
    memory_mib,
    scores_process,
)
from benchmarks.serving.faulty_scorer import value

METRIC = "benchmarks.serving.faulty_scorer:faulty"
OPEN = 64
OF_PAIRS = ("raise", "exit", "memory", "nan", "slow")
OF_CLIENTS = ("gone-early", "gone-in-body", "broken-json", "too-many")
FAILS = frozenset(OF_PAIRS) - {"slow"}
MAX_PAIRS = 64


class Asked:
    """A request: its pairs, its form, and its fault."""

    def __init__(self, number: int) -> None:
        draw = random.Random(number)
        size = draw.randint(1, 8)
        self.hypotheses = [f"text {number} {i}" for i in range(size)]
        self.reference = f"reference {number % 97}"
        self.fault = draw.choices(
            ("none", *OF_PAIRS, *OF_CLIENTS), [91, *[1] * len(OF_PAIRS + OF_CLIENTS)]
        )[0]
        if self.fault in OF_PAIRS:
            at = draw.randrange(size)
            self.hypotheses[at] = f"{self.fault} {self.hypotheses[at]}"
        if self.fault == "too-many":
            self.hypotheses = [f"text {number} {i}" for i in range(MAX_PAIRS + 1)]
        self.form = draw.choice(("score", "rerank", "get_reward"))
        self.errors = draw.choice(("each", "request"))

    @property
    def path(self) -> str:
        """The path of its form."""
        return "/get_reward" if self.form == "get_reward" else f"/v1/{self.form}"

    @property
    def body(self) -> dict[str, Any]:
        """The request."""
        texts, reference = self.hypotheses, self.reference
        bodies: dict[str, dict[str, Any]] = {
            "score": {"text_1": reference, "text_2": texts},
            "rerank": {"query": reference, "documents": texts},
            "get_reward": {"query": texts, "labels": [reference] * len(texts)},
        }
        return {**bodies[self.form], "errors": self.errors}

    def outcome(self, reply: Reply) -> str:
        """What came of it."""
        body = reply.body
        if reply.status == 200:
            return self._checked(body)
        if isinstance(body, dict) and set(body.get("error") or ()) == {
            "message",
            "type",
            "param",
            "code",
        }:
            return f"error {reply.status} {body['error']['code']}"
        return "LOST"

    def _checked(self, body: Any) -> str:
        """Whether an answer has the number of every pair, or its error."""
        numbers, errors = self._numbers(body)
        for i, text in enumerate(self.hypotheses):
            fails = text.partition(" ")[0] in FAILS
            number = numbers.get(i)
            expected = None if fails else value(text, self.reference)
            if number != expected and not (number is None and i in errors):
                return "WRONG"
            if number is None and i not in errors:
                return "WRONG: nothing in the place of an error"
        return "scored, with errors in their places" if errors else "scored"

    def _numbers(self, body: Any) -> tuple[dict[int, Any], set[int]]:
        """Numbers by the places of texts, and the places of errors."""
        if self.form == "get_reward":
            return dict(enumerate(body["rewards"])), {
                one["index"] for one in body.get("errors", ())
            }
        results = body["data"] if self.form == "score" else body["results"]
        name = "score" if self.form == "score" else "relevance_score"
        numbers = {result["index"]: result[name] for result in results}
        return numbers, {result["index"] for result in results if "error" in result}


async def ask(server: Served, asking: Asking, asked: Asked) -> str:
    """What came of a request."""
    if asked.fault in ("gone-early", "gone-in-body", "broken-json"):
        return await _misbehaved(server, asked)
    reply = await asking.post(asked.path, asked.body)
    if reply.status in (429, 503):
        await asyncio.sleep(0.2)
    return asked.outcome(reply)


async def _misbehaved(server: Served, asked: Asked) -> str:
    """A client that goes, or sends what is no JSON."""
    content = json.dumps(asked.body).encode()
    if asked.fault == "broken-json":
        content = content[:-1] + b"!"
    head = (
        f"POST {asked.path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n".encode()
    )
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        sent = content[: len(content) // 2] if asked.fault == "gone-in-body" else content
        writer.write(head + sent)
        await writer.drain()
        if asked.fault == "broken-json":
            line = await reader.readline()
            return f"error {line.split()[1].decode()} broken JSON"
        return f"went: {asked.fault}"
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def storm(server: Served, num_requests: int, kills: int) -> tuple[Counter[str], int]:
    """What came of all requests, and how many workers were killed."""
    asking, numbers, outcomes = Asking(server), iter(range(num_requests)), Counter[str]()
    killed = 0

    async def client() -> None:
        nonlocal killed
        for number in numbers:
            outcomes[await ask(server, asking, Asked(number))] += 1
            if kills and outcomes.total() % (num_requests // (kills + 1)) == 0:
                killed += kill_worker(server.pid)

    await asyncio.gather(*(client() for _ in range(OPEN)))
    await asking.close()
    return outcomes, killed


def kill_worker(pid: int) -> int:
    """Kills an actor of Ray beneath a process; returns how many."""
    for child in _beneath(pid):
        with suppress(OSError):
            words = Path(f"/proc/{child}/cmdline").read_bytes()
            if words.startswith(b"ray::Worker"):
                os.kill(child, signal.SIGKILL)
                return 1
    return 0


def _beneath(pid: int) -> list[int]:
    """The processes beneath one, the deepest last."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        children += [int(child) for child in task.read_text().split()]
    return children + [inner for child in children for inner in _beneath(child)]


def main() -> None:
    """Asks and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--option", action="append", default=[], help="of serve")
    options = parser.parse_args()
    print(f"load: {load_average()}; {options.requests} requests, {OPEN} open")
    words = ("-m", METRIC, "--max-pairs", str(MAX_PAIRS), *options.option)
    with scores_process(*words) as server:
        start, before = perf_counter(), memory_mib(server.pid)
        outcomes, killed = asyncio.run(storm(server, options.requests, options.kills))
        seconds, most = perf_counter() - start, memory_mib(server.pid, "VmHWM")
    for name, count in outcomes.most_common():
        print(f"{count:8} {name}")
    wrong = sum(count for name, count in outcomes.items() if name.startswith(("WRONG", "LOST")))
    print(
        f"{wrong:8} wrong or lost; {killed} workers killed; {options.requests - outcomes.total()} without an end"
    )
    print(f"{seconds:.0f} s; memory {before:.0f} MiB, at most {most:.0f}; load {load_average()}")


if __name__ == "__main__":
    main()
