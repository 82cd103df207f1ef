"""Aligned utilities of whole documents against a double loop over pairs of documents with POT, CPU seconds in one run.

    python -m benchmarks.speed.aligned_documents SYSTEMS_FILE --peer-python PATH [--sentences 8 16] [--systems 8]
        [--documents 5] [--metric chrf]

The loop asks the same metric for the sentences of one pair of documents at a time (``pairwise``), as a user of a metric
would write it, and POT (`ot.emd2`, `ot.sinkhorn`), in an environment of its own, for the plan of that pair. Ours is one
call per list. Both ratios are printed: of the whole, and of the plans alone, which ours are made of given matrices. The
difference is the largest of any value. Monotone alignment, which POT has not, is timed beside them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks.support.measuring import timed
from benchmarks.support.peers.process import Peer
from discorank import Document, Metric, load_metric
from discorank.metrics.execution.document_folds import values_of_documents
from discorank.metrics.execution.document_units import units_of
from discorank.metrics.execution.unit_values import MatrixValues
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Item

ENTROPY = 0.05
FORMS: dict[str, dict[str, Any]] = {
    "exact": {"align": "transport"},
    "entropic": {"align": "transport", "align_entropy": ENTROPY},
    "monotone": {"align": "monotone"},
}


def lists_of(path: str, num_sentences: int, systems: int, count: int) -> list[list[Document]]:
    """The first documents of a systems file, cut into pieces that differ in length between systems."""
    lists = []
    with gzip.open(path, "rt") as file:
        for line in file:
            row = json.loads(line)
            outputs = list(row["systems"].values())[:systems]
            for start in range(0, len(row["source"]) - num_sentences - 2, num_sentences + 2):
                texts = []
                for i, sentences in enumerate(outputs):
                    texts.append(Document(sentences[start : start + num_sentences + i % 3]))
                lists.append(texts)
    return lists[:count]


def loop(metric: Metric, lists: list[list[Document]]) -> list[Any]:
    """The sentences' utilities and masses of every pair, pair by pair."""
    pairs = []
    for texts in lists:
        for h, r in product(texts, texts):
            utilities = metric.pairwise(h.sentences, r.sentences)
            pairs.append((utilities.tolist(), masses(h), masses(r)))
    return pairs


def masses(document: Document) -> list[float]:
    """The numbers of letters."""
    return [float(len("".join(text.split()))) for text in document.sentences]


def whole(metric: Metric, lists: list[list[Document]]) -> list[FloatArray]:
    """Ours."""
    return [metric.pairwise(texts, texts) for texts in lists]


def plans_alone(metric: Metric, lists: list[list[Document]]) -> float:
    """CPU seconds from matrices of sentences to those of documents."""
    seconds = 0.0
    for texts in lists:
        units = units_of([Item(text) for text in texts], 0, metric.documents.longest, True)
        sentences = [str(item.text) for item in units.items]
        values = MatrixValues(type(metric)().pairwise(sentences, sentences), units, units)
        seconds += timed(partial(values_of_documents, metric.documents, values, units, units))[0]
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--sentences", nargs="+", type=int, default=[8, 16, 32])
    parser.add_argument("--systems", type=int, default=8)
    parser.add_argument("--documents", type=int, default=5)
    parser.add_argument("--metric", default="chrf")
    options = parser.parse_args()
    plain: Any = load_metric(options.metric)
    peer = Peer(options.peer_python, "benchmarks.support.peers.transport")
    few = [[[[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5], [0.5, 0.5]]]
    peer("exact", pairs=few)  # loads POT
    print(
        f"{'form':10} {'sentences':>9} {'pairs':>6} {'loop s':>8} {'POT s':>8} {'ours s':>8} {'plans s':>8}"
        f" {'whole':>7} {'plans':>7} {'difference':>10}"
    )
    for num_sentences in options.sentences:
        lists = lists_of(options.file, num_sentences, options.systems, options.documents)
        loop_seconds, pairs = timed(partial(loop, plain, lists))
        for form, settings in FORMS.items():
            metric: Any = load_metric(options.metric, **settings)
            whole(metric, lists[:1])
            own, u = timed(partial(whole, metric, lists), repeats=2)
            plans = plans_alone(metric, lists)
            head = f"{form:10} {num_sentences:9} {len(pairs):6} {loop_seconds:8.2f}"
            if form == "monotone":
                print(f"{head} {'-':>8} {own:8.3f} {plans:8.3f}", flush=True)
                continue
            more = {"entropy": ENTROPY} if form == "entropic" else {}
            theirs = peer(form, pairs=pairs, **more)
            difference = np.abs(np.concatenate([m.ravel() for m in u]) - theirs.value).max()
            ratio = (loop_seconds + theirs.cpu_seconds) / own
            print(
                f"{head} {theirs.cpu_seconds:8.2f} {own:8.3f} {plans:8.3f} {ratio:6.1f}x"
                f" {theirs.cpu_seconds / plans:6.1f}x {difference:10.1e}",
                flush=True,
            )
    peer.close()


if __name__ == "__main__":
    main()
