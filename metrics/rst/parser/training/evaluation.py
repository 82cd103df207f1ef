"""How well parses agree with gold ones: end to end from words, of EDU boundaries alone, of trees over gold EDUs alone.

End to end: the original Parseval (Morey et al. 2017) of sentences of which only the words are given: every inner node,
the root included, with the words it spans, the nuclearity of its children, and its relation. A sentence that is one EDU
has no inner node, and those that the parser finds in it are wrong.

RST-Parseval over gold EDUs (Marcu 2000): every node of a sentence's tree but the root, with its span, its own
nuclearity, and the relation to its parent ("span" for the nucleus of a nucleus-satellite node); F1 of spans, of spans
with nuclearity, of spans with relation. Counts are kept by document, so that intervals can be drawn over documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate, count
from typing import Any

import numpy as np

from ....representations import FloatArray
from ...trees import Tree, edus
from ..parser import Cuts, Parser
from ..parser_features import Units
from .treebank import Sentence, binary_span

# by document: for every measure the numbers of right, guessed and gold ones, [measures, 3]
Counts = dict[str, FloatArray]
# where EDUs start and the last one ends, in words; and the nodes over them
Parsed = tuple[Sequence[int], Cuts]
Constituent = tuple[tuple[int, int], str, str]  # span, nuclearity, relation to the parent
MEASURES = ("span", "nuclearity", "relation")
RESAMPLES = 2000


def f1(counts: FloatArray) -> FloatArray:
    """2 right / (guessed + gold), in per cent, [..., measures], from counts [..., measures, 3]."""
    right = counts[..., 0]
    total = counts[..., 1] + counts[..., 2]
    return np.asarray(200 * right / np.maximum(total, 1))


def interval(counts: Counts) -> list[dict[str, float]]:
    """F1 and its 95 % interval by bootstrap over documents, for every measure."""
    rows = np.stack([counts[name] for name in sorted(counts)])  # [documents, measures, 3]
    draws = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    resampled = f1(rows[draws].sum(axis=1))  # [resamples, measures]
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    figures = {"f1": f1(rows.sum(axis=0)), "low": low, "high": high}  # [measures] each
    return [
        {name: round(float(values[measure]), 1) for name, values in figures.items()}
        for measure in range(rows.shape[1])
    ]


def boundaries(sentences: Iterable[Sentence], guess: Callable[[Sentence], Sequence[int]]) -> Counts:
    """Boundaries inside sentences; sentence starts do not count."""
    return _counts(
        sentences,
        lambda sentence: [set(sentence.starts[1:-1])],
        lambda sentence: [set(guess(sentence)) - {0}],
    )


def _counts(
    sentences: Iterable[Sentence],
    gold: Callable[[Sentence], list[AbstractSet[Any]]],
    guess: Callable[[Sentence], list[AbstractSet[Any]]],
) -> Counts:
    """The numbers of right, guessed and gold items of every document, from the items of a sentence by measure."""
    counts: Counts = {}
    for sentence in sentences:
        pairs = zip(gold(sentence), guess(sentence), strict=True)
        rows = np.array([[len(a & b), len(b), len(a)] for a, b in pairs], float)
        counts[sentence.document] = counts.get(sentence.document, np.zeros_like(rows)) + rows
    return counts


def parseval(sentences: Iterable[Sentence], guess: Callable[[Sentence], Cuts]) -> Counts:
    """RST-Parseval of the sentences that have a gold tree, gold EDUs given."""
    return _counts(
        (sentence for sentence in sentences if sentence.whole),
        lambda sentence: _by_measure(_constituents(sentence.cuts)),
        lambda sentence: _by_measure(_constituents(guess(sentence))),
    )


def _constituents(cuts: Cuts) -> set[Constituent]:
    """(span, nuclearity, relation to the parent) of every node but the root."""
    constituents: set[Constituent] = set()
    for (i, j), (middle, nuc, rel) in cuts.items():
        halves = ((i, middle), (middle + 1, j))
        for letter, span in zip(nuc, halves, strict=True):
            carries_relation = nuc == "NN" or letter == "S"
            constituents.add((span, letter, rel if carries_relation else "span"))
    return constituents


def _by_measure(constituents: set[Constituent]) -> list[AbstractSet[Any]]:
    """The items to compare, for every one of `MEASURES`."""
    return [
        {span for span, _, _ in constituents},
        {(span, nuclearity) for span, nuclearity, _ in constituents},
        {(span, relation) for span, _, relation in constituents},
    ]


def end_to_end(sentences: Iterable[Sentence], parse: Callable[[Sentence], Parsed]) -> Counts:
    """Original Parseval of the sentences that are a constituent of their document's tree, of their words alone."""
    return _counts(
        (sentence for sentence in sentences if sentence.whole or len(sentence.starts) == 2),
        lambda sentence: _by_measure(_inner_nodes(sentence.starts, sentence.cuts)),
        lambda sentence: _by_measure(_inner_nodes(*parse(sentence))),
    )


def _inner_nodes(starts: Sequence[int], cuts: Cuts) -> set[Constituent]:
    """(words spanned, nuclearity, relation) of every inner node."""
    nodes = cuts.items()
    return {((starts[i], starts[j + 1]), cut.nuc, cut.rel) for (i, j), cut in nodes}


def parse_by(parser: Parser, sentence: Sentence) -> Parsed:
    """The parser's tree of the words of a sentence."""
    tree = parser.words(sentence.words)
    starts = [0, *accumulate(map(len, edus(tree)))]
    leaves = count()

    def numbered(node: Tree) -> Any:
        if isinstance(node, tuple):
            return next(leaves)
        return [node.nuc, node.rel, *map(numbered, node.children)]

    cuts: Cuts = {}
    binary_span(numbered(tree), cuts)
    return starts, cuts


def report(parser: Parser, sentences: Sequence[Sentence]) -> dict[str, Any]:
    """All figures of a parser."""

    def starts(sentence: Sentence) -> list[int]:
        return parser.segment(sentence.words)[1]

    def cuts(sentence: Sentence) -> Cuts:
        tags, _ = parser.segment(sentence.words)
        lowered = [word.lower() for word in sentence.words]
        return parser.cuts(Units(lowered, tags, sentence.starts))

    whole = interval(end_to_end(sentences, lambda sentence: parse_by(parser, sentence)))
    trees = interval(parseval(sentences, cuts))
    return {
        "documents": len({sentence.document for sentence in sentences}),
        "sentences": len(sentences),
        "end to end": dict(zip(MEASURES, whole, strict=True)),
        "segmentation": interval(boundaries(sentences, starts))[0],
        "parseval": dict(zip(MEASURES, trees, strict=True)),
    }
