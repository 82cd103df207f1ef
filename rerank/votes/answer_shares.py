"""The votes of a list: which answers its texts have, and how much stands behind each.

    share(a) = sum_{r: a(r) = a} w(r) / sum_r w(r)

Where the utility compares answers (`Metric.answers_of`), a ranking tells the answer of the chosen text, the share of
each answer, and as its gap how far that of the chosen one is ahead of the next, 0 of an answer that is behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ...metrics.mixture import Utility
from ...metrics.representations import FloatArray
from ...metrics.text.texts import Text
from ..lists import Candidate

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
        gap: how far the answer is ahead of the next; None without one.
        flags: what the list's reader should know: whether no two texts agree.
        decide: whether they alone are the utility.
    """

    answer: str | None
    shares: tuple[AnswerShare, ...]
    rule: str
    gap: float | None
    flags: tuple[str, ...] = ()
    decide: bool = True

    def as_json(self) -> dict[str, Any]:
        """As it stands in a row."""
        votes = [asdict(share) for share in self.shares]
        return {"answer": self.answer, "answer_rule": self.rule, "votes": votes}


def compares_answers(utility: Utility) -> bool:
    """Whether one part of a utility compares answers, so that there are votes."""
    compare = [weight and part.answers_of([]) is not None for weight, part in utility.parts]
    return sum(map(bool, compare)) == 1


def votes_of(
    utility: Utility,
    references: Sequence[Candidate],
    weights: FloatArray,
    chosen: Text,
) -> Votes | None:
    """The votes of a list; None where its texts are documents, which have no answer each.

    Args:
        utility: as it read the list; one part of it compares answers (`compares_answers`).
        references: the pseudo-references, copies of one text too.
        weights: of these, [N].
        chosen: the text that was chosen.
    """
    texts = [reference.text for reference in references]
    parts = [part for weight, part in utility.parts if weight]
    # with that of the chosen text at the end
    all_texts = [*texts, chosen]
    with_answers = [(part, answers) for part in parts if (answers := part.answers_of(all_texts))]
    if len(with_answers) != 1:
        return None
    part, (*answers, of_chosen) = with_answers[0]
    total = float(weights.sum())
    shares: dict[str, AnswerShare] = {}
    for answer, weight in zip(answers, weights.tolist(), strict=True):
        if answer is not None:
            own = shares.get(answer.key, AnswerShare(answer.text, 0.0, 0))
            share = min(1.0, own.share + weight / total)
            shares[answer.key] = AnswerShare(own.answer, share, own.count + 1)
    gap = None
    if of_chosen is not None:
        others = (share.share for key, share in shares.items() if key != of_chosen.key)
        ahead = shares[of_chosen.key].share if of_chosen.key in shares else 0.0
        gap = max(0.0, ahead - max(others, default=0.0))
    is_apart = len(texts) > 1 and all(share.count < 2 for share in shares.values())
    return Votes(
        None if of_chosen is None else of_chosen.text,
        tuple(sorted(shares.values(), key=lambda share: share.share, reverse=True)),
        part.answer_rule,
        gap,
        (NO_AGREEMENT,) if is_apart else (),
        len(parts) == 1,
    )
