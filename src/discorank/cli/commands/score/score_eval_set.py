"""``discorank score`` of a test set: every output by metrics, written in the form of mt-metrics-eval."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ....integrations.formats.mtme.eval_set_folder import (
    is_eval_set_folder,
    pairs_of,
    write_metric_scores,
)
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....rerank.runs.rows import as_line
from ....rerank.selection.meta_evaluation.eval_set import EvalSet, MetricName, base_name
from ....tables import aligned
from ...options import needed
from ...options.inputs import check_model, metric_in
from ...options.system_outputs import eval_set_at, with_own_metrics
from ...terminal.console import say

Row = dict[str, Any]


def is_test_set(values: Mapping[str, Any]) -> bool:
    """Whether the input of ``score`` is a test set rather than segments."""
    path = values["input"]
    return values["input_format"] != "segments" or bool(path and is_eval_set_folder(path))


def run_eval_set(values: Mapping[str, Any]) -> int:
    """Scores a test set; returns the exit code."""
    path = needed(values, "input", "INPUT")
    metrics = [metric_in(values, spec) for spec in needed(values, "metric", "--metric")]
    check_model(values, metrics)
    if values["output"]:
        raise InputError("is of segments", where="--output", fix="Name a folder: --metric-scores")
    is_folder = is_eval_set_folder(path)
    pairs: Sequence[str | None] = pairs_of(path, values["language_pair"]) if is_folder else [None]
    if not is_folder and values["metric_scores"] and len(values["language_pair"]) != 1:
        raise InputError(
            "is missing", where="--language-pair", fix="Scores are written under one, such as en-de"
        )
    rows: list[Row] = []
    for pair in pairs:
        rows += _scored(path, pair, metrics, values)
    text = "".join(as_line(row).decode() for row in rows)
    sys.stdout.write(_table(rows) if values["format"] == "text" else text)
    return 0


def _scored(
    path: str, pair: str | None, metrics: Sequence[Utility], values: Mapping[str, Any]
) -> list[Row]:
    """One language pair: writes its scores, and returns those of its systems."""
    # scores of others are not written: those with holes stop nothing
    reading = {**values, "missing": "leave-out"}
    if pair is None:
        reading["input_format"] = _form(values)
    eval_set = eval_set_at(path, Path(path).name, pair, reading)
    if pair is None and values["language_pair"]:
        eval_set = replace(eval_set, language_pair=values["language_pair"][0])
    there = set(eval_set.metrics)
    scored = with_own_metrics(eval_set, metrics, values)
    own = [name for name in scored.metrics if name not in there or _is_own(name, metrics)]
    if values["metric_scores"]:
        written = write_metric_scores(scored, values["metric_scores"], own)
        say(f"{len(written)} files in {values['metric_scores']}", values["quiet"])
    return _rows(scored, own)


def _form(values: Mapping[str, Any]) -> str:
    form = values["input_format"]
    return "systems" if form == "segments" else form


def _is_own(name: MetricName, metrics: Sequence[Utility]) -> bool:
    """Whether scores were there before under the name of a metric of ours, and have been replaced."""
    return name.base in {base_name(metric) for metric in metrics}


def _rows(eval_set: EvalSet, own: Sequence[MetricName]) -> list[Row]:
    """The scores of every system by every metric, the metric's own direction turned so that higher is better."""
    rows: list[Row] = []
    for name in own:
        by_system = eval_set.metric_scores[name, "sys"]
        by_segment = eval_set.metric_scores.get((name, "seg"), {})
        for system, score in by_system.items():
            segments = by_segment.get(system)
            rows.append(
                {
                    "language_pair": eval_set.language_pair,
                    "system": system,
                    "metric": str(name),
                    "corpus": float(score[0]),
                    "mean": None if segments is None else float(np.mean(segments)),
                    "segments": len(eval_set.sources),
                }
            )
    return rows


def _table(rows: Sequence[Row]) -> str:
    head = ["language pair", "system", "metric", "corpus", "mean", "segments"]
    cells = [head]
    for row in rows:
        mean = "-" if row["mean"] is None else f"{row['mean']:.4f}"
        names = [row["language_pair"], row["system"], row["metric"]]
        cells.append([*names, f"{row['corpus']:.4f}", mean, str(row["segments"])])
    return aligned(cells) + "\n"
