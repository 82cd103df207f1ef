"""Where preferences among candidates come from: scores of people, their rankings of systems, or a teacher metric."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics.combination import finite
from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ...metrics.storage.json_and_yaml import check_json_size
from ..lists import CandidateList
from .candidate_features import features
from .preferences import by_scores, by_votes, verdicts

Rankings = Mapping[str, Sequence[Mapping[str, float]]]


@dataclass(frozen=True, slots=True)
class Preferences:
    """Where preferences come from: a score of every candidate, rankings by list and system, or a teacher metric."""

    field: str | None = None
    lower: bool = False
    rankings: Rankings | None = None
    teacher: Utility | None = None

    def pairs(
        self,
        lists: Sequence[CandidateList],
        margin: float,
        cache: Cache | None = None,
    ) -> list[list[tuple[int, int]]]:
        """(better, worse) places of the candidates of every list; lists that only lend context have none.

        Raises:
            InputError: nothing is given, a ranking is of no list or names an unknown system, no candidate has the
                score, a score is no number, a margin stands beside rankings, or a teacher has no references.
        """
        decided = [record for record in lists if not record.context_only]
        if self.rankings is not None:
            _check_rankings(self.rankings, decided, margin)
            return [_ranked(record, self.rankings.get(record.id, ())) for record in decided]
        if self.teacher is not None:
            values = features(self.teacher, lists, "references", cache)
            return [by_scores(scores.tolist(), margin) for scores in values]
        if self.field is None:
            raise InputError(
                "no preferences",
                where="human",
                fix="Give human scores, rankings or a teacher",
            )
        scored = _scored(decided, self.field)
        return [by_scores(scores, margin, self.lower) for scores in scored]


def _scored(lists: Sequence[CandidateList], name: str) -> list[list[float | None]]:
    """A score of every candidate, None where it has none."""
    known = {
        field for record in lists for candidate in record.candidates for field in candidate.fields
    }
    if lists and name not in known:
        raise unknown("score", name, known, where="preferences")
    return [_list_scores(record, name) for record in lists]


def _list_scores(record: CandidateList, name: str) -> list[float | None]:
    """The scores of one list."""
    scores = []
    for i, candidate in enumerate(record.candidates):
        where = f"list {record.id}, candidates[{i}].{name}"
        scores.append(_number(candidate.fields.get(name), where))
    return scores


def _number(value: Any, where: str) -> float | None:
    """A score as a finite number, None where there is none."""
    if value is None:
        return None
    try:
        return finite(value)
    except ValueError:
        problem = f"found {excerpt(value)}, expected a number"
        raise InputError(problem, where=where, fix="Write it as 1.5") from None


def _check_rankings(rankings: Rankings, lists: Sequence[CandidateList], margin: float) -> None:
    """Raises InputError for a margin beside rankings, or a ranking of no list."""
    if margin:
        fix = "Leave the margin out: ranks have no distance"
        raise InputError(f"margin {margin:g} beside rankings", where="preferences", fix=fix)
    missing = rankings.keys() - {record.id for record in lists}
    if missing:
        fix = "There are no lists"
        if lists:
            fix = f"Expected the id of a list, such as {lists[0].id!r}"
        raise InputError(f"{min(missing)!r} is no list", where="rankings", fix=fix)


def _ranked(
    record: CandidateList, rankings: Sequence[Mapping[str, float]]
) -> list[tuple[int, int]]:
    """(better, worse) places of a list's candidates, from rankings of their systems."""
    places = {candidate.fields.get("system"): i for i, candidate in enumerate(record.candidates)}
    votes: list[tuple[str, str, str]] = []
    for ranks in rankings:
        missing = ranks.keys() - places.keys()
        if missing:
            raise InputError(
                f"ranks {min(missing)!r}, which is no system",
                where=f"rankings of {record.id}",
                fix=f"Its systems: {', '.join(map(str, places))}",
            )
        votes += verdicts(ranks)
    return [(places[better], places[worse]) for better, worse in by_votes(votes)]


def read_rankings(lines: Iterable[tuple[str, str]]) -> Rankings:
    """Rankings from JSON lines ``{"id": "d7:3", "ranks": {"A": 1, "B": 2}}`` with their places; rank 1 is best.

    Raises:
        InputError: a line is not of this form.
    """
    rankings: dict[str, list[dict[str, float]]] = {}
    for where, line in lines:
        try:
            check_json_size(line.encode("utf-8", "surrogatepass"))
            value = json.loads(line)
            ranks = {str(name): finite(rank) for name, rank in value["ranks"].items()}
            rankings.setdefault(str(value["id"]), []).append(ranks)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if isinstance(error, InputError) and "json_values" in error.fix:
                raise error.inside(where) from None
            raise InputError(
                f"found {excerpt(line)}",
                where=where,
                fix='{"id": "d7:3", "ranks": {"A": 1}}',
            ) from None
    return rankings
