"""Replays every method on kept matrices: what was lost, how often the choice is the same, and what was said of both.

    python -m benchmarks.budget.replay FOLDER RESULTS captions64/ter captions64/dr-lex [--methods adaptive halving ...]
        [--budgets 0.03 0.0625 0.125 0.25 0.5] [--most 500] [--confidence 0.95] [--nbest 1] [--cheap chrf ...]

FOLDER is one that `matrices` wrote; every SET/UTILITY is a file of it, and SET.NAME, with the names of
`matrices.CHEAP`, its cheap utilities. Regret is in standard deviations of the list's expected utilities. One line per
set, method and budget is printed, and all replays of it are kept in the folder RESULTS, from which `calibration`
reads. mbrs' methods are called ``mbrs-pruning`` (at an alpha in place of a budget), ``mbrs-pmbr``
and ``mbrs-sampled``. Where a matrix is
symmetric, two texts are one pair, and a budget is a share of N (N + 1) / 2.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks.budget import matrices, peers
from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.plan import METHODS, drive, num_pairs, plan
from discorank.rerank.budget.statement import Target
from discorank.rerank.expectation import expected_utility

BUDGETS = (0.03125, 0.0625, 0.125, 0.25, 0.5)
ALPHAS = (0.6, 0.8, 0.9, 0.99)
KINDS = {"ter": "ter", "dr-lex": "kernel"}  # of utilities that statements know
SAME = 1e-7  # relative: as good as the best; matrices are kept in single precision


class Case(NamedTuple):
    """A list to replay on."""

    cheap: FloatArray  # [K, H, R]
    matrix: FloatArray  # [H, R]
    weights: FloatArray  # [R]
    exact: FloatArray  # expected utilities, [H]


class Replay(NamedTuple):
    """What came of one."""

    regret: float  # in standard deviations of the list's expected utilities
    same: float  # whether the choice is as good as that of the whole matrix
    confidence: float
    stated: float  # expected regret, in standard deviations
    share: float  # of pairs
    pairs: float
    hypotheses: float
    places: float  # that are ranked


def cases(folder: Path, name: str, most: int, cheap: Sequence[str]) -> list[Case]:
    """The lists of a SET/UTILITY, evenly spread; without those whose candidates are all worth the same."""
    of, _, utility = name.partition("/")
    costly, *guides = (matrices.read(folder / f"{of}.{u}.npz") for u in (utility, *cheap))
    step = max(1, len(costly) // most)
    found = []
    for i in range(0, len(costly), step)[:most]:
        kept = costly[i]
        prior = np.stack([guide[i].matrix for guide in guides])
        found.append(Case(prior, kept.matrix, kept.weights, _exact(kept)))
    return [case for case in found if case.exact.std() > SAME * np.abs(case.exact).max()]


def _exact(kept: matrices.Kept) -> FloatArray:
    return expected_utility(kept.matrix, kept.weights)


def replay(
    case: Case,
    method: str,
    budget: float,
    confidence: float | None,
    seed: int,
    nbest: int = 1,
    kind: str = "",
) -> Replay:
    """One method on one list; of several places the loss is the mean, and the same are the same best texts."""
    matrix, weights = case.matrix, case.weights
    # every list of a set is of one utility; where it is symmetric, two texts are one pair
    symmetric = np.array_equal(matrix, matrix.T)
    of = num_pairs(len(matrix), len(weights), symmetric)
    pairs = max(1, int(budget * of))
    stated = float("nan"), float("nan")
    if method == "mbrs-pruning":
        values, used = peers.pruning(matrix, weights, budget, seed)
    elif method == "mbrs-sampled":
        values, used = peers.sampled(matrix, weights, pairs, seed)
    elif method == "mbrs-pmbr":
        values, used = peers.low_rank(matrix, weights, pairs, seed)
    else:
        steps = plan(
            method,  # type: ignore[arg-type]
            weights,
            len(matrix),
            prior=case.cheap,
            pairs=pairs,
            target=Target(confidence),
            nbest=nbest,
            seed=seed,
            square=True,
            symmetric=symmetric,
            kind=kind,
        )
        estimate = drive(steps, lambda request: matrix[np.ix_(request.rows, request.columns)])
        values, used = estimate.values, estimate.pairs
        stated = estimate.confidence, estimate.regret
    places = min(nbest, len(matrix))
    best = float(np.sort(case.exact)[-places:].mean())
    chosen = np.argsort(-values, kind="stable")[:places]  # what is given up comes last
    reached, unit = float(case.exact[chosen].mean()), float(case.exact.std())
    same = reached >= best - SAME * abs(best)
    return Replay(
        (best - reached) / unit,
        same,
        stated[0],
        stated[1] / unit,
        used / of,
        used,
        len(matrix),
        places,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("sets", nargs="+", metavar="SET/UTILITY")
    parser.add_argument(
        "--methods", nargs="+", default=[*METHODS, "mbrs-pmbr", "mbrs-pruning", "mbrs-sampled"]
    )
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--most", type=int, default=500)
    parser.add_argument("--cheap", nargs="+", default=[*matrices.CHEAP], metavar="NAME")
    parser.add_argument("--confidence", type=float)
    parser.add_argument("--nbest", type=int, default=1)
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        found = cases(options.folder, name, options.most, options.cheap)
        kind = KINDS.get(name.partition("/")[2], "")
        for method in options.methods:
            for budget in ALPHAS if method == "mbrs-pruning" else options.budgets:
                start = process_time()
                rows = [
                    replay(case, method, budget, options.confidence, seed, options.nbest, kind)
                    for seed, case in enumerate(found)
                ]
                table = np.array(rows, np.float64)
                settings = f"{options.confidence or 0:g}.{options.nbest}"
                label = f"{name.replace('/', '.')}.{method}.{budget:g}.{settings}"
                np.save(options.results / f"{label}.npy", table)
                print(f"{label:42} {line(table)} {process_time() - start:6.1f} CPU s", flush=True)


def line(table: FloatArray) -> str:
    """Means over replays, [replays, 8]; of stated regrets over those that are stated."""
    regret, same, confidence, _, share = table[:, :5].mean(axis=0)
    stated = np.nanmean(table[:, 3]) if np.isfinite(table[:, 3]).any() else np.nan
    error = table[:, 0].std() / len(table) ** 0.5
    return (
        f"pairs {share:6.4f}  regret {regret:6.4f} +- {error:6.4f} (said {stated:6.4f})  "
        f"same {same:5.3f} (said {confidence:5.3f})  of {len(table)}"
    )


if __name__ == "__main__":
    main()
