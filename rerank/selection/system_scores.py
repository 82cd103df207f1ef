"""Documents with the texts of systems, and layers of scores: what a metric, or people, give to every system's texts.

A layer holds statistics of every segment (or document). Summed by document they suffice for the corpus score of any
choice of documents where the metric says so (`Scorer.aggregate_sums`): a resample is a row of a matrix product, and
nothing is read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError, unknown
from ...metrics.execution import segment_scores
from ...metrics.execution.cache import Cache
from ...metrics.execution.evaluate import compared
from ...metrics.execution.meter import Meter
from ...metrics.execution.store import Store
from ...metrics.mixture import Mix, Utility
from ...metrics.optional_packages import failures_named
from ...metrics.representations import FloatArray, IntArray
from ...metrics.spec.checked_settings import Field
from ...metrics.storage.limits import limits
from ...metrics.text.texts import Document, Text

BATCH = 4096  # segments of a system read at once, in whole documents
CELLS = 1 << 24  # numbers that resamples of all systems sum up at once

_Score = Annotated[float, Field(allow_inf_nan=False)]
Judgements = tuple[_Score | None, ...] | _Score  # per segment, or one for the whole document
# by the id of a list: ranks of systems, 1 is best
Rankings = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class RatedSpan:
    """Characters of a text from `start` to before `end`; both None where text is missing.

    `in_source`: characters of the source instead.
    """

    start: int | None
    end: int | None
    severity: str | None
    category: str | None = None
    in_source: bool = False


@dataclass(frozen=True, slots=True)
class TextRating:
    """What an annotator said of a text.

    Args:
        rater: the annotator.
        score: None where only spans were marked.
        spans: of errors; None where none were asked for.
        seconds: that it took.
    """

    rater: str
    score: float | None
    spans: tuple[RatedSpan, ...] | None = None
    seconds: float | None = None


# of every segment, its ratings in the order of waves; None where a wave lacks one
RatedTexts = tuple[tuple[TextRating | None, ...], ...]


@dataclass(frozen=True, slots=True)
class DocumentOutputs:
    """A document: its source, every system's text and every reference, each a tuple of aligned segments.

    A document that is one whole text (`whole`) has one segment. `human` holds dimension -> system or reference ->
    scores, `ratings` the same with what single annotators said.
    """

    id: str
    whole: bool
    source: tuple[str, ...] | None
    systems: Mapping[str, tuple[str, ...]]
    references: Mapping[str, tuple[str, ...]]
    human: Mapping[str, Mapping[str, Judgements]]
    ratings: Mapping[str, Mapping[str, RatedTexts]] = field(default_factory=dict)

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return len(next(iter(self.systems.values())))

    @property
    def where(self) -> str:
        """How errors name it."""
        return f"document {self.id!r:.80}"

    def units(self, texts: tuple[str, ...], as_document: bool) -> list[Text]:
        """The texts a metric reads: one `Document` (or the whole text) if `as_document`, else every segment."""
        return [Document(texts)] if as_document and not self.whole else list(texts)


def check_systems(documents: Sequence[DocumentOutputs]) -> tuple[str, ...]:
    """The systems, in the order of the first document, which every document must have.

    Raises:
        InputError: no documents, or other systems in one of them.
    """
    if not documents:
        raise InputError("no documents", where="systems", fix="Give at least one")
    systems = tuple(documents[0].systems)
    for document in documents:
        _check_same(document, documents[0])
    return systems


def all_systems(documents: Sequence[DocumentOutputs]) -> tuple[str, ...]:
    """The systems of all documents, in the order in which they come; a document may lack some.

    Raises:
        InputError: no documents, or too many systems.
    """
    if not documents:
        raise InputError("no documents", where="systems", fix="Give at least one")
    names = tuple(dict.fromkeys(name for document in documents for name in document.systems))
    limits().check("systems", len(names), "systems")
    return names


def check_rankings(rankings: Rankings, systems: Mapping[str, Collection[str]]) -> None:
    """Raises InputError for a ranking of no list, or of a system that its list has not.

    Args:
        rankings: by the id of a list.
        systems: of every list, by its id.
    """
    for name, own in rankings.items():
        if name not in systems:
            fix = f"Expected an id such as {next(iter(systems), '')!r:.80}"
            raise InputError(f"no list with id {name!r:.80}", where="rankings", fix=fix)
        if missing := {system for ranks in own for system in ranks}.difference(systems[name]):
            where, fix = f"rankings of {name:.80}", f"Its systems: {', '.join(systems[name])}"
            raise InputError(f"ranks {min(missing)!r:.80}, not a system", where=where, fix=fix)


def _check_same(document: DocumentOutputs, first: DocumentOutputs) -> None:
    """Raises InputError unless a document has the systems of the first."""
    for name in [*first.systems, *document.systems]:
        is_missing = name not in document.systems
        if is_missing or name not in first.systems:
            problem = f"{'no text of' if is_missing else 'found the'} system {name!r:.80}"
            fix = f"Give all systems the same documents, as {first.where} has them"
            raise InputError(problem, where=f"{document.where}: systems", fix=fix)


def check_distinct(metrics: Sequence[Utility]) -> None:
    """Raises InputError for a metric that is given twice."""
    for number, metric in enumerate(metrics):
        if metric in metrics[:number]:
            problem = f"{metric.signature()} is given twice"
            raise InputError(problem, where="metric", fix="Give each metric once")


def with_references(
    documents: Sequence[DocumentOutputs], names: Sequence[str]
) -> list[DocumentOutputs]:
    """The documents with these references only.

    Raises:
        InputError: a document has no reference of a name.
    """
    narrowed = []
    for document in documents:
        for name in names:
            if name not in document.references:
                where = f"{document.where}: references"
                raise unknown("reference", name, document.references, where=where)
        references = {name: document.references[name] for name in names}
        narrowed.append(replace(document, references=references))
    return narrowed


class Aggregates(Protocol):
    """The aggregator of statistics to scores: a metric's scorer, or the mean of human scores."""

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
        weight: of the metric in the mix, with the sign of its direction; 1 for a metric alone.
        scorer: makes scores of them.
        rows: [systems, rows, columns].
        owner: the document of every row, [rows], ascending.
    """

    weight: float
    scorer: Aggregates
    rows: FloatArray
    owner: IntArray
    # [systems, documents, columns + 1]; the last column counts rows
    sums: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        ones = np.ones((*self.rows.shape[:2], 1))
        counted = np.concatenate((self.rows, ones), axis=2)
        num_documents = int(self.owner[-1]) + 1
        starts = np.searchsorted(self.owner, np.arange(num_documents))
        object.__setattr__(self, "sums", np.add.reduceat(counted, starts, axis=1))

    def of_sums(self, sums: FloatArray) -> FloatArray | None:
        """Weighted scores [...] of sums [..., columns + 1]."""
        flat = sums.reshape(-1, sums.shape[-1])
        scores = self.scorer.aggregate_sums(flat[:, :-1], flat[:, -1])
        if scores is None:
            return None
        return self.weight * scores.reshape(sums.shape[:-1])

    def of_rows(self, system_of: IntArray, copies: IntArray) -> float:
        """The weighted score where document d is that of system_of[d], copies[d] times; both [D]."""
        rows = self.rows[system_of[self.owner], np.arange(len(self.owner))]  # [rows, columns]
        repeated = np.repeat(rows, copies[self.owner], axis=0)
        return self.weight * self.scorer.aggregate(repeated)


@dataclass(frozen=True)
class Layer:
    """The scores of every system by one metric, or by people.

    Args:
        name: the signature.
        higher_is_better: the direction of the scores.
        systems: S names.
        parts: statistics; several for a mix.
        segments: [S, segments], in the order of the documents, nan where a text has no score; None for a metric of
            whole documents where these have segments.
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
        once = np.ones(self.n_documents, np.int64)
        scores = []
        with failures_named(self.name):
            for choice in self._choices():
                scores.append(sum(part.of_rows(choice, once) for part in self.parts))
        return np.array(scores)

    def _choices(self) -> list[IntArray]:
        """For every system, the choice of its documents alone, [D]."""
        return [np.full(self.n_documents, s) for s in range(len(self.systems))]

    def contests(self) -> Iterator[Layer]:
        """The layers on which pairs of systems are tested: this one, for all pairs."""
        yield self

    def num_judged(self) -> tuple[int, ...] | None:
        """The number of segments on which each system has a score, [S]; None where it is the same for all."""
        return None

    def document_scores(self) -> FloatArray:
        """The corpus score of every system on every document alone, [S, D]."""
        return self.resampled(np.eye(self.n_documents, dtype=np.int64))

    def resampled(self, copies: IntArray) -> FloatArray:
        """Scores [S, b] where document d counts copies[i, d] times in resample i; copies [b, D]."""
        scores = [self._resampled(piece) for piece in self._pieces(copies)]
        return np.concatenate(scores, axis=1)

    def _resampled(self, copies: IntArray) -> FloatArray:
        """The same of resamples that are few enough to be summed up at once."""
        total = np.zeros((len(self.systems), len(copies)))
        with failures_named(self.name):
            for part in self.parts:
                scores = part.of_sums(copies.astype(float) @ part.sums)
                total += self._from_rows(part, copies) if scores is None else scores
        return total

    def _from_rows(self, part: Part, copies: IntArray) -> FloatArray:
        """Weighted scores [S, b] of resamples [b, D] under a metric for which sums do not suffice."""
        scores = []
        for choice in self._choices():
            scores.append([part.of_rows(choice, row) for row in copies])
        return np.array(scores)

    def swaps(self, swapped: IntArray) -> Iterator[Swaps]:
        """The scores of pairs of systems that change places on some documents, swapped [b, D] of 0 and 1.

        As many draws come at once as there is room for what they sum up.
        """
        return (Swaps(self, piece) for piece in self._pieces(swapped))

    def _pieces(self, draws: IntArray) -> Iterator[IntArray]:
        """Draws [b, D], as many at a time as `CELLS` allows."""
        cells = sum(part.sums[:, 0].size for part in self.parts)  # of one draw
        step = max(1, CELLS // cells)
        return (draws[start : start + step] for start in range(0, len(draws), step))


class Swaps:
    """Scores of pairs of systems after exchanging documents; what a system gives away is summed up once."""

    def __init__(self, layer: Layer, swapped: IntArray) -> None:
        self._layer = layer
        self._swapped = swapped  # [b, D]
        # sums of what every system gives away, [S, b, columns + 1]
        self._given_away = [swapped.astype(float) @ part.sums for part in layer.parts]

    def pair(self, a: int, b: int) -> tuple[FloatArray, FloatArray]:
        """Scores [b] of what stands in the places of systems a and b."""
        first = np.zeros(len(self._swapped))
        second = np.zeros(len(self._swapped))
        for part, given_away in zip(self._layer.parts, self._given_away, strict=True):
            moved = given_away[b] - given_away[a]
            with failures_named(self._layer.name):
                x = part.of_sums(part.sums[a].sum(axis=0) + moved)
                y = part.of_sums(part.sums[b].sum(axis=0) - moved)
                if x is None or y is None:
                    x = self._from_rows(part, a, b)
                    y = self._from_rows(part, b, a)
            first = first + x
            second = second + y
        return first, second

    def _from_rows(self, part: Part, own: int, other: int) -> FloatArray:
        """Scores [b] in the place of a system that changes places with another, where sums do not suffice."""
        once = np.ones(self._layer.n_documents, np.int64)
        scores = [part.of_rows(np.where(row, other, own), once) for row in self._swapped]
        return np.array(scores)


def score_systems(
    metric: Utility,
    documents: Sequence[DocumentOutputs],
    cache: Cache | None = None,
    progress: Callable[[int], None] = lambda done: None,
    meter: Meter | None = None,
) -> Layer:
    """Score every system of some documents.

    Args:
        metric: a metric or a mix; metrics of whole documents read the segments of one as its sentences.
        documents: all with the same systems.
        cache: what models made of texts in earlier runs.
        progress: told how many more documents have been read.
        meter: counts the work.

    Raises:
        InputError: a reference or source is missing that the metric needs, or systems differ; names the document.
        MetricError: a score is no number; names the text, or the system.
    """
    systems = check_systems(documents)
    is_mix = isinstance(metric, Mix)
    all_whole = all(document.whole for document in documents)
    parts: list[Part] = []
    values: list[FloatArray | None] = []
    cuts = 0
    for weight, part in metric.parts:
        factor = weight * part.utility_sign if is_mix else 1.0
        read = read_by_metric(part, documents, systems, cache, progress, meter)
        parts.append(Part(factor, part.scorer, read.statistics, read.owner))
        has_segments = all_whole or part.info.unit != "document"
        with np.errstate(over="ignore"):
            values.append(factor * read.values if has_segments else None)
        cuts += read.cuts
    tables = [table for table in values if table is not None]
    with np.errstate(over="ignore", invalid="ignore"):
        segments = sum(tables[1:], tables[0]) if len(tables) == len(values) else None
    higher = True if is_mix else metric.parts[0][1].info.higher_is_better
    layer = Layer(metric.signature(), higher, systems, tuple(parts), segments, cuts)
    # the sum over the parts of a mix may overflow
    places = [f"system {name!r:.80}" for name in systems]
    with np.errstate(over="ignore", invalid="ignore"):
        segment_scores.check_scores(layer.name, layer.system_scores(), places)
    if segments is not None:
        may_lack = any(part.info.may_lack for _, part in metric.parts)
        segment_scores.check_scores(layer.name, segments, places, may_lack)
    return layer


class MetricReading(NamedTuple):
    """Scores of all systems by one metric; a row is a segment, or a document for metrics of these."""

    values: FloatArray  # [S, rows]
    statistics: FloatArray  # [S, rows, columns]
    owner: IntArray  # the document of every row, [rows]
    cuts: int  # texts that were too long to be read whole


def read_by_metric(
    metric: Metric,
    documents: Sequence[DocumentOutputs],
    systems: Sequence[str],
    cache: Cache | None,
    progress: Callable[[int], None],
    meter: Meter | None = None,
) -> MetricReading:
    """Reads all documents, some at a time."""
    metric.check_sources(
        [document.source for document in documents],
        [f"{document.where}: source" for document in documents],
    )
    values: list[list[FloatArray]] = [[] for _ in systems]
    statistics: list[list[FloatArray]] = [[] for _ in systems]
    cuts = 0
    for batch in _batches(documents):
        _check_references(metric, batch)
        store = Store(metric.scorer, cache, meter)
        for s, system in enumerate(systems):
            segments = _comparisons(metric, batch, system)
            batch_values, rows = segment_scores.scores_and_statistics(metric, segments, store)
            places = _places(metric, batch, system)
            may_lack = metric.info.may_lack
            segment_scores.check_scores(metric.signature(), batch_values, places, may_lack)
            values[s].append(batch_values)
            statistics[s].append(rows)
            for segment in segments:
                cuts += store.truncation_of(compared(metric, segment)) > 0
        progress(len(batch))
    by_document = metric.info.unit == "document"
    rows_of = [1 if by_document else document.segments for document in documents]
    return MetricReading(
        values=np.array([np.concatenate(pieces) for pieces in values]),
        statistics=np.array([np.concatenate(pieces) for pieces in statistics]),
        owner=np.repeat(np.arange(len(documents)), rows_of),
        cuts=cuts,
    )


def _places(metric: Metric, batch: Sequence[DocumentOutputs], system: str) -> list[str]:
    """Where the texts of a system stand, those of `_comparisons` one by one."""
    by_document = metric.info.unit == "document"
    places = []
    for document in batch:
        segments = [""] if by_document else [f", segment {i}" for i in range(document.segments)]
        places += [f"{document.where}, system {system!r:.80}{segment}" for segment in segments]
    return places


def _comparisons(metric: Metric, batch: Sequence[DocumentOutputs], system: str) -> list[Any]:
    """The aligned texts of one system as the metric reads them."""
    by_document = metric.info.unit == "document"
    hypotheses: list[Text] = []
    references: list[list[Text]] = []  # of every hypothesis
    sources: list[Text] = []
    owners: list[str] = []
    for document in batch:
        units = document.units(document.systems[system], by_document)
        columns = [document.units(texts, by_document) for texts in document.references.values()]
        hypotheses += units
        references += [[column[i] for column in columns] for i in range(len(units))]
        if document.source is not None:
            sources += document.units(document.source, by_document)
        owners += [document.id] * len(units)
    try:
        return metric.segments(hypotheses, references, sources or None, owners)
    except InputError as error:
        match = re.fullmatch(r"\w+\[(\d+)\].*", error.where)
        place = f"document {owners[int(match[1])]!r:.80}: " if match else ""
        where = f"{place}system {system!r:.80}: {error.where}"
        raise InputError(error.problem, where=where, fix=error.fix) from None


def _check_references(metric: Metric, batch: Sequence[DocumentOutputs]) -> None:
    """Raises InputError for a document that lacks the reference that the metric needs."""
    for document in batch:
        if metric.info.needs_references and not document.references:
            where = f"{document.where}: references"
            fix = "Add references to every document, or take metrics that need none"
            raise InputError(f"{metric.name} needs a reference", where=where, fix=fix)


def _batches(documents: Sequence[DocumentOutputs]) -> Iterator[list[DocumentOutputs]]:
    """Documents in order, as many at a time as have `BATCH` segments together."""
    batch: list[DocumentOutputs] = []
    num_segments = 0
    for document in documents:
        batch.append(document)
        num_segments += document.segments
        if num_segments >= BATCH:
            yield batch
            batch = []
            num_segments = 0
    if batch:
        yield batch
