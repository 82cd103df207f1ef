"""Rows that come one by one: what is there is as if all had been joined, is not copied each time, and never changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank.metrics.execution.store import GrowingReps
from discorank.metrics.representations import Ragged, Reps

BOUNDED = bounded(max_examples=25, deadline=None, database=None, print_blob=True)
DTYPES = (np.int32, np.int64, np.float64, "<U2", "<U5")


def part(lengths: list[int], dtype: Any, first: int) -> Reps:
    """Rows of the given lengths, whose values count on from `first`."""
    total = sum(lengths)
    values = np.arange(first, first + total).astype(dtype)
    keys = np.empty(len(lengths), object)
    keys[:] = [(first, i) for i in range(len(lengths))]
    return Reps(
        {
            "tokens": Ragged.of_lengths(values, np.array(lengths, np.int64)),
            "vector": np.arange(3.0 * len(lengths)).reshape(-1, 3) + first,
            "key": keys,
        }
    )


def plain(reps: Reps) -> dict[str, Any]:
    return {name: (array.dtype, array.tolist()) for name, array in reps.arrays()}


@BOUNDED
@given(
    parts=st.lists(
        st.tuples(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.sampled_from(DTYPES)),
        min_size=1,
        max_size=8,
    )
)
def test_rows_are_those_of_all_parts_joined(parts: list[tuple[list[int], Any]]) -> None:
    kept = [part(lengths, parts[0][1], 10 * i) for i, (lengths, _) in enumerate(parts)]
    growing = GrowingReps(kept[0])
    seen = [(growing.reps, plain(growing.reps))]
    for one in kept[1:]:
        growing.add(one)
        seen.append((growing.reps, plain(growing.reps)))
    assert plain(growing.reps) == plain(Reps.concat(kept))
    for reps, at_the_time in seen:
        assert plain(reps) == at_the_time


@BOUNDED
@given(first=st.sampled_from(DTYPES), second=st.sampled_from(DTYPES))
def test_types_are_those_of_joined_columns(first: Any, second: Any) -> None:
    kept = [part([2, 1], first, 0), part([1], second, 3)]
    growing = GrowingReps(kept[0])
    growing.add(kept[1])
    assert plain(growing.reps) == plain(Reps.concat(kept))


def test_rows_are_moved_seldom() -> None:
    growing = GrowingReps(part([3], np.int64, 0))
    places = set()
    for i in range(1, 1000):
        growing.add(part([3], np.int64, i))
        places.add(growing.reps["vector"].__array_interface__["data"][0])
    assert len(growing.reps) == 1000
    assert len(places) < 20
    assert growing.reps.nbytes <= growing.nbytes <= 2 * growing.reps.nbytes


def test_what_does_not_fit_adds_nothing() -> None:
    growing = GrowingReps(part([1, 2], np.int64, 0))
    growing.add(part([1], np.int64, 3))
    before = plain(growing.reps)
    bad = part([2], np.int64, 9)
    # would be stretched to three if assigned
    flat = Reps({**bad.columns, "vector": np.ones((1, 1))})
    with pytest.raises(ValueError, match="dimension"):
        growing.add(flat)
    assert plain(growing.reps) == before
    growing.add(part([1], np.int64, 4))
    assert plain(growing.reps)["tokens.values"][1] == [0, 1, 2, 3, 4]


def test_arrays_that_cannot_be_written_are_moved() -> None:
    first = part([1], np.int64, 0)
    for _, array in first.arrays():
        array.flags.writeable = False
    growing = GrowingReps(first)
    growing.add(part([0], np.int64, 1))
    growing.add(part([1], np.int64, 1))
    assert growing.reps["tokens"].values.tolist() == [0, 1]
