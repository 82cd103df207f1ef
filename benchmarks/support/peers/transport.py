"""Optimal transport between sentences by POT, one pair of documents after the other.

PYTHON -m benchmarks.support.peers.transport
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.support.peers.process import serve

Pairs = list[tuple[list[list[float]], list[float], list[float]]]  # utilities and masses of a pair


def exact(pairs: Pairs) -> list[float]:
    """The utility of every pair under the best plan."""
    import ot  # type: ignore[import-not-found]

    values = []
    for utilities, a, b in pairs:
        worth, rows, columns = np.array(utilities), np.array(a), np.array(b)
        # whole numbers of one sum: POT wants both sides' masses to be equal to the last bit
        cost = ot.emd2(rows * columns.sum(), columns * rows.sum(), worth.max() - worth)
        values.append(float(worth.max() - cost / (rows.sum() * columns.sum())))
    return values


def entropic(pairs: Pairs, entropy: float) -> list[float]:
    """The utility of every pair under the entropic plan; costs are scaled to lie between 0 and 1."""
    import ot

    values = []
    for utilities, a, b in pairs:
        worth, rows, columns = np.array(utilities), np.array(a), np.array(b)
        costs = (worth.max() - worth) / ((worth.max() - worth.min()) or 1.0)
        plan: Any = ot.sinkhorn(
            rows / rows.sum(),
            columns / columns.sum(),
            costs,
            entropy,
            numItermax=5000,
            stopThr=1e-10,
        )
        values.append(float((plan * worth).sum()))
    return values


if __name__ == "__main__":
    serve({"exact": exact, "entropic": entropic})
