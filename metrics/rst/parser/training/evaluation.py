"""Agreement of parses with gold trees, end to end.

The original Parseval (Morey et al. 2017) of sentences of which only the words are given: every inner node, the root
included, with the words it spans, the nuclearity of its children, and its relation. A sentence that is one EDU has no
inner node, and those that the parser finds in it are wrong. Counts are kept by document, so that intervals can be drawn
over documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, count
from typing import Any

import numpy as np

from ....representations import FloatArray
from ...trees import Tree, edus
from ..parser import Cuts, Parser
from .treebank import Sentence, binary_span

# by document: for every measure the numbers of right, guessed and gold ones, [measures, 3]
Counts = dict[str, FloatArray]
# where EDUs start and the last one ends, in words; and the nodes over them
Parsed = tuple[Sequence[int], Cuts]
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


def end_to_end(sentences: Iterable[Sentence], parse: Callable[[Sentence], Parsed]) -> Counts:
    """Counts of the sentences that are a constituent of their document's tree, parsed from their words alone."""
    counts: Counts = {}
    for sentence in sentences:
        if sentence.whole or len(sentence.starts) == 2:
            gold = _inner_nodes(sentence.starts, sentence.cuts)
            guess = _inner_nodes(*parse(sentence))
            rows = [[len(a & b), len(b), len(a)] for a, b in zip(gold, guess, strict=True)]
            before = counts.get(sentence.document, np.zeros((len(MEASURES), 3)))
            counts[sentence.document] = before + rows
    return counts


def _inner_nodes(starts: Sequence[int], cuts: Cuts) -> list[set[Any]]:
    """The words that inner nodes span, alone, with their nuclearity, and with their relation."""
    spans = {node: (starts[node[0]], starts[node[1] + 1]) for node in cuts}
    return [
        set(spans.values()),
        {(spans[node], cut.nuc) for node, cut in cuts.items()},
        {(spans[node], cut.rel) for node, cut in cuts.items()},
    ]


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
    """The figures of a parser, end to end."""
    whole = interval(end_to_end(sentences, lambda sentence: parse_by(parser, sentence)))
    return {
        "documents": len({sentence.document for sentence in sentences}),
        "sentences": len(sentences),
        "end to end": dict(zip(MEASURES, whole, strict=True)),
    }
