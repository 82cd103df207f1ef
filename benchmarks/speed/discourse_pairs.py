"""DiscoScore of all pairs of N texts: what the pairs cost beside the encodings, and against the plain ways.

    python -m benchmarks.speed.discourse_pairs SYSTEMS_FILE [--repeats K]

Texts are the summaries and references of a systems file, read with the encoder of the extra minilm; nouns are found
before any clock starts, as texts bring their foci. All figures are CPU seconds of one run, the two sides of a ratio in
turns:

    whole     N x N utilities of 64 texts over their 64 encodings alone
    compare   the same utilities by a plain loop over pairs of focus tables, over the time of `compare`
    scheme    the scheme of the released code (one forward pass for the hypothesis of a call and one for each
              reference: N + N x N passes) over ours (N encodings and `compare`), N = 32
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from discorank import Document, load_metric
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.discourse.coherence.foci import FocusReader
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import Ragged
from discorank.metrics.text.texts import NO_CONTEXT


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of a call, and what it returned."""
    start = process_time()
    found = run()
    return process_time() - start, found


def texts_of(path: str, n: int, metric: Any) -> list[Document]:
    """The first n different summaries and references, with their foci."""
    with open_lists(path, "systems") as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    plain = [str(t) for r in records for t in (*(c.text for c in r.candidates), *r.references)]
    read = [FocusReader(metric).read(text) for text in list(dict.fromkeys(plain))[:n]]
    return [
        Document(
            foci.sentences,
            foci=[[(n.key, n.start, n.end) for n in nouns] for nouns in foci.occurrences],
        )
        for foci in read
    ]


def pair_loop(reps: Any) -> np.ndarray[Any, Any]:
    """DS-FOCUS pair by pair, union form, from focus tables."""
    tables = []
    for row in range(len(reps)):
        a, b = reps["keys"].offsets[row : row + 2]
        tables.append(
            dict(
                zip(
                    reps["keys"].values[a:b].tolist(),
                    reps["vectors"].values[a:b].astype(float),
                    strict=True,
                )
            )
        )
    found = np.zeros((len(tables), len(tables)))
    for i, h in enumerate(tables):
        for j, r in enumerate(tables):
            total = sum(float(((h[k] - r[k]) ** 2).sum()) for k in h.keys() & r.keys())
            total += sum(float((h[k] ** 2).sum()) for k in h.keys() - r.keys())
            total += sum(float((r[k] ** 2).sum()) for k in r.keys() - h.keys())
            found[i, j] = total / max(1, len(h.keys() | r.keys()))
    return found


def scheme(metric: Any, texts: list[Document]) -> None:
    """The forward passes of the released code, and nothing else of it: one text at a time."""
    scorer = metric.scorer
    prepared, _ = scorer.prepare(
        [metric.comparison([t], [t], None, NO_CONTEXT).hypotheses[0] for t in texts]
    )
    rows = [prepared.take(np.array([i])) for i in range(len(texts))]
    for h in rows:
        for one in (h, *rows):
            scorer.encoder.states(Ragged.of_lengths(one["ids"].values, one["windows"].values))


def main(path: str, repeats: int) -> None:
    for name in ("ds-focus", "ds-sent"):
        metric: Any = load_metric(name)
        texts = texts_of(path, 64, metric)
        comparison = metric.comparison(texts, texts, None, NO_CONTEXT)

        def encode(metric: Any = metric, comparison: Any = comparison) -> tuple[Store, list[Any]]:
            store = Store(metric.scorer)
            return store, store.add([comparison])

        encode()
        whole, compare = [], []
        for _ in range(repeats):
            t_encode, (store, blocks) = seconds(encode)
            t_whole, (u,) = seconds(partial(matrices, metric, [comparison]))
            t_compare = min(
                seconds(partial(metric.scorer.compare, store.reps, blocks))[0] for _ in "123"
            )
            whole.append(t_whole / t_encode)
            if name == "ds-focus":
                t_loop, plain = seconds(partial(pair_loop, store.reps.take(blocks[0].hypotheses)))
                compare.append(t_loop / t_compare)
                difference = abs(plain - u).max()
        length = np.mean([len(str(t).split()) for t in texts])
        print(
            f"{name}, N=64, {length:.0f} words: whole {' '.join(f'{x:.2f}' for x in whole)} x the encodings",
            end="",
        )
        print(f" ({t_encode:.2f} s), compare {1000 * t_compare:.1f} ms")
        if compare:
            times = " ".join(f"{x:.0f}" for x in compare)
            print(f"  compare against pair loop: {times}x, largest difference {difference:.1e}")
    metric = load_metric("ds-focus")
    texts = texts_of(path, 32, metric)
    ratios = []
    for _ in range(repeats):
        ours, _ = seconds(
            lambda: matrices(metric, [metric.comparison(texts, texts, None, NO_CONTEXT)])
        )
        theirs, _ = seconds(lambda: scheme(metric, texts))
        ratios.append(theirs / ours)
    print(
        f"ds-focus, N=32: the scheme of the released code takes {' '.join(f'{x:.0f}' for x in ratios)}x our time"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("systems_file")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    main(given.systems_file, given.repeats)
