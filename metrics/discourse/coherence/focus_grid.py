"""The focus grid of a text, its sentence graph, and what the paper reads off them (Zhao et al. 2023, sections 3 and 6).

A_u[i, j] = 1 / (j - i)       if sentences i < j share a focus, else 0
A_w[i, j] = a_ij / (j - i)    a_ij: how many foci they share
FREQ = sum of the counts of foci with count >= 2 / how many these are      CONN = sum(A) / n^2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...representations import FloatArray

Grid = Mapping[str, Sequence[int]]  # the sentence of every occurrence of each focus, in order


def grid_of(keys: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    """The grid of the foci of sentences.

    >>> grid_of([["cat", "mat"], ["cat"]])
    {'cat': [0, 1], 'mat': [0]}
    """
    grid: dict[str, list[int]] = {}
    for i, sentence in enumerate(keys):
        for key in sentence:
            grid.setdefault(key, []).append(i)
    return grid


def merged(grid: Grid, names: Mapping[str, str]) -> dict[str, list[int]]:
    """The grid with foci under the names of their entities."""
    entities: dict[str, list[int]] = {}
    for key, sentences in grid.items():
        entities.setdefault(names[key], []).extend(sentences)
    return {name: sorted(sentences) for name, sentences in entities.items()}


def repeated(grid: Grid) -> dict[str, Sequence[int]]:
    """The part of the grid with the foci that occur at least twice.

    >>> repeated({"cat": [0, 1], "mat": [0]})
    {'cat': [0, 1]}
    """
    return {key: places for key, places in grid.items() if len(places) >= 2}


def adjacency(
    grid: Grid,
    sentences: int,
    weighted: bool = False,
) -> FloatArray:
    """A_u or A_w, float64 [sentences, sentences], strictly upper triangular."""
    # how many foci sentences i < j share: an occurrence joins its sentence to all later ones of its focus
    shared = np.zeros((sentences, sentences))
    for places in grid.values():
        own = np.unique(places)
        for at, i in enumerate(own.tolist()):
            later = own[at + 1 :]
            shared[i, later] += 1
    place = np.arange(sentences)
    distance = np.maximum(place[None, :] - place[:, None], 1)
    joined = shared if weighted else np.minimum(shared, 1)
    return np.asarray(joined / distance)


def freq(grid: Grid) -> float:
    """How often foci that come back occur on average; 0 if none does."""
    counts = [len(places) for places in repeated(grid).values()]
    return sum(counts) / len(counts) if counts else 0.0


def conn(graph: FloatArray) -> float:
    """How connected the sentences of a graph [n, n] are; 0 without sentences."""
    return float(graph.sum()) / graph.size if graph.size else 0.0
