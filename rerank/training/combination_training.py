"""Trains a combination of metrics on lists whose candidates people have judged; see `metrics.combination`.

Features are the utilities of every candidate, each metric's computed once: against the human references, or against the
list's pseudo-references as in MBR decoding; a reference-free metric needs neither. Context is that of the later use:
the sentences before in the references (in `score`), or the first candidates of the lists before (as strategy
"one-best").

Weights are learned from pairs of candidates of which one is better (`metrics.logistic`). From scores: every pair of
candidates of one list whose scores differ by more than a margin. From rankings: a judgement is a ranking of some
candidates of one list, best rank first; each gives votes for its pairs, ties none, and a pair counts once, for whom
more votes were given; equal votes cancel. Or by the scores of a teacher metric.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np

from ...metrics.base import Metric
from ...metrics.combination import FORMAT, MAX_WIDTH, MIN_WIDTH, finite
from ...metrics.errors import InputError, unknown
from ...metrics.execution import segment_scores
from ...metrics.execution.cache import Cache
from ...metrics.execution.store import Store
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
from ...metrics.mixture import Utility, added
from ...metrics.representations import FloatArray
from ...metrics.spec.checked_settings import Field, settings
from ...metrics.storage.checksums import with_checksum
from ...metrics.text.texts import Comparison, Document, Text
from ..engines.local import LocalEngine
from ..lists import CandidateList
from ..mbr import MBRDecoder
from ..order import follows
from ..selection.system_scores import Rankings, check_distinct, check_rankings

BATCH = 256  # lists that are scored at once, and the rest of the last document
Against = Literal["references", "candidates"]
Name = TypeVar("Name", bound=Hashable)


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
    check_distinct(metrics)
    all_lists = list(lists)
    records = [record for record in all_lists if not record.context_only]
    pairs = preferences.pairs(all_lists, tuning.margin, cache)
    if not any(pairs):
        problem = "no pair of candidates of which one is better"
        raise InputError(problem, where="preferences", fix="Lower the margin")
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
    """The features [N, metrics] of every list; errors as `features` and `_check_range`."""
    columns = [features(metric, lists, against, cache) for metric in metrics]
    for metric, column in zip(metrics, columns, strict=True):
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
    columns = (learned.weights, low, high, learned.scale.low, learned.scale.high)
    names = ("weight", "low", "high", "min", "max")
    rows = np.stack(columns, axis=1).tolist()
    return [
        {"metric": metric.signature(), **dict(zip(names, row, strict=True))}
        for metric, row in zip(metrics, rows, strict=True)
    ]


def gathered(
    values: Sequence[FloatArray],
    pairs: Sequence[Sequence[tuple[int, int]]],
    groups: Sequence[str],
) -> Data:
    """Training data from the features [N, metrics], the (better, worse) indices and the document of every list."""
    starts = np.cumsum([0, *map(len, values[:-1])]).tolist()
    rows = [
        (start + a, start + b, document)
        for start, own, document in zip(starts, pairs, groups, strict=True)
        for a, b in own
    ]
    better, worse, documents = map(list, zip(*rows, strict=True))
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


def features(
    metric: Utility,
    lists: Sequence[CandidateList],
    against: Against,
    cache: Cache | None = None,
) -> list[FloatArray]:
    """The utility of every candidate, [N] per list; lists that only lend context have none.

    Raises:
        InputError: a list has no references or no document where they are needed, or the documents are not in order.
        MetricError: a candidate has no finite utility; names the list.
    """
    utilities = [np.zeros(len(record.candidates)) for record in lists if not record.context_only]
    if metric.reads.context:
        _check_documents(lists)
    for weight, part in metric.parts:
        if part.info.needs_references and against == "references":
            rows = _scores(part, lists, cache)
        else:
            rows = _expectations(part, lists, cache)
        where = metric.signature()
        utilities = [
            added(total, weight, row, where) for total, row in zip(utilities, rows, strict=True)
        ]
    return utilities


def _check_documents(lists: Sequence[CandidateList]) -> None:
    """Raises InputError for a list without a document."""
    for record in lists:
        are_documents = all(isinstance(one.text, Document) for one in record.candidates)
        if record.document is None and not are_documents:
            problem = "no document, but a metric reads context"
            fix = "Name the document of every list, or train with context=0"
            raise InputError(problem, where=f"list {record.id}", fix=fix)


def _expectations(
    part: Metric,
    lists: Sequence[CandidateList],
    cache: Cache | None,
) -> Iterator[FloatArray]:
    """Expected utilities [N] of every list, as an MBR decoder computes them."""
    strategy: Literal["one-best", "auto"] = "one-best" if part.reads.context else "auto"
    decoder = MBRDecoder(utility=part, nbest=None, strategy=strategy)
    for ranking in decoder.decode(lists, LocalEngine(cache)):
        utility: dict[Text, float] = {}
        for ranked in ranking.ranking:
            utility[ranked.text] = np.nan if ranked.utility is None else ranked.utility
        values = np.array([utility[candidate.text] for candidate in ranking.candidates])
        names = [f"list {ranking.id!r:.80}, candidates[{k}]" for k in range(len(values))]
        segment_scores.check_scores(part.signature(), values, names)
        yield values


def _scores(
    part: Metric,
    lists: Sequence[CandidateList],
    cache: Cache | None,
) -> Iterator[FloatArray]:
    """Scores [N] of every list against the human references, as utilities."""
    scored = [record for record in lists if record.references or not record.context_only]
    for record in scored:
        if not record.references:
            fix = 'Set against="candidates", or give some'
            raise InputError("no references", where=f"list {record.id}", fix=fix)
    if part.reads_source:
        names = [f"list {record.id!r:.80}: source" for record in scored]
        part.check_sources([record.source for record in scored], names)
    documents = _stretches(scored)
    start = 0
    while start < len(scored):
        # whole documents, from BATCH lists on
        stop = min(start + BATCH, len(scored))
        while stop < len(scored) and documents[stop] == documents[stop - 1]:
            stop += 1
        yield from _batch(part, scored[start:stop], documents[start:stop], cache)
        start = stop


def _batch(
    part: Metric,
    lists: Sequence[CandidateList],
    documents: Sequence[str],
    cache: Cache | None,
) -> Iterator[FloatArray]:
    """Scores of the lists of some documents: the k-th candidates of all lists are scored as one system's texts."""
    if part.reads.context and part.reads.context_from == "hypothesis":
        _check_systems(lists, documents)
    references = [list(record.references) for record in lists]
    sources = [record.source for record in lists]
    max_candidates = max(len(record.candidates) for record in lists)
    segments: list[Comparison] = []
    indices: list[tuple[int, int]] = []  # (list, candidate) of every segment
    for k in range(max_candidates):
        # of a list with fewer candidates the last
        texts = [record.candidates[: k + 1][-1].text for record in lists]
        comparisons = part.segments(texts, references, sources, documents)
        for i, record in enumerate(lists):
            if k < len(record.candidates) and not record.context_only:
                segments.append(comparisons[i])
                indices.append((i, k))
    values = np.zeros((len(lists), max_candidates))
    scores = segment_scores.scores(part, segments, Store(part.scorer, cache))
    names = [f"list {lists[i].id!r:.80}, candidates[{k}]" for i, k in indices]
    segment_scores.check_scores(part.signature(), scores, names)
    for index, score in zip(indices, scores, strict=True):
        values[index] = score
    for record, row in zip(lists, values, strict=True):
        if not record.context_only:
            yield part.utility_sign * row[: len(record.candidates)]


