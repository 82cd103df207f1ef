"""Whether what plans state is true: confidence against how often the choice was the same, stated regret against regret.

    python -m benchmarks.budget.calibration RESULTS [--fit SET.UTILITY ...] [--method adaptive]

RESULTS is a folder that `replay` wrote, from a version that states the posterior's own figures. The calibration is
fitted on some sets (every second one unless they are named) and all tables are those of the others:
    confidence = 1 / (1 + exp(-(a + b logit p))),   regret = c r
with p and r of the posterior. Bins have equally many replays.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discorank.metrics.representations import FloatArray

BINS = 10
DRAWS = 2000  # behind a stated confidence


class Calibration(NamedTuple):
    """The constants."""

    a: float
    b: float
    c: float

    def confidence(self, stated: FloatArray) -> FloatArray:
        """Calibrated probabilities."""
        return np.asarray(1 / (1 + np.exp(-(self.a + self.b * logit(stated)))))


def logit(share: FloatArray) -> FloatArray:
    """Log odds of a share of draws, finite also for none and all."""
    inside = (share * DRAWS + 0.5) / (DRAWS + 1)
    return np.asarray(np.log(inside / (1 - inside)))


def fitted(table: FloatArray) -> Calibration:
    """The constants that fit best: a and b by maximum likelihood (Newton's method), c as the ratio of means."""
    regret, same, confidence, stated, _ = table.T
    design = np.stack([np.ones(len(table)), logit(confidence)], axis=1)
    parameters = np.array([0.0, 1.0])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-design @ parameters))
        weights = (chance * (1 - chance))[:, None]
        hessian = design.T @ (weights * design)
        parameters += np.linalg.solve(hessian, design.T @ (same - chance))
    return Calibration(float(parameters[0]), float(parameters[1]), regret.mean() / stated.mean())


def replays(folder: Path, method: str) -> dict[str, FloatArray]:
    """All replays of a method with the whole of its budget, by set and utility, without those that state nothing."""
    found: dict[str, list[FloatArray]] = {}
    for path in sorted(folder.glob(f"*.{method}.*.0.npy")):
        name = path.name.partition(f".{method}.")[0]
        table = np.load(path)
        found.setdefault(name, []).append(table[np.isfinite(table[:, 3])])
    return {name: np.concatenate(tables) for name, tables in found.items()}


def show(name: str, table: FloatArray, calibration: Calibration) -> None:
    """Stated and true figures of some replays."""
    regret, same, confidence, stated, _ = table.T
    ours = calibration.confidence(confidence)
    error = np.sqrt(same.mean() * (1 - same.mean()) / len(table))
    print(
        f"{name:24} {len(table):6} replays: same {same.mean():.4f} +- {error:.4f}, said {ours.mean():.4f} "
        f"(posterior {confidence.mean():.4f}); regret {regret.mean():.4f}, said {calibration.c * stated.mean():.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("--fit", nargs="+", metavar="SET.UTILITY")
    parser.add_argument("--method", default="adaptive")
    options = parser.parse_args()
    tables = replays(options.results, options.method)
    names = options.fit or list(tables)[::2]
    seen = np.concatenate([tables[name] for name in names])
    others = [name for name in tables if name not in names]
    calibration = fitted(seen)
    print(f"fitted on {', '.join(names)} ({len(seen)} replays): {calibration}")
    for name in others:
        show(name, tables[name], calibration)
    unseen = np.concatenate([tables[name] for name in others])
    show("all of these", unseen, calibration)
    show("fitted on", seen, calibration)
    print(f"{'said':>8} {'same':>8} {'+-':>8} {'regret said':>12} {'regret':>8}")
    ours = calibration.confidence(unseen[:, 2])
    for rows in np.array_split(np.argsort(ours, kind="stable"), BINS):
        same = unseen[rows, 1].mean()
        said = calibration.c * unseen[rows, 3].mean()
        error = np.sqrt(same * (1 - same) / len(rows))
        regret = unseen[rows, 0].mean()
        print(f"{ours[rows].mean():8.4f} {same:8.4f} {error:8.4f} {said:12.4f} {regret:8.4f}")


if __name__ == "__main__":
    main()
