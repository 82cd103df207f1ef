"""The votes of a list: which answers its texts have, and how much stands behind each.

    share(a) = sum_{r: a(r) = a} w(r) / sum_r w(r)

Where the utility compares answers (`Metric.answers_of`), a ranking tells the answer of the chosen text, the share of
each answer, and as its gap how far that of the chosen one is ahead of the next, 0 of an answer that is behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ..metrics.errors import InputError
from ..metrics.mixture import Utility
from ..metrics.representations import FloatArray
from .choice import Ranking
from .lists import Candidate

NO_AGREEMENT = "no-agreement"


@dataclass(frozen=True, slots=True)
class AnswerShare:
    """An answer as it was first written, the share of the weights behind it, and of how many texts it is."""

    answer: str
    share: float
    count: int


class Votes(NamedTuple):
    """The votes of a list.

    Args:
        answer: of the chosen text; None where it has none.
        shares: of all answers, the largest first.
        rule: where the answers stand.
    """

    answer: str | None
    shares: tuple[AnswerShare, ...]
    rule: str

    def as_json(self) -> dict[str, Any]:
        """As it stands in a row."""
        votes = [asdict(share) for share in self.shares]
        return {"answer": self.answer, "answer_rule": self.rule, "votes": votes}


def voted(
    ranking: Ranking,
    utility: Utility,
    references: Sequence[Candidate],
    weights_of: Callable[[Sequence[Candidate]], FloatArray],
) -> Ranking:
    """The ranking with its votes, and flagged where no two texts agree; itself where the utility knows no answers.

    Args:
        ranking: the decision.
        utility: as it read the list.
        references: the pseudo-references, copies of one text too.
        weights_of: the weights of these, [N].

    Raises:
        InputError: the list has a key of its own by the name of one of these.
    """
    parts = [part for weight, part in utility.parts if weight]
    texts = [reference.text for reference in references]
    known = [(part, found) for part in parts if (found := part.answers_of(texts)) is not None]
    if len(known) != 1:
        return ranking
    part, answers = known[0]
    written: dict[str, str] = {}
    share: dict[str, float] = {}
    count: dict[str, int] = {}
    weights = weights_of(references)
    total = float(weights.sum())
    for answer, weight in zip(answers, weights.tolist(), strict=True):
        if answer is not None:
            written.setdefault(answer.key, answer.text)
            share[answer.key] = share.get(answer.key, 0.0) + weight / total
            count[answer.key] = count.get(answer.key, 0) + 1
    order = sorted(share, key=share.__getitem__, reverse=True)
    shares = tuple(AnswerShare(written[key], min(1.0, share[key]), count[key]) for key in order)
    chosen = dict(zip(texts, answers, strict=True)).get(ranking.text)
    votes = Votes(None if chosen is None else chosen.text, shares, part.answer_rule)
    for key in votes.as_json():
        if key in ranking.extra:
            fix = "Give the input's key another name"
            raise InputError("is a key that a vote writes", where=key, fix=fix)
    gap = ranking.gap
    if len(parts) == 1 and chosen is not None:
        own = share.get(chosen.key, 0.0)
        gap = max(0.0, own - max((share[key] for key in order if key != chosen.key), default=0.0))
    flags = ranking.flags
    if len(texts) > 1 and max(count.values(), default=0) < 2:
        flags = (*flags, NO_AGREEMENT)
    return replace(ranking, votes=votes, gap=gap, flags=flags)
