"""Fluency beside consensus: what is chosen when a language model may say which candidate reads well in its context.

    python -m benchmarks.choice_quality.fluency FOLDER --work WORK [--sets NAME ...] [--segments N [SET=N ...]]
        [--skip N [SET=N ...]] [--models ENGLISH OTHERS] [--readings NAME ...] [--dtype bfloat16] [--only-kept]
        [--output TABLES.md]

FOLDER holds mt_mqm_* systems files with MQM (lower is better). Chosen is

    argmax_h  z(consensus(h)) + w z(lm(h)),

consensus the expected utility `chrf + 100*rouge-l`, lm the mean log-probability per token, the line's end included,
under SmolLM2 (into English) or Gemma 3 270M (out of English), z standardised within the list. A reading says what the
model reads before a candidate: `alone` nothing, `chosen-k` the k sentences before that consensus chose, `first-k` those
of the first system, `reference-k` those of the human reference. Printed is the MQM of what is chosen relative to that
of a random candidate, and the paired difference from consensus, with 95 % intervals by document (sets of fewer than
ten: by blocks of ten segments); and the weight that the other sets would choose for each. `--segments N` takes the
first N judged segments of a set, `SET=N` of one; `--skip N` leaves out the first N of these. Values are kept in WORK: a
run that was stopped goes on, `--only-kept` prints the readings that are complete.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.choice_quality.fluency_tables import Chosen, markdown
from benchmarks.support.judged_segments import JudgedSegments, limits_of
from benchmarks.support.kept_values import KeptValues
from benchmarks.support.mqm_lists import SETS
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.representations import FloatArray, IntArray
from discorank.rerank.choice import in_order
from discorank.rerank.normalization import normalized

WEIGHTS = (0.0, 0.125, 0.25, 0.375, 0.5, 0.75)
READINGS = ("alone", "chosen-2", "first-2", "chosen-1", "chosen-3", "chosen-4")
MODELS = ("smollm2", "gemma3-270m")  # into English, out of English


def language_model(model: str, context: int, dtype: str) -> Metric:
    """The metric of a reading with so many sentences of context."""
    metric: Any = load_metric("lm", model=model, context=context, dtype=dtype)
    return metric  # type: ignore[no-any-return]


def picks_of(data: JudgedSegments, values: Sequence[FloatArray]) -> IntArray:
    """Which candidate is chosen with values of a language model at every weight, [segments, weights]."""
    rows = []
    for i, own in zip(data.rated, values, strict=True):
        consensus, fluency = (normalized(v, "zscore") for v in (data.consensus[i], own))
        rows.append([next(in_order(consensus + weight * fluency)) for weight in WEIGHTS])
    return np.array(rows)


def mqm_chosen(data: JudgedSegments, values: Sequence[FloatArray]) -> FloatArray:
    """MQM of what is chosen, [segments, weights]."""
    picks = picks_of(data, values)
    rows = [mqm[own] for mqm, own in zip(data.mqm, picks, strict=True)]
    return np.array(rows)


def if_complete(
    data: JudgedSegments, kept: KeptValues, reading: str, model: str, dtype: str
) -> Iterator[Chosen]:
    """What is chosen in a set under a reading, if its values are complete."""
    random = np.array([mqm.mean() for mqm in data.mqm])
    width = int(reading.partition("-")[2] or 0)
    metric = language_model(model, width, dtype)
    values = kept.values(metric, data.texts(reading), f"{data.name} {reading}")
    known = [own for own in values if own is not None]
    if len(known) == len(values):
        mqm = mqm_chosen(data, known)
        yield Chosen(data.name, reading, mqm, random, data.groups, len(set(data.documents)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--segments", nargs="+", default=[], metavar="N or SET=N")
    parser.add_argument("--skip", nargs="+", default=[], metavar="N or SET=N")
    parser.add_argument("--models", nargs=2, default=list(MODELS), metavar=("ENGLISH", "OTHERS"))
    parser.add_argument("--readings", nargs="+", default=list(READINGS))
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--only-kept", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    kept = KeptValues(options.work, options.only_kept)
    of_any, of_named = limits_of(options.segments)
    skipped_of_any, skipped = limits_of(options.skip)
    sets = [
        JudgedSegments(
            options.folder / f"mt_mqm_{name}.jsonl.gz",
            of_named.get(name, of_any),
            skipped.get(name, skipped_of_any or 0),
        )
        for name in options.sets
    ]
    chosen: list[Chosen] = []
    for reading in options.readings:
        for data in sets:
            model = options.models[0 if data.is_english else 1]
            chosen += if_complete(data, kept, reading, model, options.dtype)
    tables = markdown(chosen, WEIGHTS)
    if options.output:
        options.output.write_text(tables, encoding="utf-8")
    else:
        print(tables)


if __name__ == "__main__":
    main()
