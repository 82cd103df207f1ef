"""Ratings: what annotators said of systems' texts, each a score, and the spans of errors that were marked with it.

    mean     the score of a text is the mean over its annotators
    z        z_r = (x - mean_r) / sd_r over all scores of annotator r, and then that mean
    agreement of two annotators, over the texts that both rated: Pearson's correlation of their scores, of all pairs
             together with either order of the two; tau-b of the systems within each segment, averaged; F1 of the
             characters that they marked (`marked_spans`)

An annotator who rated one system alone says nothing of systems: that system's mean and the annotator's strictness
cannot be told apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from .marked_spans import CharacterCounts, RatedSpan, character_counts
from .statistics import pearson, tau_b
from .system_scores import DocumentOutputs, Judgements, RatedTexts, Rating

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


def mean_scores(texts: Sequence[Sequence[Rating | None]]) -> list[float | None]:
    """The mean over annotators of every segment's ratings, None where there is no score."""
    return [_mean([r.score for r in ratings if r is not None]) for ratings in texts]


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def rated_texts(
    documents: Sequence[DocumentOutputs], dimension: str
) -> Iterator[tuple[DocumentOutputs, str, int, tuple[Rating, ...]]]:
    """Every text that was rated, as document, system and segment, with its ratings."""
    for document in documents:
        for system, texts in document.ratings.get(dimension, {}).items():
            for i, ratings in enumerate(texts):
                there = tuple(rating for rating in ratings if rating is not None)
                if there:
                    yield document, system, i, there


def rater_figures(documents: Sequence[DocumentOutputs], dimension: str) -> list[RaterFigures]:
    """The annotators of a dimension by name."""
    by_rater: dict[str, list[Rating]] = {}
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


def z_scores(documents: Sequence[DocumentOutputs], dimension: str) -> list[DocumentOutputs]:
    """The documents, whose human scores of a dimension are means of annotators' z-scores.

    An annotator whose scores do not differ has z-scores of 0.
    """
    figures = {one.rater: one for one in rater_figures(documents, dimension)}

    def z(rating: Rating) -> Rating:
        of_rater = figures[rating.rater]
        if rating.score is None or of_rater.mean is None:
            return rating
        apart = rating.score - of_rater.mean
        return rating._replace(score=apart / of_rater.deviation if of_rater.deviation else 0.0)

    changed = []
    for document in documents:
        by_system: dict[str, Judgements] = {}
        for system, texts in document.ratings.get(dimension, {}).items():
            zs = [[None if r is None else z(r) for r in ratings] for ratings in texts]
            by_system[system] = tuple(mean_scores(zs))
        changed.append(replace(document, human={**document.human, dimension: by_system}))
    return changed


class _Pair:
    """What two annotators, or all pairs, said of the same texts."""

    def __init__(self) -> None:
        self.scores: list[tuple[float, float]] = []
        self.taus: list[float] = []
        self.characters: CharacterCounts | None = None
        self.texts = 0

    def add(self, text: str, a: Rating, b: Rating) -> None:
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
) -> Iterator[tuple[str, int, Rating, Rating]]:
    """Two ratings of a text by two annotators, in the order of their names, with system and segment."""
    for _, system, i, ratings in rated_texts([document], dimension):
        for one, other in combinations(sorted(ratings, key=lambda r: r.rater), 2):
            if one.rater != other.rater:
                yield system, i, one, other


def _text_of(document: DocumentOutputs, system: str, i: int) -> str:
    """A rated text; a reference may be rated too."""
    texts = document.systems.get(system) or document.references.get(system) or ()
    return texts[i] if i < len(texts) else ""


class ErrorFree(NamedTuple):
    """How many ratings with spans a system has, and how many mark no error."""

    marked: int
    error_free: int

    @property
    def share(self) -> float | None:
        """The error-free share; None without ratings with spans."""
        return self.error_free / self.marked if self.marked else None


def error_free(documents: Sequence[DocumentOutputs], dimension: str) -> dict[str, ErrorFree]:
    """Of every system that was rated with spans."""
    counts: dict[str, list[bool]] = {}
    for _, system, _, ratings in rated_texts(documents, dimension):
        counts.setdefault(system, []).extend(not r.spans for r in ratings if r.spans is not None)
    return {system: ErrorFree(len(marks), sum(marks)) for system, marks in counts.items()}


def waves(
    documents: Sequence[DocumentOutputs], dimension: str
) -> dict[str, list[list[float | None]]]:
    """Scores by system, [waves, segments of all documents]: the n-th rating of a text is of wave n.

    Where nobody's ratings are known, people's scores are the only wave.
    """
    rated = [document.ratings.get(dimension, {}) for document in documents]
    names = dict.fromkeys(name for by_system in rated for name in by_system)
    if not names:
        return _single_wave(documents, dimension)
    count = max(
        len(ratings) for by_system in rated for texts in by_system.values() for ratings in texts
    )
    scores: dict[str, list[list[float | None]]] = {
        name: [[] for _ in range(count)] for name in names
    }
    for document, by_system in zip(documents, rated, strict=True):
        for name in names:
            texts: RatedTexts = by_system.get(name) or ((),) * document.segments
            for wave in range(count):
                scores[name][wave] += [_score_in(ratings, wave) for ratings in texts]
    return {name: by_wave for name, by_wave in scores.items() if _any_score(by_wave)}


def _score_in(ratings: Sequence[Rating | None], wave: int) -> float | None:
    rating = ratings[wave] if wave < len(ratings) else None
    return None if rating is None else rating.score


def _any_score(by_wave: Sequence[Sequence[float | None]]) -> bool:
    return any(score is not None for scores in by_wave for score in scores)


def _single_wave(
    documents: Sequence[DocumentOutputs], dimension: str
) -> dict[str, list[list[float | None]]]:
    judged: list[Mapping[str, Judgements]] = [d.human.get(dimension, {}) for d in documents]
    names = dict.fromkeys(name for by_system in judged for name in by_system)
    scores: dict[str, list[list[float | None]]] = {}
    for name in names:
        column: list[float | None] = []
        for document, by_system in zip(documents, judged, strict=True):
            own = by_system.get(name)
            column += own if isinstance(own, tuple) else [own] * document.segments
        scores[name] = [column]
    return {name: by_wave for name, by_wave in scores.items() if _any_score(by_wave)}


def all_spans(ratings: Sequence[Rating]) -> list[tuple[RatedSpan, ...]]:
    """The spans of every annotator who marked spans."""
    return [rating.spans for rating in ratings if rating.spans is not None]
