"""PDD over all pairs of a list, and its linear form, against the equation pair by pair.

    python -m benchmarks.speed.pairwise_pdd

Documents of 5 to 40 sentences with random roles of eight; roles are at hand, only the comparison is timed. Two pair
loops: a pair as it is defined, from roles to Eq. 1, timed on some pairs; and Eq. 1 alone, the density of every document
in every number of bins computed before.
"""

from __future__ import annotations

from functools import partial
from math import log
from typing import Any

import numpy as np

from benchmarks.support.measuring import timed
from discorank import Document, load_metric
from discorank.metrics.discourse.roles.pdd import counts
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import FloatArray, IntArray, Ragged
from discorank.metrics.text.texts import NO_CONTEXT

BINS, EPS, ROLES = 8, 1e-8, 8
SAMPLED = 1000  # pairs


def documents(count: int) -> list[Document]:
    random = np.random.default_rng(count)
    return [
        Document(["."] * n, roles=random.integers(ROLES, size=n).tolist())
        for n in random.integers(5, 41, count)
    ]


def densities(texts: list[Document]) -> list[dict[int, FloatArray]]:
    """Of every document by number of bins."""
    rows = []
    for text in texts:
        roles = Ragged.of_rows([np.array(text.roles)])
        by_bins = {
            n: counts(roles, n, ROLES)[0] for n in range(1, min(BINS, len(text.sentences)) + 1)
        }
        rows.append({n: c / c.sum(axis=1, keepdims=True) + EPS for n, c in by_bins.items()})
    return rows


def pair_loop(known: list[dict[int, FloatArray]]) -> FloatArray:
    values = np.full((len(known), len(known)), log((1 + EPS) / EPS))
    for i, h in enumerate(known):
        for j, r in enumerate(known):
            n = min(max(h), max(r))
            values[i, j] = (r[n] * (np.log(r[n]) - np.log(h[n]))).sum() / n
    return values


def from_roles(h: Document, r: Document) -> float:
    n = min(BINS, len(h.sentences), len(r.sentences))
    a_h, a_r = (counts(Ragged.of_rows([np.array(text.roles)]), n, ROLES)[0] for text in (h, r))
    a_h, a_r = (a / a.sum(axis=1, keepdims=True) + EPS for a in (a_h, a_r))
    return float((a_r * (np.log(a_r) - np.log(a_h))).sum() / n)


def pairs_from_roles(texts: list[Document], pairs: IntArray) -> list[float]:
    return [from_roles(texts[i], texts[j]) for i, j in pairs]


def main() -> None:
    names = (
        "N",
        "ours ms",
        "loop ms",
        "ratio",
        "Eq. 1 ms",
        "ratio",
        "linear ms",
        "ratio to Eq. 1",
        "difference",
    )
    print(" ".join(f"{name:>9}" for name in names))
    metric: Any = load_metric("pdd", bins=BINS, eps=EPS, schema=ROLES)
    for count in (16, 64, 256, 1024):
        texts = documents(count)
        store = Store(metric.scorer)
        block = store.add([metric.comparison(texts, texts, None, NO_CONTEXT)])[0]
        ours, (matrix,) = timed(partial(metric.scorer.compare, store.reps, [block]), repeats=5)
        weights = np.full(count, 1 / count)
        linear, (mean,) = timed(
            partial(metric.scorer.expected, store.reps, [block], [weights]), repeats=5
        )
        pairs = np.random.default_rng(0).integers(count, size=(SAMPLED, 2))
        sampled, values = timed(partial(pairs_from_roles, texts, pairs), repeats=3)
        loop = sampled / SAMPLED * count * count
        known = densities(texts)
        equation, expected = timed(partial(pair_loop, known), repeats=1 if count > 256 else 3)
        worst = max(abs(matrix - expected).max(), abs(mean - expected.mean(axis=1)).max())
        worst = max(worst, abs(matrix[tuple(pairs.T)] - values).max())
        cells = [
            f"{1e3 * ours:.2f}",
            f"{1e3 * loop:.1f}",
            f"{loop / ours:.0f}x",
            f"{1e3 * equation:.1f}",
        ]
        cells += [
            f"{equation / ours:.1f}x",
            f"{1e3 * linear:.2f}",
            f"{equation / linear:.0f}x",
            f"{worst:.1e}",
        ]
        print(" ".join(f"{cell:>9}" for cell in (str(count), *cells)), flush=True)


if __name__ == "__main__":
    main()
