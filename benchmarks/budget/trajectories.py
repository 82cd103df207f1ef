"""Replays the adaptive plan on kept matrices and keeps what it knew at every step, and whether it was right.

    python -m benchmarks.budget.trajectories FOLDER RESULTS captions64/ter wmt22/ter [--budgets 0.0625 0.125 0.25 0.5]
        [--most 500] [--nbest 1] [--judged DATA ...]

FOLDER is one that `matrices` wrote; of ``judged/GPT4-DA-src`` and the like, lists are the segments of the files DATA
(``judged_wmt22.*.jsonl.gz``), whose candidates have one score each. A target only ends a plan and changes nothing
before, so that from the steps of a plan with its whole budget follows what any target would have done. One file
SET.UTILITY.NBEST.npy comes to RESULTS for every set, from which `calibration` reads; one that is there is not made
again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.budget import judged, matrices
from benchmarks.budget.replay import BUDGETS, SAME, Case, cases
from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.plan import drive, num_pairs, plan
from discorank.rerank.budget.statement import NEVER_MET, Evidence, Target

# what stands before the evidence (without the chosen rows) in every row of a file
TRUTH = ("list", "budget", "is_last", "regret", "same", "spread_of_all")
COLUMNS = (*TRUTH, *Evidence._fields[1:])


def trajectory(case: Case, budget: float, seed: int, nbest: int = 1) -> FloatArray:
    """The steps of one list [steps, columns] without the columns "list" and "budget"."""
    matrix, weights, size = case.matrix, case.weights, len(case.matrix)
    symmetric = matrix.shape == matrix.T.shape and np.array_equal(matrix, matrix.T)
    pairs = max(1, int(budget * num_pairs(size, len(weights), symmetric)))
    steps = plan(
        "adaptive",
        weights,
        size,
        prior=case.cheap,
        pairs=pairs,
        target=Target(NEVER_MET),
        nbest=nbest,
        seed=seed,
        square=matrix.shape[0] == matrix.shape[1],
        symmetric=symmetric,
    )
    estimate = drive(steps, lambda request: matrix[np.ix_(request.rows, request.columns)])
    best = np.sort(case.exact)[-min(nbest, size) :].mean()
    unit = case.exact.std() or 1.0
    rows = []
    for i, evidence in enumerate(estimate.steps):
        reached = case.exact[evidence.chosen].mean()
        same = reached >= best - SAME * abs(best)
        is_last = i == len(estimate.steps) - 1
        truth = is_last, (best - reached) / unit, same, unit
        rows.append([*truth, *evidence[1:]])
    return np.array(rows, np.float64).reshape(-1, len(COLUMNS) - 2)


def trajectories(found: Sequence[Case], budgets: Sequence[float], nbest: int) -> FloatArray:
    """The steps of all lists under all budgets, [steps, columns]."""
    tables = []
    for i, case in enumerate(found):
        for budget in budgets:
            table = trajectory(case, budget, i, nbest)
            where = np.tile([i, budget], (len(table), 1))
            tables.append(np.hstack([where, table]))
    return np.concatenate(tables)


def _lists(name: str, options: argparse.Namespace) -> list[Case]:
    """The lists of a SET/UTILITY."""
    of, _, judge = name.partition("/")
    if of == "judged":
        return judged.cases(options.judged, judge, options.most)
    return cases(options.folder, name, options.most, [*matrices.CHEAP])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("sets", nargs="+", metavar="SET/UTILITY")
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS[1:])
    parser.add_argument("--most", type=int, default=500)
    parser.add_argument("--nbest", type=int, default=1)
    parser.add_argument("--judged", nargs="+", type=Path, default=[], metavar="DATA")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    for name in options.sets:
        path = options.results / f"{name.replace('/', '.')}.{options.nbest}.npy"
        if path.exists():
            continue
        start = process_time()
        found = _lists(name, options)
        table = trajectories(found, options.budgets, options.nbest)
        np.save(path, table)
        last = table[table[:, 2] == 1]
        print(
            f"{path.name:32} {len(found)} lists, {len(last)} replays, {len(table)} steps, "
            f"{process_time() - start:.1f} CPU s",
            flush=True,
        )


if __name__ == "__main__":
    main()
