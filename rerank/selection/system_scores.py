"""Scores of whole systems by one metric: its own corpus score, also of resampled documents, without reading again.

A metric gives statistics for every segment (or document); summed by document they suffice for the corpus score of any
choice of documents where the metric says so (`Scorer.aggregate_sums`), and a resample is a row of a matrix product.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.execution import evaluate
from ...metrics.execution.by_sentence import lift
from ...metrics.execution.cache import Cache
from ...metrics.execution.store import Store
from ...metrics.mixture import Mix, Utility
from ...metrics.representations import FloatArray, IntArray
from .document_outputs import DocumentOutputs, check_systems

BATCH = 4096  # segments of a system read at once, in whole documents
CELLS = 1 << 24  # numbers that resamples of all systems sum up at once


class Aggregates(Protocol):
    """What makes scores from statistics: a metric's scorer, or the mean of human scores."""

    def aggregate(self, statistics: FloatArray) -> float:
        """The score of some rows."""
        ...

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray | None:
        """The scores of sums of rows; None where sums do not suffice."""
        ...


@dataclass(frozen=True)
class Part:
    """Statistics of all systems under one plain metric.

    Args:
        weight: of the metric in the whole, with the sign of its direction in a mix.
        scorer: makes scores of them.
        rows: [systems, rows, columns].
        owner: the document of every row, [rows], ascending.
    """

    weight: float
    scorer: Aggregates
    rows: FloatArray
    owner: IntArray
    sums: FloatArray = field(
        init=False
    )  # [systems, documents, columns + 1]; the last column counts rows

    def __post_init__(self) -> None:
        counted = np.concatenate((self.rows, np.ones((*self.rows.shape[:2], 1))), axis=2)
        starts = np.searchsorted(self.owner, np.arange(int(self.owner[-1]) + 1))
        object.__setattr__(self, "sums", np.add.reduceat(counted, starts, axis=1))

    def of_sums(self, sums: FloatArray) -> FloatArray | None:
        """Weighted scores [...] of sums [..., columns + 1]."""
        flat = sums.reshape(-1, sums.shape[-1])
        found = self.scorer.aggregate_sums(flat[:, :-1], flat[:, -1])
        return None if found is None else self.weight * found.reshape(sums.shape[:-1])

    def of_rows(self, system_of: IntArray, copies: IntArray) -> float:
        """The weighted score where document d is that of system_of[d], copies[d] times."""
        rows = self.rows[system_of[self.owner], np.arange(len(self.owner))]
        return self.weight * self.scorer.aggregate(np.repeat(rows, copies[self.owner], axis=0))


