"""What windows of sentences cost, and how far they choose as whole texts do, where these fit the model.

    python -m benchmarks.metric_quality.window_agreement SYSTEMS_FILE ... [--metrics embedding bertscore]
        [--documents 12] [--sentences 8]

Each file has texts of several systems: translations of documents, of which the first segments are taken, or summaries,
which are split into sentences. Of every document that the model reads whole, all candidates are compared with each
other: as joined texts, by sentence, and in windows of 2, 3 and 4, overlapping by half and not at all. Printed per
setting: tokens read and CPU seconds, both relative to joined texts; Kendall's tau-b of expected utilities with those of
joined texts, averaged over documents; how often the choice is the same; and the share of the expected utility above a
random candidate's that the choice keeps, by joined texts.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.judged_sets import read_set
from discorank import Document, load_metric
from discorank.metrics.base import Metric
from discorank.metrics.errors import TruncationWarning
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.meter import Meter
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.sentence_splitting import splitter
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.selection.correlation import tau_b
from discorank.rerank.selection.document_outputs import DocumentOutputs

WINDOWS = ((2, 1), (2, 2), (3, 1), (3, 3), (4, 2), (4, 4))


class WindowValues(NamedTuple):
    """What one setting says of one document."""

    utilities: FloatArray  # expected, [candidates]
    tokens: int
    seconds: float


def candidates_of(document: DocumentOutputs, most: int) -> list[Document]:
    """The distinct texts of all systems, as sentences."""
    split = splitter("rule")
    texts = []
    for segments in document.systems.values():
        sentences = split(segments[0]) if len(segments) == 1 else segments[:most]
        texts.append(Document([s for s in sentences if s.strip()] or [""]))
    return list(dict.fromkeys(texts))


def expected(metric: Metric, texts: Sequence[Document] | Sequence[str]) -> WindowValues:
    """The mean utility of every text against all."""
    meter = Meter()
    begun = process_time()
    store = Store(metric.scorer, meter=meter)
    comparison = metric.comparison(texts, texts, None, NO_CONTEXT)
    (matrix,) = matrices(metric, [comparison], store)
    seconds = process_time() - begun
    return WindowValues(matrix.mean(axis=1), int(store.lengths.sum()), seconds)


def is_read_whole(metric: Metric, texts: Sequence[str]) -> bool:
    """Whether the model reads all of every text."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", TruncationWarning)
        try:
            metric.pairwise(texts[:1], texts)
        except TruncationWarning:
            return False
    return True


def loaded(name: str, **settings: Any) -> Metric:
    """A single metric."""
    metric = load_metric(name, **settings)
    if not isinstance(metric, Metric):
        raise SystemExit(f"{name} is a sum, expected one metric")
    return metric


def settings_of(name: str) -> dict[str, Metric]:
    """The metric by sentence and in windows, by what the table calls them."""
    settings = {"by sentence": loaded(f"windows({name},size=1)")}
    for windows, stride in WINDOWS:
        shown = f"size={windows},stride={stride}"
        settings[shown] = loaded(f"windows({name},{shown})")
    return settings


def row(name: str, values: Sequence[WindowValues], whole: Sequence[WindowValues]) -> str:
    """A row of the table."""
    tokens = sum(f.tokens for f in values) / sum(w.tokens for w in whole)
    seconds = sum(f.seconds for f in values) / sum(w.seconds for w in whole)
    pairs = [(f.utilities, w.utilities) for f, w in zip(values, whole, strict=True)]
    taus = [tau_b(u.tolist(), v.tolist()) for u, v in pairs]
    same = np.mean([u.argmax() == v.argmax() for u, v in pairs])
    kept = np.mean([(v[u.argmax()] - v.mean()) / (v.max() - v.mean()) for u, v in pairs])
    tau = np.mean([t for t in taus if t is not None])
    return f"| {name} | {tokens:.2f} | {seconds:.2f} | {tau:.3f} | {same:.2f} | {kept:.2f} |"


def report(path: Path, name: str, documents: int, sentences: int) -> None:
    """The table of a file and a metric."""
    plain = loaded(name)
    lists = []
    for document in islice(read_set(path).documents, 4 * documents):
        texts = candidates_of(document, sentences)
        several = len(texts) > 2 and min(len(text.sentences) for text in texts) > 1
        if several and is_read_whole(plain, [str(text) for text in texts]):
            lists.append(texts)
    lists = lists[:documents]
    counts = [len(text.sentences) for texts in lists for text in texts]
    print(
        f"\n{path.name}, {name}: {len(lists)} documents, {len(counts) / len(lists):.1f} candidates of "
        f"{np.mean(counts):.1f} sentences"
    )
    print("| | tokens | CPU seconds | tau | same choice | kept |\n|---|---|---|---|---|---|")
    whole = [expected(plain, [str(text) for text in texts]) for texts in lists]
    for shown, metric in settings_of(name).items():
        values = [expected(metric, texts) for texts in lists]
        print(row(shown, values, whole), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--metrics", nargs="+", default=["embedding", "bertscore"])
    parser.add_argument("--documents", type=int, default=12)
    parser.add_argument("--sentences", type=int, default=8)
    options = parser.parse_args()
    for path in options.files:
        for name in options.metrics:
            report(path, name, options.documents, options.sentences)


if __name__ == "__main__":
    main()
