"""Which candidates an expensive judge should score next: real scores of language-model judges, replayed.

    python -m benchmarks.budget.judged DATA [--judge GPT4-DA-refA] [--cheap Turbo-DA-src Turbo-SQM-src ...] [--most 600]

DATA are files ``judged_wmt22.*.jsonl.gz``. The best of about 15 candidates by the judge is searched for with a part of
its scores, given the cheap judges' scores of all. Beside the adaptive plan: the best ones by the mean of the cheap
scores, and candidates at random. Regret is in points of the judge; "found" is how often a candidate of the highest
score is chosen.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.budget.replay import Case
from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.plan import drive, plan

CHEAP = ("Turbo-DA-src", "Turbo-SQM-src", "Turbo-Stars-src", "Turbo-Classes-src")
CALLS = (1, 2, 4, 8)


class Judged(NamedTuple):
    """One segment."""

    costly: FloatArray  # [H]
    cheap: FloatArray  # [H, K]


def segments(path: Path, judge: str, cheap: tuple[str, ...]) -> Iterator[Judged]:
    """The segments of a file that have all scores."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for document in map(json.loads, file):
            systems = list(document["systems"])
            for i in range(len(document["source"])):
                scores = [[document[j][s][i] for j in (judge, *cheap)] for s in systems]
                table = np.array(scores, np.float64)
                if np.isfinite(table).all():
                    yield Judged(table[:, 0], table[:, 1:])


def guides(judge: str) -> tuple[str, ...]:
    """The four prompts of a cheaper model, another one than the judge's."""
    return tuple(name.replace("Turbo", "Chat") for name in CHEAP) if "Turbo" in judge else CHEAP


def cases(paths: Iterable[Path], judge: str, most: int) -> list[Case]:
    """Segments, evenly spread, as lists of one score per candidate."""
    every = [one for path in paths for one in segments(path, judge, guides(judge))]
    return [
        Case(one.cheap.T[:, :, None], one.costly[:, None], np.ones(1), one.costly)
        for one in every[:: max(1, len(every) // most)][:most]
    ]


def chosen(method: str, one: Judged, calls: int, seed: int) -> tuple[int, float]:
    """The candidate chosen, and the confidence stated."""
    random = np.random.default_rng(seed)
    size = len(one.costly)
    if method == "adaptive":
        steps = plan(
            "adaptive", np.ones(1), size, prior=one.cheap.T[:, :, None], pairs=calls, seed=seed
        )
        estimate = drive(steps, lambda request: one.costly[request.rows, None])
        return int(np.nanargmax(estimate.values)), estimate.confidence
    deviations = one.cheap.std(axis=0)
    scaled = one.cheap / np.where(deviations > 0, deviations, 1.0)
    order = np.argsort(-scaled.mean(axis=1), kind="stable")
    scored = (order if method == "cheap" else random.permutation(size))[:calls]
    return int(scored[np.argmax(one.costly[scored])]), float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path, metavar="DATA")
    parser.add_argument("--judge", default="GPT4-DA-refA")
    parser.add_argument("--cheap", nargs="+", default=CHEAP)
    parser.add_argument("--most", type=int, default=600)
    options = parser.parse_args()
    every = [
        one
        for path in options.data
        for one in segments(path, options.judge, tuple(options.cheap))
        if np.ptp(one.costly) > 0
    ]
    lists = every[:: max(1, len(every) // options.most)]
    size = np.mean([len(one.costly) for one in lists])
    print(f"{len(lists)} segments, {size:.1f} candidates, judge {options.judge}")
    for calls in CALLS:
        for method in ("adaptive", "cheap", "random"):
            picks = [chosen(method, one, calls, seed) for seed, one in enumerate(lists)]
            losses = [
                one.costly.max() - one.costly[pick]
                for one, (pick, _) in zip(lists, picks, strict=True)
            ]
            found = np.mean(np.array(losses) == 0)
            stated = np.mean([confidence for _, confidence in picks])
            print(
                f"{calls:2} calls  {method:9} regret {np.mean(losses):6.2f}  found {found:5.3f}  said {stated:5.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
