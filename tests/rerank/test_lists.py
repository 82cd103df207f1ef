"""Candidates as they are read: most by a short way, which gives what the long one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.errors import InputError
from discorank.rerank import lists

VALUES = st.one_of(
    st.none(), st.booleans(), st.floats(), st.text("ab"), st.lists(st.text("a"), max_size=2)
)
KEYS = st.sampled_from(["text", "logprob", "system", "roles", "rst", "score"])
CANDIDATES = st.one_of(VALUES, st.dictionaries(KEYS, VALUES))


def outcome(candidates: list[Any]) -> str:
    try:
        return repr(lists.read_list({"id": "a", "candidates": candidates}).candidates[:])
    except InputError as error:
        return str(error)


@bounded(max_examples=40, deadline=None)
@given(st.lists(CANDIDATES, min_size=1, max_size=3))
def test_the_short_way_of_a_candidate(candidates: list[Any]) -> None:
    shortly = outcome(candidates)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lists, "_plain_candidate", lambda value: None)
        assert outcome(candidates) == shortly


def test_a_plain_candidate_keeps_its_fields() -> None:
    record = lists.read_list({"id": "a", "candidates": ["x", {"text": "y", "system": "s"}]})
    assert [candidate.fields for candidate in record.candidates] == [{}, {"system": "s"}]
