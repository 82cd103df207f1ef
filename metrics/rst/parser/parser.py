"""From an English text to its discourse tree: words, tags, EDUs, and the best binary tree of every sentence.

A tree's score is the product over its nodes of p(split | span), a softmax over the places a span can be cut at; the
best tree is found exactly, as in CKY. The label of a node (nuclearity and relation) is its split's best. Sentences are
joined under one Joint. Same text, same tree, in any company.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...representations import FloatArray, IntArray, Ragged
from ...storage.checksums import MARK, check_file
from ...text.sentence_splitting import sentences
from ...text.texts import RSTTree
from ..trees import Tree, joined
from ..trees import words as tokenized
from .parser_features import Triple, Units, sentence_numbers, split_numbers
from .weights import Model, Weights, load

SHIPPED = Path(__file__).with_name("english.npz")
# EDUs of a sentence parsed at once; longer ones are cut, as a chart grows with the cube
MAX_UNITS = 16
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
        if isinstance(text, str):
            return joined([self.sentence(part) for part in sentences(text)])
        return joined([self.sentence(part) for part in text if part.strip()])

    def _sentence(self, text: str) -> Tree:
        tokens = tokenized(text)
        trees = []
        for begin in range(0, len(tokens), MAX_WORDS):
            trees.append(self.words(tokens[begin : begin + MAX_WORDS]))
        return joined(trees)

    def words(self, words: Sequence[str]) -> Tree:
        """The tree of a sentence's words."""
        tags, starts = self.segment(words)
        trees = []
        for first in range(0, len(starts), MAX_UNITS):
            own_starts = starts[first : first + MAX_UNITS + 1]
            trees.append(self._units(words, tags, own_starts))
        return joined(trees)

    def segment(self, words: Sequence[str]) -> tuple[list[str], list[int]]:
        """The tag of every word, and the first word of every EDU."""
        tags, cuts = self.model.encoder.read(sentence_numbers(words))  # [words] each
        later_starts = np.flatnonzero(cuts[1:] > 0) + 1
        names = [self.model.tags[tag] for tag in tags]
        return names, [0, *later_starts.tolist()]

    def _units(self, words: Sequence[str], tags: list[str], starts: list[int]) -> Tree:
        """The tree of up to `MAX_UNITS` EDUs; one more start is where they end."""
        begin = starts[0]
        end = starts[MAX_UNITS] if len(starts) > MAX_UNITS else len(words)
        inside = words[begin:end]
        lowered = [word.lower() for word in inside]
        own_starts = [start - begin for start in starts[:MAX_UNITS]]
        units = Units(lowered, tags[begin:end], [*own_starts, end - begin])
        return tree_of(inside, units.starts, self.cuts(units))

    def cuts(self, units: Units) -> Cuts:
        """The nodes of the best tree, by first and last EDU."""
        triples = chart(units.edus)
        if not triples:
            return {}
        rows = Ragged.of_rows([split_numbers(units, triple) for triple in triples])
        scores = self.model.splitter.scores(rows)
        return best_cuts(units.edus, triples, scores, self.model.labels)


def chart(count: int) -> list[Triple]:
    """Every way to cut every span of EDUs in two."""
    spans = [(i, j) for j in range(count) for i in range(j)]
    return [Triple(i, k, j) for i, j in spans for k in range(i, j)]


def best_cuts(
    count: int,
    triples: Sequence[Triple],
    scores: Weights,
    labels: Sequence[tuple[str, str]],
) -> Cuts:
    """The nodes of the tree of the highest product of split probabilities, from [splits, 1 + labels]."""
    row_of = {triple: row for row, triple in enumerate(triples)}
    middles = _best_middles(count, row_of, scores[:, 0])
    cuts: Cuts = {}
    stack = [(0, count - 1)]
    while stack:
        i, j = stack.pop()
        if i < j:
            k = int(middles[i, j])
            label_scores = scores[row_of[Triple(i, k, j)], 1:]
            nuc, rel = labels[int(label_scores.argmax())]
            cuts[i, j] = Cut(k, nuc, rel)
            stack += [(i, k), (k + 1, j)]
    return cuts


def _best_middles(count: int, row_of: Mapping[Triple, int], scores: Weights) -> IntArray:
    """Where the best tree over EDUs i to j is cut, [count, count], from the scores of all splits, [splits]."""
    value = np.zeros((count, count))  # log probability of the best tree over EDUs i to j
    middles = np.zeros((count, count), np.int64)
    for width in range(1, count):  # short spans first: longer ones are built from them
        for i in range(count - width):
            j = i + width
            rows = [row_of[Triple(i, k, j)] for k in range(i, j)]
            split = _log_softmax(scores[rows].astype(np.float64))
            # the best trees of the left part, EDUs i to k, and of the right one, k + 1 to j, for every k
            left = value[i, i:j]
            right = value[i + 1 : j + 1, j]
            total = split + left + right
            best = int(total.argmax())
            value[i, j] = total[best]
            middles[i, j] = i + best
    return middles


def _log_softmax(logits: FloatArray) -> FloatArray:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()))


def tree_of(words: Sequence[str], starts: Sequence[int], cuts: Cuts) -> Tree:
    """The tree over words from its nodes; `starts` holds the number of words at its end."""

    def part(i: int, j: int) -> Tree:
        if i == j:
            return tuple(words[starts[i] : starts[i + 1]])
        middle, nuc, rel = cuts[i, j]
        children = (part(i, middle), part(middle + 1, j))
        return RSTTree(nuc, rel, children)

    return part(0, len(starts) - 2)


@cache
def loaded(weights: str | None = None, digest: str = "") -> Parser:
    """The parser of a file of weights, or the one that ships with discorank; loaded once per process and `digest`.

    Raises:
        ModelLoadError: the file is missing or no weights.
        InputError: it has another digest.
    """
    parser = Parser(load(Path(weights) if weights else SHIPPED))
    if weights and digest:
        check_file(f"{weights}{MARK}{digest}")
    return parser


def english() -> Parser:
    """The parser that ships with discorank."""
    return loaded()
