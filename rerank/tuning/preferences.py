"""Which candidate people prefer: pairs (better, worse) from scores or from rankings.

From scores: every pair of candidates of one list whose scores differ by more than a margin. From rankings: a judgement
is a ranking of some candidates of one list, best rank first; each gives votes for its pairs, ties none, and a pair
stands once, for whom more votes were given; equal votes cancel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)


def by_scores(
    scores: Sequence[float | None],
    margin: float = 0.0,
    lower: bool = False,
) -> list[tuple[int, int]]:
    """(better, worse) places of the candidates of a list; candidates without a score are in no pair.

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
