"""How much of a costly utility the cheap ones explain on whole matrices, which limits what a budget can spare.

    python -m benchmarks.budget.explained FOLDER captions64/ter captions64/dr-lex [--most 40] [--cheap chrf rouge ...]

FOLDER is one that `matrices` wrote. Printed are shares of variance within lists, means over lists, of a linear
regression on the cheap utilities: "rows" of the means of rows over other texts, "rest" of what is left of the pairs of
two texts after the means of rows and columns.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from benchmarks.budget import matrices
from benchmarks.budget.replay import Case, cases
from discorank.metrics.representations import FloatArray


def parts_of(matrix: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The means of rows over other texts [N], and the pairs of two texts less the means of rows and columns."""
    size = len(matrix)
    others = matrix.copy()
    np.fill_diagonal(others, 0.0)
    means = others.sum(axis=1) / (size - 1)
    np.fill_diagonal(others, means)
    rest = others - others.mean(axis=1, keepdims=True) - others.mean(axis=0) + others.mean()
    return means - means.mean(), rest[~np.eye(size, dtype=bool)]


def explained(response: FloatArray, regressors: list[FloatArray]) -> float:
    """The share of variance of a response [n] that a regression on others [n] explains."""
    design = np.stack(regressors, axis=1)
    fitted = design @ np.linalg.lstsq(design, response, rcond=None)[0]
    return 1 - float(((response - fitted) ** 2).sum() / max((response**2).sum(), 1e-300))


def shares(case: Case) -> tuple[float, float]:
    """Of the rows, and of the rest."""
    rows, rest = parts_of(case.matrix)
    cheap = [parts_of(matrix) for matrix in case.cheap]
    return explained(rows, [means for means, _ in cheap]), explained(rest, [x for _, x in cheap])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("sets", nargs="+", metavar="SET/UTILITY")
    parser.add_argument("--most", type=int, default=40)
    parser.add_argument("--cheap", nargs="+", default=[*matrices.CHEAP], metavar="NAME")
    options = parser.parse_args()
    for name in options.sets:
        found = cases(options.folder, name, options.most, options.cheap)
        rows, rest = np.mean([shares(case) for case in found], axis=0)
        print(f"{name:24} {len(found)} lists: rows {rows:.2f}, rest {rest:.2f}", flush=True)


if __name__ == "__main__":
    main()
