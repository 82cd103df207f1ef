"""Which segments to have judged next, and in which order.

Judgements are to tell systems apart as they are on all segments, easy and hard ones. Segments that nobody judged are
put in order of their difficulty, the errors expected of their texts (`difficulty`), and cut into as many strata of
equal size as are to be judged. Of each stratum is taken

    argmax_i d(i) / (1 + m(i)),     d(i) = max(0, mean_h u(h, h) - mean_(h, r: h != r) u(h, r))
d is how much the systems' texts differ (where they are the same, no judgement tells systems apart) and m how many
segments of the same document are judged or taken already, as these fail alike. Strata come in the order in which
halves, then quarters, ... of all of them have been visited, so that whoever stops early has judged easy and hard
segments too. Nothing is drawn: the same texts have the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...metrics.representations import FloatArray, IntArray


def judging_order(
    difficulty: FloatArray,
    disagreement: FloatArray,
    document: IntArray,
    judged: NDArray[np.bool_],
    count: int,
) -> list[int]:
    """The segments to judge, `count` of them or all that are left, in their order.

    Args:
        difficulty: of every segment, [n].
        disagreement: d, [n].
        document: its number, [n].
        judged: whether something of it is judged, [n].
        count: how many.
    """
    left = np.flatnonzero(~judged)
    strata = _strata(left, difficulty, min(count, len(left)))
    taken_of = Counter(document[judged].tolist())
    order = []
    for number in spread_order(len(strata)):
        best = max(
            strata[number],
            key=lambda i: (disagreement[i] / (1 + taken_of[int(document[i])]), -i),
        )
        taken_of[int(document[best])] += 1
        order.append(best)
    return order


def _strata(left: IntArray, difficulty: FloatArray, count: int) -> list[list[int]]:
    """The segments that are left, [m], in `count` parts from easy to hard."""
    if not count:
        return []
    by_difficulty = left[np.argsort(difficulty[left], kind="stable")]
    return [part.tolist() for part in np.array_split(by_difficulty, count)]


def spread_order(count: int) -> list[int]:
    """The numbers below `count` so that each first part is spread over all: by their bits, the last one first.

    >>> spread_order(6)
    [0, 4, 2, 1, 5, 3]
    """
    bits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda i: f"{i:0{bits}b}"[::-1])


def disagreement_of(matrices: Iterable[FloatArray]) -> FloatArray:
    """d of every segment, [n], from its utilities [S, S]; 0 of a single text."""
    values = []
    for utilities in matrices:
        num_texts = len(utilities)
        own = float(np.trace(utilities))
        if num_texts < 2:
            values.append(0.0)
            continue
        others = (float(utilities.sum()) - own) / (num_texts * (num_texts - 1))
        values.append(max(0.0, own / num_texts - others))
    return np.array(values)


def document_means(values: FloatArray, document: IntArray) -> FloatArray:
    """The mean of values [n] over the segments of each document, [D]."""
    return np.asarray(np.bincount(document, values) / np.bincount(document))


def documents_judged(judged: NDArray[np.bool_], document: IntArray) -> NDArray[np.bool_]:
    """Whether a segment of each document is judged, [D]."""
    return np.asarray(np.bincount(document, judged) > 0)
