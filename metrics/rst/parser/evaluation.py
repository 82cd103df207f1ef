"""How well segments and trees agree with gold ones: F1 of EDU boundaries inside sentences, and RST-Parseval.

RST-Parseval (Marcu 2000): every node of a sentence's tree but the root, with its span, its own nuclearity, and the
relation to its parent ("span" for the nucleus of a nucleus-satellite node); F1 of spans, of spans with nuclearity, of
spans with relation. Counts are kept by document, so that intervals can be drawn over documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np

from ...representations import FloatArray
from .parser import Cut, Cuts, Parser
from .parser_features import Units
from .treebank import Sentence

# by document: for every measure the numbers of right, guessed and gold ones, [measures, 3]
Counts = dict[str, FloatArray]
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
    """What is compared, for every one of `MEASURES`."""
    return [
        {span for span, _, _ in constituents},
        {(span, nuclearity) for span, nuclearity, _ in constituents},
        {(span, relation) for span, _, relation in constituents},
    ]


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

    trees = interval(parseval(sentences, parser_cuts))
    baseline_trees = interval(parseval(sentences, baseline_cuts))
    segments = interval(boundaries(sentences, parser_starts))
    baseline_segments = interval(boundaries(sentences, after_commas))
    return {
        "documents": len({sentence.document for sentence in sentences}),
        "sentences": len(sentences),
        "segmentation": segments[0],
        "segmentation, behind every comma": baseline_segments[0],
        "parseval": dict(zip(MEASURES, trees, strict=True)),
        "parseval, right-branching and the most frequent label": dict(
            zip(MEASURES, baseline_trees, strict=True)
        ),
    }
