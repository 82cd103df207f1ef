"""How well parses agree with gold ones: end to end from words, of EDU boundaries alone, of trees over gold EDUs alone.

End to end: the original Parseval (Morey et al. 2017) of sentences of which only the words are given: every inner node,
the root included, with the words it spans, the nuclearity of its children, and its relation. A sentence that is one EDU
has no inner node, and those that the parser finds in it are wrong.

RST-Parseval over gold EDUs (Marcu 2000): every node of a sentence's tree but the root, with its span, its own
nuclearity, and the relation to its parent ("span" for the nucleus of a nucleus-satellite node); F1 of spans, of spans
with nuclearity, of spans with relation. Counts are kept by document, so that intervals can be drawn over documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import numpy as np

from ....representations import FloatArray
from ..parser import MAX_UNITS, Cut, Cuts, Parser
from ..parser_features import Units
from .treebank import Sentence

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
    counts: Counts = defaultdict(lambda: np.zeros((1, 3)))
    for sentence in sentences:
        gold = set(sentence.starts[1:-1])
        guessed = set(guess(sentence)) - {0}
        counts[sentence.document] += [_agreement(gold, guessed)]
    return counts


def _agreement(gold: AbstractSet[Any], guessed: AbstractSet[Any]) -> list[int]:
    """The numbers of right, guessed and gold ones."""
    return [len(gold & guessed), len(guessed), len(gold)]


def parseval(sentences: Iterable[Sentence], guess: Callable[[Sentence], Cuts]) -> Counts:
    """RST-Parseval of the sentences that have a gold tree, gold EDUs given."""
    counts: Counts = defaultdict(lambda: np.zeros((len(MEASURES), 3)))
    for sentence in sentences:
        if sentence.whole:
            gold = _by_measure(_constituents(sentence.cuts))
            guessed = _by_measure(_constituents(guess(sentence)))
            pairs = zip(gold, guessed, strict=True)
            counts[sentence.document] += [_agreement(*pair) for pair in pairs]
    return counts


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
    counts: Counts = defaultdict(lambda: np.zeros((len(MEASURES), 3)))
    for sentence in sentences:
        num_units = len(sentence.starts) - 1
        if sentence.whole or num_units == 1:
            gold = _by_measure(_inner_nodes(sentence.starts, sentence.cuts))
            guessed = _by_measure(_inner_nodes(*parse(sentence)))
            pairs = zip(gold, guessed, strict=True)
            counts[sentence.document] += [_agreement(*pair) for pair in pairs]
    return counts


def _inner_nodes(starts: Sequence[int], cuts: Cuts) -> set[Constituent]:
    """(words spanned, nuclearity, relation) of every inner node."""
    nodes = cuts.items()
    return {((starts[i], starts[j + 1]), cut.nuc, cut.rel) for (i, j), cut in nodes}


def parse_by(parser: Parser, sentence: Sentence) -> Parsed:
    """The parser's tree of the words of a sentence; EDUs that are too many for it are joined under Joint nodes."""
    tags, starts = parser.segment(sentence.words)
    lowered = [word.lower() for word in sentence.words]
    bounds = [*starts, len(sentence.words)]
    cuts: Cuts = {}
    for first in range(0, len(starts), MAX_UNITS):
        own = bounds[first : first + MAX_UNITS + 1]
        inside = slice(own[0], own[-1])
        units = Units(lowered[inside], tags[inside], [start - own[0] for start in own])
        for (i, j), cut in parser.cuts(units).items():
            cuts[first + i, first + j] = cut._replace(middle=first + cut.middle)
    last = len(starts) - 1
    for first in range(0, last - MAX_UNITS + 1, MAX_UNITS):
        cuts[first, last] = Cut(first + MAX_UNITS - 1, "NN", "Joint")
    return bounds, cuts


def right_branching(sentence: Sentence, nuc: str, rel: str) -> Cuts:
    """The baseline tree: always the first EDU against the rest, one label throughout."""
    last = len(sentence.starts) - 2
    return {(i, last): Cut(i, nuc, rel) for i in range(last)}


def after_commas(sentence: Sentence) -> list[int]:
    """The baseline segments: an EDU begins behind every comma."""
    return [i + 1 for i, word in enumerate(sentence.words[:-1]) if word == ","]


def report(
    parser: Parser,
    sentences: Sequence[Sentence],
    common: tuple[str, str],
) -> dict[str, Any]:
    """All figures of a parser and of the baselines, `common` being the most frequent label of training."""

    def parser_starts(sentence: Sentence) -> list[int]:
        return parser.segment(sentence.words)[1]

    def parser_cuts(sentence: Sentence) -> Cuts:
        tags, _ = parser.segment(sentence.words)
        lowered = [word.lower() for word in sentence.words]
        return parser.cuts(Units(lowered, tags, sentence.starts))

    def baseline_cuts(sentence: Sentence) -> Cuts:
        return right_branching(sentence, *common)

    def parse(sentence: Sentence) -> Parsed:
        return parse_by(parser, sentence)

    def baseline_parse(sentence: Sentence) -> Parsed:
        starts = [*parser_starts(sentence), len(sentence.words)]
        units = replace(sentence, starts=starts)
        return starts, baseline_cuts(units)

    whole = interval(end_to_end(sentences, parse))
    baseline_whole = interval(end_to_end(sentences, baseline_parse))
    trees = interval(parseval(sentences, parser_cuts))
    baseline_trees = interval(parseval(sentences, baseline_cuts))
    segments = interval(boundaries(sentences, parser_starts))
    baseline_segments = interval(boundaries(sentences, after_commas))
    return {
        "documents": len({sentence.document for sentence in sentences}),
        "sentences": len(sentences),
        "end to end": dict(zip(MEASURES, whole, strict=True)),
        "end to end, right-branching over the same EDUs": dict(
            zip(MEASURES, baseline_whole, strict=True)
        ),
        "segmentation": segments[0],
        "segmentation, behind every comma": baseline_segments[0],
        "parseval": dict(zip(MEASURES, trees, strict=True)),
        "parseval, right-branching and the most frequent label": dict(
            zip(MEASURES, baseline_trees, strict=True)
        ),
    }