def _stretches(lists: Sequence[CandidateList]) -> list[str]:
    """A name for every list, shared with the one before if it continues that one."""
    is_new = [True, *(not _continues(own, before) for before, own in pairwise(lists))]
    return [str(number) for number in np.cumsum(is_new[: len(lists)])]


def _continues(record: CandidateList, before: CandidateList) -> bool:
    """Whether a list stands right after another in one document; by position where both have one."""
    if record.document is None or record.document != before.document:
        return False
    return follows(before.position, record.position)


def _check_systems(lists: Sequence[CandidateList], documents: Sequence[str]) -> None:
    """Raises InputError if a document's lists are of different systems, so that no candidate has a text before it."""
    systems = [[one.fields.get("system") for one in record.candidates] for record in lists]
    for i in range(1, len(lists)):
        if documents[i] == documents[i - 1] and systems[i] != systems[i - 1]:
            raise InputError(
                "other systems than the list before, but a metric reads hypotheses in their own context",
                where=f"list {lists[i].id}",
                fix='Give the same systems in the same order, or set context_from="reference" in the metric',
            )


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
        """(better, worse) indices of the candidates of every list; lists that only lend context have none.

        Raises:
            InputError: nothing is given, a ranking is of no list or names an unknown system, no candidate has the
                score, a score is no number, a margin stands beside rankings, or a teacher has no references.
        """
        decided = [record for record in lists if not record.context_only]
        if self.rankings is not None:
            if margin:
                fix = "Leave the margin out: ranks have no distance"
                problem = f"margin {margin:g} beside rankings"
                raise InputError(problem, where="preferences", fix=fix)
            index_of = {
                record.id: {one.fields.get("system"): i for i, one in enumerate(record.candidates)}
                for record in decided
            }
            names = {id: [*map(str, own)] for id, own in index_of.items()}
            check_rankings(self.rankings, names)
            return [
                [(own[a], own[b]) for a, b in by_rankings(self.rankings.get(id, ()))]
                for id, own in index_of.items()
            ]
        if self.teacher is not None:
            values = features(self.teacher, lists, "references", cache)
            return [by_scores(scores.tolist(), margin) for scores in values]
        if self.field is None:
            fix = "Give human scores, rankings or a teacher"
            raise InputError("no preferences", where="human", fix=fix)
        scored = _scores_of(decided, self.field)
        return [by_scores(scores, margin, self.lower) for scores in scored]


