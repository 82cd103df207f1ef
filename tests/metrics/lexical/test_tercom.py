"""Tercom's search by rows of bits against the table of all cells: distances, alignments, blocks, shifts, edits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.lexical.beam_pairs import BeamPairs
from discorank.metrics.lexical.beam_rows import MAX_RATIO
from discorank.metrics.lexical.bit_windows import flag_windows, set_bits
from discorank.metrics.lexical.block_shifts import BlockSwaps, EditAlignment
from discorank.metrics.lexical.edit_distance import TextPairs
from discorank.metrics.lexical.tercom import fewest_edits
from discorank.metrics.representations import Ragged

BOUNDED = settings(max_examples=40, deadline=None)
# A shuffled text of few different words has shifts; one of many has none.
SHAPES = st.lists(
    st.tuples(st.integers(1, 90), st.integers(0, 8)),
    min_size=2,
    max_size=5,
)


def texts_of(shapes: list[tuple[int, int]], vocabulary: int, seed: int) -> Ragged:
    """Texts of one base text, cut to length, some words replaced and some blocks moved."""
    chance = random.Random(seed)
    base = [chance.randrange(vocabulary) for _ in range(90)]
    rows = []
    for length, changes in shapes:
        words = base[:length]
        for _ in range(changes):
            start, size = chance.randrange(len(words)), chance.randint(0, 12)
            block = words[start : start + size]
            words[start : start + size] = []
            target = chance.randint(0, len(words))
            words[target:target] = block or [chance.randrange(vocabulary)]
        rows.append(np.array(words, np.int64))
    return Ragged.of_rows(rows)


def both(words: Ragged) -> tuple[BeamPairs, TextPairs]:
    """All pairs of different texts that the fast way takes, in both ways."""
    lengths = words.lengths
    pairs = [
        (h, r)
        for h in range(len(words))
        for r in range(len(words))
        if h != r and lengths[r] <= MAX_RATIO * lengths[h]
    ]
    pairs.sort(key=lambda pair: -lengths[pair[0]])
    h, r = (np.array(column) for column in zip(*pairs, strict=True))
    return BeamPairs.of(words, h, r), TextPairs.of(words, h, r)


def of_texts(alignment: EditAlignment, n: Any, m: Any) -> list[list[list[int]]]:
    """What an alignment says of the words that there are, pair by pair."""
    before, wrong_h, wrong_r = alignment
    return [
        [before[: j + 1, p].tolist(), wrong_h[: i + 1, p].tolist(), wrong_r[: j + 1, p].tolist()]
        for p, (i, j) in enumerate(zip(n, m, strict=True))
    ]


@BOUNDED
@given(SHAPES, st.sampled_from([2, 5, 30, 200]), st.integers(0, 10**6))
def test_by_rows_as_by_cells(shapes: list[tuple[int, int]], vocabulary: int, seed: int) -> None:
    fast, plain = both(texts_of(shapes, vocabulary, seed))
    assert fast.distances().tolist() == plain.distances().tolist()
    fast_table, plain_table = fast.table(), plain.table()
    alignment = fast_table.alignment()
    expected = plain_table.alignment()
    assert of_texts(alignment, fast.n, fast.m) == of_texts(expected, plain.n, plain.m)
    blocks = fast_table.movable_blocks(alignment)
    expected_blocks = plain_table.movable_blocks(expected)
    assert sorted(zip(*blocks, strict=True)) == sorted(zip(*expected_blocks, strict=True))


@BOUNDED
@given(SHAPES, st.sampled_from([2, 5, 30, 200]), st.integers(0, 10**6))
def test_shifts_by_rows_as_by_cells(
    shapes: list[tuple[int, int]], vocabulary: int, seed: int
) -> None:
    fast, plain = both(texts_of(shapes, vocabulary, seed))
    chance = np.random.default_rng(seed)
    pair = np.flatnonzero(fast.n > 1).repeat(3)
    if not len(pair):
        return
    bounds = np.array([np.sort(chance.choice(n + 1, 3, replace=n < 2)) for n in fast.n[pair]])
    swaps = BlockSwaps(pair, *bounds.T)
    found = fast.table().distances(swaps)
    assert found.tolist() == plain.table().distances(swaps).tolist()


@settings(BOUNDED, max_examples=25)
@given(SHAPES, st.sampled_from([2, 5, 30, 200]), st.integers(0, 10**6))
def test_edits_by_rows_as_by_cells(
    shapes: list[tuple[int, int]], vocabulary: int, seed: int
) -> None:
    fast, plain = both(texts_of(shapes, vocabulary, seed))
    floor = np.zeros(len(fast.n), np.int64)
    assert fewest_edits(fast, floor).tolist() == fewest_edits(plain, floor).tolist()


@pytest.mark.parametrize(
    ("lengths", "vocabulary"),
    [
        ((160, 140, 41), 300),  # much farther apart than the beam is wide
        ((20, 320, 319), 60),  # windows that move by sixteen columns
        ((1, 16, 2, 31), 3),
        ((90, 90), 2),  # more shifts than are tried
    ],
)
def test_at_the_limits(lengths: tuple[int, ...], vocabulary: int) -> None:
    chance = np.random.default_rng(3)
    words = Ragged.of_rows([chance.integers(vocabulary, size=n) for n in lengths])
    fast, plain = both(words)
    floor = np.zeros(len(fast.n), np.int64)
    assert fewest_edits(fast, floor).tolist() == fewest_edits(plain, floor).tolist()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_set_bits(words: list[int]) -> None:
    place, bit = set_bits(np.array(words, np.uint64))
    found = sorted(zip(place.tolist(), bit.tolist(), strict=True))
    assert found == [(i, k) for i, word in enumerate(words) for k in range(64) if word >> k & 1]


@given(st.lists(st.booleans(), min_size=1, max_size=90), st.integers(0, 150))
def test_a_window_is_any_bits_in_a_row(flags: list[bool], start: int) -> None:
    (windows,) = flag_windows(np.array([flags]), len(flags))
    if start >> 3 >= len(windows):
        return
    found = int(windows[start >> 3]) >> (start & 7)
    bits = [False] * 64 + flags + [False] * 300
    expected = sum(1 << k for k in range(57) if bits[start + k])
    assert found & (2**57 - 1) == expected
