"""A panel of three models, one slow, one wrong, one dying: how soon it answers and how often it is right.

    python -m benchmarks.serving.panel [--requests 120]

Scripted models answer questions with a number each, 4 candidates of each question. The slow one is right in 80 % of its
candidates and takes 1 to 2 seconds; the wrong one is right in 30 %, and where it is wrong half of its candidates agree;
the dying one is right in 70 %, and from the middle of the questions on its replies are cut (a reset). `vote` chooses.
Each row is a run over the same questions, 4 at a time: one model alone, and the panel without and with a quorum, a
deadline, and a prior over the models. An answer without a choice counts as wrong; the interval is Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from discorank.metrics.storage.checksums import with_checksum
from discorank.rerank.prior import Prior, SystemPrior

from ..support.scripted_replies import Script
from ..support.scripted_upstream import ScriptedUpstream, upstream_running
from .asking import Asking, Reply, Served, load_average, panel_process, quantile

OPEN = 4
SHARES = {"slow": 0.8, "wrong": 0.3, "dying": 0.7}  # of right candidates
DEADLINE = ("--deadline", "700ms")
QUORUM = ("--quorum", "2")


def right(question: str) -> int:
    """The answer of a question."""
    return int(question.rpartition(" ")[2]) * 7


def script(name: str, num_requests: int) -> Script:
    """How a model behaves."""
    script = Script(
        latency_seconds=1.0 if name == "slow" else 0.05,
        slowest_seconds=1.0 if name == "slow" else 0.1,
    )

    def answer(body: Mapping[str, Any], number: int) -> list[str]:
        question = str(body["prompt"])
        chance = random.Random(f"{name} {question}")
        usual = right(question) + chance.randint(1, 6)  # the error that it makes most
        texts = []
        for _ in range(body["n"]):
            error = usual if chance.random() < 0.5 else right(question) + chance.randint(1, 60)
            is_right = chance.random() < SHARES[name]
            texts.append(f"The answer is {right(question) if is_right else error}.")
        return texts

    def fault(body: Mapping[str, Any], number: int) -> str | None:
        number_of_question = int(str(body["prompt"]).rpartition(" ")[2])
        return "reset" if name == "dying" and number_of_question >= num_requests // 2 else None

    script.answer, script.fault = answer, fault
    return script


@contextmanager
def models(num_requests: int) -> Iterator[dict[str, ScriptedUpstream]]:
    """The models, running."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(upstream_running(script(name, num_requests)))
            for name in SHARES
        }


async def asked(proxy: Served, num_requests: int) -> list[tuple[Reply, bool]]:
    """The replies to all questions, and whether each is right."""
    asking, numbers = Asking(proxy), iter(range(num_requests))
    outcomes: list[tuple[Reply, bool]] = []

    async def ask() -> None:
        for number in numbers:
            question = f"What is 7 times {number}"
            reply = await asking.post("/v1/completions", {"model": "m", "prompt": question})
            said = reply.body["choices"][0]["text"] if reply.status == 200 else ""
            outcomes.append((reply, said == f"The answer is {right(question)}."))

    await asyncio.gather(*(ask() for _ in range(OPEN)))
    await asking.close()
    return outcomes


def prior_file(folder: Path) -> Path:
    """A prior by which the wrong model has one standard deviation of errors more."""
    means = {"slow": -0.4, "wrong": 0.6, "dying": -0.2}
    systems = tuple((name, SystemPrior(mean, 0.1, mean, 50, 10)) for name, mean in means.items())
    prior = Prior(systems, 1.0, 0.5, 1.0, "errors", True, False, 50, 10, "scripted")
    path = folder / "prior.json"
    path.write_text(json.dumps(with_checksum(prior.as_json())))
    return path


def interval(count: int, of: int) -> tuple[float, float]:
    """Wilson's interval of a share."""
    z, share = 1.96, count / of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    half = z * sqrt(share * (1 - share) / of + z * z / (4 * of * of)) / (1 + z * z / of)
    return middle - half, middle + half


def show(name: str, names: Sequence[str], num_requests: int, *words: str) -> None:
    """Prints the row of one way."""
    with models(num_requests) as running:
        urls = {one: running[one].url for one in names}
        with panel_process(urls, "-n", "4", "--retries", "1", *words) as proxy:
            outcomes = asyncio.run(asked(proxy, num_requests))
    seconds = [reply.seconds for reply, _ in outcomes]
    num_right = sum(is_right for _, is_right in outcomes)
    num_failed = sum(reply.status != 200 for reply, _ in outcomes)
    low, high = interval(num_right, num_requests)
    times = "".join(f"{quantile(seconds, share):8.2f}" for share in (0.5, 0.95, 1.0))
    quality = f"{num_right / num_requests:8.3f} [{low:.3f}, {high:.3f}]"
    print(f"{name:36}{times}{quality}{num_failed:8}", flush=True)


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=120)
    num_requests = parser.parse_args().requests
    print(f"load before: {load_average()}; {num_requests} requests each, {OPEN} open")
    print(f"{'':36}{'p50 s':>8}{'p95 s':>8}{'max s':>8}{'right':>8}{'':17}{'failed':>8}")
    vote = ("-u", "vote")
    for name in SHARES:
        show(f"{name} alone", [name], num_requests, *vote)
    everybody = list(SHARES)
    with TemporaryDirectory() as folder:
        prior = ("--prior", str(prior_file(Path(folder))))
        show("all, waiting for all", everybody, num_requests, *vote)
        show("all, a quorum of 2", everybody, num_requests, *vote, *QUORUM)
        show("all, 0.7 s at most", everybody, num_requests, *vote, *DEADLINE)
        show("all, a quorum of 2, a prior", everybody, num_requests, *vote, *QUORUM, *prior)
        show("all, waiting for all, a prior", everybody, num_requests, *vote, *prior)
    print(f"load after: {load_average()}")


if __name__ == "__main__":
    main()
