"""Storms for runs that a judge on a server decides: what it is asked is paid, and counted by the server."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.reliability.storms import OUT, Target, Tried, stormed
from tests.support.judging import MODEL, judged, replied, texts_of, verdict
from tests.support.lists import write_lists
from tests.support.serving import Reply, Seen, Server, serving

ANSWER_SECONDS = 0.01
CONNECTIONS = 4
PROMISE = "no call is paid twice but those under way"


class PaidCalls:
    """What a server was asked by every run: each has an address of its own.

    Args:
        server: what counts the requests.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.hits: Counter[str] = Counter()  # signals, by the name of the run's folder

    def note_hit(self, folder: Path) -> list[str]:
        """Counts a signal that hit the run in a folder; says what was paid too often before it."""
        too_many = self.too_many(folder.name)
        self.hits[folder.name] += 1
        return [f"{too_many} calls paid twice"] if too_many > 0 else []

    def too_many(self, run: str) -> int:
        """How many calls of a run were paid again beyond those that its signals can have found under way."""
        paid = self.calls_of(run)
        repeated = paid.total() - len(paid)
        return max(0, repeated - CONNECTIONS * self.hits[run])

    def calls_of(self, run: str) -> Counter[str]:
        """How often every request of a run was made."""
        path = f"/v1/{run}/chat/completions"
        with self.server.lock:
            seen = [request for request in self.server.seen if request.path == path]
        return Counter(json.dumps(request.body, sort_keys=True) for request in seen)

    def row(self, target: Target) -> Tried:
        """All calls of all runs, and those that were not paid too often."""
        counts = {run: self.calls_of(run) for run in self.hits}
        paid = sum(calls.total() for calls in counts.values())
        distinct = sum(map(len, counts.values()))
        excess = sum(map(self.too_many, counts))
        detail = f"{paid - distinct} of {distinct} paid again after {self.hits.total()} signals"
        return Tried(target.family, PROMISE, target.command, paid, paid - excess, detail)


def answer(seen: Seen, number: int) -> Reply:
    """The number, for some texts only when reminded, for a few never; after a while."""
    time.sleep(ANSWER_SECONDS)
    value = verdict(*texts_of(seen))
    if value % 31 == 0:
        return replied("I would rather not say.")
    if value % 7 == 0 and len(seen.body["messages"]) == 1:
        return replied("Somewhere between 10 and 90.")
    return judged(seen)


def lists(folder: Path, count: int, width: int) -> Path:
    """Candidate lists in documents of five sentences; some candidates are equal."""
    rows = []
    for i in range(count):
        document, position = divmod(i, 5)
        candidates = [f"candidate {i} {j // 2 if j < 2 else j}" for j in range(width)]
        row = {
            "id": str(i),
            "document": str(document),
            "position": position,
            "source": f"source {i}",
            "candidates": candidates,
        }
        rows.append(row)
    folder.mkdir(parents=True, exist_ok=True)
    return write_lists(folder / "lists.jsonl", rows)


@contextmanager
def decided(
    folder: Path, family: str, command: str, judge: str, count: int, width: int
) -> Iterator[tuple[Target, PaidCalls]]:
    """A command that asks a judge; answers are kept beside the folder of its outputs, whose bytes are compared."""
    source, option = lists(folder, count, width), "-u" if command == "decode" else "-m"
    with serving(answer) as server:
        paid = PaidCalls(server)

        def words(own: Path) -> Sequence[str]:
            address = f'base_url="{server.url}/{own.name}",connections={CONNECTIONS}'
            metric = f"{judge.format(model=MODEL)[:-1]},{address})"
            cache = folder / "answers" / own.name
            return [
                *(command, str(source), option, metric, "--cache", str(cache)),
                *("-o", str(own / OUT), "--quiet", "--max-errors", "100"),
            ]

        shown = judge.format(model="MODEL")
        yield (
            Target(family, f"{command} {option} {shown}", words, source, wrong_after=paid.note_hit),
            paid,
        )


def decode_in_context(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Every pair of candidates, each in the context of what was chosen before."""
    judge = 'doc-judge(model="{model}",prompt="sqm")'
    with decided(folder / "inputs", "decode-judge", "decode", judge, 40, 4) as (target, paid):
        rows = stormed(target, tries, seed, folder / "runs")
        return [*rows, paid.row(target)]


def rerank(tries: int, seed: int, folder: Path) -> list[Tried]:
    """A feature without references."""
    judge = 'judge-qe(model="{model}")'
    with decided(folder / "inputs", "rerank-judge", "rerank", judge, 120, 5) as (target, paid):
        rows = stormed(target, tries, seed, folder / "runs")
        return [*rows, paid.row(target)]
