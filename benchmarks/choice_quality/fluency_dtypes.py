"""Whether bfloat16 will do for fluency beside consensus: its values and choices beside those of float32.

    python -m benchmarks.choice_quality.fluency_dtypes FOLDER --work WORK [--sets NAME ...] [--segments N]
        [--reading chosen-2] [--models ENGLISH OTHERS]

Printed for the first N judged segments of a set: the mean of Spearman's correlation within lists, the largest
difference of a value, and at every weight how many choices differ, with the MQM of both. Values are kept in WORK,
beside those of `fluency`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.choice_quality.fluency import (
    MODELS,
    WEIGHTS,
    language_model,
    mqm_chosen,
    picks_of,
)
from benchmarks.support.judged_segments import JudgedSegments
from benchmarks.support.kept_values import KeptValues
from benchmarks.support.mqm_lists import SETS
from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.correlation import spearman

DTYPES = ("bfloat16", "float32")


def compared(data: JudgedSegments, low: Sequence[FloatArray], high: Sequence[FloatArray]) -> str:
    """A line on the values of two dtypes."""
    ranks = [spearman(a.tolist(), b.tolist()) for a, b in zip(low, high, strict=True)]
    mean = float(np.mean([rank for rank in ranks if rank is not None]))
    largest = max(float(np.abs(a - b).max()) for a, b in zip(low, high, strict=True))
    changed = (picks_of(data, low) != picks_of(data, high)).sum(axis=0)  # [weights]
    means = [mqm_chosen(data, own).mean(axis=0) for own in (low, high)]
    cells = [
        f"w = {weight:g}: {n} changed, MQM {a:.3f} and {b:.3f}"
        for weight, n, a, b in zip(WEIGHTS, changed, *means, strict=True)
        if weight
    ]
    lists = f"{data.name}, {len(low)} lists: Spearman {mean:.3f}, largest difference {largest:.3f}"
    return "; ".join([lists, *cells])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=["ted.zh-en", "ted.en-de"], choices=SETS)
    parser.add_argument("--segments", type=int, default=30)
    parser.add_argument("--reading", default="chosen-2")
    parser.add_argument("--models", nargs=2, default=list(MODELS), metavar=("ENGLISH", "OTHERS"))
    options = parser.parse_args()
    kept = KeptValues(options.work)
    context = int(options.reading.partition("-")[2] or 0)
    for name in options.sets:
        data = JudgedSegments(options.folder / f"mt_mqm_{name}.jsonl.gz", options.segments)
        texts, model = data.texts(options.reading), options.models[0 if data.is_english else 1]
        columns = []
        for dtype in DTYPES:
            values = kept.values(language_model(model, context, dtype), texts, f"{name} {dtype}")
            columns.append([own for own in values if own is not None])
        print(compared(data, *columns), flush=True)


if __name__ == "__main__":
    main()
