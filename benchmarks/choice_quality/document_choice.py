"""What meaning and context add to the choice: MBR with chrF, BERTScore, Doc-BERTScore and the cosine of sentence
embeddings on real outputs, judged by people.

    python -m benchmarks.choice_quality.document_choice SYSTEMS_FILE ... [--utilities chrf embedding]

Each file has several systems per document and human MQM scores (lower is better) under the key ``mqm``. Every segment
is decided, as context for the next ones; those whose every system is rated count. Doc-BERTScore decides a document from
left to right, in the context of what it chose. Intervals are by document bootstrap; a file of fewer than ten documents
counts blocks of ten segments instead. Seconds are of the whole decoding.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.support.resampling import groups_of
from discorank.integrations.formats.open_lists import open_lists
from discorank.rerank.mbr_decoder import MBRDecoder

UTILITIES = ("chrf", "bertscore", "doc-bertscore", "embedding")
COMPARED = (
    ("bertscore", "chrf"),
    ("doc-bertscore", "chrf"),
    ("doc-bertscore", "bertscore"),
    ("embedding", "chrf"),
)
RESAMPLES = 2000


def interval(values: np.ndarray[Any, Any], groups: list[str]) -> str:
    """Mean and 95 % interval."""
    names, which = np.unique(groups, return_inverse=True)
    sums, counts = np.bincount(which, values), np.bincount(which)
    draws = np.random.default_rng(0).integers(len(names), size=(RESAMPLES, len(names)))
    means = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{values.mean():7.3f}  [{low:7.3f}, {high:7.3f}]"


def report(path: str, utilities: Sequence[str]) -> None:
    """What each utility picks in a file."""
    with open_lists(path, "systems", human=["mqm:lower"]) as lists:
        records = [entry.record for entry in lists if entry.record is not None]
    rated = [
        i for i, record in enumerate(records) if all("mqm" in c.fields for c in record.candidates)
    ]
    mqm = np.array([[float(c.fields["mqm"]) for c in records[i].candidates] for i in rated])
    groups = groups_of([str(records[i].document) for i in rated])
    documents = len({records[i].document for i in rated})
    print(
        f"{Path(path).name}: {len(rated)} of {len(records)} segments, {documents} documents, {mqm.shape[1]} systems"
    )
    print(f"  {'random system':32} {interval(mqm.mean(axis=1), groups)}")
    mqm_of = {}
    for name in utilities:
        start = perf_counter()
        picks = [ranking.index for ranking in MBRDecoder(utility=name).decode(records)]
        seconds = perf_counter() - start
        mqm_of[name] = mqm[np.arange(len(rated)), [picks[i] for i in rated]]
        print(
            f"  {'MBR ' + name:32} {interval(mqm_of[name], groups)}  {seconds:6.0f} s", flush=True
        )
    for a, b in COMPARED:
        if a in mqm_of and b in mqm_of:
            print(f"  {a + ' - ' + b:32} {interval(mqm_of[a] - mqm_of[b], groups)}")
    print(f"  {'oracle':32} {interval(mqm.min(axis=1), groups)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--utilities", nargs="+", default=list(UTILITIES), choices=UTILITIES)
    options = parser.parse_args()
    for path in options.files:
        report(path, options.utilities)


if __name__ == "__main__":
    main()
