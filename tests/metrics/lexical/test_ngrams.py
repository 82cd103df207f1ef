"""Clipped n-gram matches against counting by hand, whatever shapes meet in a call and however the work is cut up."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.metrics.lexical import ngrams as clipped
from discorank.metrics.lexical.ngrams import matches
from discorank.metrics.representations import Block, FloatArray, Ragged

from ...support.examples import examples

Texts = Sequence[Sequence[int]]
Lists = Sequence[tuple[Texts, Texts | None]]  # hypotheses and references; None: square
TEXTS = st.lists(
    st.lists(st.sampled_from([0, 1, 2, 7, 1 << 40]), max_size=14), min_size=1, max_size=9
)
LISTS = st.lists(st.tuples(TEXTS, st.none() | TEXTS), min_size=1, max_size=6)


def counted(lists: Lists, order: int) -> list[list[int]]:
    """By hand."""
    cells_of_orders = []
    for n in range(1, order + 1):
        cells = []
        for hypotheses, references in lists:
            sides = (hypotheses, hypotheses if references is None else references)
            h, r = (
                [Counter(zip(*(x[k:] for k in range(n)), strict=False)) for x in side]
                for side in sides
            )
            cells += [(a & b).total() for a in h for b in r]
        cells_of_orders.append(cells)
    return cells_of_orders


def kernel(lists: Lists, order: int) -> list[FloatArray]:
    rows: list[Sequence[int]] = []
    blocks = []
    for hypotheses, references in lists:
        h = r = np.arange(len(rows), len(rows) + len(hypotheses))
        rows += hypotheses
        if references is not None:
            r = np.arange(len(rows), len(rows) + len(references))
            rows += references
        blocks.append(Block(h, r))
    symbols = Ragged.of_rows([np.array(row, np.int64) for row in rows])
    return [cells.copy() for cells in matches(symbols, blocks, order)]


def check(lists: Lists, order: int) -> None:
    assert [cells.tolist() for cells in kernel(lists, order)] == counted(lists, order)


@given(LISTS, st.integers(1, 8))
@examples(12)
def test_equals_counting(lists: Lists, order: int) -> None:
    check(lists, order)


@pytest.mark.parametrize("seed", range(8))
def test_cutting_the_work_up_changes_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few cells and pairs at a time, rare n-grams counted in short lists: the same numbers."""
    r = random.Random(seed)
    monkeypatch.setattr(clipped, "CELLS", r.choice([1, 60, 2000]))
    monkeypatch.setattr(clipped, "RARE_HEIGHT", r.choice([1, 4, 1000]))
    monkeypatch.setattr(clipped, "RARE_PART", r.choice([1, 2, 16]))
    monkeypatch.setattr(clipped, "PAIRS", r.choice([1, 7, 1 << 18]))

    def texts(most: int) -> list[list[int]]:
        return [[r.randrange(5) for _ in range(r.randrange(30))] for _ in range(r.randint(1, most))]

    check([(texts(40), None if r.random() < 0.5 else texts(20)) for _ in range(6)], 6)


def test_many_texts_use_the_rare_path() -> None:
    r = random.Random(0)
    texts = [[r.randrange(300) for _ in range(20)] for _ in range(150)]
    check([(texts, None), (texts[:100], texts[50:])], 4)


def test_many_different_symbols() -> None:
    r = random.Random(1)
    texts = [[r.randrange(1 << 30) for _ in range(30)] for _ in range(40)]
    texts += [text[r.randrange(10) :] + texts[0][:9] for text in texts]
    check([(texts, None)], 6)


def test_thousands_of_single_pairs() -> None:
    r = random.Random(2)
    lists = [
        ([[r.randrange(4) for _ in range(6)]], [[r.randrange(4) for _ in range(6)]])
        for _ in range(1000)
    ]
    check(lists, 3)


@pytest.mark.parametrize(
    "texts",
    [
        '["a" * (1000 + i) for i in range(256)]',
        *(
            pytest.param(texts, marks=pytest.mark.slow)
            for texts in (
                '["a" * 2000] * 1 + [c * 2000 for c in map(chr, range(98, 353))]',
                '["".join(r.choice((b, r.choice(w) + " ")) for b in base) for _ in range(1024)]',
            )
        ),
    ],
    ids=["repetitions", "one character each", "1024 candidates"],
)
def test_memory_is_bounded(texts: str) -> None:
    code = f"""
import random
from discorank.metrics.lexical.chrf import ChrF
r = random.Random(0)
w = ["".join(r.choice("abcdefghij") for _ in range(r.randint(2, 9))) for _ in range(400)]
base = [r.choice(w) + " " for _ in range(25)]
texts = {texts}
ChrF().pairwise(texts, texts)
print([line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line])
"""
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(output.split("'")[1]) < 600 * 1024
