"""Trains a combination of metrics on lists whose candidates people have judged; see `metrics.combination`.

Features are the utilities of every candidate, each metric's computed once; see `features`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from ...metrics.combination import FORMAT, MAX_WIDTH, MIN_WIDTH, finite
from ...metrics.errors import InputError, excerpt, unknown
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
from ...metrics.spec.checked_settings import settings
from ...metrics.spec.checksums import with_checksum
from ...metrics.spec.small_files import check_json_size
from ..lists import CandidateList
from .candidate_features import Against, features
from .preferences import by_scores, by_votes, verdicts

Rankings = Mapping[str, Sequence[Mapping[str, float]]]


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


@dataclass(frozen=True, slots=True)
class Preferences:
    """Where preferences come from: a score of every candidate, rankings by list and system, or a teacher metric."""

    field: str | None = None
    lower: bool = False
    rankings: Rankings | None = None
    teacher: Utility | None = None

    def pairs(
        self,
        lists: Sequence[CandidateList],
        margin: float,
        cache: Cache | None = None,
    ) -> list[list[tuple[int, int]]]:
        """(better, worse) places of the candidates of every list; lists that only lend context have none.

        Raises:
            InputError: nothing is given, a ranking is of no list or names an unknown system, no candidate has the
                score, a score is no number, a margin stands beside rankings, or a teacher has no references.
        """
        decided = [record for record in lists if not record.context_only]
        if self.rankings is not None:
            _check_rankings(self.rankings, decided, margin)
            return [_ranked(record, self.rankings.get(record.id, ())) for record in decided]
        if self.teacher is not None:
            values = features(self.teacher, lists, "references", cache)
            return [by_scores(scores.tolist(), margin) for scores in values]
        if self.field is None:
            raise InputError(
                "no preferences",
                where="human",
                fix="Give human scores, rankings or a teacher",
            )
        scored = _scored(decided, self.field)
        return [by_scores(scores, margin, self.lower) for scores in scored]


def _scored(lists: Sequence[CandidateList], name: str) -> list[list[float | None]]:
    """A score of every candidate, None where it has none."""
    known = {
        field for record in lists for candidate in record.candidates for field in candidate.fields
    }
    if lists and name not in known:
        raise unknown("score", name, known, where="preferences")
    return [_list_scores(record, name) for record in lists]


def _list_scores(record: CandidateList, name: str) -> list[float | None]:
    """The scores of one list."""
    scores = []
    for i, candidate in enumerate(record.candidates):
        where = f"list {record.id}, candidates[{i}].{name}"
        scores.append(_number(candidate.fields.get(name), where))
    return scores


def _number(value: Any, where: str) -> float | None:
    """A score as a finite number, None where there is none."""
    if value is None:
        return None
    try:
        return finite(value)
    except ValueError:
        problem = f"found {excerpt(value)}, expected a number"
        raise InputError(problem, where=where, fix="Write it as 1.5") from None


def _check_rankings(rankings: Rankings, lists: Sequence[CandidateList], margin: float) -> None:
    """Raises InputError for a margin beside rankings, or a ranking of no list."""
    if margin:
        fix = "Leave the margin out: ranks have no distance"
        raise InputError(f"margin {margin:g} beside rankings", where="preferences", fix=fix)
    missing = rankings.keys() - {record.id for record in lists}
    if missing:
        fix = "There are no lists"
        if lists:
            fix = f"Expected the id of a list, such as {lists[0].id!r}"
        raise InputError(f"{min(missing)!r} is no list", where="rankings", fix=fix)


def _ranked(
    record: CandidateList, rankings: Sequence[Mapping[str, float]]
) -> list[tuple[int, int]]:
    """(better, worse) places of a list's candidates, from rankings of their systems."""
    places = {candidate.fields.get("system"): i for i, candidate in enumerate(record.candidates)}
    votes: list[tuple[str, str, str]] = []
    for ranks in rankings:
        missing = ranks.keys() - places.keys()
        if missing:
            raise InputError(
                f"ranks {min(missing)!r}, which is no system",
                where=f"rankings of {record.id}",
                fix=f"Its systems: {', '.join(map(str, places))}",
            )
        votes += verdicts(ranks)
    return [(places[better], places[worse]) for better, worse in by_votes(votes)]


def read_rankings(lines: Iterable[tuple[str, str]]) -> Rankings:
    """Rankings from JSON lines ``{"id": "d7:3", "ranks": {"A": 1, "B": 2}}`` with their places; rank 1 is best.

    Raises:
        InputError: a line is not of this form.
    """
    rankings: dict[str, list[dict[str, float]]] = {}
    for where, line in lines:
        try:
            check_json_size(line.encode("utf-8", "surrogatepass"))
            value = json.loads(line)
            ranks = {str(name): finite(rank) for name, rank in value["ranks"].items()}
            rankings.setdefault(str(value["id"]), []).append(ranks)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if isinstance(error, InputError) and "json_values" in error.fix:
                raise error.inside(where) from None
            raise InputError(
                f"found {excerpt(line)}",
                where=where,
                fix='{"id": "d7:3", "ranks": {"A": 1}}',
            ) from None
    return rankings


class Data(NamedTuple):
    """Features of all candidates, and the pairs among them."""

    values: FloatArray  # [candidates, metrics]
    better: list[int]  # row of the better candidate of every pair
    worse: list[int]
    groups: list[str]  # document of every pair


def gathered(
    values: Sequence[FloatArray],
    pairs: Sequence[Sequence[tuple[int, int]]],
    groups: Sequence[str],
) -> Data:
    """Training data from the features [N, metrics], the (better, worse) places and the document of every list."""
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
