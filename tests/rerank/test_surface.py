"""Features of texts alone: worked examples, and what does not count."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from discorank import Reranker
from discorank.rerank.lists import CandidateList, read_list
from discorank.rerank.surface import SURFACE, surface_feature


def listed(*texts: str, source: str | None = None) -> CandidateList:
    data = {"id": "a", "candidates": list(texts)}
    return read_list(data if source is None else {**data, "source": source})


EXAMPLES = {
    # lengths 3, 7, 3 and one more each; the median is 4
    "longer": (listed("abc", "abcdefg", "xyz"), [0.0, log(2), 0.0]),
    "unusual-length": (listed("abc", "a", "xyz"), [0.0, log(2), 0.0]),
    # 1,000 is 1000 whatever separates its digits; 7 is missing or wrong
    "numbers": (listed("1.000 und 7", "1000", "8", source="1,000 and 7"), [0.0, log(2), log(4)]),
    # quotes are quotes; one comma more than the median
    "marks": (listed("„a“.", '"a".', '"a",.'), [0.0, 0.0, log(2)]),
    # 4-grams "abcd", "bcde" of which the source has the first
    "copied": (listed("abcde", "wxyz", source="ABCD"), [0.5, 0.0]),
    # bigrams (a b), (b a), (a b): a third is there again
    "repetition": (listed("a b a b", "a b"), [1 / 3, 0.0]),
    "unshared": (listed("the cat", "the dog", "The cat"), [0.0, 0.5, 0.0]),
    "capitals": (listed("AbCd", "", "ab"), [0.5, 0.0, 0.0]),
}


@pytest.mark.parametrize("name", SURFACE)
def test_worked_examples(name: str) -> None:
    record, expected = EXAMPLES[name]
    assert surface_feature(name, record) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("name", SURFACE)
def test_odd_texts_have_finite_values(name: str) -> None:
    record = listed("", "²٣٤,", "\ud800", "..", "A" * 9, source="٣٤")
    assert np.isfinite(surface_feature(name, record)).all()


def test_without_a_source_nothing_is_shared() -> None:
    record = listed("12 abcd", "13")
    for name in ("numbers", "copied"):
        assert surface_feature(name, record).tolist() == [0.0, 0.0]


def test_reranking_by_a_feature() -> None:
    record = listed("3 apples", "4 apples", source="4 Äpfel")
    (ranking,) = Reranker({"numbers": -1.0}).decode([record])
    assert ranking.text == "4 apples"
