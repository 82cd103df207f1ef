"""Human judgements in files of their own, put into the documents that they are of.

    {"id": "d7:3", "mqm": {"A": 1.0, "B": null}, "rater": "anna"}
is a line: the id is that of segment 3 of document d7, or of a document: then a score is of the whole document. Other
keys are passed over, such as the texts that were judged. Without a rater, scores join those of the systems file; each
rater has a dimension of their own. Several files are as one.

    {"id": "d7:3", "ranks": {"A": 1, "B": 2}}
is a line of preferences; rank 1 is best.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from ....metrics.errors import InputError, excerpt, unknown
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import NumberedLines
from ....rerank.selection.ratings import mean_scores
from ....rerank.selection.system_scores import DocumentOutputs, Judgements, Rankings, TextRating
from ...files.entries import Number, each_line, typed
from .rated_rows import Judgement, Notes, rating_of, same_text, spans_inside

_FORM = 'Expected a line such as {"id": "d7:3", "mqm": {"A": 1.0}, "rater": "anna"}'
_RANKS = 'Expected a line such as {"id": "d7:3", "ranks": {"A": 1, "B": 2}}'
_OpenScores = list[float | None] | float
_Place = tuple[int, int | None]  # a document, and a segment of it


@dataclass(frozen=True)
class _Judged:
    """A line of judgements, but for its scores."""

    id: str
    rater: str | None = None


@dataclass(frozen=True)
class _Ranked:
    """A line of preferences."""

    id: str
    ranks: dict[str, Number | None]


def read_judged(source: NumberedLines, key: str) -> list[Judgement]:
    """The judgements of a file, whose scores are under a key.

    Raises:
        InputError: a line is not of the form above; with file and line.
    """

    def of_line(number: int, line: bytes) -> list[Judgement]:
        data = parse_json(line)
        judged: _Judged = typed(_Judged, data, fix=_FORM)
        if key not in data:
            names = [name for name in data if name != "id"]
            raise unknown("key of scores", key, names, where="human")
        scores = typed(dict[str, Number | None], data[key] or {}, key, _FORM)
        where = f"{source.name}:{number}"
        return [
            Judgement(where, judged.id, system, rating_of(judged.rater, score))
            for system, score in scores.items()
            if score is not None
        ]

    return [one for of_one in each_line(source, of_line) for one in of_one]


def read_rankings(source: NumberedLines) -> Rankings:
    """Preferences by the id of a list.

    Raises:
        InputError: a line is not of the form above; with file and line.
    """
    rankings: dict[str, list[dict[str, float]]] = {}
    ranked: _Ranked
    for ranked in each_line(source, lambda _, line: typed(_Ranked, parse_json(line), fix=_RANKS)):
        ranks = {system: rank for system, rank in ranked.ranks.items() if rank is not None}
        rankings.setdefault(ranked.id, []).append(ranks)
    return rankings


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
        self._ratings: list[dict[str, list[list[TextRating | None]]]] = []
        for d, document in enumerate(documents):
            self._places[document.id] = (d, None)
            segments = [(d, i) for i in range(document.segments)]
            self._lines += segments
            if not document.whole:
                self._places |= {f"{document.id}:{i}": (d, i) for d, i in segments}
            human = {name: {**scores} for name, scores in document.human.items()}
            self._human.append(_converted(human, tuple, list))
            own = document.ratings.get(key, {})
            self._ratings.append({s: [list(r) for r in texts] for s, texts in own.items()})

    def put(self, one: Judgement) -> None:
        """Put a judgement where it belongs; raises InputError where there is no such place."""
        d, i = self._place(one)
        document = self._documents[d]
        texts = {**document.references, **document.systems}
        if one.system not in texts:
            raise unknown("system", one.system, texts, where=self._key)
        if one.rating["score"] is not None:
            self._score(d, i, one)
        segment = 0 if i is None and document.whole else i
        if one.rating["rater"] is not None and segment is not None:
            of_system = self._ratings[d].setdefault(one.system, [[] for _ in texts[one.system]])
            of_system[segment].append(_rating(one, texts[one.system][segment]))

    def _place(self, one: Judgement) -> _Place:
        if one.line is None:
            if one.id not in self._places:
                raise unknown("segment", one.id, self._places, where="id")
            return self._places[one.id]
        d, i = self._lines[one.line] if one.line < len(self._lines) else (-1, None)
        if d < 0 or self._documents[d].id != one.id:
            name = f"of document {self._documents[d].id!r:.80}" if d >= 0 else "behind the last"
            problem = f"line {one.line} is {name}, not of {one.id!r:.80}"
            raise InputError(problem, where="id", fix="Give the texts that were judged")
        return d, i

    def _score(self, d: int, i: int | None, one: Judgement) -> None:
        """Add a score; raises InputError where there is one already."""
        rater, score = one.rating["rater"], one.rating["score"]
        dimension = self._key if rater is None else f"{self._key} of {rater}"
        by_system = self._human[d].setdefault(dimension, {})
        if i is None and one.system not in by_system:
            by_system[one.system] = score
            return
        own = by_system.setdefault(one.system, [None] * self._documents[d].segments)
        if i is None or not isinstance(own, list) or own[i] is not None:
            problem = f"{one.system!r:.80} has a score there already"
            fix = "Give each rater a name, and each a line per segment, or one per document"
            raise InputError(problem, where=f"{one.id:.80}: {dimension:.80}", fix=fix)
        own[i] = score

    def documents(self) -> list[DocumentOutputs]:
        """The documents with all judgements."""
        judged = []
        for document, human, own in zip(self._documents, self._human, self._ratings, strict=True):
            ratings = dict(document.ratings)
            if own:
                ratings[self._key] = {s: tuple(map(tuple, texts)) for s, texts in own.items()}
            closed: dict[str, dict[str, Judgements]] = _converted(human, list, tuple)
            judged.append(replace(document, human=closed, ratings=ratings))
        return judged


def _rating(one: Judgement, text: str) -> TextRating:
    """The rating of an annotator; raises InputError where another text was judged."""
    if one.text is not None and not same_text(one.text, text):
        about = f"of {one.system!r:.80} {excerpt(one.text)} was judged"
        problem = f"{about}, its text is {excerpt(text)}"
        raise InputError(problem, where=one.id[:80], fix="Give the texts that were judged")
    spans = spans_inside(one.rating.get("spans"), text, Notes(one.where))
    rating: TextRating = typed(TextRating, one.rating | ({"spans": spans} if spans else {}))
    return rating


def _converted(human: Mapping[str, Mapping[str, Any]], kind: type, to: type) -> dict[str, Any]:
    """Judgements with lists that can be added to in place of tuples, or the other way."""
    return {
        dimension: {s: to(own) if isinstance(own, kind) else own for s, own in scores.items()}
        for dimension, scores in human.items()
    }


def with_judged(
    documents: Sequence[DocumentOutputs], judgements: Iterable[Judgement], key: str
) -> list[DocumentOutputs]:
    """The documents with scores, of no rater under `key`, of a rater under ``key of rater`` and as ratings.

    Raises:
        InputError: a judgement is of no segment, or of an unknown system; or what it judges has a score already.
    """
    judged = _JudgedDocuments(documents, key)
    for one in judgements:
        try:
            judged.put(one)
        except InputError as error:
            raise error.inside(one.where) from None
    return judged.documents()


def with_means_of_raters(documents: Sequence[DocumentOutputs], key: str) -> list[DocumentOutputs]:
    """The documents where the scores of a dimension are means over raters, in place of those of every rater.

    A score without a rater counts where nobody else judged the text.

    Raises:
        InputError: some raters judged the segments of a text, and others the whole document.
    """
    changed = []
    for document in documents:
        human = {n: own for n, own in document.human.items() if not n.startswith(f"{key} of ")}
        by_rater = [own for name, own in document.human.items() if name not in human]
        ratings = document.ratings.get(key, {})
        means = {**human.get(key, {})}
        for system in dict.fromkeys(chain(ratings, *by_rater)):
            given = [own[system] for own in by_rater if system in own]
            wholes = [score for score in given if not isinstance(score, tuple)]
            if not wholes or document.whole:
                means[system] = _filled(mean_scores(ratings[system]), means.get(system))
            elif len(wholes) == len(given):
                means[system] = sum(wholes) / len(wholes)
            else:
                problem = f"{system!r:.80} has scores of its segments and of the whole document"
                where, fix = f"{document.where}: {key:.80}", "Judge all of a document in one way"
                raise InputError(problem, where=where, fix=fix)
        human |= {key: means} if means else {}
        changed.append(replace(document, human=human))
    return changed


def _filled(means: Sequence[float | None], before: Judgements | None) -> Judgements:
    """Means of segments, and the scores that were there before where there is none."""
    earlier = before if isinstance(before, tuple) else [before] * len(means)
    return tuple(b if m is None else m for m, b in zip(means, earlier, strict=True))
