"""How well segments and trees agree with gold ones: F1 of EDU boundaries inside sentences, and RST-Parseval.

RST-Parseval (Marcu 2000): every node of a sentence's tree but the root, with its span, its own nuclearity, and the
relation to its parent ("span" for the nucleus of a nucleus-satellite node); F1 of spans, of spans with nuclearity, of
spans with relation. Counts are kept by document, so that intervals can be drawn over documents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...representations import FloatArray
from .parser import Cut, Cuts, Parser
from .parser_features import Units
from .treebank import Sentence

Counts = dict[
    str, FloatArray
]  # by document: for every measure right, found and gold, [measures, 3]
MEASURES = ("span", "nuclearity", "relation")
RESAMPLES = 2000


def f1(counts: FloatArray) -> FloatArray:
    """2 right / (found + gold), in per cent, [..., measures]."""
    return np.asarray(200 * counts[..., 0] / np.maximum(counts[..., 1] + counts[..., 2], 1))


def interval(counts: Counts) -> list[dict[str, float]]:
    """F1 and its 95 % interval by bootstrap over documents, for every measure."""
    rows = np.stack([counts[name] for name in sorted(counts)])
    draws = np.random.default_rng(0).integers(len(rows), size=(RESAMPLES, len(rows)))
    low, high = np.quantile(f1(rows[draws].sum(axis=1)), [0.025, 0.975], axis=0)
    return [
        {"f1": round(float(f), 1), "low": round(float(a), 1), "high": round(float(b), 1)}
        for f, a, b in zip(f1(rows.sum(axis=0)), low, high, strict=True)
    ]


def boundaries(sentences: Iterable[Sentence], guess: Callable[[Sentence], Sequence[int]]) -> Counts:
    """Boundaries inside sentences; sentence starts do not count."""
    found: Counts = defaultdict(lambda: np.zeros((1, 3)))
    for sentence in sentences:
        gold, own = set(sentence.starts[1:-1]), set(guess(sentence)) - {0}
        found[sentence.document] += [[len(gold & own), len(own), len(gold)]]
    return found


def parseval(sentences: Iterable[Sentence], guess: Callable[[Sentence], Cuts]) -> Counts:
    """RST-Parseval of the sentences that have a gold tree, gold EDUs given."""
    found: Counts = defaultdict(lambda: np.zeros((len(MEASURES), 3)))
    for sentence in sentences:
        if sentence.whole:
            sides = [_constituents(cuts) for cuts in (sentence.cuts, guess(sentence))]
            views = [
                [{(span, *(value[i] for i in keep)) for span, *value in side} for side in sides]
                for keep in _KEEP
            ]
            found[sentence.document] += [
                [len(gold & own), len(own), len(gold)] for gold, own in views
            ]
    return found


_KEEP: tuple[tuple[int, ...], ...] = ((), (0,), (1,))


def _constituents(cuts: Cuts) -> set[tuple[Any, ...]]:
    """(span, nuclearity, relation to the parent) of every node but the root."""
    found: set[tuple[Any, ...]] = set()
    for (i, j), (middle, nuc, rel) in cuts.items():
        for letter, span in zip(nuc, ((i, middle), (middle + 1, j)), strict=True):
            found.add((span, letter, rel if nuc == "NN" or letter == "S" else "span"))
    return found


def right_branching(sentence: Sentence, nuc: str, rel: str) -> Cuts:
    """The baseline tree: always the first EDU against the rest, one label throughout."""
    last = len(sentence.starts) - 2
    return {(i, last): Cut(i, nuc, rel) for i in range(last)}


def after_commas(sentence: Sentence) -> list[int]:
    """The baseline segments: an EDU begins behind every comma."""
    return [i + 1 for i, word in enumerate(sentence.words[:-1]) if word == ","]


def report(
    parser: Parser, sentences: Sequence[Sentence], common: tuple[str, str]
) -> dict[str, Any]:
    """All figures of a parser and of the baselines, `common` being the most frequent label of training."""

    def own_cuts(sentence: Sentence) -> Cuts:
        tags, _ = parser.segment(sentence.words)
        return parser.cuts(Units([word.lower() for word in sentence.words], tags, sentence.starts))

    parsed = interval(parseval(sentences, own_cuts))
    plain = interval(parseval(sentences, lambda sentence: right_branching(sentence, *common)))
    return {
        "documents": len({sentence.document for sentence in sentences}),
        "sentences": len(sentences),
        "segmentation": interval(boundaries(sentences, lambda s: parser.segment(s.words)[1]))[0],
        "segmentation, behind every comma": interval(boundaries(sentences, after_commas))[0],
        "parseval": dict(zip(MEASURES, parsed, strict=True)),
        "parseval, right-branching and the most frequent label": dict(
            zip(MEASURES, plain, strict=True)
        ),
    }
