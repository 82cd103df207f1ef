"""What metrics say of every candidate: the features that a combination of metrics is trained on.

Against the human references, or against the list's pseudo-references as in MBR decoding; a reference-free metric needs
neither. Context is that of the later use: the sentences before in the references (in `score`), or the first candidates
of the lists before (as strategy "one-best").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.execution import segment_scores
from ...metrics.execution.cache import Cache
from ...metrics.execution.store import Store
from ...metrics.mixture import Utility, added
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison, Document, Text
from ..engines.local import LocalEngine
from ..lists import CandidateList
from ..mbr import MBRDecoder
from ..order import follows

BATCH = 256  # lists that are scored at once, and the rest of the last document
Against = Literal["references", "candidates"]


def features(
    metric: Utility,
    lists: Sequence[CandidateList],
    against: Against,
    cache: Cache | None = None,
) -> list[FloatArray]:
    """The utility of every candidate, [N] per list; lists that only lend context have none.

    Raises:
        InputError: a list has no references or no document where they are needed, or the documents are not in order.
        MetricError: a candidate has no finite utility; names the list.
    """
    utilities = [np.zeros(len(record.candidates)) for record in lists if not record.context_only]
    if metric.reads.context:
        _check_documents(lists)
    for weight, part in metric.parts:
        if part.info.needs_references and against == "references":
            rows = _scores(part, lists, cache)
        else:
            rows = _expectations(part, lists, cache)
        where = metric.signature()
        utilities = [
            added(total, weight, row, where) for total, row in zip(utilities, rows, strict=True)
        ]
    return utilities


def _check_documents(lists: Sequence[CandidateList]) -> None:
    """Raises InputError for a list without a document, or a document whose lists are not adjacent."""
    seen: set[str] = set()
    last = None
    for record in lists:
        document = record.document
        if document is None and not all(isinstance(c.text, Document) for c in record.candidates):
            raise InputError(
                "no document, but a metric reads context",
                where=f"list {record.id}",
                fix="Name the document of every list, or train with context=0",
            )
        if document is not None and document != last and document in seen:
            raise InputError(
                f"{document!r} comes back after another",
                where=f"list {record.id}",
                fix="The lists of one document are adjacent, in order",
            )
        last = document
        if document is not None:
            seen.add(document)


def _expectations(
    part: Metric,
    lists: Sequence[CandidateList],
    cache: Cache | None,
) -> Iterator[FloatArray]:
    """Expected utilities [N] of every list, as an MBR decoder computes them."""
    strategy: Literal["one-best", "auto"] = "one-best" if part.reads.context else "auto"
    decoder = MBRDecoder(utility=part, nbest=None, strategy=strategy)
    for ranking in decoder.decode(lists, LocalEngine(cache)):
        utility: dict[Text, float] = {}
        for ranked in ranking.ranking:
            utility[ranked.text] = np.nan if ranked.utility is None else ranked.utility
        values = np.array([utility[candidate.text] for candidate in ranking.candidates])
        names = [f"list {ranking.id!r:.80}, candidates[{k}]" for k in range(len(values))]
        segment_scores.check_scores(part.signature(), values, names)
        yield values


def _scores(
    part: Metric,
    lists: Sequence[CandidateList],
    cache: Cache | None,
) -> Iterator[FloatArray]:
    """Scores [N] of every list against the human references, as utilities."""
    scored = [record for record in lists if record.references or not record.context_only]
    for record in scored:
        if not record.references:
            fix = 'Set against="candidates", or give some'
            raise InputError("no references", where=f"list {record.id}", fix=fix)
    if part.reads_source:
        names = [f"list {record.id!r:.80}: source" for record in scored]
        part.check_sources([record.source for record in scored], names)
    documents = _stretches(scored)
    start = 0
    while start < len(scored):
        # whole documents, from BATCH lists on
        stop = min(start + BATCH, len(scored))
        while stop < len(scored) and documents[stop] == documents[stop - 1]:
            stop += 1
        yield from _batch(part, scored[start:stop], documents[start:stop], cache)
        start = stop


def _batch(
    part: Metric,
    lists: Sequence[CandidateList],
    documents: Sequence[str],
    cache: Cache | None,
) -> Iterator[FloatArray]:
    """Scores of the lists of some documents: the k-th candidates of all lists are scored as one system's texts."""
    if part.reads.context and part.reads.context_from == "hypothesis":
        _check_systems(lists, documents)
    references = [list(record.references) for record in lists]
    sources = [record.source for record in lists]
    max_candidates = max(len(record.candidates) for record in lists)
    segments: list[Comparison] = []
    indices: list[tuple[int, int]] = []  # (list, candidate) of every segment
    for k in range(max_candidates):
        texts = [_candidate(record, k) for record in lists]
        comparisons = part.segments(texts, references, sources, documents)
        for i, record in enumerate(lists):
            if k < len(record.candidates) and not record.context_only:
                segments.append(comparisons[i])
                indices.append((i, k))
    values = np.zeros((len(lists), max_candidates))
    scores = segment_scores.scores(part, segments, Store(part.scorer, cache))
    names = [f"list {lists[i].id!r:.80}, candidates[{k}]" for i, k in indices]
    segment_scores.check_scores(part.signature(), scores, names)
    for index, score in zip(indices, scores, strict=True):
        values[index] = score
    for record, row in zip(lists, values, strict=True):
        if not record.context_only:
            yield part.utility_sign * row[: len(record.candidates)]


def _candidate(record: CandidateList, k: int) -> Text:
    """The text of the k-th candidate, or of the last where there are fewer."""
    last = len(record.candidates) - 1
    return record.candidates[min(k, last)].text


def _stretches(lists: Sequence[CandidateList]) -> list[str]:
    """A name for every list, shared with the one before if it continues that one."""
    names: list[str] = []
    for i, record in enumerate(lists):
        if i and _continues(record, lists[i - 1]):
            names.append(names[-1])
        else:
            names.append(str(i))
    return names


def _continues(record: CandidateList, before: CandidateList) -> bool:
    """Whether a list stands right after another in one document; by position where both have one."""
    if record.document is None or record.document != before.document:
        return False
    return follows(before.position, record.position)


def _check_systems(lists: Sequence[CandidateList], documents: Sequence[str]) -> None:
    """Raises InputError if a document's lists are of different systems, so that no candidate has a text before it."""
    for i in range(1, len(lists)):
        if documents[i] == documents[i - 1] and _systems(lists[i]) != _systems(lists[i - 1]):
            raise InputError(
                "other systems than the list before, but a metric reads hypotheses in their own context",
                where=f"list {lists[i].id}",
                fix='Give the same systems in the same order, or set context_from="reference" in the metric',
            )


def _systems(record: CandidateList) -> list[Any]:
    return [candidate.fields.get("system") for candidate in record.candidates]
