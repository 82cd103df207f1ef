"""Ratings: what annotators said of systems' texts, each a score, and the spans of errors that were marked with it.

    mean     the score of a text is the mean over its annotators
    agreement of two annotators, over the texts that both rated: Pearson's correlation of their scores, of all pairs
             together with either order of the two; tau-b of the systems within each segment, averaged; F1 of characters

An annotator who rated one system alone says nothing of systems: that system's mean and the annotator's strictness
cannot be told apart.

Spans of errors, marked by people or by metrics, and how far two markings agree. Characters, as the span task of WMT25
counts them: a span of a severity covers its characters once, two spans twice; m and n are how often a marking covers a
character with a major (or critical) and with a minor error.

    credit = min(m, m') + min(n, n') + 1/2 min(rest, rest'),   rest = max(0, m - m') + max(0, n - n')
    precision = sum credit / sum of (m' + n'),   recall = sum credit / sum of (m + n)

over all texts together; a share of nothing is 1. Spans without a severity of these three, of missing text and in the
source cover nothing. Error-free detection: of the texts in which people mark nothing, how many a metric leaves
unmarked (recall), and of those it leaves unmarked, how many people do (precision); F1 of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray
from .statistics import pearson, tau_b
from .system_scores import DocumentOutputs, RatedSpan, TextRating

ALL = "all"  # pairs of annotators


class RaterFigures(NamedTuple):
    """An annotator in figures; None where there is nothing to count."""

    rater: str
    ratings: int
    systems: int  # that the annotator saw
    mean: float | None
    deviation: float | None
    error_free: float | None  # the share of ratings with spans that mark none
    seconds: float | None  # the median of a rating


class RaterAgreement(NamedTuple):
    """Two annotators, or all pairs together, over the texts that both rated; None where it is not defined."""

    a: str
    b: str
    texts: int
    pearson: float | None
    tau: float | None
    span_f1: float | None


def mean_scores(texts: Sequence[Sequence[TextRating | None]]) -> list[float | None]:
    """The mean over annotators of every segment's ratings, None where there is no score."""
    return [_mean([r.score for r in ratings if r is not None]) for ratings in texts]


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def rated_texts(
    documents: Sequence[DocumentOutputs], dimension: str
) -> Iterator[tuple[DocumentOutputs, str, int, tuple[TextRating, ...]]]:
    """Every text that was rated, as document, system and segment, with its ratings."""
    for document in documents:
        for system, texts in document.ratings.get(dimension, {}).items():
            for i, ratings in enumerate(texts):
                there = tuple(rating for rating in ratings if rating is not None)
                if there:
                    yield document, system, i, there


def rater_figures(documents: Sequence[DocumentOutputs], dimension: str) -> list[RaterFigures]:
    """The annotators of a dimension by name."""
    by_rater: dict[str, list[TextRating]] = {}
    systems: dict[str, set[str]] = {}
    for _, system, _, ratings in rated_texts(documents, dimension):
        for rating in ratings:
            by_rater.setdefault(rating.rater, []).append(rating)
            systems.setdefault(rating.rater, set()).add(system)
    figures = []
    for rater, own in sorted(by_rater.items()):
        scores = np.array([r.score for r in own if r.score is not None])
        marked = [not r.spans for r in own if r.spans is not None]
        seconds = [r.seconds for r in own if r.seconds is not None]
        figures.append(
            RaterFigures(
                rater,
                len(own),
                len(systems[rater]),
                float(scores.mean()) if len(scores) else None,
                float(scores.std(ddof=1)) if len(scores) > 1 else None,
                sum(marked) / len(marked) if marked else None,
                float(np.median(seconds)) if seconds else None,
            )
        )
    return figures


class _Pair:
    """What two annotators, or all pairs, said of the same texts."""

    def __init__(self) -> None:
        self.scores: list[tuple[float, float]] = []
        self.taus: list[float] = []
        self.characters: CharacterCounts | None = None
        self.texts = 0

    def add(self, text: str, a: TextRating, b: TextRating) -> None:
        """Takes the ratings of one text."""
        self.texts += 1
        if a.score is not None and b.score is not None:
            self.scores.append((a.score, b.score))
        if a.spans is not None and b.spans is not None:
            counts = character_counts(text, a.spans, b.spans)
            self.characters = counts if self.characters is None else self.characters + counts

    def agreement(self, a: str, b: str) -> RaterAgreement:
        """The figures."""
        f1 = None if self.characters is None else self.characters.f1
        tau = float(np.mean(self.taus)) if self.taus else None
        return RaterAgreement(a, b, self.texts, self._pearson(a == ALL), tau, f1)

    def _pearson(self, either_order: bool) -> float | None:
        pairs = self.scores + [(y, x) for x, y in self.scores] * either_order
        return pearson([x for x, _ in pairs], [y for _, y in pairs]) if len(pairs) > 1 else None


def rater_agreement(documents: Sequence[DocumentOutputs], dimension: str) -> list[RaterAgreement]:
    """All pairs of annotators who rated the same texts together, then each pair, those with most texts first."""
    pairs: dict[tuple[str, str], _Pair] = {}
    together = _Pair()
    for document in documents:
        # scores of systems that both rated, by segment and pair
        scores: dict[tuple[int, str, str], list[tuple[float, float]]] = {}
        for system, i, one, other in _pairs_of_ratings(document, dimension):
            text = _text_of(document, system, i)
            pairs.setdefault((one.rater, other.rater), _Pair()).add(text, one, other)
            together.add(text, one, other)
            if one.score is not None and other.score is not None:
                both = scores.setdefault((i, one.rater, other.rater), [])
                both.append((one.score, other.score))
        for (_, a, b), both in scores.items():
            tau = tau_b([x for x, _ in both], [y for _, y in both]) if len(both) > 1 else None
            if tau is not None:
                pairs[a, b].taus.append(tau)
                together.taus.append(tau)
    if not pairs:
        return []
    rows = [pair.agreement(*key) for key, pair in pairs.items()]
    rows.sort(key=lambda row: (-row.texts, row.a, row.b))
    return [together.agreement(ALL, ALL), *rows]


def _pairs_of_ratings(
    document: DocumentOutputs, dimension: str
) -> Iterator[tuple[str, int, TextRating, TextRating]]:
    """Two ratings of a text by two annotators, in the order of their names, with system and segment."""
    for _, system, i, ratings in rated_texts([document], dimension):
        for one, other in combinations(sorted(ratings, key=lambda r: r.rater), 2):
            if one.rater != other.rater:
                yield system, i, one, other


def _text_of(document: DocumentOutputs, system: str, i: int) -> str:
    """A rated text; a reference may be rated too."""
    texts = document.systems.get(system) or document.references.get(system) or ()
    return texts[i] if i < len(texts) else ""


MAJOR, MINOR = frozenset({"major", "critical"}), frozenset({"minor"})
OTHER_SEVERITY = 0.5  # the credit for a character under another severity


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
