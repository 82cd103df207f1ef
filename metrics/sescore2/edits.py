"""The difference of two word sequences as disjoint edits of the first (Xu et al. 2023, section 4.1).

Plain word Levenshtein distance, unit costs, no shifts. A match always takes the diagonal; on a mismatch ties go to
insertion, then deletion, then replacement. A maximal run of operations that are no matches is one edit: the words
[start, end) of the anchor give way to `words`. Unlike the released code, operations at the border of the table are
kept, text after a hyphen is kept, and words may be added at the very end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from .spaced_words import Words, bare

INSERT, DELETE, REPLACE, MATCH = range(4)
MAX_OPERATIONS = 6  # of one edit that is used


class Edit(NamedTuple):
    """The words [start, end) of an anchor give way to others."""

    start: int
    end: int
    words: Words
    operations: int = 1  # insertions, deletions and replacements in it

    @property
    def kind(self) -> Literal["insert", "delete", "replace"]:
        """What it does."""
        if not self.words:
            return "delete"
        return "insert" if self.start == self.end else "replace"


def edits_between(anchor: Sequence[str], neighbour: Sequence[str]) -> list[Edit]:
    """All edits that turn `anchor` into `neighbour`, disjoint and from left to right, as many as it takes.

    >>> edits_between(["a", "b", "c", "d"], ["b", "x", "d"])
    [Edit(start=0, end=1, words=(), operations=1), Edit(start=2, end=3, words=('x',), operations=1)]
    """
    edits: list[Edit] = []
    i = j = 0  # words done of either side
    start: tuple[int, int] | None = None  # where the run of operations that are no matches began
    count = 0
    bare_anchor = [bare(word) for word in anchor]
    bare_neighbour = [bare(word) for word in neighbour]
    for operation in [*_operations(bare_anchor, bare_neighbour), MATCH]:
        if operation == MATCH:
            if start is not None:
                new_words = tuple(neighbour[start[1] : j])
                edits.append(Edit(start[0], i, new_words, count))
            start, count = None, 0
        elif start is None:
            start = i, j
        count += operation != MATCH
        i += operation != INSERT
        j += operation != DELETE
    return edits


def applied(anchor: Sequence[str], edits: Iterable[Edit]) -> Words:
    """The anchor's words after disjoint edits."""
    words: list[str] = []
    at = 0
    for edit in sorted(edits):
        words += [*anchor[at : edit.start], *edit.words]
        at = edit.end
    return (*words, *anchor[at:])


def _operations(anchor: Sequence[str], neighbour: Sequence[str]) -> list[int]:
    """Operations of a shortest path, from the start."""
    # previous[j]: the distance of the anchor's words so far from the neighbour's first j words;
    # table[i][j]: the last operation on the way there
    width = len(neighbour) + 1
    previous = list(range(width))
    table = [[INSERT] * width]
    for i, word in enumerate(anchor, 1):
        row = [i] * width
        last = [DELETE] * width
        for j, other in enumerate(neighbour, 1):
            if word == other:
                row[j] = previous[j - 1]
                last[j] = MATCH
                continue
            insert = row[j - 1]
            delete = previous[j]
            replace = previous[j - 1]
            best = min(insert, delete, replace)
            row[j] = best + 1
            if insert == best:
                last[j] = INSERT
            elif delete == best:
                last[j] = DELETE
            else:
                last[j] = REPLACE
        table.append(last)
        previous = row
    # back from the end
    i = len(anchor)
    j = len(neighbour)
    path = []
    while i or j:
        operation = table[i][j]
        path.append(operation)
        i -= operation != INSERT
        j -= operation != DELETE
    return path[::-1]