def by_scores(
    scores: Sequence[float | None],
    margin: float = 0.0,
    lower: bool = False,
) -> list[tuple[int, int]]:
    """(better, worse) indices of the candidates of a list; candidates without a score are in no pair.

    >>> by_scores([3.0, None, 1.0, 1.2], margin=0.5)
    [(0, 2), (0, 3)]
    """
    sign = -1 if lower else 1
    known = [(i, sign * score) for i, score in enumerate(scores) if score is not None]
    pairs = []
    for (i, a), (j, b) in combinations(known, 2):
        if abs(a - b) > margin:
            pairs.append((i, j) if a > b else (j, i))
    return pairs


def by_rankings(rankings: Iterable[Mapping[Name, float]]) -> list[tuple[Name, Name]]:
    """(better, worse) of rankings, rank 1 is best, in the order in which pairs are first ranked.

    >>> by_rankings([{"A": 1, "B": 2, "C": 1}, {"B": 1, "C": 2}])
    [('A', 'B')]
    """
    votes: dict[tuple[Name, Name], int] = {}
    for ranks in rankings:
        for (a, rank), (b, other) in combinations(ranks.items(), 2):
            if rank != other:
                better, worse = (a, b) if rank < other else (b, a)
                is_known = (worse, better) in votes
                pair = (worse, better) if is_known else (better, worse)
                votes[pair] = votes.get(pair, 0) + (-1 if is_known else 1)
    return [(a, b) if majority > 0 else (b, a) for (a, b), majority in votes.items() if majority]


def _scores_of(lists: Sequence[CandidateList], name: str) -> list[list[float | None]]:
    """A score of every candidate, None where it has none."""
    known = {field for record in lists for one in record.candidates for field in one.fields}
    if lists and name not in known:
        raise unknown("score", name, known, where="preferences")
    return [
        [
            _number(candidate.fields.get(name), f"list {record.id}, candidates[{i}].{name}")
            for i, candidate in enumerate(record.candidates)
        ]
        for record in lists
    ]


def _number(value: Any, where: str) -> float | None:
    """A score as a finite number, None where there is none."""
    return None if value is None else finite(value, where, "Write it as 1.5")
