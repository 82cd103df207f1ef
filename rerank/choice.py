"""Weights, expected utility, and the choice: the whole of minimum Bayes risk decoding once utilities are known.

    choose argmax_h sum_r w(r) u(h, r)
It never knows which metric it serves. Everything within 1e-9 (relative) of the best is equally good and the lowest
index wins; NaN never wins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import isfinite, isinf
from typing import Any

import numpy as np

from ..metrics.errors import InputError, excerpt
from ..metrics.representations import FloatArray, IntArray
from ..metrics.text.texts import Text
from .lists import NOTHING, Candidate, CandidateList

TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a k-best list: a distinct text, how often it stands in the list, and its expected utility.

    `utility` is None where it is not a number.
    """

    index: int
    count: int
    utility: float | None
    text: Text


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """The decision for one list.

    Args:
        id: the list's id.
        ranking: the places, best first, distinct texts.
        gap: how much better the first is than the second, None if there is one distinct text.
        candidates: the list's candidates.
        flags: what was done to the list that its reader should know of.
        extra: the list's other keys.
        matrix: utilities [distinct candidates, distinct pseudo-references], if asked for.
    """

    id: str
    ranking: tuple[Place, ...]
    gap: float | None
    candidates: tuple[Candidate, ...]
    flags: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    matrix: FloatArray | None = None

    @property
    def index(self) -> int:
        """Index of the chosen candidate."""
        return self.ranking[0].index

    @property
    def text(self) -> Text:
        """The chosen text."""
        return self.ranking[0].text

    @property
    def utility(self) -> float | None:
        """Expected utility of the chosen text."""
        return self.ranking[0].utility


class Distinct:
    """The distinct texts of some candidates, in order of first appearance."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        number: dict[Text, int] = {}
        first: list[int] = []
        of: list[int] = []
        for i, candidate in enumerate(candidates):
            at = number.setdefault(candidate.text, len(number))
            if at == len(first):
                first.append(i)
            of.append(at)
        self.of: IntArray = np.array(of, np.int64)  # [N] number of each candidate's text
        self.texts: tuple[Text, ...] = tuple(number)
        self.first: IntArray = np.array(first, np.int64)  # [D] index of the first copy

    def __len__(self) -> int:
        return len(self.texts)

    def pooled(self, weights: FloatArray) -> FloatArray:
        """Summed weights of each text's copies, [D]."""
        return np.asarray(np.bincount(self.of, weights, minlength=len(self)), np.float64)


def candidate_weights(
    candidates: Sequence[Candidate], how: str, temperature: float, where: str
) -> FloatArray:
    """The weight of every candidate as a pseudo-reference, [N].

    "uniform": 1 each. "logprob": exp(logprob / temperature), once per distinct (text, logprob), so that a list of
    samples is not counted twice. "field:NAME": that field of the candidate.

    Raises:
        InputError: a candidate lacks the number, it is negative, or all weights are 0.
    """
    if how == "uniform":
        return np.ones(len(candidates))
    weights = (
        _logprob_weights(candidates, temperature, where)
        if how == "logprob"
        else _field(candidates, how, where)
    )
    if not weights.sum() > 0:
        raise InputError(f"all {how} weights are 0", where=where, fix='Use weights="uniform"')
    return weights


def _logprob_weights(candidates: Sequence[Candidate], temperature: float, where: str) -> FloatArray:
    for i, candidate in enumerate(candidates):
        if candidate.logprob is None:
            raise InputError(
                "no logprob", where=f"{where}[{i}]", fix='Give it, or use weights="uniform"'
            )
    values = np.array([candidate.logprob for candidate in candidates])
    seen: set[tuple[Text, float | None]] = set()
    new = np.ones(len(candidates), bool)
    for i, candidate in enumerate(candidates):
        pair = (candidate.text, candidate.logprob)
        new[i] = pair not in seen
        seen.add(pair)
    best = values.max()
    scaled = (
        values - best if isfinite(best) else np.where(values == best, -np.inf, values)
    ) / temperature
    return np.where(new, np.exp(scaled), 0.0)


def _field(candidates: Sequence[Candidate], how: str, where: str) -> FloatArray:
    name = how.removeprefix("field:")
    values = [
        number_field(candidate, name, f"{where}[{i}]") for i, candidate in enumerate(candidates)
    ]
    if min(values) < 0:
        at = int(np.argmin(values))
        raise InputError(
            f"weight {values[at]} is negative",
            where=f"{where}[{at}].{name}",
            fix="Weights are >= 0",
        )
    return np.array(values)


def number_field(candidate: Candidate, name: str, where: str) -> float:
    """A candidate's field as a finite number; InputError if it is missing or none."""
    value = candidate.fields.get(name)
    number = finite(value)
    if number is None:
        found = "nothing" if name not in candidate.fields else excerpt(value)
        raise InputError(f"found {found}, expected a finite number", where=f"{where}.{name}")
    return number


def finite(value: object) -> float | None:
    """A value as a finite float; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def expected_utility(
    u: FloatArray, weights: FloatArray, own: FloatArray | None = None
) -> FloatArray:
    """Expectations [H] of utilities [H, R] under weights [R] of any positive scale.

    With `own` [H], the matrix is square and that much of a row's own column is left out, u(i, i) counting
    ``weights[i] - own[i]``; where nothing remains the expectation is NaN. Each row is summed in an order that depends
    on R alone.
    """
    total = weights.sum()
    counting = weights > 0  # what weighs nothing does not count, whatever it is
    with np.errstate(invalid="ignore"):
        weighted = np.multiply(np.where(counting, u, 0.0), weights, order="C")
        if own is None:
            return np.asarray(weighted.sum(axis=1) / total)
        rest = weights - own
        np.fill_diagonal(weighted, np.where(rest > 0, np.diagonal(u), 0.0) * rest)
    return without_own(weighted.sum(axis=1), total - own, total)


def without_own(sums: FloatArray, rest: FloatArray, total: float) -> FloatArray:
    """Means [H] of weighted sums over what is left of the weights beside a row's own copy; NaN where nothing is."""
    left = rest > TIE * total
    return np.where(left, sums / np.where(left, rest, 1.0), np.nan)


def choose(
    record: CandidateList,
    values: FloatArray,
    nbest: int | None,
    flags: Sequence[str] = (),
    matrix: FloatArray | None = None,
    distinct: Distinct | None = None,
    left_out: Collection[int] = (),
) -> Ranking:
    """The ranking of a list by the value of every candidate [N], higher is better; -inf and NaN stand last.

    `distinct` is that of the list's candidates, where it is at hand; `left_out` are numbers of its texts that get no
    place.
    """
    distinct = distinct or Distinct(record.candidates)
    counts = np.bincount(distinct.of).tolist()
    number = distinct.of.tolist()
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
    if places[0].utility is None and len(distinct) - len(left_out) > 1:
        flags = (*flags, "no-utility")
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
    )


def in_order(expected: FloatArray) -> Iterator[int]:
    """All indices, best value first; of those within TIE of the best that is left, the lowest index; NaN last."""
    missing = np.isnan(expected)
    usable = np.flatnonzero(~missing)
    order: list[int] = usable[np.argsort(-expected[usable], kind="stable")].tolist()
    values: list[float] = expected.tolist()
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
    yield from np.flatnonzero(missing).tolist()
