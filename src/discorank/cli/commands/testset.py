"""``discorank testset SET -m METRIC ...``: every output of a test set by metrics, written as mt-metrics-eval does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...integrations.formats.format_table import is_eval_set_folder
from ...integrations.formats.wmt.eval_set_folder import pairs_of, write_metric_scores
from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import settings
from ...rerank.selection.meta_evaluation.eval_set import EvalSet, MetricName, base_name
from ...tables import Table, decimals, metric_names, printed_rows, whole, words
from ..options import command, needed
from ..options.metric_options import MetricOptions
from ..options.system_outputs import EvalSetTexts, eval_set_at, reading_options, with_own_metrics
from ..terminal.console import say

SYSTEM_COLUMNS = (
    words("language pair", "language_pair"),
    words("system", "system"),
    metric_names("metric", "metric"),
    decimals("corpus", "corpus"),
    decimals("mean", "mean"),
    whole("segments", "segments"),
)


@settings
class TestSetOptions:
    """What is scored.

    Args:
        input: a folder of mt-metrics-eval, or a test set with outputs.
        input_format: of a test set: systems, wmt-xml, wmt-jsonl, sacrebleu, summeval.
        metric: metrics by name or signature.
        metric_scores: a folder for the scores in the form of mt-metrics-eval.
        format: what is printed for each system, text or json.
    """

    input: str | None = None
    input_format: str = "systems"
    metric: tuple[str, ...] = ()
    metric_scores: str | None = None
    format: Literal["text", "json"] = "text"


@command(
    "Score the outputs of a test set. The table goes to stdout.",
    positional={"input": "?"},
    short={"metric": "m"},
    first=["input", "metric", "input_format", "metric_scores", "language_pair", "format"],
    examples=[
        "testset examples:systems.jsonl -m chrf bleu",
        "testset examples:systems.jsonl -m chrf --format json",
        "testset examples:systems.jsonl -m chrf --language-pair de-en --metric-scores scores",
    ],
)
def testset(options: TestSetOptions, texts: EvalSetTexts, loading: MetricOptions) -> None:
    """Scores a test set."""
    path = needed(options.input, "input", "INPUT")
    metrics = loading.load_all(needed(options.metric, "metric"))
    is_folder = is_eval_set_folder(path)
    pairs: Sequence[str | None] = pairs_of(path, texts.language_pair) if is_folder else [None]
    if not is_folder and options.metric_scores and len(texts.language_pair) != 1:
        fix = "Scores are written under one, such as en-de"
        raise InputError("is missing", where="language_pair", fix=fix)
    # scores of others are not written: those with holes stop nothing
    reading = replace(reading_options(texts), missing="leave-out")
    rows: list[dict[str, Any]] = []
    for pair in pairs:
        eval_set = eval_set_at(path, Path(path).name, pair, reading, options.input_format)
        if pair is None and texts.language_pair:
            eval_set = replace(eval_set, language_pair=texts.language_pair[0])
        there = set(eval_set.metrics)
        scored = with_own_metrics(eval_set, metrics, loading.cache())
        own = [name for name in scored.metrics if name not in there or _is_own(name, metrics)]
        if options.metric_scores:
            written = write_metric_scores(scored, options.metric_scores, own)
            say(f"{len(written)} files in {options.metric_scores}")
        rows += _system_rows(scored, own)
    sys.stdout.write(printed_rows([Table("", SYSTEM_COLUMNS, rows)], options.format))


def _is_own(name: MetricName, metrics: Sequence[Utility]) -> bool:
    """Whether scores were there before under the name of a metric of ours, and have been replaced."""
    return name.base in {base_name(metric) for metric in metrics}


def _system_rows(eval_set: EvalSet, own: Sequence[MetricName]) -> list[dict[str, Any]]:
    """The scores of every system by every metric, the metric's own direction turned so that higher is better."""
    rows: list[dict[str, Any]] = []
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
