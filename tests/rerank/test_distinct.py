"""Distinct texts of candidates."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discorank.rerank.lists import Candidate, Distinct


@given(st.lists(st.sampled_from("abcdef"), max_size=12))
def test_texts_are_numbered_by_first_appearance(texts: list[str]) -> None:
    distinct = Distinct([Candidate(text) for text in texts])
    assert list(distinct.texts) == list(dict.fromkeys(texts))
    assert [distinct.texts[number] for number in distinct.of.tolist()] == texts
    assert distinct.first.tolist() == [texts.index(str(text)) for text in distinct.texts]
    halves = [texts.count(str(text)) / 2 for text in distinct.texts]
    assert distinct.pooled(np.full(len(texts), 0.5)).tolist() == halves
