"""People's scores: of one document in a systems file, and in files of their own, put into the documents they are of.

A key given as ``mqm`` is a top-level key of the document, or else a dimension in ``human``. Under a key stand
``{system: scores}``, ``{dimension: {system: scores}}`` or ``{system: {dimension: scores}}``: whichever keys are the
names of systems decides. Scores are a number for the text, or one number or null per segment.

    {"id": "d7:3", "mqm": {"A": 1.0, "B": null}, "rater": "anna"}
is a line of a file of its own: the id is that of segment 3 of document d7, or of a document: then a score is of the
whole document. Other keys are passed over, such as the texts that were judged. Without a rater, scores join
those of the systems file; each rater has a dimension of their own. Several files are as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import NumberedLines, without_trailing_blanks
from ...rerank.lists import finite
from ...rerank.selection.ratings import mean_scores
from ...rerank.selection.system_scores import DocumentOutputs, Judgements, Rankings, TextRating
from ..files.entries import in_line
from .rated_texts import SpanReading

Scores = float | None | list[float | None]
ByDimension = dict[str, dict[str, Scores]]
_NO_SCORES = ("source", "references", "systems")  # keys of a document that hold no human scores


@dataclass(frozen=True, slots=True)
class HumanKey:
    """Where human scores stand, whether lower ones are better there, and whether a document may lack the key."""

    name: str
    lower: bool = False
    may_lack: bool = False

    @classmethod
    def read(cls, given: str) -> HumanKey:
        """A key from ``name``, ``name:lower`` or ``name:higher``.

        Raises:
            InputError: the name is empty or the direction another word.
        """
        name, _, direction = given.partition(":")
        if not name or direction not in ("", "lower", "higher"):
            raise InputError(
                f"found {given!r:.80}, expected NAME or NAME:lower",
                where="human",
                fix="Directions: lower, higher",
            )
        return cls(name, direction == "lower")


def human_scores(
    document: Mapping[str, Any],
    keys: Sequence[HumanKey],
    names: Iterable[str],
    segments: int | None,
) -> ByDimension:
    """The scores under the keys (under ``human`` if there are none), dimension -> system or reference -> scores.

    Args:
        document: a line of the systems file.
        keys: where to look.
        names: of all systems and references.
        segments: how many there are; None for a whole text.

    Raises:
        InputError: a key is missing, a name is neither system nor reference, or scores have the wrong shape.
    """
    known_names = frozenset(names)
    if not keys and "human" in document:
        keys = (HumanKey("human"),)
    by_dimension: ByDimension = {}
    for key in keys:
        if key.may_lack and not _has(document, key.name):
            continue
        for dimension, scores in _under(document, key.name, known_names).items():
            if dimension in by_dimension:
                raise InputError(
                    "a dimension given twice",
                    where=dimension,
                    fix="Name one of its keys",
                )
            where = key.name if dimension == key.name else f"{key.name}.{dimension}"
            by_dimension[dimension] = _checked(scores, where, known_names, segments)
    return by_dimension


def _under(
    document: Mapping[str, Any],
    key: str,
    names: frozenset[str],
) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores for one key."""
    if key in document:
        return _by_dimension(document[key], key, names)
    human = document.get("human")
    dimensions = _by_dimension(human, "human", names) if isinstance(human, Mapping) else {}
    if key not in dimensions:
        raise unknown("key of human scores", key, [*_mapping_keys(document), *dimensions])
    return {key: dimensions[key]}


def _has(document: Mapping[str, Any], key: str) -> bool:
    """Whether a document has a key, or somewhere a dimension of that name."""
    human = document.get("human")
    if key in document or not isinstance(human, Mapping):
        return key in document
    return key in human or any(key in own for own in human.values() if isinstance(own, Mapping))


def _mapping_keys(document: Mapping[str, Any]) -> list[str]:
    """The keys of a document that may hold human scores."""
    keys = [key for key, value in document.items() if isinstance(value, Mapping)]
    return [key for key in keys if key not in _NO_SCORES]


