"""Which segments to have judged next, and in which order.

Judgements are to tell systems apart as they are on all segments, easy and hard ones. Of segment i with the texts h of
several systems,
    d(i) = max(0, mean_h u(h, h) - mean_(h, r: h != r) u(h, r)),      doubt(i) = d(i) * mean characters of its texts
d is how much the texts differ: where they are the same, no judgement tells systems apart. Segments that nobody judged
are put in order of their doubt and cut into as many strata of equal size as are to be judged. Of each is taken
    argmax_i d(i) / (1 + m(i))
where m counts segments of the same document that are judged or taken already, as these fail alike. Strata come in the
order in which halves, then quarters, ... of all of them have been visited, so that whoever stops early has judged easy
and hard segments too. Nothing is drawn: the same texts have the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray, IntArray
from ..engines.local import LocalEngine
from ..lists import Candidate, CandidateList, Distinct
from ..mbr import MBRDecoder
from ..selection.system_scores import DocumentOutputs, Judgements, all_systems

Unit = Literal["segment", "document"]


class Proposal(NamedTuple):
    """A segment to judge.

    Args:
        order: the rank in which to judge it, from 1 on; of a whole document, that of the document.
        document: the document.
        segment: its index there.
    """

    order: int
    document: DocumentOutputs
    segment: int

    @property
    def id(self) -> str:
        """The id of the list that decoding makes of it."""
        return self.document.id if self.document.whole else f"{self.document.id}:{self.segment}"


class Proposed(NamedTuple):
    """The segments to judge, and how many segments or documents nobody had judged."""

    segments: tuple[Proposal, ...]
    left: int


def proposed(
    documents: Sequence[DocumentOutputs],
    utility: Utility,
    count: int,
    unit: Unit = "segment",
    cache: Cache | None = None,
) -> Proposed:
    """The segments, or whole documents, to judge next, in their order; fewer than `count` where fewer are left.

    Args:
        documents: of several systems; what has a judgement, of any system, is left out.
        utility: u, by which texts differ.
        count: how many segments, or documents.
        unit: which of the two; a document counts with the means of its segments.
        cache: representations of earlier runs.

    Raises:
        InputError: there are fewer than two systems.
        MetricError: a text has no finite value.
    """
    if len(all_systems(documents)) < 2:
        fix = "Give the texts of two systems or more"
        raise InputError("a single system", where="systems", fix=fix)
    segments = [(d, i) for d, own in enumerate(documents) for i in range(own.segments)]
    document = np.array([d for d, _ in segments])
    judged = np.array([_is_judged(documents[d], i) for d, i in segments])
    lists = [_texts(documents[d], i) for d, i in segments]
    disagreement = np.array([disagreement_of(own) for own in _matrices(utility, lists, cache)])
    doubt = disagreement * np.array([_mean_characters(record) for record in lists])
    if unit == "segment":
        order = judging_order(doubt, disagreement, document, judged, count)
        rows = [
            Proposal(k, documents[segments[i][0]], segments[i][1]) for k, i in enumerate(order, 1)
        ]
        return Proposed(tuple(rows), int((~judged).sum()))
    sizes = np.bincount(document)
    mean_doubt = np.bincount(document, doubt) / sizes
    mean_disagreement = np.bincount(document, disagreement) / sizes
    is_judged = np.bincount(document, judged) > 0
    numbers = np.arange(len(documents))
    rows = []
    order = judging_order(mean_doubt, mean_disagreement, numbers, is_judged, count)
    for k, d in enumerate(order, 1):
        rows += [Proposal(k, documents[d], i) for i in range(documents[d].segments)]
    return Proposed(tuple(rows), int((~is_judged).sum()))


def judging_order(
    doubt: FloatArray,
    disagreement: FloatArray,
    document: IntArray,
    judged: NDArray[np.bool_],
    count: int,
) -> list[int]:
    """The indices of the segments to judge, `count` of them or all that are left, in their order.

    Args:
        doubt: of every segment, [n].
        disagreement: d, [n].
        document: its number, [n].
        judged: whether something of it is judged, [n].
        count: how many.
    """
    left = np.flatnonzero(~judged)
    if not count or not len(left):
        return []
    by_doubt = left[np.argsort(doubt[left], kind="stable")]
    strata = np.array_split(by_doubt, min(count, len(left)))
    taken_of = Counter(document[judged].tolist())
    order: list[int] = []
    for number in spread_order(len(strata)):
        best = max(
            strata[number].tolist(),
            key=lambda i: (disagreement[i] / (1 + taken_of[int(document[i])]), -i),
        )
        taken_of[int(document[best])] += 1
        order.append(best)
    return order


def spread_order(count: int) -> list[int]:
    """The numbers below `count` so that each first part is spread over all: by their bits, the last one first.

    >>> spread_order(6)
    [0, 4, 2, 1, 5, 3]
    """
    bits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda i: f"{i:0{bits}b}"[::-1])


def disagreement_of(utilities: FloatArray) -> float:
    """d of a segment from its utilities [S, S]; 0 of a single text."""
    num_texts = len(utilities)
    if num_texts < 2:
        return 0.0
    own = float(np.trace(utilities))
    others = (float(utilities.sum()) - own) / (num_texts * (num_texts - 1))
    return max(0.0, own / num_texts - others)


def _matrices(
    utility: Utility, lists: Sequence[CandidateList], cache: Cache | None
) -> Iterator[FloatArray]:
    """u(h, r) between all candidates of each list, [S, S]."""
    # nobody has chosen yet: what context there is, is that of the first system
    strategy: Literal["one-best", "auto"] = "one-best" if utility.reads.context else "auto"
    decoder = MBRDecoder(utility=utility, keep_matrix=True, strategy=strategy)
    for record, ranking in zip(lists, decoder.decode(lists, LocalEngine(cache)), strict=True):
        of = Distinct(record.candidates).of
        if ranking.matrix is not None:
            yield ranking.matrix[np.ix_(of, of)]


def _texts(document: DocumentOutputs, segment: int) -> CandidateList:
    """The texts of one segment, of the systems that have the document."""
    texts = tuple(Candidate(own[segment]) for own in document.systems.values())
    source = None if document.source is None else document.source[segment]
    return CandidateList(f"{document.id}:{segment}", texts, source, document.id, segment)


def _mean_characters(record: CandidateList) -> float:
    return float(np.mean([len(str(candidate.text)) for candidate in record.candidates]))


def _is_judged(document: DocumentOutputs, segment: int) -> bool:
    """Whether anybody judged a text of the segment, or the whole document."""
    by_dimension = document.human.values()
    return any(_is_there(own, segment) for scores in by_dimension for own in scores.values())


def _is_there(judgements: Judgements, segment: int) -> bool:
    return not isinstance(judgements, tuple) or judgements[segment] is not None
