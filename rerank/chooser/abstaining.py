"""Which lists of a run go to people: the share of them whose chosen texts are expected to have the most errors.

Which these are shows when all are decided. So the lists are decided once for the threshold, and again to be written;
the threshold stands in the run file, and a run that goes on keeps it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from math import floor, inf, nextafter
from typing import Any

import numpy as np

from ...metrics.representations import FloatArray
from ..choice import Ranking
from ..decider import Decider
from ..engines.interface import Engine
from ..lists import CandidateList
from ..scheduler import Outcome


@dataclass(frozen=True, slots=True)
class Abstention:
    """The lists that are flagged.

    Args:
        share: of the lists of the run, as it was asked for.
        above: more expected errors than this, in sigma, make a list one of them.
    """

    share: float
    above: float

    def as_json(self) -> dict[str, float]:
        """What a run file has."""
        return asdict(self)


def threshold(errors: FloatArray, share: float) -> float:
    """What the given share of some values, to the nearest whole number, lies above; fewer do where values are equal.

    >>> threshold(np.array([3.0, 1.0, 2.0, 5.0, 4.0]), 0.4)
    3.0
    """
    count = floor(share * len(errors) + 0.5)
    descending = np.sort(errors)[::-1]
    if not len(errors):
        return 0.0
    if count == len(errors):
        return nextafter(float(descending[-1]), -inf)
    return float(descending[count])


def abstention(
    decider: Decider,
    expected_error: Callable[[CandidateList, Ranking], float | None],
    records: Iterable[tuple[Any, Any]],
    engine: Engine,
    share: float,
    note: Callable[[Any, Outcome], None] = lambda tag, outcome: None,
) -> Abstention:
    """Which lists to flag, found by deciding all of them.

    Lists without an expected error, such as those of which nothing can be chosen, have no part in the share.

    Args:
        decider: decides them, every place ranked.
        expected_error: of a list and its decision, in sigma.
        records: (tag, list) of every list, errors where there is none.
        engine: has loaded the decider's metrics.
        share: of the lists.
        note: called with (tag, outcome) of every list.
    """
    errors = array("d")
    tagged = (((tag, record), record) for tag, record in records)
    for (tag, record), outcome in decider.outcomes(tagged, engine):
        note(tag, outcome)
        if isinstance(outcome, Ranking) and isinstance(record, CandidateList):
            error = expected_error(record, outcome)
            errors.extend([] if error is None else [error])
    return Abstention(share, threshold(np.array(errors), share))
