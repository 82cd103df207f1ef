"""Joined ranges against Python's own."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.lexical.word_columns import owners, ranges


@given(st.lists(st.tuples(st.integers(-9, 99), st.integers(0, 5))))
def test_equal_joined_ranges(rows: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in rows], np.int64)
    lengths = np.array([length for _, length in rows], np.int64)
    joined = [start + i for start, length in rows for i in range(length)]
    owner = [i for i, (_, length) in enumerate(rows) for _ in range(length)]
    assert ranges(starts, lengths).tolist() == joined
    assert owners(lengths).tolist() == owner
