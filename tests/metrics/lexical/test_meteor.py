"""METEOR: worked examples, nltk where alignments are unambiguous, and a plain aligner on any text."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
from nltk.translate.meteor_score import single_meteor_score  # type: ignore[import-untyped]

from discorank import InputError, ModelLoadError
from discorank.metrics.lexical.meteor import METEOR
from discorank.metrics.representations import Block, Reps
from discorank.metrics.text.texts import Item

from ...support.examples import examples

STEM = PorterStemmer().stem
FORMS = ["running", "runs", "cats", "cat", "walking", "walked", "dogs", "house", "green"]
FORMS += ["sleep", "sleeping", "the", "a"]
WORKED = [  # hypothesis, reference, equal words, equal stems, chunks
    ("the cat sat", "the cat sat", 3, 0, 1),
    ("sat the cat", "the cat sat", 3, 0, 2),
    ("the cats sat", "the cat sat", 2, 1, 1),
    # the second "the", which is in one chunk with "dog"
    ("the cat and the dog", "the dog", 2, 0, 1),
    ("the dog and the cat", "the dog", 2, 0, 1),
    # equal words first, though "cat cats" could end the reference
    ("cat cats", "cats x cats", 1, 1, 2),
    ("x y", "a b", 0, 0, 0),
    ("", "a", 0, 0, 0),
    ("", "", 0, 0, 0),
]
forms = st.lists(st.sampled_from(FORMS), max_size=14)
texts = st.lists(forms.map(" ".join), min_size=1, max_size=5)


class NoWordNet:
    def synsets(self, word: str) -> list[str]:
        return []


def formula(words: int, stems: int, chunks: int, h: int, r: int, metric: METEOR) -> float:
    weighted = words + metric.stem_weight * stems
    if not weighted:
        return 0.0
    p, recall = weighted / h, weighted / r
    f = p * recall / (metric.alpha * p + (1 - metric.alpha) * recall)
    return float((1 - metric.gamma * (chunks / (words + stems)) ** metric.beta) * f)


def plain(h: Sequence[str], r: Sequence[str], stemmer: bool) -> tuple[int, int, int]:
    """Equal words, equal stems and chunks: all matching places in order, each taken if both its words are free."""
    of_h, of_r = ([STEM(word) for word in side] if stemmer else list(side) for side in (h, r))
    matching = {(i, j) for i in range(len(h)) for j in range(len(r)) if of_h[i] == of_r[j]}

    def run(i: int, j: int) -> int:
        low = next(k for k in range(len(h) + 1) if (i - k - 1, j - k - 1) not in matching)
        high = next(k for k in range(len(h) + 1) if (i + k + 1, j + k + 1) not in matching)
        return low + 1 + high

    taken: dict[int, int] = {}
    for i, j in sorted(
        matching, key=lambda p: (h[p[0]] != r[p[1]], -run(*p), abs(p[0] - p[1]), min(p))
    ):
        if i not in taken and j not in taken.values():
            taken[i] = j
    words = sum(h[i] == r[j] for i, j in taken.items())
    return words, len(taken) - words, sum(taken.get(i - 1, -2) + 1 != j for i, j in taken.items())


@pytest.mark.parametrize(("hypothesis", "reference", "words", "stems", "chunks"), WORKED)
def test_worked(hypothesis: str, reference: str, words: int, stems: int, chunks: int) -> None:
    lengths = len(hypothesis.split()), len(reference.split())
    for metric in (METEOR(), METEOR(alpha=0.85, beta=0.2, gamma=0.6, stem_weight=0.6)):
        expected = formula(words, stems, chunks, *lengths, metric)
        assert metric.score([hypothesis], [reference]) == pytest.approx([expected], abs=1e-12)
    assert plain(hypothesis.split(), reference.split(), True) == (words, stems, chunks)


def test_published_example() -> None:
    """Sentences of Papineni et al. (2002); nltk aligns the wrong "the" and finds more chunks."""
    hypothesis = "It is a guide to action which ensures that the military always obeys the commands of the party"
    reference = (
        "It is a guide to action that ensures that the military will forever heed Party commands"
    )
    expected = formula(12, 0, 4, 18, 16, METEOR())
    assert METEOR().score([hypothesis], [reference]) == pytest.approx([expected], abs=1e-12)


@examples(10)
@given(st.lists(st.sampled_from(FORMS), max_size=9), st.lists(st.sampled_from(FORMS), max_size=9))
def test_equals_nltk_where_alignments_are_unambiguous(h: list[str], r: list[str]) -> None:
    """No two words of a text have one stem."""
    h, r = (
        [w for i, w in enumerate(side) if STEM(w) not in map(STEM, side[:i])] for side in (h, r)
    )
    expected = single_meteor_score(r, h, wordnet=NoWordNet()) if h and r else 0
    assert METEOR().score([" ".join(h)], [" ".join(r)]) == pytest.approx([expected], abs=1e-12)
    tuned = METEOR(alpha=0.7, beta=1.5, gamma=0.3)
    expected = (
        single_meteor_score(r, h, wordnet=NoWordNet(), alpha=0.7, beta=1.5, gamma=0.3)
        if h and r
        else 0
    )
    assert tuned.score([" ".join(h)], [" ".join(r)]) == pytest.approx([expected], abs=1e-12)


@pytest.mark.parametrize("stemmer", [True, False])
@examples(8)
@given(hypotheses=texts, references=texts)
def test_equals_the_plain_aligner(
    stemmer: bool, hypotheses: list[str], references: list[str]
) -> None:
    metric = METEOR(stemmer=stemmer, stem_weight=0.6)
    for columns in (references, hypotheses):
        expected = [
            [
                formula(
                    *plain(h.split(), r.split(), stemmer), len(h.split()), len(r.split()), metric
                )
                for r in columns
            ]
            for h in hypotheses
        ]
        np.testing.assert_allclose(metric.pairwise(hypotheses, columns), expected, atol=1e-12)


@given(forms, forms)
@examples(10)
def test_as_many_words_are_aligned_as_can_be(h: list[str], r: list[str]) -> None:
    (words, stems, chunks, *_), *_ = METEOR().scorer.statistics(*one_pair(h, r)).tolist()
    (turned_words, turned_stems, turned_chunks, *_), *_ = (
        METEOR().scorer.statistics(*one_pair(r, h)).tolist()
    )
    assert words == (Counter(h) & Counter(r)).total()
    assert words + stems == (Counter(map(STEM, h)) & Counter(map(STEM, r))).total()
    assert (words, stems, chunks) == (turned_words, turned_stems, turned_chunks)


def one_pair(h: list[str], r: list[str]) -> tuple[Reps, list[Block]]:
    reps, _ = METEOR().scorer.prepare([Item(" ".join(h)), Item(" ".join(r))])
    return reps, [Block(np.array([0]), np.array([1]))]


def test_long_texts_of_few_words_are_refused() -> None:
    with pytest.raises(InputError, match="9000000"):
        METEOR().score(["a " * 3000], ["a " * 3000 + "b"])
    long = " ".join(random.Random(0).choices([f"w{i}" for i in range(500)] + ["the"] * 100, k=2000))
    assert METEOR().score([long, long], [long, long[::-1]])[0] == pytest.approx(1, abs=1e-9)


def test_the_best_reference_counts_and_lends_its_counts_to_the_corpus() -> None:
    h, r = ["the cat sat", "a dog"], [["the cats sat", "x"], ["y", "a dog ran"]]
    metric = METEOR()
    assert metric.score(h, r) == pytest.approx(
        [metric.score(h[:1], ["the cats sat"])[0], metric.score(h[1:], ["a dog ran"])[0]]
    )
    assert metric.corpus(h, r) == pytest.approx(formula(4, 1, 2, 5, 6, metric), abs=1e-12)


def test_without_a_stemmer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert METEOR(stemmer=False).score(["cats"], ["cat"]).tolist() == [0]
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.stem.porter", None)
    with pytest.raises(ModelLoadError, match=r"discorank\[rouge\]"):
        METEOR().load()
    METEOR(stemmer=False).load()
