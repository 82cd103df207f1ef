"""What to have judged of some documents of several systems: segments, or whole documents; see `judging_order`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ..lists import CandidateList
from ..selection.document_outputs import DocumentOutputs, Judgements, all_systems
from .difficulty import Difficulty, traits_of
from .judging_order import disagreement_of, document_means, documents_judged, judging_order
from .measured import matrices_of
from .training import texts_as_list

Unit = Literal["segment", "document"]


class Proposal(NamedTuple):
    """A segment to judge.

    Args:
        order: the place in which to judge it, from 1 on; of a whole document, that of the document.
        document: the document.
        segment: its number there.
    """

    order: int
    document: DocumentOutputs
    segment: int

    @property
    def id(self) -> str:
        """The id of the list that decoding makes of it."""
        return self.document.id if self.document.whole else f"{self.document.id}:{self.segment}"


class Proposed(NamedTuple):
    """What to judge, and how many segments or documents nobody had judged."""

    segments: tuple[Proposal, ...]
    left: int


def proposed(
    documents: Sequence[DocumentOutputs],
    difficulty: Difficulty,
    utility: Utility,
    count: int,
    unit: Unit = "segment",
    cache: Cache | None = None,
) -> Proposed:
    """What to judge next, in its order; fewer than `count` where fewer are left.

    Args:
        documents: of several systems; what has a judgement, of any system, is left out.
        difficulty: what makes lists hard.
        utility: by which texts differ.
        count: how many segments, or documents.
        unit: which of the two.
        cache: what models made of texts.

    Raises:
        InputError: there are fewer than two systems.
        MetricError: a text has no finite value.
    """
    names = all_systems(documents)
    if len(names) < 2:
        fix = "Give the texts of two systems or more"
        raise InputError("a single system", where="systems", fix=fix)
    places = [(d, i) for d, own in enumerate(documents) for i in range(own.segments)]
    lists = [texts_as_list(documents[d], names, i, whole=False) for d, i in places]
    number = np.array([d for d, _ in places])
    judged = np.array([_is_judged(documents[d], i) for d, i in places])
    disagreement = disagreement_of(matrices_of(utility, lists, cache))
    values = (_difficulties(difficulty, lists), disagreement)
    if unit == "segment":
        left = int((~judged).sum())
        taken = [places[i] for i in judging_order(*values, number, judged, count)]
        rows = [Proposal(k, documents[d], i) for k, (d, i) in enumerate(taken, 1)]
        return Proposed(tuple(rows), left)
    of_documents = [document_means(own, number) for own in values]
    done = documents_judged(judged, number)
    order = judging_order(of_documents[0], of_documents[1], np.arange(len(done)), done, count)
    rows = []
    for k, d in enumerate(order, 1):
        rows += [Proposal(k, documents[d], i) for i in range(documents[d].segments)]
    return Proposed(tuple(rows), int((~done).sum()))


def _difficulties(difficulty: Difficulty, lists: Sequence[CandidateList]) -> FloatArray:
    """Expected errors of the mean text of every list, in units of sigma, [n]."""
    traits = np.stack([traits_of(record) for record in lists])
    return difficulty.errors(traits, np.zeros(len(lists)))


def _is_judged(document: DocumentOutputs, segment: int) -> bool:
    """Whether anybody judged a text of the segment, or the whole document."""
    by_dimension = document.human.values()
    return any(_is_there(own, segment) for scores in by_dimension for own in scores.values())


def _is_there(judgements: Judgements, segment: int) -> bool:
    return not isinstance(judgements, tuple) or judgements[segment] is not None
