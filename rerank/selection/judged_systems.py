"""Human scores of systems, some of which may be missing: system scores, and tests of pairs on common segments.

A system that was judged on easy segments only has a high mean. Where systems were judged on different segments, the
score of a system is therefore its expected mean had it been judged on all of them, by the additive model

    x_si = a_s + b_i + e_si,    score_s = a_s + mean_i b_i                                                        (1)

of the scores x_si of system s on segment i, fitted by least squares over the judged ones. With all segments judged, (1)
is the mean of a system's scores. Two systems differ by the mean of x_si - x_ti over the segments i on which both were
judged; randomisation and bootstrap draw these alone. Without a common segment there is no difference (NaN), and p = 1.
If no chain of common segments leads from one system to another, (1) takes their segments to be equally hard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, IntArray
from .system_scores import (
    DocumentOutputs,
    Judgements,
    Layer,
    Part,
    all_systems,
    check_systems,
)

ROUNDING = 1e-10  # eigenvalues below this share of the largest are 0
MAX_CELLS = 1 << 22  # numbers of the equations of resamples that are solved at once


class MeanOfRated:
    """Mean of the existing scores; the columns of statistics are their sum and their number."""

    def aggregate(self, statistics: FloatArray) -> float:
        """The mean, NaN if nothing is rated."""
        sums = statistics.sum(axis=0, keepdims=True)
        return float(self.aggregate_sums(sums, np.ones(1))[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """The means, NaN where nothing is rated."""
        return _ratio(sums[:, 0], sums[:, 1])


def _ratio(total: FloatArray, count: FloatArray) -> FloatArray:
    """total / count, NaN where the count is 0."""
    undefined = np.full(np.broadcast_shapes(total.shape, count.shape), np.nan)
    return np.asarray(np.divide(total, count, out=undefined, where=count > 0))


class JudgedLayer(Layer):
    """Systems that were judged on different segments; its one part has a score and 1, or 0 and 0, in each row."""

    def system_scores(self) -> FloatArray:
        """Scores by (1), [S]."""
        once = np.ones((1, self.n_documents), np.int64)
        return self.resampled(once)[:, 0]

    def document_scores(self) -> FloatArray:
        """The mean score of every system in every document, [S, D]."""
        return super().resampled(np.eye(self.n_documents, dtype=np.int64))

    def resampled(self, copies: IntArray) -> FloatArray:
        """Scores [S, b] by (1) where document d counts copies[i, d] times in resample i; copies [b, D]."""
        step = max(1, MAX_CELLS // self._equations.shape[1])
        pieces = [copies[start : start + step] for start in range(0, len(copies), step)]
        return np.concatenate([self._fitted(piece) for piece in pieces], axis=1)

    def _fitted(self, copies: IntArray) -> FloatArray:
        """Solve the normal equations of some resamples for scores [S, b]."""
        num_systems = len(self.systems)
        sums = copies.astype(float) @ self._equations  # [b, columns]
        square = num_systems * num_systems
        matrix = sums[:, :square].reshape(-1, num_systems, num_systems)
        right, shares, judged = np.split(sums[:, square:-2], 3, axis=1)  # [b, S] each
        num_segments, means = sums[:, -2], sums[:, -1]  # [b] each
        # the effects are determined up to a constant, which (1) does not depend on: the shortest solution will do
        inverse = np.linalg.pinv(matrix, rcond=ROUNDING, hermitian=True)
        effects = (inverse @ right[:, :, None])[:, :, 0]
        of_segments = _ratio(means - (shares * effects).sum(axis=1), num_segments)  # mean_i b_i
        scores = effects + of_segments[:, None]
        return np.where(judged > 0, scores, np.nan).T

    @cached_property
    def _equations(self) -> FloatArray:
        """Sums by document that (1) is fitted from, [D, S * S + 3 * S + 2].

        With m_si = 1 where system s was judged on segment i, n_i = sum_s m_si and y_i the mean score on segment i,
        eliminating b_i = y_i - sum_t m_ti a_t / n_i leaves sum_t M_st a_t = v_s with

            M_st = sum_i (m_si [s = t] - m_si m_ti / n_i),    v_s = sum_i m_si (x_si - y_i).

        Columns: M, v, sum_i m_si / n_i, sum_i m_si, the number of judged segments, and sum_i y_i.
        """
        values, known = self._values, self._known
        num_judges = known.sum(axis=0)  # [rows]: n_i
        is_judged = (num_judges > 0).astype(float)
        shares = known / np.maximum(num_judges, 1)  # [S, rows]: m_si / n_i
        means = values.sum(axis=0) / np.maximum(num_judges, 1)  # [rows]: y_i
        right = known * (values - means)
        columns = np.concatenate((right, shares, known, is_judged[None], means[None]))
        sums = self._by_document(columns.T)
        matrices = np.empty((self.n_documents, len(known), len(known)))
        bounds = np.searchsorted(self.parts[0].owner, np.arange(self.n_documents + 1))
        for d, (start, end) in enumerate(pairwise(bounds)):
            here = known[:, start:end]
            matrices[d] = np.diag(here.sum(axis=1)) - here @ shares[:, start:end].T
        return np.concatenate((matrices.reshape(self.n_documents, -1), sums), axis=1)

    @property
    def _values(self) -> FloatArray:
        """Scores [S, rows], 0 for a missing one."""
        return self.parts[0].rows[:, :, 0]

    @property
    def _known(self) -> FloatArray:
        """1 where a system was judged, else 0, [S, rows]."""
        return self.parts[0].rows[:, :, 1]

    def _by_document(self, rows: FloatArray) -> FloatArray:
        """Sums [D, columns] of rows [rows, columns]."""
        starts = np.searchsorted(self.parts[0].owner, np.arange(self.n_documents))
        return np.asarray(np.add.reduceat(rows, starts, axis=0))

    def num_judged(self) -> tuple[int, ...]:
        """The number of segments (or documents) on which each system was judged, [S]."""
        return tuple(map(int, self._known.sum(axis=1)))

    def contests(self) -> Iterator[Layer]:
        """Of every pair of systems that were judged on common segments, the scores of these."""
        part = self.parts[0]
        for a, b in combinations(range(len(self.systems)), 2):
            common = np.flatnonzero(self._known[a] * self._known[b])
            if len(common):
                names = (self.systems[a], self.systems[b])
                # documents without a common segment are not drawn
                _, owner = np.unique(part.owner[common], return_inverse=True)
                rows = part.rows[[a, b]][:, common]
                yield Layer(
                    self.name,
                    self.higher_is_better,
                    names,
                    (replace(part, rows=rows, owner=owner),),
                )


def is_judged(documents: Sequence[DocumentOutputs], dimension: str) -> bool:
    """True if any text has a score of the dimension."""
    return any(
        not isinstance(own, tuple) or any(score is not None for score in own)
        for document in documents
        for own in document.human.get(dimension, {}).values()
    )


def human_layer(
    dimension: str,
    lower: bool,
    documents: Sequence[DocumentOutputs],
    systems: Sequence[str] | None = None,
) -> Layer:
    """Human scores of one dimension as those of one more metric, without the systems that nobody rated.

    `segments` [S, segments] is NaN where a score is missing, and None if every score is of a whole document.

    Raises:
        InputError: no system has a score.
    """
    names = systems or check_systems(documents)
    is_whole = judged_whole(documents, [dimension])
    table = human_table(dimension, documents, names, is_whole)
    is_rated = ~np.isnan(table).all(axis=1)
    if not is_rated.any():
        where, fix = f"human.{dimension}", "Check the names of systems"
        raise InputError("no system has a score", where=where, fix=fix)
    rated_systems = tuple(names[s] for s in np.flatnonzero(is_rated).tolist())
    values = table[is_rated]
    known = ~np.isnan(values)
    rows = np.stack((np.where(known, values, 0.0), known.astype(float)), axis=2)
    owner = np.repeat(np.arange(len(documents)), rows_of(documents, is_whole))
    lacks_segments = is_whole and any(document.segments > 1 for document in documents)
    part = Part(1.0, MeanOfRated(), rows, owner)
    segments = None if lacks_segments else values
    # the plain means where all systems were judged on the same segments
    kind = Layer if (known == known[0]).all() else JudgedLayer
    return kind(dimension, not lower, rated_systems, (part,), segments)


def judged_whole(documents: Sequence[DocumentOutputs], dimensions: Sequence[str]) -> bool:
    """Whether every score of some dimensions is of a whole document."""
    return not any(
        isinstance(judgements, tuple)
        for document in documents
        for dimension in dimensions
        for judgements in document.human.get(dimension, {}).values()
    )


def rows_of(documents: Sequence[DocumentOutputs], is_whole: bool) -> list[int]:
    """How many scores a system has in each document: one if these are judged as a whole, else one per segment."""
    return [1 if is_whole else document.segments for document in documents]


def human_table(
    dimension: str, documents: Sequence[DocumentOutputs], systems: Sequence[str], is_whole: bool
) -> FloatArray:
    """Human scores [S, rows], NaN for a missing one; each segment has the score of a wholly judged document."""
    values: list[list[float]] = [[] for _ in systems]
    for document, num_rows in zip(documents, rows_of(documents, is_whole), strict=True):
        scores = document.human.get(dimension, {})
        for row, system in zip(values, systems, strict=True):
            own = scores.get(system)
            by_row = own if isinstance(own, tuple) else (own,) * num_rows
            row += [np.nan if score is None else float(score) for score in by_row]
    return np.array(values).reshape(len(systems), -1)


def with_human_table(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    systems: Sequence[str],
    table: FloatArray,
    is_whole: bool,
) -> list[DocumentOutputs]:
    """The documents with one dimension of human scores, those of a table [S, rows]; NaN is no score."""
    ends = np.cumsum(rows_of(documents, is_whole))[:-1]
    judged = []
    for document, rows in zip(documents, np.split(table, ends, axis=1), strict=True):
        scores: dict[str, Judgements] = {}
        for system, own in zip(systems, rows.tolist(), strict=True):
            known = tuple(None if score != score else score for score in own)
            if system in document.systems and any(score is not None for score in known):
                scores[system] = own[0] if is_whole else known
        judged.append(replace(document, human={dimension: scores}))
    return judged


def doubtful_direction(
    dimension: str, lower: bool, documents: Sequence[DocumentOutputs]
) -> str | None:
    """A question to the user where the sign of human scores contradicts their direction, else None."""
    scored = human_layer(dimension, lower, documents, all_systems(documents))
    scores = scored.parts[0].rows[:, :, 0]
    if lower and (scores <= 0).all() and scores.any():
        return (
            f"no score of {dimension} is above 0: if they are penalties, such as -5 for a major error, higher is "
            f"better; write {dimension} without :lower"
        )
    if not lower and dimension.lower() == "mqm" and (scores >= 0).all():
        return f"{dimension} counts errors where no score is below 0; if lower is better, give {dimension}:lower"
    return None
