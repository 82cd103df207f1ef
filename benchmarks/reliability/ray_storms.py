"""Storms for ``decode --engine ray`` on a simulated cluster of two nodes: workers, nodes and drivers die.

Every run must leave what a local one leaves. Workers and nodes die while a run resumes; a driver is started again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from subprocess import Popen, TimeoutExpired

from benchmarks.reliability.decode_storms import decode_words, lists
from benchmarks.reliability.storms import (
    OUT,
    SHOWN,
    Tally,
    Target,
    Tried,
    calm,
    finish,
    start,
    stormed,
    wait_for_change,
)
from tests.support.ray_nodes import Nodes, actors
from tests.support.waiting import wait_until

UTILITY = "tests.support.faulty:overlap"  # takes a while
LISTS = 400
HITS_PER_RUN = 3
SPAN_SECONDS = 1.5  # between two hits of one run
STOP_SECONDS = 60.0
Strike = Callable[[Random], bool]


@contextmanager
def two_nodes() -> Iterator[Nodes]:
    """A cluster with a core on each of two nodes; nothing of it is left at the end."""
    nodes = Nodes()
    try:
        nodes.add(1)
        nodes.add(1)
        yield nodes
    finally:
        nodes.close()


def drivers(tries: int, seed: int, folder: Path) -> list[Tried]:
    """The command itself is disturbed; no worker may outlive it."""
    source = lists(folder / "inputs", LISTS)
    with two_nodes() as nodes:
        options = nodes.options(actors=2)

        def words(own: Path) -> Sequence[str]:
            more = () if own.name == "whole" else options
            return decode_words(source, own / OUT, "-u", UTILITY, *more)

        target = Target(
            "ray-driver",
            "decode --engine ray",
            words,
            source,
            code=3,
            promise_after="no worker outlives the command",
            wrong_after=left_behind,
        )
        return stormed(target, tries, seed, folder / "runs")


def workers(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Workers are killed."""
    with two_nodes() as nodes:
        return _struck("ray-actor", kill_a_worker, nodes, tries, seed, folder)


def whole_nodes(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Nodes are killed, and others join."""
    with two_nodes() as nodes:

        def strike(r: Random) -> bool:
            nodes.kill(r.choice(sorted(nodes.cluster.worker_nodes, key=str)))
            nodes.add(1)
            return True

        return _struck("ray-node", strike, nodes, tries, seed, folder)


def kill_a_worker(r: Random) -> bool:
    """Kills one of the workers there are; whether there was one."""
    processes = actors()
    if processes:
        os.kill(r.choice(processes), signal.SIGKILL)
    return bool(processes)


def left_behind(own: Path) -> list[str]:
    """The workers that live on."""
    try:
        wait_until(lambda: not actors(), "", STOP_SECONDS)
    except AssertionError:
        return [f"workers {actors()} live on"]
    return []


def _struck(
    family: str, strike: Strike, nodes: Nodes, tries: int, seed: int, folder: Path
) -> list[Tried]:
    """Strikes at what works for the command while it runs, until it was struck `tries` times."""
    source = lists(folder / "inputs", LISTS)
    options = nodes.options(actors=2)

    def words(own: Path) -> Sequence[str]:
        more = () if own.name == "whole" else options
        return decode_words(source, own / OUT, "-u", UTILITY, *more)

    target = Target(family, "decode --engine ray", words, source, code=3)
    expected, _ = calm(target, folder / "whole")
    r, tally = Random(f"{seed} {family}"), Tally(target)
    for number in range(tries):
        left = tries - tally.hits.total()
        if left <= 0:
            break
        own = folder / f"run{number}"
        own.mkdir()
        process = start(words(own), own)
        wait_for_change(process, own)
        hits = 0
        while hits < min(left, HITS_PER_RUN) and still_runs(process, r.uniform(0, SPAN_SECONDS)):
            hits += strike(r)
        tally.hits["SIGKILL"] += hits
        ended = finish(process)
        (own / SHOWN).write_bytes(b"")  # where Ray says that a worker died
        tally.note_end(hits, ended, expected, own)
    return tally.rows()


def still_runs(process: Popen[str], seconds: float) -> bool:
    """Whether a process is at work after so many seconds."""
    try:
        process.wait(seconds)
    except TimeoutExpired:
        return True
    return False
