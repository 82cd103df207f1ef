"""Entities: the nouns of one text that mean about the same (Zhao et al. 2023).

Nouns are nodes; two are joined if the cosine of their vectors is above a threshold; an entity is a connected component.
With word vectors from a file its name is its members, sorted and joined by "-"; with the vectors of an encoder, which
differ from text to text, it is the member with the longest vector, so that texts may share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...errors import InputError, excerpt
from ...representations import Array
from ...text.sentence_splitting import numbered_lines


def components(vectors: Array, threshold: float) -> list[list[int]]:
    """Connected components of rows [n, d] whose cosines exceed a threshold, each in order, by their first row."""
    norms = np.linalg.norm(vectors, axis=1)
    lengths = np.where(norms > 0, norms, 1)
    units = vectors / lengths[:, None]
    # not `@`, whose last bit depends on the number of rows
    near = np.einsum("id,jd->ij", units, units) > threshold  # [n, n]
    left = set(range(len(vectors)))
    groups = []
    while left:
        start = min(left)
        left.remove(start)
        members = [start]
        edge = [start]
        while edge:
            neighbours = np.flatnonzero(near[edge.pop()]).tolist()
            new = left & set(neighbours)
            left -= new
            members += new
            edge += new
        groups.append(sorted(members))
    return groups


def named_by_members(
    keys: Sequence[str],
    vectors: Mapping[str, Array],
    threshold: float,
) -> dict[str, str]:
    """The entity of every key by word vectors; keys without a vector stand for themselves."""
    known = sorted(key for key in keys if key in vectors)
    if not known:
        return {key: key for key in keys}
    names = {}
    known_vectors = np.array([vectors[key] for key in known], np.float64)
    for group in components(known_vectors, threshold):
        members = [known[i] for i in group]
        names.update(dict.fromkeys(members, "-".join(members)))
    return {key: names.get(key, key) for key in keys}


def named_by_longest(
    keys: Sequence[str],
    vectors: Array,
    threshold: float,
) -> dict[str, str]:
    """The entity of every key by vectors [keys, d] of the text's own; of equally long ones the first key names it."""
    norms = np.linalg.norm(vectors, axis=1)
    names = {}
    for group in components(np.asarray(vectors, np.float64), threshold):
        longest = min(group, key=lambda i: (-norms[i], keys[i]))
        names.update({keys[i]: keys[longest] for i in group})
    return names


def read_vectors(path: str) -> dict[str, Array]:
    """Word vectors, float32 [d] by word in small letters, from the text format of word2vec.

    Of equal words the last counts. The first line may hold the number of words and of dimensions. ``.gz`` and
    ``.bz2`` are unpacked.

    Raises:
        InputError: the file cannot be read, or a line is not a word and d numbers.
    """
    vectors: dict[str, Array] = {}
    size = 0
    for number, line in numbered_lines(path, "Name a UTF-8 text of word vectors"):
        parts = line.split()
        if number == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
            size = int(parts[1])
            continue
        size = size or len(parts) - 1
        word, *values = line.rsplit(maxsplit=size)  # a word may hold spaces
        try:
            vector = np.array(values, np.float32)
        except ValueError:
            vector = np.empty(0, np.float32)
        if not size or len(vector) != size or not np.isfinite(vector).all():
            problem = f"found {excerpt(line.strip())}"
            fix = f"Each line is a word and {size or 'its'} numbers, separated by spaces"
            raise InputError(problem, where=f"{path}, line {number}", fix=fix)
        vectors[word.strip().lower()] = vector
    if not vectors:
        raise InputError("no vectors", where=path, fix="Each line is a word and its numbers")
    return vectors
