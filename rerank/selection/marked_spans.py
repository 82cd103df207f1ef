"""Spans of errors in texts, marked by people or by metrics, and how far two markings agree.

Characters, as the span task of WMT25 counts them: a span of a severity covers its characters once, two spans twice;
m and n are how often a marking covers a character with a major (or critical) and with a minor error.

    credit = min(m, m') + min(n, n') + 1/2 min(rest, rest'),   rest = max(0, m - m') + max(0, n - n')
    precision = sum credit / sum of (m' + n'),   recall = sum credit / sum of (m + n)

over all texts together; a share of nothing is 1. Spans without a severity of these three, of missing text and in the
source cover nothing. Error-free detection: of the texts in which people mark nothing, how many a metric leaves
unmarked (recall), and of those it leaves unmarked, how many people do (precision); F1 of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray

MAJOR, MINOR = frozenset({"major", "critical"}), frozenset({"minor"})
OTHER_SEVERITY = 0.5  # the credit for a character under another severity


class RatedSpan(NamedTuple):
    """Characters of a text from `start` to before `end`; both None where text is missing.

    `in_source`: characters of the source instead.
    """

    start: int | None
    end: int | None
    severity: str | None
    category: str | None = None
    in_source: bool = False


def f1_of(precision: float, recall: float) -> float:
    """The harmonic mean; 0 of zeros."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


class CharacterCounts(NamedTuple):
    """Characters of texts that are marked, and the credit for those marked alike."""

    credit: float
    gold: float
    predicted: float

    def __add__(self, other: object) -> CharacterCounts:
        """The sum over the texts of both."""
        if not isinstance(other, CharacterCounts):
            return NotImplemented
        return CharacterCounts(*(x + y for x, y in zip(self, other, strict=True)))

    @property
    def precision(self) -> float:
        """Of the characters that the second marking has."""
        return self.credit / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """Of the characters that the first marking has."""
        return self.credit / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """Of both."""
        return f1_of(self.precision, self.recall)


NOTHING = CharacterCounts(0.0, 0.0, 0.0)


def character_counts(
    text: str, gold: Sequence[RatedSpan], predicted: Sequence[RatedSpan]
) -> CharacterCounts:
    """The counts of one text.

    >>> one, other = RatedSpan(0, 2, "major"), RatedSpan(1, 3, "minor")
    >>> character_counts("abc", [one], [other])
    CharacterCounts(credit=0.5, gold=2.0, predicted=2.0)
    """
    of_gold, of_predicted = _covered(text, gold), _covered(text, predicted)  # [2, characters]
    same = np.minimum(of_gold, of_predicted)
    rest = np.minimum((of_gold - same).sum(axis=0), (of_predicted - same).sum(axis=0))
    credit = float(same.sum()) + OTHER_SEVERITY * float(rest.sum())
    return CharacterCounts(credit, float(of_gold.sum()), float(of_predicted.sum()))


def _covered(text: str, spans: Sequence[RatedSpan]) -> FloatArray:
    """How often every character is covered by a major and by a minor error, [2, characters]."""
    covered = np.zeros((2, len(text)))
    for span in spans:
        if span.start is None or span.end is None or span.in_source:
            continue
        if span.severity in MAJOR:
            covered[0, span.start : span.end] += 1
        elif span.severity in MINOR:
            covered[1, span.start : span.end] += 1
    return covered


class ErrorFreeDetection(NamedTuple):
    """Texts by whether people and a metric find no error."""

    texts: int
    gold: int  # people mark none
    predicted: int  # the metric marks none
    both: int

    @property
    def precision(self) -> float:
        """Of the texts that the metric leaves unmarked."""
        return self.both / self.predicted if self.predicted else 1.0

    @property
    def recall(self) -> float:
        """Of the texts that people leave unmarked."""
        return self.both / self.gold if self.gold else 1.0

    @property
    def f1(self) -> float:
        """Of both."""
        return f1_of(self.precision, self.recall)


class SpanAgreement(NamedTuple):
    """A marking against that of people."""

    characters: CharacterCounts
    error_free: ErrorFreeDetection


class SpanComparison:
    """Sums up markings of texts, one against the other."""

    def __init__(self) -> None:
        self._characters = NOTHING
        self._free = [0, 0, 0, 0]

    def add(self, text: str, gold: Sequence[RatedSpan], predicted: Sequence[RatedSpan]) -> None:
        """Takes one text."""
        self._characters += character_counts(text, gold, predicted)
        here = (1, not gold, not predicted, not gold and not predicted)
        self._free = [count + one for count, one in zip(self._free, here, strict=True)]

    @property
    def agreement(self) -> SpanAgreement:
        """The figures."""
        return SpanAgreement(self._characters, ErrorFreeDetection(*self._free))
