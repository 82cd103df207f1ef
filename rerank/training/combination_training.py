"""Trains a combination of metrics on lists whose candidates people have judged; see `metrics.combination`.

Features are the utilities of every candidate, each metric's computed once; weights are learned from pairs of candidates
of which one is better (`metrics.logistic`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from ...metrics.combination import FORMAT, MAX_WIDTH, MIN_WIDTH
from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.logistic import (
    Fitting,
    Scale,
    Tried,
    choose_penalty,
    fit,
    folds,
    intervals,
    loss,
    units,
)
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.checksums import with_checksum
from ..lists import CandidateList
from .candidate_features import Against, features
from .preferences import Preferences


@settings
class Tuning:
    """How a combination is trained.

    Args:
        against: what metrics compare candidates with: the human references, or the other candidates, as MBR does.
        margin: a pair counts where scores differ by more.
        penalty: of the squared weights; chosen by cross-validation over documents if not given.
        toward: what the penalty draws weights to: "mean", that all metrics count alike where they differ, or "zero",
            as in the papers.
        positive: whether no metric may count against a candidate; metrics agree so much that free weights cancel.
        draws: resamples of documents for the intervals of the weights.
        seed: of these draws.
    """

    against: Against = "references"
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    penalty: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    toward: Literal["mean", "zero"] = "mean"
    positive: bool = True
    draws: Annotated[int, Field(ge=10)] = 200
    seed: int = 0


class Data(NamedTuple):
    """Features of all candidates, and the pairs among them."""

    values: FloatArray  # [candidates, metrics]
    better: list[int]  # row of the better candidate of every pair
    worse: list[int]
    groups: list[str]  # document of every pair


class Learned(NamedTuple):
    """The outcome of training."""

    scale: Scale
    units: FloatArray  # of the differences, in scaled features, [metrics]
    differences: FloatArray  # of the scaled features in these units, [pairs, metrics]
    fitting: Fitting
    tried: list[Tried]  # penalties, where one was to be chosen
    weights: FloatArray  # of the scaled features

    def score(self, values: FloatArray) -> FloatArray:
        """The combination of features [..., metrics]."""
        return np.asarray(self.scale.scaled(values) @ self.weights)


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


def _check_once(metrics: Sequence[Utility]) -> None:
    seen: set[str] = set()
    for metric in metrics:
        if metric.signature() in seen:
            raise InputError("stands twice", where=metric.signature(), fix="Name every metric once")
        seen.add(metric.signature())


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


def gathered(
    values: Sequence[FloatArray],
    pairs: Sequence[Sequence[tuple[int, int]]],
    groups: Sequence[str],
) -> Data:
    """Training data from the features [N, metrics], the (better, worse) indices and the document of every list."""
    better: list[int] = []
    worse: list[int] = []
    documents: list[str] = []
    start = 0
    for list_values, list_pairs, document in zip(values, pairs, groups, strict=True):
        for a, b in list_pairs:
            better.append(start + a)
            worse.append(start + b)
            documents.append(document)
        start += len(list_values)
    return Data(np.concatenate(values), better, worse, documents)


def learn(data: Data, tuning: Tuning) -> Learned:
    """The weights of some data; errors as `folds`."""
    scale = Scale.of(data.values)
    scaled = scale.scaled(data.values)
    differences = scaled[data.better] - scaled[data.worse]
    centred = tuning.toward == "mean"
    unit = units(differences) if centred else np.ones(differences.shape[1])
    differences = differences / unit
    penalty = tuning.penalty
    tried: list[Tried] = []
    if penalty is None:
        penalty, tried = choose_penalty(differences, data.groups, tuning.positive, centred)
    fitting = Fitting(penalty, tuning.positive, centred)
    varies = differences.any(axis=0)
    weights = np.where(varies, fit(differences, fitting) / unit, 0)
    return Learned(scale, unit, differences, fitting, tried, weights)


def held_out(differences: FloatArray, groups: Sequence[str], fitting: Fitting) -> dict[str, float]:
    """Cross-validated share of pairs put right and mean loss; and that share for the single feature that is best on
    the pairs not held out, chosen anew in every fold. A tie is half right.
    """
    fold = folds(groups)
    right = 0.0
    right_of_single = 0.0
    total_loss = 0.0
    for number in range(int(fold.max()) + 1):
        rest = differences[fold != number]
        held = differences[fold == number]
        weights = fit(rest, fitting)
        best = int(_right(rest).mean(axis=0).argmax())
        right += float(_right(held @ weights).sum())
        right_of_single += float(_right(held[:, best]).sum())
        total_loss += float(loss(weights, held).sum())
    return {
        "accuracy": right / len(groups),
        "loss": total_loss / len(groups),
        "best_single_accuracy": right_of_single / len(groups),
    }


def _right(margins: FloatArray) -> FloatArray:
    """1 where the better one is ahead, 1/2 at a tie, else 0; of the shape given."""
    return np.asarray((margins > 0) + 0.5 * (margins == 0))