def _by_dimension(
    value: Any,
    key: str,
    names: frozenset[str],
) -> dict[str, Mapping[str, Any]]:
    """Dimension -> system -> scores, from any of the three nestings; the dimension of a flat one is its key."""
    if value is None or value == {}:
        return {}
    if not isinstance(value, Mapping):
        raise InputError(f"found {type(value).__name__}, expected scores by system", where=key)
    if not all(isinstance(inner, Mapping) for inner in value.values()):
        return {key: value}
    if _systems_are_inside(value, key, names):
        return dict(value)
    by_dimension: dict[str, dict[str, Any]] = {}
    for system, scores in value.items():
        _check_name(system, key, names)
        for dimension, score in scores.items():
            by_dimension.setdefault(dimension, {})[system] = score
    return dict(by_dimension)


def _systems_are_inside(
    value: Mapping[str, Mapping[str, Any]],
    key: str,
    names: frozenset[str],
) -> bool:
    """Whether rather the inner keys than the outer ones are names of systems; raises InputError if neither are."""
    outer = set(value)
    inner = {name for scores in value.values() for name in scores}
    if not (outer | inner) & names:
        raise InputError(
            f"neither {sorted(outer)[:3]} nor {sorted(inner)[:3]} are systems or references",
            where=key,
            fix=f"All: {', '.join(sorted(names))}",
        )
    # compares the shares of known names, multiplied out: known / all outer keys < known / all inner keys
    known_outer = len(outer & names)
    known_inner = len(inner & names)
    return known_outer * max(1, len(inner)) < known_inner * len(outer)


def _check_name(name: str, where: str, names: frozenset[str]) -> None:
    if name not in names:
        raise unknown("system or reference", name, names, where=where)


def _checked(
    scores: Mapping[str, Any],
    where: str,
    names: frozenset[str],
    segments: int | None,
) -> dict[str, Scores]:
    """The scores of one dimension; raises InputError for an unknown name or the wrong shape."""
    for name, value in scores.items():
        _check_name(name, where, names)
        place = f"{where}.{name}"
        if not isinstance(value, list):
            _check_score(value, place)
            continue
        if segments is None:
            problem = f"{len(value)} scores, expected one number for a whole text"
            raise InputError(problem, where=place)
        if len(value) != segments:
            problem = f"{len(value)} scores, expected one per segment, {segments}"
            raise InputError(problem, where=place)
        for i, score in enumerate(value):
            _check_score(score, f"{place}[{i}]")
    return dict(scores)


