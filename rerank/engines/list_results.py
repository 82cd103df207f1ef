"""The result of a list: from the values of the parts of its utility, or from what went wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...metrics.errors import DiscorankError, MetricError
from ...metrics.text.texts import Truncation
from .finite_pairs import pairs_error, pairs_flags
from .interface import Result, Task
from .part_values import Expectation

TRUNCATION_FLAGS: Mapping[Truncation, tuple[str, ...]] = {
    Truncation.NONE: (),
    Truncation.CONTEXT: ("truncated-context",),
    Truncation.TEXT: ("truncated-text",),
}


def result_of(
    task: Task, parts: Iterable[Expectation], truncation: Truncation = Truncation.NONE
) -> Result | DiscorankError:
    """The result of a list from the expectations of its parts and the worst truncation of its texts.

    A list in which a part has no finite pair has an error instead; one in which a part has some that are not has a
    flag.
    """
    parts = list(parts)
    counts = [part.pairs for part in parts]
    # where only some pairs are asked for, others may be finite
    error = None if task.whole else pairs_error(task.metric, counts)
    if error is not None:
        return error
    values = np.array([part.values for part in parts])
    matrices = tuple(part.matrix for part in parts if part.matrix is not None)
    flags = (*TRUNCATION_FLAGS[truncation], *pairs_flags(task.metric, counts))
    return Result(values, matrices if task.keep_matrix else (), flags)


def problem_of(task: Task, error: BaseException) -> DiscorankError:
    """The error of a list, as its result."""
    if isinstance(error, DiscorankError):
        return error
    problem = MetricError(f"{type(error).__name__}: {error}", where=task.metric.signature())
    problem.__cause__ = error
    return problem
