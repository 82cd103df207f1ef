"""Exact lexical MBR beside decoders that approximate it: CPU seconds, agreement and regret, on the same lists.

    python -m benchmarks.choice_quality.exact_or_approximate [--peer-python PATH] [--sizes 32 128 512 1024]
        [--lists 100 40 10 5] [--utilities chrf bleu] [--duplicates 0.4] [--systems FILE ...]

Ours is `MBRDecoder.decode`, from texts to rankings. The peers (benchmarks/support/peers/approximate.py) are fastchrf's
aggregate and exact pairs, and, with the interpreter of an environment that has mbrs, mbrs' pruning, low-rank and
aggregate decoders and centroids. Methods take turns within a case; quick ones are run three times and their least CPU
seconds count. A choice agrees if its exact expected utility is that of the best (1e-9, relative); regret is what it is
less, in points of the utility and in standard deviations of the list's expected utilities. ``--systems`` are systems
files, whose segments are lists.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.support.lists import real, synthetic, with_duplicates
from benchmarks.support.measuring import timed
from benchmarks.support.peers.process import Peer
from discorank import MBRDecoder, load_metric
from discorank.metrics.representations import FloatArray

SAME = 1e-9  # relative: as good as the best
QUICK_SECONDS = 5.0
REPEATS = 3
OURS = "discorank, exact"
Lists = list[list[str]]


class Case(NamedTuple):
    """Lists of one kind, and the exact expected utilities of their texts under one utility."""

    name: str
    utility: str
    lists: Lists
    values: list[FloatArray]


class Outcome(NamedTuple):
    """What a method took and chose."""

    method: str
    cpu_seconds: float
    same: float  # share of lists in which its choice is as good as the best
    regret: float  # in points of the utility
    deviations: float  # regret in standard deviations of the list's expected utilities


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Every case of the command line."""
    for utility in options.utilities:
        for size, count in zip(options.sizes, options.lists, strict=True):
            plain = [synthetic(size, seed) for seed in range(count)]
            yield case(f"{count} of N={size}", utility, plain)
            if options.duplicates:
                share = options.duplicates
                copied = [with_duplicates(size, seed, share) for seed in range(count)]
                yield case(f"{count} of N={size}, {share:.0%} duplicates", utility, copied)
        for path in options.systems:
            lists = real(path)[: options.most]
            name = f"{len(lists)} of N={np.mean([len(texts) for texts in lists]):.0f}, {path.name}"
            yield case(name, utility, lists)


def case(name: str, utility: str, lists: Lists) -> Case:
    """A case; the expected utilities are means over all pairs, the pair of a text with itself included."""
    metric = load_metric(utility)
    values = [np.asarray(metric.pairwise(texts, texts)).mean(axis=1) for texts in lists]
    return Case(name, utility, lists, values)


def chosen_by_us(utility: str, lists: Lists) -> list[int]:
    """The index that we choose in every list."""
    rankings = MBRDecoder(utility).decode(lists)
    return [ranking.ranking[0].index for ranking in rankings]


def outcome(method: str, cpu_seconds: float, chosen: Sequence[int], values: Case) -> Outcome:
    """What the choices of a method are worth."""
    same, regrets, deviations = [], [], []
    for index, expected in zip(chosen, values.values, strict=True):
        best = float(expected.max())
        regret = best - float(expected[index])
        same.append(regret <= SAME * abs(best))
        regrets.append(regret)
        deviations.append(regret / float(expected.std() or 1.0))
    return Outcome(
        method,
        cpu_seconds,
        float(np.mean(same)),
        float(np.mean(regrets)),
        float(np.mean(deviations)),
    )


def outcomes(of: Case, peer: Peer, methods: Sequence[str]) -> list[Outcome]:
    """Ours and every peer's; methods take turns, and slow ones are run once."""
    names = [name for name in methods if name.startswith(f"{of.utility} ")]
    seconds: dict[str, list[float]] = {}
    chosen: dict[str, list[int]] = {}
    for _ in range(REPEATS):
        own_seconds, chosen[OURS] = timed(lambda: chosen_by_us(of.utility, of.lists))
        seconds.setdefault(OURS, []).append(own_seconds)
        for name in names:
            if min(seconds.get(name, [0.0])) > QUICK_SECONDS:
                continue
            answer = peer(name, lists=of.lists)
            chosen[name] = answer.value
            seconds.setdefault(name, []).append(answer.cpu_seconds)
    return [outcome(name, min(seconds[name]), chosen[name], of) for name in seconds]


def main(arguments: list[str]) -> None:
    """Prints a table per case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--sizes", nargs="*", type=int, default=[32, 128, 512, 1024])
    parser.add_argument("--lists", nargs="*", type=int, default=[100, 40, 10, 5])
    parser.add_argument("--utilities", nargs="+", default=["chrf", "bleu"])
    parser.add_argument("--duplicates", type=float, default=0.0)
    parser.add_argument("--systems", nargs="+", type=Path, default=[])
    parser.add_argument("--most", type=int, default=500, help="lists of a systems file")
    parser.add_argument("--leave-out", nargs="+", default=[], metavar="METHOD")
    options = parser.parse_args(arguments)
    peer = Peer(options.peer_python, "benchmarks.support.peers.approximate")
    methods = [name for name in peer("methods").value if name not in options.leave_out]
    warm_up(peer, methods)
    print("| lists | method | CPU s | times ours | same choice | regret | in deviations |")
    print("|---|---|---|---|---|---|---|")
    for of in cases(options):
        ours, *others = outcomes(of, peer, methods)
        for row in (ours, *others):
            method = row.method.removeprefix(f"{of.utility} ")
            times = row.cpu_seconds / ours.cpu_seconds
            print(
                f"| {of.utility}, {of.name} | {method} | {row.cpu_seconds:.3f} | "
                f"{times:.1f} | {row.same:.0%} | {row.regret:.3f} | {row.deviations:.2f} |",
                flush=True,
            )
    peer.close()


def warm_up(peer: Peer, methods: Sequence[str]) -> None:
    """Lets both sides import what they need."""
    texts = [synthetic(12, 0)]
    for utility in ("chrf", "bleu"):
        chosen_by_us(utility, texts)
    for name in methods:
        peer(name, lists=texts)


if __name__ == "__main__":
    main(sys.argv[1:])
