"""Every text of judged documents with its scores, and documents with one score of every text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...metrics.representations import FloatArray
from ..selection.document_outputs import DocumentOutputs, Judgements

ScoredText = tuple[DocumentOutputs, str, int]  # document, system, segment


def only_of_documents(documents: Sequence[DocumentOutputs], dimensions: Sequence[str]) -> bool:
    """Whether every score of some dimensions is of a whole document."""
    return not any(
        isinstance(own, tuple)
        for document in documents
        for dimension in dimensions
        for own in document.human.get(dimension, {}).values()
    )


def texts_of(documents: Sequence[DocumentOutputs], is_whole: bool) -> list[ScoredText]:
    """(document, system, segment) of every text; one segment of whole documents."""
    texts = []
    for document in documents:
        for system in document.systems:
            segments = range(1 if is_whole else document.segments)
            texts += [(document, system, i) for i in segments]
    return texts


def score_of(document: DocumentOutputs, system: str, segment: int, dimension: str) -> float:
    """What a rater gave a text, nan for nothing; a score of a document stands at its segments."""
    own = document.human.get(dimension, {}).get(system)
    value = own[segment] if isinstance(own, tuple) else own
    return np.nan if value is None else float(value)


def judgements_of(
    scores: Mapping[str, Sequence[float | None]], is_whole: bool
) -> dict[str, Judgements]:
    """Scores by system as a document has them, without the systems that nobody judged."""
    by_system: dict[str, Judgements] = {}
    for system, own in scores.items():
        if all(score is None for score in own):
            continue
        only = own[0]
        by_system[system] = only if is_whole and only is not None else tuple(own)
    return by_system


def with_scores(
    documents: Sequence[DocumentOutputs],
    texts: Sequence[ScoredText],
    values: FloatArray,
    name: str,
    is_whole: bool,
) -> list[DocumentOutputs]:
    """The documents with one dimension `name`, of the values [n] of their texts; nan is no score."""
    scores: list[dict[str, list[float | None]]] = [{} for _ in documents]
    numbers = {id(document): d for d, document in enumerate(documents)}
    for (document, system, _), value in zip(texts, values.tolist(), strict=True):
        score = None if np.isnan(value) else value
        scores[numbers[id(document)]].setdefault(system, []).append(score)
    return [
        replace(document, human={name: judgements_of(own, is_whole)})
        for document, own in zip(documents, scores, strict=True)
    ]
