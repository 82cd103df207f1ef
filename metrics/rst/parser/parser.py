"""From an English text to its discourse tree: words, tags, EDUs, and the best binary tree of every sentence.

A tree's score is the product over its nodes of p(split | span), a softmax over the places a span can be cut at; the
best tree is found exactly, as in CKY. The label of a node (nuclearity and relation) is its split's best. Sentences are
joined under one Joint. Same text, same tree, in any company.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...representations import FloatArray, Ragged
from ...text.sentence_splitting import sentences
from ...text.texts import RSTTree
from ..tokens import words
from ..trees import Tree, joined
from .parser_features import Triple, Units, sentence_numbers, split_numbers
from .parser_network import Weights
from .weights import Model, load

SHIPPED = Path(__file__).with_name("english.npz")
MAX_UNITS = (
    16  # EDUs of a sentence parsed at once; longer ones are cut, as a chart grows with the cube
)
MAX_WORDS = 400  # words read at once


class Cut(NamedTuple):
    """One node of a binary tree: where it is cut and its label."""

    middle: int
    nuc: str
    rel: str


Cuts = dict[tuple[int, int], Cut]


class Parser:
    """A loaded parser."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.sentence = lru_cache(1 << 12)(self._sentence)

    def document(self, text: str | Sequence[str]) -> Tree:
        """The tree of a text, or of given sentences."""
        parts = (
            sentences(text) if isinstance(text, str) else [part for part in text if part.strip()]
        )
        return joined([self.sentence(part) for part in parts])

    def _sentence(self, text: str) -> Tree:
        found = words(text)
        parts = [self.words(found[i : i + MAX_WORDS]) for i in range(0, len(found), MAX_WORDS)]
        return joined(parts)

    def words(self, found: Sequence[str]) -> Tree:
        """The tree of a sentence's words."""
        tags, starts = self.segment(found)
        step = range(0, len(starts), MAX_UNITS)
        return joined([self._units(found, tags, starts[i : i + MAX_UNITS + 1]) for i in step])

    def segment(self, found: Sequence[str]) -> tuple[list[str], list[int]]:
        """The tag of every word, and the first word of every EDU."""
        tags, cuts = self.model.encoder.read(sentence_numbers(found))
        return [self.model.tags[tag] for tag in tags], [
            0,
            *(np.flatnonzero(cuts[1:] > 0) + 1).tolist(),
        ]

    def _units(self, found: Sequence[str], tags: list[str], starts: list[int]) -> Tree:
        """The tree of up to `MAX_UNITS` EDUs; one more start is where they end."""
        end = starts[MAX_UNITS] if len(starts) > MAX_UNITS else len(found)
        begin, own = starts[0], starts[:MAX_UNITS]
        some = found[begin:end]
        units = Units(
            [word.lower() for word in some],
            tags[begin:end],
            [*(s - begin for s in own), end - begin],
        )
        return tree_of(some, units.starts, self.cuts(units))

    def cuts(self, units: Units) -> Cuts:
        """The nodes of the best tree, by first and last EDU."""
        triples = chart(units.edus)
        if not triples:
            return {}
        rows = Ragged.of_rows([split_numbers(units, triple) for triple in triples])
        return best_cuts(units.edus, triples, self.model.splitter.scores(rows), self.model.labels)


def chart(count: int) -> list[Triple]:
    """Every way to cut every span of EDUs in two."""
    return [Triple(i, k, j) for j in range(count) for i in range(j) for k in range(i, j)]


def best_cuts(
    count: int, triples: Sequence[Triple], scores: Weights, labels: Sequence[tuple[str, str]]
) -> Cuts:
    """The nodes of the tree of the highest product of split probabilities, from [splits, 1 + labels]."""
    row = {triple: i for i, triple in enumerate(triples)}
    value = np.zeros((count, count))
    at = np.zeros((count, count), np.int64)
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            split = _log_softmax(
                scores[[row[Triple(i, k, j)] for k in range(i, j)], 0].astype(np.float64)
            )
            total = split + value[i, i:j] + value[i + 1 : j + 1, j]
            best = int(total.argmax())
            value[i, j], at[i, j] = total[best], i + best
    found: Cuts = {}
    stack = [(0, count - 1)]
    while stack:
        i, j = stack.pop()
        if i < j:
            k = int(at[i, j])
            nuc, rel = labels[int(scores[row[Triple(i, k, j)], 1:].argmax())]
            found[i, j] = Cut(k, nuc, rel)
            stack += [(i, k), (k + 1, j)]
    return found


def _log_softmax(x: FloatArray) -> FloatArray:
    x = x - x.max()
    return np.asarray(x - np.log(np.exp(x).sum()))


def tree_of(found: Sequence[str], starts: Sequence[int], cuts: Cuts) -> Tree:
    """The tree over words from its nodes; `starts` holds the number of words at its end."""

    def part(i: int, j: int) -> Tree:
        if i == j:
            return tuple(found[starts[i] : starts[i + 1]])
        middle, nuc, rel = cuts[i, j]
        return RSTTree(nuc, rel, (part(i, middle), part(middle + 1, j)))

    return part(0, len(starts) - 2)


@cache
def loaded(weights: str | None = None, digest: str = "") -> Parser:
    """The parser of a file of weights, or the one that ships with discorank; loaded once per process and `digest`.

    Raises:
        ModelLoadError: the file is missing or no weights.
    """
    return Parser(load(Path(weights) if weights else SHIPPED))


def english() -> Parser:
    """The parser that ships with discorank."""
    return loaded()
