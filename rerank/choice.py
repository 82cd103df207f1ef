"""The choice: from a value of every candidate to the ranking of the list.

    h* = argmax_h value(h)
Everything within 1e-9 (relative) of the best is equally good and the lowest index wins. A value that is not finite
never wins, whatever its sign.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf, isfinite, isinf
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ..metrics.representations import FloatArray
from ..metrics.text.texts import NO_CONTEXT, Context, Text
from .distinct import Distinct
from .lists import NOTHING, Candidate, CandidateList, plain
from .shown_texts import SHOWN_PLACES, html_table, short_number, short_text
from .ties import TIE

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    TextT = TypeVar("TextT", bound=Text, default=Text, covariant=True)
else:  # without the default, which type checkers alone read
    from typing import TypeVar

    TextT = TypeVar("TextT", bound=Text, covariant=True)  # str where candidates are plain


class Spent(NamedTuple):
    """What was computed of a list's utility matrix under a budget, and what may be lost by that.

    Args:
        pairs: how many pairs were computed.
        of: how many there are.
        confidence: the probability that all of them would choose the same.
        at_least: what that is also of utilities of a kind that is not known.
        regret: the expected loss in expected utility by what was chosen.
        at_most: what that is also of utilities of a kind that is not known.
        spread: the standard deviation of the candidates' expected utilities, as estimated.
        computed: which pairs were, [distinct candidates, distinct pseudo-references].
        steps: what was known of the choice at every step of the plan, of rows of `computed`.
    """

    pairs: int
    of: int
    confidence: float
    at_least: float
    regret: float
    at_most: float
    spread: float
    computed: NDArray[np.bool_]
    steps: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        figures = {name: short_number(value) for name, value in self.as_json().items()}
        return f"Spent({', '.join(f'{name}={value}' for name, value in figures.items())})"

    @classmethod
    def everything(cls, values: FloatArray, pairs: int, computed: NDArray[np.bool_]) -> Spent:
        """All pairs were computed, so that the expected utilities [H] are known."""
        finite = values[np.isfinite(values)]
        spread = float(finite.std()) if len(finite) else np.nan
        return cls(pairs, pairs, 1.0, 1.0, 0.0, 0.0, spread, computed)

    def as_json(self) -> dict[str, Any]:
        """As it stands in a row."""
        return {
            "pairs": self.pairs,
            "of": self.of,
            "confidence": float(self.confidence),
            "at_least": float(self.at_least),
            "regret": float(self.regret),
            "at_most": float(self.at_most),
            "spread": float(self.spread),
        }


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a k-best list: a distinct text, how often it stands in the list, and its expected utility.

    `utility` is None where it is not a number.
    """

    index: int
    count: int
    utility: float | None
    text: Text

    def __repr__(self) -> str:
        return (
            f"Place(index={self.index}, count={self.count}, utility={short_number(self.utility)}, "
            f"text={short_text(self.text)})"
        )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranking(Generic[TextT]):
    """The decision for one list.

    It prints as its id, choice, expected utility and gap, and in a notebook as a table of its places.

    Args:
        id: the list's id.
        ranking: the places, best first, distinct texts.
        gap: how much better the first is than the second, None if there is one distinct text.
        candidates: the list's candidates.
        flags: what was done to the list that its reader should know of.
        extra: the list's other keys.
        matrix: utilities [distinct candidates, distinct pseudo-references], if asked for; under a budget, NaN for pairs
            that were not computed.
        budget: what was computed, if there was a budget.
        source, references: of the list.
        context: the sentences before, in which it was decided.
    """

    id: str
    ranking: tuple[Place, ...]
    gap: float | None
    candidates: tuple[Candidate, ...]
    flags: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    matrix: FloatArray | None = None
    budget: Spent | None = None
    source: Text | None = None
    references: tuple[Text, ...] = ()
    context: Context = NO_CONTEXT

    @property
    def index(self) -> int:
        """Index of the chosen candidate."""
        return self.ranking[0].index

    @property
    def text(self) -> TextT:
        """The chosen text."""
        return cast(TextT, self.ranking[0].text)

    @property
    def utility(self) -> float | None:
        """Expected utility of the chosen text."""
        return self.ranking[0].utility

    def to_dict(self) -> dict[str, Any]:
        """The row that a run writes of it, as values of JSON, with the list's other keys."""
        row: dict[str, Any] = {
            "id": self.id,
            "index": self.index,
            "text": plain(self.text),
            "utility": self.utility,
            "gap": self.gap,
            "ranking": [
                {"index": p.index, "count": p.count, "utility": p.utility} for p in self.ranking
            ],
        }
        if self.flags:
            row["flags"] = list(self.flags)
        if self.budget is not None:
            row["budget"] = self.budget.as_json()
        return {**row, **self.extra}

    def __repr__(self) -> str:
        flags = f", flags={self.flags}" if self.flags else ""
        return (
            f"Ranking(id={short_text(self.id)}, text={short_text(self.text)}, "
            f"utility={short_number(self.utility)}, gap={short_number(self.gap)}{flags})"
        )

    def _repr_html_(self) -> str:
        """The first places as a table, in a notebook."""
        rows = []
        for number, place in enumerate(self.ranking[:SHOWN_PLACES], start=1):
            utility = short_number(place.utility)
            rows.append([str(number), str(place.text), utility, str(place.count)])
        shown = f"{len(rows)} of {len(self.ranking)} places"
        caption = f"{self.id:.80}: {shown}" if len(rows) < len(self.ranking) else f"{self.id:.80}"
        return html_table(caption, ["place", "text", "expected utility", "times"], rows)


