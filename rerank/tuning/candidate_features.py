"""What metrics say of every candidate: the features that a combination of metrics is trained on.

Against the human references, or against the list's pseudo-references as in MBR decoding; a reference-free metric needs
neither. Context is that of the later use: the sentences before in the references (in `score`), or the first candidates
of the lists before (as strategy "one-best").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from ...metrics.base import Metric
from ...metrics.errors import InputError
from ...metrics.execution import evaluate
from ...metrics.execution.cache import Cache
from ...metrics.execution.store import Store
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Comparison, Document, Text
from ..engines.local import LocalEngine
from ..lists import CandidateList
from ..mbr_decoder import MBRDecoder

BATCH = 256  # lists that are scored at once, and the rest of the last document
Against = Literal["references", "candidates"]


def features(
    metric: Utility, lists: Sequence[CandidateList], against: Against, cache: Cache | None = None
) -> list[FloatArray]:
    """The utility of every candidate, [N] per list; lists that only lend context have none.

    Raises:
        InputError: a list has no references or no document where they are needed, or the documents are not in order.
    """
    found = [np.zeros(len(record.candidates)) for record in lists if not record.context_only]
    if metric.reads.context:
        _check_documents(lists)
    for weight, part in metric.parts:
        scored = part.info.needs_references and against == "references"
        rows = _scores(part, lists, cache) if scored else _expectations(part, lists, cache)
        for own, row in zip(found, rows, strict=True):
            own += weight * row
    return found


def _check_documents(lists: Sequence[CandidateList]) -> None:
    seen: set[str] = set()
    last = None
    for record in lists:
        if record.document is None and not all(
            isinstance(c.text, Document) for c in record.candidates
        ):
            fix = "Name the document of every list, or train with context=0"
            raise InputError(
                "no document, but a metric reads context", where=f"list {record.id}", fix=fix
            )
        if record.document is not None and record.document != last and record.document in seen:
            fix = "The lists of one document are adjacent, in order"
            raise InputError(
                f"{record.document!r} comes back after another", where=f"list {record.id}", fix=fix
            )
        last = record.document
        if last is not None:
            seen.add(last)


def _expectations(
    part: Metric, lists: Sequence[CandidateList], cache: Cache | None
) -> Iterator[FloatArray]:
    """Expected utilities as an MBR decoder finds them."""
    decoder = MBRDecoder(
        utility=part, nbest=None, strategy="one-best" if part.reads.context else "auto"
    )
    for ranking in decoder.decode(lists, LocalEngine(cache)):
        utility = {
            place.text: np.nan if place.utility is None else place.utility
            for place in ranking.ranking
        }
        yield np.array([utility[candidate.text] for candidate in ranking.candidates])


def _scores(
    part: Metric, lists: Sequence[CandidateList], cache: Cache | None
) -> Iterator[FloatArray]:
    """Scores against the human references, as utilities."""
    known = [record for record in lists if record.references or not record.context_only]
    for record in known:
        if not record.references:
            fix = 'Set against="candidates", or give some'
            raise InputError("no references", where=f"list {record.id}", fix=fix)
    documents = _stretches(known)
    start = 0
    while start < len(known):
        stop = min(start + BATCH, len(known))
        while stop < len(known) and documents[stop] == documents[stop - 1]:
            stop += 1
        yield from _batch(part, known[start:stop], documents[start:stop], cache)
        start = stop


def _batch(
    part: Metric, lists: Sequence[CandidateList], documents: Sequence[str], cache: Cache | None
) -> Iterator[FloatArray]:
    """Scores of the lists of some documents: the k-th candidates of all lists are scored as one system's texts."""
    if part.reads.context and part.reads.context_from == "hypothesis":
        _check_systems(lists, documents)
    references = [list(record.references) for record in lists]
    sources = [record.source for record in lists if record.source is not None]
    segments: list[Comparison] = []
    places: list[tuple[int, int]] = []
    for k in range(max(len(record.candidates) for record in lists)):
        texts: list[Text] = [
            record.candidates[min(k, len(record.candidates) - 1)].text for record in lists
        ]
        own = part.segments(
            texts, references, sources if len(sources) == len(lists) else None, documents
        )
        for i, record in enumerate(lists):
            if k < len(record.candidates) and not record.context_only:
                segments.append(own[i])
                places.append((i, k))
    values = np.zeros((len(lists), max(len(record.candidates) for record in lists)))
    for place, value in zip(
        places, evaluate.scores(part, segments, Store(part.scorer, cache)), strict=True
    ):
        values[place] = value
    for record, row in zip(lists, values, strict=True):
        if not record.context_only:
            yield part.utility_sign * row[: len(record.candidates)]


def _stretches(lists: Sequence[CandidateList]) -> list[str]:
    """A name for every list, shared with the one before if it goes on from that."""
    names: list[str] = []
    for i, record in enumerate(lists):
        before = lists[i - 1] if i else None
        goes_on = (
            before is not None
            and record.document is not None
            and record.document == before.document
        )
        if goes_on and before is not None and None not in (record.position, before.position):
            goes_on = record.position == (before.position or 0) + 1
        names.append(names[-1] if goes_on else str(i))
    return names


def _check_systems(lists: Sequence[CandidateList], documents: Sequence[str]) -> None:
    """Raises InputError if a document's lists are of different systems, so that no candidate has a text before it."""
    for i in range(1, len(lists)):
        own, before = (
            [c.fields.get("system") for c in record.candidates]
            for record in (lists[i], lists[i - 1])
        )
        if documents[i] == documents[i - 1] and own != before:
            raise InputError(
                "other systems than the list before, but a metric reads hypotheses in their own context",
                where=f"list {lists[i].id}",
                fix='Give the same systems in the same order, or set context_from="reference" in the metric',
            )