@dataclass(frozen=True)
class Scored:
    """Every system under one metric (or under people's judgement, as one more).

    Args:
        name: the signature.
        higher_is_better: the direction of the scores.
        systems: S names.
        parts: statistics; several for a mix.
        segments: [S, segments], in the order of the documents; None for a metric of whole documents where these
            have segments.
        cuts: segments that were too long to be read whole.
        unit: what the draws of tests take; see `in_units`.
    """

    name: str
    higher_is_better: bool
    systems: tuple[str, ...]
    parts: tuple[Part, ...]
    segments: FloatArray | None = None
    cuts: int = 0
    unit: str = "document"

    @property
    def sign(self) -> float:
        """+1, or -1 where lower is better."""
        return 1.0 if self.higher_is_better else -1.0

    @property
    def n_documents(self) -> int:
        """D."""
        return int(self.parts[0].sums.shape[1])

    def system_scores(self) -> FloatArray:
        """The corpus score of every system, [S]."""
        everything = np.ones(self.n_documents, np.int64)
        choices = [np.full(self.n_documents, s) for s in range(len(self.systems))]
        return np.array(
            [sum(part.of_rows(choice, everything) for part in self.parts) for choice in choices]
        )

    def document_scores(self) -> FloatArray:
        """The corpus score of every system on every document alone, [S, D]."""
        return self.resampled(np.eye(self.n_documents, dtype=np.int64))

    def resampled(self, copies: IntArray) -> FloatArray:
        """Scores [S, b] where document d counts copies[i, d] times in resample i; copies [b, D]."""
        return np.concatenate([self._resampled(some) for some in self._pieces(copies)], axis=1)

    def _resampled(self, copies: IntArray) -> FloatArray:
        total = np.zeros((len(self.systems), len(copies)))
        for part in self.parts:
            found = part.of_sums(copies.astype(float) @ part.sums)
            total += self._one_by_one(part, copies) if found is None else found
        return total

    def _one_by_one(self, part: Part, copies: IntArray) -> FloatArray:
        choices = [np.full(self.n_documents, s) for s in range(len(self.systems))]
        return np.array([[part.of_rows(choice, row) for row in copies] for choice in choices])

    def swaps(self, swapped: IntArray) -> Iterator[Swaps]:
        """The scores of pairs of systems that change places on some documents, swapped [b, D] of 0 and 1.

        As many draws come at once as there is room for what they sum up.
        """
        return (Swaps(self, some) for some in self._pieces(swapped))

    def _pieces(self, draws: IntArray) -> Iterator[IntArray]:
        step = max(1, CELLS // sum(part.sums[:, 0].size for part in self.parts))
        return (draws[start : start + step] for start in range(0, len(draws), step))


class Swaps:
    """Scores of pairs of systems after exchanging documents; what a system gives away is summed up once."""

    def __init__(self, scored: Scored, swapped: IntArray) -> None:
        self._scored, self._swapped = scored, swapped
        self._given = [
            swapped.astype(float) @ part.sums for part in scored.parts
        ]  # [S, b, columns + 1]

    def pair(self, a: int, b: int) -> tuple[FloatArray, FloatArray]:
        """Scores [b] of what stands in the places of systems a and b."""
        first, second = np.zeros(len(self._swapped)), np.zeros(len(self._swapped))
        for part, given in zip(self._scored.parts, self._given, strict=True):
            moved = given[b] - given[a]
            x = part.of_sums(part.sums[a].sum(axis=0) + moved)
            y = part.of_sums(part.sums[b].sum(axis=0) - moved)
            if x is None or y is None:
                once = np.ones(self._scored.n_documents, np.int64)
                x = np.array([part.of_rows(np.where(row, b, a), once) for row in self._swapped])
                y = np.array([part.of_rows(np.where(row, a, b), once) for row in self._swapped])
            first, second = first + x, second + y
        return first, second


def score_systems(
    metric: Utility,
    documents: Sequence[DocumentOutputs],
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Scored:
    """Scores every system of some documents.

    Args:
        metric: a metric or a mix; metrics of whole documents read the segments of one as its sentences.
        documents: all with the same systems.
        cache: what models made of texts in earlier runs.
        progress: told how many more documents have been read.

    Raises:
        InputError: a reference or source is missing that the metric needs, or systems differ; names the document.
    """
    systems = check_systems(documents)
    mixed, all_whole = isinstance(metric, Mix), all(document.whole for document in documents)
    parts: list[Part] = []
    values: list[FloatArray | None] = []
    cuts = 0
    for weight, part in metric.parts:
        factor = weight * part.utility_sign if mixed else 1.0
        own, rows, owner, cut = _read(part, documents, systems, cache, progress)
        parts.append(Part(factor, part.scorer, rows, owner))
        values.append(None if part.info.unit == "document" and not all_whole else factor * own)
        cuts += cut
    kept = [value for value in values if value is not None]
    segments = sum(kept[1:], kept[0]) if len(kept) == len(values) else None
    higher = True if mixed else metric.parts[0][1].info.higher_is_better
    return Scored(metric.signature(), higher, systems, tuple(parts), segments, cuts)


def _read(
    metric: Metric,
    documents: Sequence[DocumentOutputs],
    systems: Sequence[str],
    cache: Cache | None,
    progress: Callable[[int], None],
) -> tuple[FloatArray, FloatArray, IntArray, int]:
    """Values [S, rows], statistics [S, rows, columns], the document of each row, and how many texts were cut."""
    values: list[list[FloatArray]] = [[] for _ in systems]
    statistics: list[list[FloatArray]] = [[] for _ in systems]
    cuts = 0
    for batch in _batches(documents):
        _check_needs(metric, batch)
        store = Store(metric.scorer, cache)
        for s, system in enumerate(systems):
            segments = _comparisons(metric, batch, system)
            own, rows = evaluate.scores_and_statistics(metric, segments, store)
            values[s].append(own)
            statistics[s].append(rows)
            cuts += sum(store.truncation_of(lift(metric, one, strict=True)) > 0 for one in segments)
        progress(len(batch))
    whole = metric.info.unit == "document"
    owner = np.repeat(
        np.arange(len(documents)), [1 if whole else document.segments for document in documents]
    )
    stacked = np.array([np.concatenate(rows) for rows in statistics])
    return np.array([np.concatenate(own) for own in values]), stacked, owner, cuts


def _comparisons(metric: Metric, batch: Sequence[DocumentOutputs], system: str) -> list[Any]:
    """The aligned texts of one system as the metric reads them."""
    whole = metric.info.unit == "document"
    hypotheses, references, sources, owners = [], [], [], []
    for document in batch:
        own = document.units(document.systems[system], whole)
        columns = [document.units(texts, whole) for texts in document.references.values()]
        hypotheses += own
        references += [[column[i] for column in columns] for i in range(len(own))]
        sources += document.units(document.source, whole) if document.source is not None else []
        owners += [document.id] * len(own)
    try:
        return metric.segments(
            hypotheses, references, sources if metric.info.needs_source else None, owners
        )
    except InputError as error:
        found = re.fullmatch(r"\w+\[(\d+)\].*", error.where)
        place = f"document {owners[int(found[1])]!r:.80}: " if found else ""
        raise InputError(
            error.problem, where=f"{place}system {system!r:.80}: {error.where}", fix=error.fix
        ) from None


def _check_needs(metric: Metric, batch: Sequence[DocumentOutputs]) -> None:
    for document in batch:
        if metric.info.needs_references and not document.references:
            fix = "Give references, or metrics that need none"
            raise InputError(
                f"{metric.name} needs a reference", where=f"{document.where}: references", fix=fix
            )
        if metric.info.needs_source and document.source is None:
            raise InputError(
                f"{metric.name} needs the source", where=f"{document.where}: source", fix="Give it"
            )


def _batches(documents: Sequence[DocumentOutputs]) -> Iterator[list[DocumentOutputs]]:
    batch: list[DocumentOutputs] = []
    n = 0
    for document in documents:
        batch.append(document)
        n += document.segments
        if n >= BATCH:
            yield batch
            batch, n = [], 0
    if batch:
        yield batch


class MeanOfRated:
    """The mean of the scores there are; columns are their sum and their number."""

    def aggregate(self, statistics: FloatArray) -> float:
        """The mean, nan where nothing is rated."""
        return float(self.aggregate_sums(statistics.sum(axis=0, keepdims=True), np.ones(1))[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """The means, nan where nothing is rated."""
        total, n = sums[:, 0], sums[:, 1]
        return np.asarray(np.divide(total, n, out=np.full(len(n), np.nan), where=n > 0))


def human_scored(
    dimension: str,
    lower: bool,
    documents: Sequence[DocumentOutputs],
    systems: Sequence[str] | None = None,
) -> Scored:
    """People's scores of one dimension as those of one more metric; systems that nobody rated are left out.

    `segments` [S, segments] has nan where a score is missing. Where every score is of a whole document, it is None.

    Raises:
        InputError: no system has a score.
    """
    names = systems or check_systems(documents)
    judged = [document.human.get(dimension, {}) for document in documents]
    rated = Counter(name for scores in judged for name, given in scores.items() if _any(given))
    kept = tuple(name for name in names if rated[name])
    if not kept:
        raise InputError(
            "no system has a score", where=f"human.{dimension}", fix="Look at the names of systems"
        )
    whole = not any(isinstance(given, tuple) for scores in judged for given in scores.values())
    width = [1 if whole else document.segments for document in documents]
    values = np.array([_column(judged, name, width) for name in kept])
    known = ~np.isnan(values)
    rows = np.stack((np.where(known, values, 0.0), known.astype(float)), axis=2)
    owner = np.repeat(np.arange(len(documents)), width)
    everyone_one = whole and any(document.segments > 1 for document in documents)
    part = Part(1.0, MeanOfRated(), rows, owner)
    return Scored(dimension, not lower, kept, (part,), None if everyone_one else values)


def _any(given: Any) -> bool:
    return not isinstance(given, tuple) or any(score is not None for score in given)


def _column(judged: Sequence[Any], name: str, width: Sequence[int]) -> FloatArray:
    """One system's scores, nan where there is none; a score of a whole document stands at its segments."""
    found: list[float] = []
    for scores, n in zip(judged, width, strict=True):
        given = scores.get(name)
        several = given if isinstance(given, tuple) else (given,) * n
        found += [np.nan if score is None else float(score) for score in several]
    return np.array(found)