def choose(
    record: CandidateList,
    values: FloatArray,
    nbest: int | None,
    flags: Sequence[str] = (),
    matrix: FloatArray | None = None,
    distinct: Distinct | None = None,
    left_out: Collection[int] = (),
    *,
    budget: Spent | None = None,
    context: Context = NO_CONTEXT,
) -> Ranking:
    """The ranking of a list by the value of every candidate [N], higher is better; what is not finite stands last.

    `distinct` is that of the list's candidates, where it is at hand; `left_out` are numbers of its texts that get no
    place.
    """
    distinct = distinct or Distinct(record.candidates)
    number = distinct.of.tolist()
    counts = np.bincount(distinct.of).tolist()
    places: list[Place] = []
    placed = set(left_out)
    wanted = len(distinct) if nbest is None else nbest
    for index in in_order(values):
        text = number[index]
        if text in placed:
            continue
        placed.add(text)
        value = float(values[index])
        places.append(
            Place(index, counts[text], value if isfinite(value) else None, distinct.texts[text])
        )
        if len(places) >= max(2, wanted):
            break
    if len(distinct) - len(left_out) > 1:
        if places[0].utility is None:
            flags = (*flags, "no-utility")
        elif "not-finite" not in flags and not _are_finite(values, distinct, left_out):
            flags = (*flags, "not-finite")
    gap = None
    if len(places) > 1 and places[0].utility is not None and places[1].utility is not None:
        gap = max(0.0, places[0].utility - places[1].utility)
    return Ranking(
        record.id,
        tuple(places[:wanted]),
        gap,
        record.candidates,
        tuple(flags),
        record.extra,
        matrix,
        budget,
        record.source,
        record.references,
        context,
    )


def _are_finite(values: FloatArray, distinct: Distinct, left_out: Collection[int]) -> bool:
    """Whether every candidate that may get a place has a finite value."""
    is_finite = np.isfinite(values)
    if is_finite.all():
        return True
    texts = distinct.of[~is_finite].tolist()
    return all(text in left_out for text in texts)


def in_order(expected: FloatArray) -> Iterator[int]:
    """All indices, best value first; of those within TIE of the best that is left, the lowest index.

    Behind them stands what is not finite: -inf, then NaN and +inf, which are no values of anything.
    """
    values: list[float] = expected.tolist()
    usable = [i for i, value in enumerate(values) if value < inf]
    # stable: of equal ones the lowest index is first
    order = sorted(usable, key=values.__getitem__, reverse=True)
    taken: set[int] = set()
    window: list[int] = []  # heap of indices as good as the best that is left
    best = ahead = 0
    while len(taken) < len(order):
        while order[best] in taken:
            best += 1
        top = values[order[best]]
        limit = top if isinf(top) else top - TIE * abs(top)
        while ahead < len(order) and values[order[ahead]] >= limit:
            heappush(window, order[ahead])
            ahead += 1
        index = heappop(window)
        taken.add(index)
        yield index
    yield from (i for i, value in enumerate(values) if not value < inf)
