"""Scores of texts as tasks of an engine: each is valued with others and alone at fault.

A score is that of `Metric.score`, to the last bit, but as a utility: what is a distance in its paper (TER, MetricX) is
negated, so that higher is better. A text without a score (an error of the metric, a number that is not finite) has an
error in its place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...metrics.errors import DiscorankError, InputError, MetricError
from ...metrics.mixture import Mix, Utility, added
from ...metrics.text.texts import Text
from .interface import Engine, Result, Task

ScoreOutcome = float | DiscorankError


def check_scores_alone(utility: Utility) -> None:
    """Raises InputError for a utility whose scores depend on a corpus that it waits for."""
    for _, part in utility.parts:
        if part.unfitted:
            problem = "waits for a corpus, so that a text's score would depend on those beside it"
            fix = "Give the state that it learns as a setting, or another metric"
            raise InputError(problem, where=part.name, fix=fix)


def needs_references(utility: Utility) -> bool:
    """Whether hypotheses are compared with references."""
    return any(part.info.needs_references for weight, part in utility.parts)


def score_tasks(
    utility: Utility,
    hypotheses: Sequence[Text],
    references: Sequence[Text | Sequence[Text]] | None = None,
    sources: Sequence[Text | None] | None = None,
    documents: Sequence[str] | None = None,
) -> list[Task]:
    """A task for every hypothesis, [n]; arguments as `Metric.score`.

    Raises:
        InputError: lengths that disagree, something missing, a list where a text belongs.
    """
    columns = [
        part.segments(hypotheses, references, sources, documents) for _, part in utility.parts
    ]
    one = np.ones(1)
    return [
        Task("score", utility, comparisons, one, together=True)
        for comparisons in zip(*columns, strict=True)
    ]


def score_of(utility: Utility, outcome: Result | DiscorankError) -> ScoreOutcome:
    """The score of a text from the outcome of its task."""
    if isinstance(outcome, DiscorankError):
        return outcome
    parts = outcome.values[:, 0]
    if not isinstance(utility, Mix):
        return float(utility.utility_sign * parts[0])
    total = np.zeros(())
    try:
        for (weight, part), value in zip(utility.parts, parts, strict=True):
            total = added(total, weight * part.utility_sign, value, utility.signature())
    except DiscorankError as error:
        return error
    if not np.isfinite(total):
        return MetricError("the sum is no finite number", where=utility.signature())
    return float(total)


def outcomes_of(engine: Engine, tasks: Sequence[Task]) -> list[Result | DiscorankError]:
    """The outcome of every task; equal ones are valued once.

    Raises:
        ResourceError: what a metric needs is gone, such as its server.
    """
    distinct, numbers = distinct_tasks(tasks)
    for number, task in enumerate(distinct):
        engine.submit(number, task)
    outcomes: dict[int, Result | DiscorankError] = {}
    try:
        while len(outcomes) < len(distinct):
            outcomes.update(engine.collect())
    finally:
        engine.forget(set(range(len(distinct))) - outcomes.keys())
    return [outcomes[number] for number in numbers]


def distinct_tasks(tasks: Sequence[Task]) -> tuple[list[Task], list[int]]:
    """The distinct ones of tasks of one utility, and which of them each task is, [n]."""
    first: dict[object, int] = {}
    distinct: list[Task] = []
    numbers = []
    for task in tasks:
        number = first.setdefault(task.comparisons, len(distinct))
        if number == len(distinct):
            distinct.append(task)
        numbers.append(number)
    return distinct, numbers
