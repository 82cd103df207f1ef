"""Which candidate is preferred: pairs (better, worse) from scores, from rankings, or by a teacher metric.

From scores: every pair of candidates of one list whose scores differ by more than a margin. From rankings: a judgement
is a ranking of some candidates of one list, best rank first; each gives votes for its pairs, ties none, and a pair
stands once, for whom more votes were given; equal votes cancel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeVar

from ...metrics.combination import finite
from ...metrics.errors import InputError, excerpt, unknown
from ...metrics.execution.cache import Cache
from ...metrics.mixture import Utility
from ..lists import CandidateList
from ..selection.document_outputs import Rankings
from .candidate_features import features

Name = TypeVar("Name", bound=Hashable)


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
        """(better, worse) indices of the candidates of every list; lists that only lend context have none.

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


def by_scores(
    scores: Sequence[float | None],
    margin: float = 0.0,
    lower: bool = False,
) -> list[tuple[int, int]]:
    """(better, worse) indices of the candidates of a list; candidates without a score are in no pair.

    >>> by_scores([3.0, None, 1.0, 1.2], margin=0.5)
    [(0, 2), (0, 3)]
    """
    sign = -1 if lower else 1
    known = [(i, sign * score) for i, score in enumerate(scores) if score is not None]
    pairs = []
    for (i, a), (j, b) in combinations(known, 2):
        if abs(a - b) > margin:
            pairs.append((i, j) if a > b else (j, i))
    return pairs


def by_votes(verdicts: Iterable[tuple[Name, Name, str]]) -> list[tuple[Name, Name]]:
    """(better, worse) of verdicts ``(a, b, ">")``, ``"<"`` or ``"="``, in the order of first mention.

    >>> by_votes([("A", "B", ">"), ("B", "A", "<"), ("A", "C", "="), ("B", "C", ">"), ("C", "B", ">")])
    [('A', 'B')]
    """
    votes: Counter[tuple[Name, Name]] = Counter()
    for a, b, verdict in verdicts:
        if verdict not in ("<", ">", "="):
            raise ValueError(f"found the verdict {verdict!r}, expected <, > or =")
        if verdict != "=":
            better, worse = (a, b) if verdict == ">" else (b, a)
            votes[better, worse] += 1
            votes[worse, better] -= 1
    seen: set[frozenset[Name]] = set()
    pairs = []
    for (a, b), majority in votes.items():
        names = frozenset((a, b))
        if majority and names not in seen:
            seen.add(names)
            pairs.append((a, b) if majority > 0 else (b, a))
    return pairs


def verdicts(ranks: Mapping[Name, float]) -> list[tuple[Name, Name, str]]:
    """The pairwise verdicts of one ranking; rank 1 is best.

    >>> verdicts({"A": 1, "B": 2, "C": 2})
    [('A', 'B', '>'), ('A', 'C', '>'), ('B', 'C', '=')]
    """
    pairs = []
    for (a, rank_of_a), (b, rank_of_b) in combinations(ranks.items(), 2):
        if rank_of_a == rank_of_b:
            verdict = "="
        elif rank_of_a < rank_of_b:
            verdict = ">"
        else:
            verdict = "<"
        pairs.append((a, b, verdict))
    return pairs


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
    """(better, worse) indices of a list's candidates, from rankings of their systems."""
    index_of = {candidate.fields.get("system"): i for i, candidate in enumerate(record.candidates)}
    votes: list[tuple[str, str, str]] = []
    for ranks in rankings:
        missing = ranks.keys() - index_of.keys()
        if missing:
            raise InputError(
                f"ranks {min(missing)!r}, which is no system",
                where=f"rankings of {record.id}",
                fix=f"Its systems: {', '.join(map(str, index_of))}",
            )
        votes += verdicts(ranks)
    return [(index_of[better], index_of[worse]) for better, worse in by_votes(votes)]