def _check_score(value: Any, where: str) -> None:
    """Raises InputError for what is neither a finite number nor null."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"found {type(value).__name__}, expected a number or null", where=where)
    if finite(value) is None:
        raise InputError(f"found {excerpt(value)}, expected a finite number", where=where)


def human_dimensions(
    documents: Sequence[DocumentOutputs], keys: Sequence[HumanKey]
) -> list[tuple[str, bool]]:
    """All dimensions of human scores in order of appearance, with whether lower is better."""
    lower_by_key = {key.name: key.lower for key in keys}
    names = dict.fromkeys(name for document in documents for name in document.human)
    # keys that are no dimension hold several dimensions, or no score
    rest = {key.name: key.lower for key in keys if key.name not in names}
    unnamed = [name for name in names if name not in lower_by_key]
    if rest and not unnamed:
        raise InputError(
            "no system has a score", where=f"human.{next(iter(rest))}", fix="Leave the key out"
        )
    if len(set(rest.values())) > 1:
        raise InputError(
            f"do all of {', '.join(unnamed)} have one direction?",
            where="--human",
            fix="Name the dimensions, each with its direction",
        )
    lower_of_unnamed = True in rest.values()
    return [(name, lower_by_key.get(name, lower_of_unnamed)) for name in names]


_OpenScores = list[float | None] | float
_FORM = 'Expected a line such as {"id": "d7:3", "mqm": {"A": 1.0}, "rater": "anna"}'
_RANKS = 'Expected a line such as {"id": "d7:3", "ranks": {"A": 1, "B": 2}}'


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """The judgement of one rater on one segment or document.

    Args:
        where: file and line.
        id: of the segment or document.
        rater: None for those of the systems file.
        scores: by system.
        errors: spans as annotation tools write them, by system; of a system without, none were asked for.
        seconds: that the rating took.
        line: of the segment among those of all documents, where it has no id; `id` is its document then.
        texts: what was judged, by system, where the judgements say it.
    """

    where: str
    id: str
    rater: str | None
    scores: Mapping[str, float]
    errors: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    line: int | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def read_judged(source: NumberedLines, key: str) -> list[JudgedRow]:
    """The rows of a file, whose scores stand under a key.

    Raises:
        InputError: a line is not of the form above; with file and line.
    """
    rows: list[JudgedRow] = []
    for number, line in without_trailing_blanks(source):
        where = f"{source.name}:{number}"
        with in_line(source, number):
            rows.append(_row(parse_json(line), key, where))
    return rows


def read_rankings(source: NumberedLines) -> Rankings:
    """Preferences by the id of a list, from lines ``{"id": "d7:3", "ranks": {"A": 1, "B": 2}}``; rank 1 is best.

    Raises:
        InputError: a line is not of this form; with file and line.
    """
    rankings: dict[str, list[dict[str, float]]] = {}
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            data = parse_json(line)
            ranks = _scores(_with_id(data, _RANKS).get("ranks"), "ranks", _RANKS)
            rankings.setdefault(data["id"], []).append(ranks)
    return rankings


def _with_id(data: Any, form: str) -> Mapping[str, Any]:
    """A line that names what it is of; raises InputError for another."""
    if not isinstance(data, Mapping) or not isinstance(data.get("id"), str):
        raise InputError(f"found {excerpt(data)}", where="id", fix=form)
    return data


def _row(line: Any, key: str, where: str) -> JudgedRow:
    data = _with_id(line, _FORM)
    rater = data.get("rater")
    if rater is not None and not isinstance(rater, str):
        raise InputError(f"found {excerpt(rater)}, expected a name", where="rater", fix=_FORM)
    if key not in data:
        raise unknown("key of scores", key, [name for name in data if name != "id"], where="human")
    return JudgedRow(where, data["id"], rater, _scores(data[key] or {}, key, _FORM))


def _scores(values: Any, key: str, form: str) -> dict[str, float]:
    """The scores of a row, without those that nobody gave."""
    if not isinstance(values, Mapping):
        problem = f"found {excerpt(values)}, expected numbers by system"
        raise InputError(problem, where=key, fix=form)
    scores = {}
    for system, value in values.items():
        if value is None:
            continue
        score = finite(value)
        if score is None:
            problem = f"found {excerpt(value)}, expected a number or null"
            raise InputError(problem, where=f"{key}.{system:.80}", fix=form)
        scores[system] = score
    return scores


_Place = tuple[int, int | None]  # a document, and a segment of it
_OpenRatings = dict[str, list[list[TextRating | None]]]  # by system, of every segment


class _JudgedDocuments:
    """Documents whose judgements are added to.

    Args:
        documents: as they were.
        key: the dimension.
    """

    def __init__(self, documents: Sequence[DocumentOutputs], key: str) -> None:
        self._documents, self._key = documents, key
        self._places: dict[str, _Place] = {}
        self._lines: list[_Place] = []
        self._human: list[dict[str, dict[str, _OpenScores]]] = []
        self._ratings: list[_OpenRatings] = []
        self._names: list[set[str]] = []  # systems and references
        self._spans = SpanReading()
        for d, document in enumerate(documents):
            self._places[document.id] = (d, None)
            segments = [(d, i) for i in range(document.segments)]
            self._lines += segments
            if not document.whole:
                self._places |= {f"{document.id}:{i}": (d, i) for d, i in segments}
            self._human.append(_opened(document.human))
            own = document.ratings.get(key, {})
            self._ratings.append({s: [list(r) for r in texts] for s, texts in own.items()})
            self._names.append({*document.systems, *document.references})

    def put(self, row: JudgedRow) -> None:
        """Puts the judgements of a row where they belong; raises InputError where there is no such place."""
        d, i = self._place(row)
        document, names = self._documents[d], self._names[d]
        dimension = self._key if row.rater is None else f"{self._key} of {row.rater}"
        for system in dict.fromkeys([*row.scores, *row.errors]):
            if system not in names:
                raise unknown("system", system, names, where=self._key)
            if system in row.scores:
                self._score(d, i, dimension, system, row)
            segment = 0 if i is None and document.whole else i
            if row.rater is not None and segment is not None:
                self._rate(d, segment, system, row)

    def _place(self, row: JudgedRow) -> _Place:
        if row.line is None:
            if row.id not in self._places:
                raise unknown("segment", row.id, self._places, where="id")
            return self._places[row.id]
        if row.line >= len(self._lines):
            problem = f"line {row.line}, there are {len(self._lines)} segments"
            raise InputError(problem, where="id", fix="Give the texts that were judged")
        d, i = self._lines[row.line]
        if self._documents[d].id != row.id:
            problem = (
                f"line {row.line} is of document {self._documents[d].id!r:.80}, not {row.id!r:.80}"
            )
            raise InputError(problem, where="id", fix="Give the texts that were judged")
        return d, i

    def _score(self, d: int, i: int | None, dimension: str, system: str, row: JudgedRow) -> None:
        """Adds a score; raises InputError where there is one already."""
        score = row.scores.get(system)
        by_system = self._human[d].setdefault(dimension, {})
        own = by_system.get(system)
        if score is None:
            return
        if i is None and own is None:
            by_system[system] = score
            return
        if own is None:
            own = by_system.setdefault(system, [None] * self._documents[d].segments)
        if i is None or not isinstance(own, list) or own[i] is not None:
            problem = f"{system!r:.80} has a score there already"
            fix = "Give each rater a name, and each a line per segment, or one per document"
            raise InputError(problem, where=f"{row.id:.80}: {dimension:.80}", fix=fix)
        own[i] = score

    def _rate(self, d: int, i: int, system: str, row: JudgedRow) -> None:
        """Adds the rating of an annotator."""
        document = self._documents[d]
        text = (document.systems.get(system) or document.references[system])[i]
        judged = row.texts.get(system, text)
        if judged.split() != text.split():
            problem = f"of {system!r:.80} {excerpt(judged)} was judged, its text is {excerpt(text)}"
            raise InputError(problem, where=row.id[:80], fix="Give the texts that were judged")
        spans = self._spans.spans(row.errors.get(system), text, f"{system:.80}.errors")
        of_system = self._ratings[d].setdefault(system, [[] for _ in range(document.segments)])
        of_system[i].append(TextRating(str(row.rater), row.scores.get(system), spans, row.seconds))

    def documents(self) -> list[DocumentOutputs]:
        """The documents with all judgements."""
        judged = []
        parts = zip(self._documents, self._human, self._ratings, strict=True)
        for document, human, ratings in parts:
            rated = dict(document.ratings)
            if ratings:
                closed = {s: tuple(tuple(r) for r in texts) for s, texts in ratings.items()}
                rated[self._key] = closed
            judged.append(replace(document, human=_closed(human), ratings=rated))
        return judged


def with_judged(
    documents: Sequence[DocumentOutputs], rows: Iterable[JudgedRow], key: str
) -> list[DocumentOutputs]:
    """The documents with the rows' scores, of no rater under `key`, of a rater under ``key of rater`` and as ratings.

    Raises:
        InputError: a row is of no segment, or of an unknown system; or what it judges has a score already.
    """
    judged = _JudgedDocuments(documents, key)
    for row in rows:
        try:
            judged.put(row)
        except InputError as error:
            raise error.inside(row.where) from None
    return judged.documents()


def with_means_of_raters(documents: Sequence[DocumentOutputs], key: str) -> list[DocumentOutputs]:
    """The documents where the scores of a dimension are means of its ratings, in place of those of every rater."""
    changed = []
    for document in documents:
        human = {
            name: scores
            for name, scores in document.human.items()
            if not name.startswith(f"{key} of ")
        }
        if ratings := document.ratings.get(key):
            means = {system: tuple(mean_scores(texts)) for system, texts in ratings.items()}
            human[key] = {**human.get(key, {}), **means}
        changed.append(replace(document, human=human))
    return changed


def _opened(human: Mapping[str, Mapping[str, Judgements]]) -> dict[str, dict[str, _OpenScores]]:
    """Judgements that can be added to."""
    opened: dict[str, dict[str, _OpenScores]] = {}
    for dimension, scores in human.items():
        own = opened.setdefault(dimension, {})
        for system, given in scores.items():
            own[system] = list(given) if isinstance(given, tuple) else given
    return opened


def _closed(human: Mapping[str, Mapping[str, _OpenScores]]) -> dict[str, dict[str, Judgements]]:
    closed: dict[str, dict[str, Judgements]] = {}
    for dimension, scores in human.items():
        own = closed.setdefault(dimension, {})
        for system, given in scores.items():
            own[system] = tuple(given) if isinstance(given, list) else given
    return closed
