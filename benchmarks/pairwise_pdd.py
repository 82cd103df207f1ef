"""PDD over all pairs of a list, and its linear form, against the equation pair by pair.

    python -m benchmarks.pairwise_pdd

Documents of 5 to 40 sentences with random roles of eight. The pair loop is Eq. 1 with the density of every document
and number of bins computed once before. Roles are at hand: only the comparison is timed.
"""

from __future__ import annotations

from math import log

import numpy as np

from benchmarks.measuring import timed
from discorank import Document, load_metric
from discorank.metrics.discourse.densities import counts
from discorank.metrics.reps import FloatArray, Ragged
from discorank.metrics.store import Store
from discorank.metrics.texts import NO_CONTEXT

BINS, EPS, ROLES = 8, 1e-8, 8


def documents(count: int) -> list[Document]:
    random = np.random.default_rng(count)
    return [Document(["."] * n, roles=random.integers(ROLES, size=n).tolist()) for n in random.integers(5, 41, count)]


def densities(texts: list[Document]) -> list[dict[int, FloatArray]]:
    """Of every document by number of bins."""
    found = []
    for text in texts:
        roles = Ragged.of_rows([np.array(text.roles)])
        by_bins = {n: counts(roles, n, ROLES)[0] for n in range(1, min(BINS, len(text.sentences)) + 1)}
        found.append({n: c / c.sum(axis=1, keepdims=True) + EPS for n, c in by_bins.items()})
    return found


def pair_loop(known: list[dict[int, FloatArray]]) -> FloatArray:
    values = np.full((len(known), len(known)), log((1 + EPS) / EPS))
    for i, h in enumerate(known):
        for j, r in enumerate(known):
            n = min(max(h), max(r))
            values[i, j] = (r[n] * (np.log(r[n]) - np.log(h[n]))).sum() / n
    return values


def main() -> None:
    print(f"{'N':>6} {'ours ms':>9} {'loop ms':>9} {'ratio':>7} {'linear ms':>10} {'ratio':>8} {'difference':>11}")
    metric = load_metric("pdd", bins=BINS, eps=EPS, schema=ROLES)
    for count in (16, 64, 256, 1024):
        texts = documents(count)
        store = Store(metric.scorer)
        block = store.add([metric.comparison(texts, texts, None, NO_CONTEXT)])[0]
        ours, found = timed(lambda s=store, b=block: metric.scorer.compare(s.reps, [b])[0], repeats=5)
        weights = np.full(count, 1 / count)
        linear, mean = timed(lambda s=store, b=block, w=weights: metric.scorer.expected(s.reps, [b], [w])[0], repeats=5)
        known = densities(texts)
        loop, expected = timed(lambda k=known: pair_loop(k), repeats=1 if count > 256 else 3)
        worst = max(abs(found - expected).max(), abs(mean - expected.mean(axis=1)).max())
        times = f"{1e3 * ours:9.2f} {1e3 * loop:9.1f} {loop / ours:6.1f}x {1e3 * linear:10.2f} {loop / linear:7.0f}x"
        print(f"{count:6} {times} {worst:11.1e}", flush=True)


if __name__ == "__main__":
    main()
