"""Means over several sets: how far metrics agree with people, and what choosers gain, each set counting once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .agreement import SegmentAgreement, SystemAgreement
from .choosers import ChooserComparison
from .comparison import SystemComparison

_COUNTS = frozenset({"systems", "segments"})  # added up
_UNAVERAGED = frozenset({"epsilon"})  # means nothing on the scale of another set


class MeanAgreement(NamedTuple):
    """A metric against a dimension of human scores; means where a set has the number, and sums of counts."""

    metric: str
    human: str
    sets: int
    systems: SystemAgreement
    segments: SegmentAgreement


class MeanChoice(NamedTuple):
    """What a chooser chose under a dimension of human scores, in the direction where more is better."""

    chooser: str
    human: str
    sets: int
    regret: float
    gain_over_best: float
    gain_over_random: float
    oracle_reached: float


def mean_agreements(comparisons: Sequence[SystemComparison]) -> list[MeanAgreement]:
    """One for every metric and dimension, in order of appearance."""
    sets: dict[tuple[str, str], list[tuple[SystemAgreement, SegmentAgreement]]] = {}
    for comparison in comparisons:
        for meta in comparison.meta:
            rows = zip(comparison.scored, meta.systems, meta.segments, strict=True)
            for scored, systems, segments in rows:
                key = (scored.name, meta.human.name)
                sets.setdefault(key, []).append((systems, segments))
    means = []
    for (metric, human), agreements in sets.items():
        of_systems = _means([systems._asdict() for systems, _ in agreements])
        of_segments = _means([segments._asdict() for _, segments in agreements])
        means.append(
            MeanAgreement(
                metric,
                human,
                len(agreements),
                SystemAgreement(**of_systems),
                SegmentAgreement(**of_segments),
            )
        )
    return means


def _means(rows: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    """The mean or sum of every column."""
    return {name: _mean_or_sum(name, [row[name] for row in rows]) for name in rows[0]}


def _mean_or_sum(name: str, values: Iterable[float | None]) -> float | None:
    """The mean of the numbers there are, None where there is none; counts are added up."""
    known = [value for value in values if value is not None]
    if name in _COUNTS:
        return sum(known)
    if name in _UNAVERAGED or not known:
        return None
    return sum(known) / len(known)


def mean_choices(comparisons: Sequence[ChooserComparison]) -> list[MeanChoice]:
    """One for every chooser and dimension, in order of appearance."""
    sets: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for comparison in comparisons:
        for judged in comparison.judged:
            rows = zip(
                judged.names,
                judged.regrets(),
                judged.gains("best single system"),
                judged.gains("random system"),
                judged.reached.tolist(),
                strict=True,
            )
            for name, regret, over_best, over_random, reached in rows:
                row = (regret.gain, over_best.gain, over_random.gain, reached)
                sets.setdefault((name, judged.dimension), []).append(row)
    means = []
    for (name, dimension), set_rows in sets.items():
        columns = zip(*set_rows, strict=True)
        mean_row = [sum(column) / len(set_rows) for column in columns]
        means.append(MeanChoice(name, dimension, len(set_rows), *mean_row))
    return means
