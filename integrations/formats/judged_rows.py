"""Judgements in a file of their own: a JSON line per segment or document, put into the documents they are of.

    {"id": "d7:3", "mqm": {"A": 1.0, "B": null}, "rater": "anna"}
The id is that of segment 3 of document d7, or of a document: then a score is of the whole document. Other keys are
passed over, so that the rows of `discorank sample` can be filled in. Without a rater, scores join those of the systems
file; each rater has a dimension of their own. Several files are as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import NumberedLines, without_trailing_blanks
from ...rerank.lists import finite
from ...rerank.selection.document_outputs import DocumentOutputs, Judgements

Scores = list[float | None] | float
_FORM = 'Expected a line such as {"id": "d7:3", "mqm": {"A": 1.0}, "rater": "anna"}'


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """What one rater thinks of one segment or document.

    Args:
        where: file and line.
        id: of the segment or document.
        rater: None for those of the systems file.
        scores: by system.
    """

    where: str
    id: str
    rater: str | None
    scores: Mapping[str, float]


def read_judged(source: NumberedLines, key: str) -> list[JudgedRow]:
    """The rows of a file, whose scores stand under a key.

    Raises:
        InputError: a line is not of the form above; with file and line.
    """
    rows = []
    for number, line in without_trailing_blanks(source):
        where = f"{source.name}:{number}"
        try:
            rows.append(_row(parse_json(line), key, where))
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            raise error.inside(where) from None
    return rows


def _row(data: Any, key: str, where: str) -> JudgedRow:
    if not isinstance(data, Mapping) or not isinstance(data.get("id"), str):
        raise InputError(f"found {excerpt(data)}", where="id", fix=_FORM)
    rater = data.get("rater")
    if rater is not None and not isinstance(rater, str):
        raise InputError(f"found {excerpt(rater)}, expected a name", where="rater", fix=_FORM)
    if key not in data:
        raise unknown("key of scores", key, [name for name in data if name != "id"], where="human")
    return JudgedRow(where, data["id"], rater, _scores(data[key] or {}, key))


def _scores(values: Any, key: str) -> dict[str, float]:
    """The scores of a row, without those that nobody gave."""
    if not isinstance(values, Mapping):
        raise InputError(
            f"found {excerpt(values)}, expected scores by system", where=key, fix=_FORM
        )
    scores = {}
    for system, value in values.items():
        if value is None:
            continue
        score = finite(value)
        if score is None:
            problem = f"found {excerpt(value)}, expected a number or null"
            raise InputError(problem, where=f"{key}.{system:.80}", fix=_FORM)
        scores[system] = score
    return scores


def with_judged(
    documents: Sequence[DocumentOutputs], rows: Iterable[JudgedRow], key: str
) -> list[DocumentOutputs]:
    """The documents with the rows' scores, of no rater under `key`, of a rater under ``key of rater``.

    Raises:
        InputError: a row is of no segment, or of an unknown system; or what it judges has a score already.
    """
    places: dict[str, tuple[int, int | None]] = {}
    human: list[dict[str, dict[str, Scores]]] = []
    for d, document in enumerate(documents):
        places[document.id] = (d, None)
        if not document.whole:
            places |= {f"{document.id}:{i}": (d, i) for i in range(document.segments)}
        human.append(_opened(document.human))
    for row in rows:
        try:
            _put(row, documents, places, human, key)
        except InputError as error:
            raise error.inside(row.where) from None
    judged = []
    for document, own in zip(documents, human, strict=True):
        judged.append(replace(document, human=_closed(own)))
    return judged


def _put(
    row: JudgedRow,
    documents: Sequence[DocumentOutputs],
    places: Mapping[str, tuple[int, int | None]],
    human: Sequence[dict[str, dict[str, Scores]]],
    key: str,
) -> None:
    """Puts the scores of a row where they belong."""
    if row.id not in places:
        raise unknown("segment", row.id, places, where="id")
    d, i = places[row.id]
    dimension = key if row.rater is None else f"{key} of {row.rater}"
    by_system = human[d].setdefault(dimension, {})
    for system, score in row.scores.items():
        if system not in documents[d].systems:
            raise unknown("system", system, documents[d].systems, where=key)
        own = by_system.get(system)
        if i is None and own is None:
            by_system[system] = score
            continue
        if own is None:
            own = by_system.setdefault(system, [None] * documents[d].segments)
        if i is None or not isinstance(own, list) or own[i] is not None:
            problem = f"{system!r:.80} has a score there already"
            fix = "Give each rater a name, and each a line per segment, or one per document"
            raise InputError(problem, where=f"{row.id:.80}: {dimension:.80}", fix=fix)
        own[i] = score


def _opened(human: Mapping[str, Mapping[str, Judgements]]) -> dict[str, dict[str, Scores]]:
    """Judgements that can be added to."""
    opened: dict[str, dict[str, Scores]] = {}
    for dimension, scores in human.items():
        own = opened.setdefault(dimension, {})
        for system, given in scores.items():
            own[system] = list(given) if isinstance(given, tuple) else given
    return opened


def _closed(human: Mapping[str, Mapping[str, Scores]]) -> dict[str, dict[str, Judgements]]:
    closed: dict[str, dict[str, Judgements]] = {}
    for dimension, scores in human.items():
        own = closed.setdefault(dimension, {})
        for system, given in scores.items():
            own[system] = tuple(given) if isinstance(given, list) else given
    return closed
