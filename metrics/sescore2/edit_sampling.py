"""Which edits become the mistakes of a synthetic text (Xu et al. 2023, section 4.1).

A text gets up to `MOST` mistakes. Each is, with probability `drops`, a random drop of one to six words that nothing
else touches, else one of the edits that a retrieved neighbour suggests, each at most once. For ablation, `random_edits`
replaces and adds random words at random places instead. All draws come from the generator that is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from .edits import MAX_OPERATIONS, Edit

if TYPE_CHECKING:
    from numpy.random import Generator

MOST = 5  # mistakes of a text
LONGEST_DROP = 6  # words
Operations = Literal["all", "delete", "insert-replace"]


def mined(edits: Sequence[Edit]) -> list[Edit]:
    """The edits of a neighbour that are small enough to serve as a mistake."""
    return [edit for edit in edits if edit.operations <= MAX_OPERATIONS]


def sampled(
    proposals: Sequence[Edit],
    words: int,
    random: Generator,
    drops: float = 1 / 3,
    operations: Operations = "all",
) -> list[Edit]:
    """One to `MOST` disjoint edits of a text of so many words, from left to right; none where nothing is possible.

    Args:
        proposals: disjoint edits that a neighbour suggests.
        words: the length of the text.
        random: where draws come from.
        drops: the probability that a mistake is a random drop.
        operations: which mistakes are made at all.
    """
    if operations != "all":
        proposals = [
            edit for edit in proposals if (edit.kind == "delete") == (operations == "delete")
        ]
    slots = int(random.integers(1, MOST + 1))
    share = {"all": drops, "delete": 1.0, "insert-replace": 0.0}[operations]
    of_drops = int((random.random(slots) < share).sum())
    count = min(slots - of_drops, len(proposals))
    chosen = [proposals[i] for i in random.permutation(len(proposals))[:count]]
    for _ in range(of_drops):
        lost = sum(edit.end - edit.start for edit in chosen if edit.kind == "delete")
        if drop := _drop(_free(chosen, words), random, words - lost - 1):
            chosen.append(drop)
    return sorted(chosen)


def random_edits(words: int, vocabulary: Sequence[str], random: Generator) -> list[Edit]:
    """As many disjoint insertions and replacements of single random words as a text may have mistakes.

    Args:
        words: the length of the text.
        vocabulary: what is drawn from; words that stand in it often are drawn often.
        random: where draws come from.
    """
    places = sorted(int(place) for place in random.permutation(words)[:MOST])
    new = [vocabulary[i] for i in random.integers(len(vocabulary), size=len(places))]
    inserts = random.random(len(places)) < 0.5
    return [
        Edit(place, place if insert else place + 1, (word,))
        for place, word, insert in zip(places, new, inserts, strict=True)
    ]


def _free(chosen: Sequence[Edit], words: int) -> list[bool]:
    """Which words no edit touches; an insertion touches the word behind it."""
    free = [True] * words
    for edit in chosen:
        for place in range(edit.start, min(words, max(edit.end, edit.start + 1))):
            free[place] = False
    return free


def _drop(free: Sequence[bool], random: Generator, most: int) -> Edit | None:
    """A drop of free words, at most so many; None where there is nothing to drop."""
    places = [place for place, is_free in enumerate(free) if is_free]
    if most < 1 or not places:
        return None
    start = places[int(random.integers(len(places)))]
    run = 1
    while run <= LONGEST_DROP and start + run < len(free) and free[start + run]:
        run += 1
    length = int(random.integers(1, max(2, min(run, LONGEST_DROP) + 1)))
    length = min(length, most)
    return Edit(start, start + length, (), length)
