"""Means over several sets: how far metrics agree with people, and what choosers gain, each set counting once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .agreement import SegmentAgreement, SystemAgreement
from .choosers import ChooserComparison
from .comparison import SystemComparison

_COUNTS = frozenset({"systems", "segments"})  # added up
_OWN = frozenset({"epsilon"})  # mean nothing beside another metric's scale


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


def mean_agreements(several: Sequence[SystemComparison]) -> list[MeanAgreement]:
    """One for every metric and dimension, in order of appearance."""
    found: dict[tuple[str, str], list[tuple[SystemAgreement, SegmentAgreement]]] = {}
    for comparison in several:
        for one in comparison.meta:
            for scored, systems, segments in zip(
                comparison.scored, one.systems, one.segments, strict=True
            ):
                found.setdefault((scored.name, one.human.name), []).append((systems, segments))
    return [
        MeanAgreement(
            metric,
            human,
            len(sets),
            SystemAgreement(**_means([systems._asdict() for systems, _ in sets])),
            SegmentAgreement(**_means([segments._asdict() for _, segments in sets])),
        )
        for (metric, human), sets in found.items()
    ]


def _means(rows: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    return {name: _together(name, [row[name] for row in rows]) for name in rows[0]}


def _together(name: str, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if name in _COUNTS:
        return sum(known)
    return None if name in _OWN or not known else sum(known) / len(known)


def mean_choices(several: Sequence[ChooserComparison]) -> list[MeanChoice]:
    """One for every chooser and dimension, in order of appearance."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for comparison in several:
        for one in comparison.judged:
            columns = (one.regrets(), one.gains("best single system"), one.gains("random system"))
            for name, *gains, reached in zip(
                one.names, *columns, one.reached.tolist(), strict=True
            ):
                row = (*(gain.gain for gain in gains), reached)
                found.setdefault((name, one.dimension), []).append(row)
    return [
        MeanChoice(
            *key, len(rows), *(sum(column) / len(rows) for column in zip(*rows, strict=True))
        )
        for key, rows in found.items()
    ]
