"""Whether what plans state is true: confidence against how often the choice was the same, stated regret against regret.

    python -m benchmarks.budget.calibration RESULTS [--method adaptive]

RESULTS is a folder that `replay` wrote. The constants of `rerank/budget/statement.py` are fitted anew on replays that
used their whole budget, and every figure is of replays that were not fitted on: under "lists" of every other list of
the same sets, under "new set" of a set and utility whose constants come from all the others. "stopped" are replays with
a confidence at which they stop, under the constants in the program, which must be those of the replays. Bins have
equally many replays.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.statement import CALIBRATION, DRAWS, MARGIN, Calibration

BINS = 10
STEPS, STEP = 50, 0.2  # of Newton's method: how many, and how large at most


def replays(folder: Path, method: str) -> dict[str, list[FloatArray]]:
    """Replays with the whole of their budget that state a regret, by set and utility, with what the posterior said.

    Columns are those of `replay.Replay`; confidence and regret are the posterior's.
    """
    found: dict[str, list[FloatArray]] = {}
    for path in sorted(folder.glob(f"*.{method}.*.npy")):
        if _stops(path):
            continue
        name = path.name.partition(f".{method}.")[0]
        found.setdefault(name, []).append(of_posterior(_with_regret(np.load(path))))
    return found


def stopped(folder: Path, method: str) -> dict[str, FloatArray]:
    """Replays that could stop early, by set, utility and settings, with what the program said."""
    paths = sorted(filter(_stops, folder.glob(f"*.{method}.*.npy")))
    return {path.name.removesuffix(".npy"): _with_regret(np.load(path)) for path in paths}


def _stops(path: Path) -> bool:
    """Whether a file is of replays with a confidence, which stands before the number of places in its name."""
    return path.name.split(".")[-3] != "0"


def _with_regret(table: FloatArray) -> FloatArray:
    return table[np.isfinite(table[:, 3])]


def of_posterior(table: FloatArray) -> FloatArray:
    """Replays with what was stated taken back to what the posterior said."""
    table = table.copy()
    x = np.log(table[:, 5] / 100)
    odds = (
        logit(np.clip(table[:, 2], 1e-9, 1 - 1e-9)) - CALIBRATION.shift - CALIBRATION.by_pairs * x
    )
    inside = 1 / (1 + np.exp(-odds / CALIBRATION.slope))
    table[:, 2] = np.clip((inside * (DRAWS + 1) - 0.5) / DRAWS, 0, 1)
    table[:, 3] /= np.exp(CALIBRATION.level + CALIBRATION.growth * x)
    return table


def logit(share: FloatArray) -> FloatArray:
    return np.asarray(np.log(share / (1 - share)))


def fitted(table: FloatArray) -> Calibration:
    """Constants by maximum likelihood: of a logistic model of "same", and of regret in proportion (quasi-Poisson)."""
    regret, same, confidence, stated, _, pairs = table.T[:6]
    x = np.log(pairs / 100)
    odds = logit((confidence * DRAWS + 0.5) / (DRAWS + 1))
    design = np.stack([np.ones(len(table)), odds, x], axis=1)
    ours = np.array([0.0, 1.0, 0.0])
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-design @ ours))
        hessian = design.T @ ((chance * (1 - chance))[:, None] * design)
        ours += np.clip(np.linalg.solve(hessian, design.T @ (same - chance)), -STEP, STEP)
    design, growth = design[:, [0, 2]], np.zeros(2)
    for _ in range(STEPS):
        mean = stated * np.exp(design @ growth)
        hessian = design.T @ (mean[:, None] * design)
        growth += np.clip(np.linalg.solve(hessian, design.T @ (regret - mean)), -STEP, STEP)
    return Calibration(*map(float, (*ours, *growth)))


def stated(table: FloatArray, calibration: Calibration) -> tuple[FloatArray, FloatArray]:
    """Confidence and regret of replays under a calibration."""
    x = np.log(table[:, 5] / 100)
    odds = logit((table[:, 2] * DRAWS + 0.5) / (DRAWS + 1))
    odds = calibration.shift + calibration.slope * odds + calibration.by_pairs * x
    return 1 / (1 + np.exp(-odds)), table[:, 3] * np.exp(calibration.level + calibration.growth * x)


def show(name: str, table: FloatArray, confidence: FloatArray, regret: FloatArray) -> None:
    """Stated and true figures of some replays."""
    same = table[:, 1].mean()
    error = np.sqrt(same * (1 - same) / len(table))
    inside = np.clip(confidence, 1e-9, 1 - 1e-9)
    lower = 1 / (1 + np.exp(MARGIN - logit(inside)))
    print(
        f"{name:42} {len(table):6}  same {same:.3f} +- {error:.3f}, said {confidence.mean():.3f}, "
        f"at least {lower.mean():.3f};  regret {table[:, 0].mean():.4f}, said {regret.mean():.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("--method", default="adaptive")
    options = parser.parse_args()
    tables = replays(options.results, options.method)
    seen = np.concatenate([table[::2] for some in tables.values() for table in some])
    unseen = np.concatenate([table[1::2] for some in tables.values() for table in some])
    print(
        f"{len(seen) + len(unseen)} replays; constants of all: {fitted(np.concatenate([seen, unseen]))}"
    )
    calibration = fitted(seen)
    confidence, regret = stated(unseen, calibration)
    show("lists", unseen, confidence, regret)
    for name, some in tables.items():
        table = np.concatenate([table[1::2] for table in some])
        show(f"lists of {name}", table, *stated(table, calibration))
    for name, some in tables.items():
        others = [table for other, kept in tables.items() if other != name for table in kept]
        table = np.concatenate(some)
        show(f"new set {name}", table, *stated(table, fitted(np.concatenate(others))))
    for name, table in stopped(options.results, options.method).items():
        show(f"stopped {name}", table, table[:, 2], table[:, 3])
    print(f"{'said':>8} {'same':>8} {'+-':>8} {'regret said':>12} {'regret':>8}")
    for rows in np.array_split(np.argsort(confidence, kind="stable"), BINS):
        same = unseen[rows, 1].mean()
        error = np.sqrt(same * (1 - same) / len(rows))
        print(
            f"{confidence[rows].mean():8.3f} {same:8.3f} {error:8.3f} {regret[rows].mean():12.4f} "
            f"{unseen[rows, 0].mean():8.4f}"
        )


if __name__ == "__main__":
    main()
