"""Ratings: what annotators said of systems' texts, each a score, and the spans of errors that were marked with it.

    mean     the score of a text is the mean over its annotators
    agreement of two annotators, over the texts that both rated: Pearson's correlation of their scores, of all pairs
             together with either order of the two; tau-b of the systems within each segment, averaged; F1 of characters

An annotator who rated one system alone says nothing of systems: that system's mean and the annotator's strictness
cannot be told apart.

Characters of marked errors count as in the span task of WMT25: a span of a severity
covers its characters once, two spans twice; m and n are how often a marking covers a character with a major (or
critical) and with a minor error.

    credit = min(m, m') + min(n, n') + 1/2 min(rest, rest'),   rest = max(0, m - m') + max(0, n - n')
    precision = sum credit / sum of (m' + n'),   recall = sum credit / sum of (m + n)

over all texts together; a share of nothing is 1. Spans without a severity of these three, of missing text and in the
source cover nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ...metrics.representations import FloatArray
from .statistics import Number, clean, correlation
from .system_scores import DocumentOutputs, RatedSpan, TextRating

ALL = "all"  # pairs of annotators
MAJOR, MINOR = frozenset({"major", "critical"}), frozenset({"minor"})
OTHER_SEVERITY = 0.5  # the credit for a character under another severity
# a text, and two markings of it
Markings = tuple[str, Sequence[RatedSpan], Sequence[RatedSpan]]


@dataclass(frozen=True)
class RaterFigures:
    """An annotator of a dimension in figures; None where there is nothing to count."""

    human: str
    rater: str
    ratings: int
    systems: int  # that the annotator saw
    mean: Number
    deviation: Number
    error_free: Number  # the share of ratings with spans that mark none
    seconds: Number  # the median of a rating


@dataclass(frozen=True)
class RaterAgreement:
    """Two annotators, or all pairs together, over the texts that both rated; None where it is not defined."""

    human: str
    a: str
    b: str
    texts: int
    pearson: Number
    tau: Number
    span_f1: Number


@dataclass(frozen=True)
class People:
    """Figures of those who judged."""

    raters: tuple[RaterFigures, ...] = ()
    agreement: tuple[RaterAgreement, ...] = ()


def mean_scores(texts: Sequence[Sequence[TextRating | None]]) -> list[float | None]:
    """The mean over annotators of every segment's ratings, None where there is no score."""
    means = []
    for ratings in texts:
        known = [r.score for r in ratings if r is not None and r.score is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


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
                dimension,
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
        self.markings: list[Markings] = []
        self.texts = 0

    def add(self, text: str, a: TextRating, b: TextRating) -> None:
        """Takes the ratings of one text."""
        self.texts += 1
        if a.score is not None and b.score is not None:
            self.scores.append((a.score, b.score))
        if a.spans is not None and b.spans is not None:
            self.markings.append((text, a.spans, b.spans))

    def agreement(self, dimension: str, a: str, b: str) -> RaterAgreement:
        """The figures."""
        f1 = character_shares(self.markings)[2] if self.markings else None
        tau = float(np.mean(self.taus)) if self.taus else None
        pairs = self.scores + [(y, x) for x, y in self.scores] * (a == ALL)
        x, y = zip(*pairs, strict=True) if pairs else ((), ())
        return RaterAgreement(
            dimension, a, b, self.texts, clean(correlation("pearson", x, y)), tau, f1
        )


def rater_agreement(documents: Sequence[DocumentOutputs], dimension: str) -> list[RaterAgreement]:
    """All pairs of annotators who rated the same texts together, then each pair, those with most texts first."""
    pairs: dict[tuple[str, str], _Pair] = {}
    together = _Pair()
    for document in documents:
        # scores of systems that both rated, by segment and pair
        scores: dict[tuple[int, str, str], list[tuple[float, float]]] = {}
        for system, i, one, other in _pairs_of_ratings(document, dimension):
            text = text_of(document, system, i)
            pairs.setdefault((one.rater, other.rater), _Pair()).add(text, one, other)
            together.add(text, one, other)
            if one.score is not None and other.score is not None:
                both = scores.setdefault((i, one.rater, other.rater), [])
                both.append((one.score, other.score))
        for (_, a, b), both in scores.items():
            tau = correlation("tau_b", *zip(*both, strict=True))
            if not np.isnan(tau):
                pairs[a, b].taus.append(tau)
                together.taus.append(tau)
    if not pairs:
        return []
    rows = [pair.agreement(dimension, *key) for key, pair in pairs.items()]
    rows.sort(key=lambda row: (-row.texts, row.a, row.b))
    return [together.agreement(dimension, ALL, ALL), *rows]


def _pairs_of_ratings(
    document: DocumentOutputs, dimension: str
) -> Iterator[tuple[str, int, TextRating, TextRating]]:
    """Two ratings of a text by two annotators, in the order of their names, with system and segment."""
    for _, system, i, ratings in rated_texts([document], dimension):
        for one, other in combinations(sorted(ratings, key=lambda r: r.rater), 2):
            if one.rater != other.rater:
                yield system, i, one, other


def text_of(document: DocumentOutputs, system: str, i: int) -> str:
    """A rated text; a reference may be rated too."""
    texts = document.systems.get(system) or document.references.get(system) or ()
    return texts[i] if i < len(texts) else ""


def character_shares(markings: Iterable[Markings]) -> tuple[float, float, float]:
    """Precision, recall and F1 of characters, of the second markings of texts against the first.

    >>> one, other = RatedSpan(0, 2, "major"), RatedSpan(1, 3, "minor")
    >>> character_shares([("abc", [one], [other])])
    (0.25, 0.25, 0.25)
    """
    credit = num_gold = num_predicted = 0.0
    for text, gold, predicted in markings:
        of_gold, of_predicted = _covered(text, gold), _covered(text, predicted)  # [2, characters]
        same = np.minimum(of_gold, of_predicted)
        rest = np.minimum((of_gold - same).sum(axis=0), (of_predicted - same).sum(axis=0))
        credit += float(same.sum()) + OTHER_SEVERITY * float(rest.sum())
        num_gold += float(of_gold.sum())
        num_predicted += float(of_predicted.sum())
    return _shares(credit, num_gold, num_predicted)


def _shares(both: float, gold: float, predicted: float) -> tuple[float, float, float]:
    """Precision, recall and their harmonic mean; a share of nothing is 1."""
    precision = both / predicted if predicted else 1.0
    recall = both / gold if gold else 1.0
    total = precision + recall
    return precision, recall, 2 * precision * recall / total if total else 0.0


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
