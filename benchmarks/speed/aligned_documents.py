"""Aligned utilities of whole documents against a double loop over pairs of documents with POT, CPU seconds in one run.

    python -m benchmarks.speed.aligned_documents SYSTEMS_FILE --peer-python PATH [--sentences 8 16] [--systems 8]
        [--documents 5]

Two loops over pairs of documents take chrF of their sentences and let POT (`ot.emd2`, `ot.sinkhorn`), in an
environment of its own, make the plan of that pair: one asks sacrebleu for each two sentences (timed on some of them);
the other asks our own ``pairwise`` for all sentences of the pair. Ours is one call per list. Ratios: of both loops to
ours, and of the plans alone, ours made of given matrices. The difference is the largest of any value. Monotone
alignment, which POT has not, is timed beside them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from benchmarks.support.measuring import timed
from benchmarks.support.peers.process import Peer
from discorank import Document, Metric, load_metric
from discorank.metrics.execution.document_folds import values_of_documents
from discorank.metrics.execution.document_units import units_of
from discorank.metrics.execution.unit_values import MatrixValues
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Item

ENTROPY = 0.05
SAMPLED_PAIRS = 300
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


def sacrebleu_seconds(lists: list[list[Document]]) -> float:
    """CPU seconds of chrF of all sentences of all pairs, from those of some."""
    sentences = [text for texts in lists for document in texts for text in document.sentences]
    drawn = np.random.default_rng(0).choice(sentences, (SAMPLED_PAIRS, 2))
    metric = CHRF()
    seconds, _ = timed(lambda: [metric.sentence_score(h, [r]) for h, r in drawn.tolist()])
    num_pairs = sum(sum(len(document.sentences) for document in texts) ** 2 for texts in lists)
    return seconds / SAMPLED_PAIRS * num_pairs


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
    options = parser.parse_args()
    plain: Any = load_metric("chrf")
    peer = Peer(options.peer_python, "benchmarks.support.peers.transport")
    few = [[[[1.0, 0.0], [0.0, 1.0]], [0.5, 0.5], [0.5, 0.5]]]
    peer("exact", pairs=few)  # loads POT
    print(
        f"{'form':10} {'sentences':>9} {'pairs':>6} {'sacrebleu s':>11} {'pairwise s':>10} {'POT s':>7} {'ours s':>7}"
        f" {'plans s':>8} {'sacrebleu':>9} {'pairwise':>8} {'plans':>7} {'difference':>10}"
    )
    for num_sentences in options.sentences:
        lists = lists_of(options.file, num_sentences, options.systems, options.documents)
        loop_seconds, pairs = timed(partial(loop, plain, lists))
        library_seconds = sacrebleu_seconds(lists)
        for form, settings in FORMS.items():
            metric: Any = load_metric("chrf", **settings)
            whole(metric, lists[:1])
            own, u = timed(partial(whole, metric, lists), repeats=2)
            plans = plans_alone(metric, lists)
            head = f"{form:10} {num_sentences:9} {len(pairs):6} {library_seconds:11.1f} {loop_seconds:10.2f}"
            if form == "monotone":
                print(f"{head} {'-':>7} {own:7.3f} {plans:8.3f}", flush=True)
                continue
            more = {"entropy": ENTROPY} if form == "entropic" else {}
            theirs = peer(form, pairs=pairs, **more)
            difference = np.abs(np.concatenate([m.ravel() for m in u]) - theirs.value).max()
            to_library = (library_seconds + theirs.cpu_seconds) / own
            to_pairwise = (loop_seconds + theirs.cpu_seconds) / own
            print(
                f"{head} {theirs.cpu_seconds:7.2f} {own:7.3f} {plans:8.3f} {to_library:8.0f}x {to_pairwise:7.1f}x"
                f" {theirs.cpu_seconds / plans:6.1f}x {difference:10.1e}",
                flush=True,
            )
    peer.close()


if __name__ == "__main__":
    main()
