"""Which edits become the mistakes of a synthetic text (Xu et al. 2023, section 4.1).

A text gets up to `MAX_MISTAKES` mistakes. Each is, with probability `drops`, a random drop of one to six words that
nothing else touches, else one of the edits that a retrieved neighbour suggests, each at most once. For ablation,
`random_edits` replaces and adds random words at random places instead. All draws come from the generator of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from numpy.random import Generator

from .edits import MAX_OPERATIONS, Edit

MAX_MISTAKES = 5  # of a text
MAX_DROP_WORDS = 6
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
    """One to `MAX_MISTAKES` disjoint edits of a text, from left to right; none where nothing is possible.

    Args:
        proposals: disjoint edits that a neighbour suggests.
        words: the number of words of the text.
        random: where draws come from.
        drops: the probability that a mistake is a random drop.
        operations: which mistakes are made at all.
    """
    if operations != "all":
        deletes = operations == "delete"
        proposals = [edit for edit in proposals if (edit.kind == "delete") == deletes]
    # how many mistakes, and how many of them are drops
    mistakes = int(random.integers(1, MAX_MISTAKES + 1))
    share = {"all": drops, "delete": 1.0, "insert-replace": 0.0}[operations]
    num_drops = int((random.random(mistakes) < share).sum())
    num_proposals = min(mistakes - num_drops, len(proposals))
    # proposals first: they cannot move, drops go where there is room
    order = random.permutation(len(proposals))
    chosen = [proposals[i] for i in order[:num_proposals]]
    for _ in range(num_drops):
        lost = sum(edit.end - edit.start for edit in chosen if edit.kind == "delete")
        left = words - lost - 1  # a text keeps a word
        drop = _drop(_free(chosen, words), random, left)
        if drop:
            chosen.append(drop)
    return sorted(chosen)


def random_edits(
    words: int,
    vocabulary: Sequence[str],
    random: Generator,
) -> list[Edit]:
    """As many disjoint insertions and replacements of single random words as a text may have mistakes.

    Args:
        words: the number of words of the text.
        vocabulary: what is drawn from; words that stand in it often are drawn often.
        random: where draws come from.
    """
    order = random.permutation(words)
    places = sorted(order[:MAX_MISTAKES].tolist())
    drawn = random.integers(len(vocabulary), size=len(places))
    new = [vocabulary[i] for i in drawn]
    inserts = random.random(len(places)) < 0.5
    edits = []
    for place, word, insert in zip(places, new, inserts, strict=True):
        end = place if insert else place + 1
        edits.append(Edit(place, end, (word,)))
    return edits


def _free(chosen: Sequence[Edit], words: int) -> list[bool]:
    """Which words no edit touches; an insertion touches the word behind it."""
    free = [True] * words
    for edit in chosen:
        end = max(edit.end, edit.start + 1)
        for place in range(edit.start, min(words, end)):
            free[place] = False
    return free


def _drop(
    free: Sequence[bool],
    random: Generator,
    max_words: int,
) -> Edit | None:
    """A drop of at most `max_words` free words; None where there is nothing to drop."""
    places = [place for place, is_free in enumerate(free) if is_free]
    if max_words < 1 or not places:
        return None
    start = places[int(random.integers(len(places)))]
    run = 1  # free words from there on
    while run <= MAX_DROP_WORDS and start + run < len(free) and free[start + run]:
        run += 1
    longest = min(run, MAX_DROP_WORDS)
    length = int(random.integers(1, max(2, longest + 1)))
    length = min(length, max_words)
    return Edit(start, start + length, (), length)
