"""Trains a combination of metrics on lists whose candidates people have judged; see `metrics.combination`.

Features are the utilities of every candidate, each metric's computed once; see `features`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...metrics.combination import FORMAT, MAX_WIDTH, MIN_WIDTH
from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.logistic import intervals
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.storage.checksums import with_checksum
from ..lists import CandidateList
from .candidate_features import Against, features
from .pair_weights import Data, Learned, Tuning, gathered, held_out, learn
from .preference_sources import Preferences


def train_combination(
    metrics: Sequence[Utility],
    lists: Iterable[CandidateList],
    preferences: Preferences,
    tuning: Tuning | None = None,
    say: Callable[[str], None] = lambda text: None,
    cache: Cache | None = None,
) -> dict[str, Any]:
    """The model as JSON data with its checksum, ready to be written and named in ``combination(model=...)``.

    Raises:
        InputError: no preferences, fewer than two documents, a metric twice, a metric without what it needs.
    """
    tuning = tuning or Tuning()
    _check_once(metrics)
    all_lists = list(lists)
    records = [record for record in all_lists if not record.context_only]
    pairs = preferences.pairs(all_lists, tuning.margin, cache)
    if not any(pairs):
        raise InputError(
            "no pair of candidates of which one is better",
            where="preferences",
            fix="Lower the margin",
        )
    values = _metric_values(metrics, all_lists, tuning.against, cache)
    data = gathered(values, pairs, [record.document or record.id for record in records])
    documents = len(set(data.groups))
    say(
        f"{len(records)} lists, {len(data.values)} candidates, {len(data.groups)} pairs, {documents} documents"
    )
    learned = learn(data, tuning)
    model = {
        "format": FORMAT,
        "features": _feature_rows(metrics, learned, data, tuning),
        "against": tuning.against,
        "margin": tuning.margin,
        "penalty": learned.fitting.penalty,
        "toward": tuning.toward,
        "positive": tuning.positive,
        "penalties_tried": [penalty._asdict() for penalty in learned.tried],
        "lists": len(records),
        "pairs": len(data.groups),
        "documents": documents,
        "held_out": held_out(learned.differences, data.groups, learned.fitting),
    }
    return with_checksum(model)


def _metric_values(
    metrics: Sequence[Utility],
    lists: Sequence[CandidateList],
    against: Against,
    cache: Cache | None,
) -> list[FloatArray]:
    """The features [N, metrics] of every list; raises InputError for values that are not finite."""
    columns = [features(metric, lists, against, cache) for metric in metrics]
    for metric, column in zip(metrics, columns, strict=True):
        if not all(np.isfinite(values).all() for values in column):
            raise InputError(
                "values that are not finite",
                where=metric.signature(),
                fix="Leave it out",
            )
        _check_range(metric, column)
    return [np.stack(by_metric, axis=1) for by_metric in zip(*columns, strict=True)]


def _check_range(metric: Utility, column: Sequence[FloatArray]) -> None:
    """Raises InputError for values [N] per list whose range is too wide or too narrow to divide by."""
    low = min(float(values.min()) for values in column)
    high = max(float(values.max()) for values in column)
    if high > low and not MIN_WIDTH <= high - low <= MAX_WIDTH:
        problem = f"values from {low:g} to {high:g}, a range that cannot be computed with"
        raise InputError(problem, where=metric.signature(), fix="Leave it out, or scale it")


def _feature_rows(
    metrics: Sequence[Utility],
    learned: Learned,
    data: Data,
    tuning: Tuning,
) -> list[dict[str, Any]]:
    """The weight of every metric with its interval, and the range of its values, as JSON data."""
    varies = learned.differences.any(axis=0)
    ends = intervals(learned.differences, data.groups, learned.fitting, tuning.draws, tuning.seed)
    low, high = (np.where(varies, end / learned.units, 0) for end in ends)
    rows = []
    for i, metric in enumerate(metrics):
        row = {
            "metric": metric.signature(),
            "weight": float(learned.weights[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "min": float(learned.scale.low[i]),
            "max": float(learned.scale.high[i]),
        }
        rows.append(row)
    return rows


def _check_once(metrics: Sequence[Utility]) -> None:
    seen: set[str] = set()
    for metric in metrics:
        if metric.signature() in seen:
            raise InputError("stands twice", where=metric.signature(), fix="Name every metric once")
        seen.add(metric.signature())
