"""The kernels in C against plain code: the same numbers to the last bit, for any texts, and a package without them."""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics import ter as sacrebleu

from discorank.metrics.base import Metric
from discorank.metrics.errors import InputError
from discorank.metrics.lexical import compiled, meteor, ngrams
from discorank.metrics.lexical.bleu import BLEU
from discorank.metrics.lexical.chrf import ChrF
from discorank.metrics.lexical.meteor import METEOR
from discorank.metrics.lexical.rouge import RougeW
from discorank.metrics.lexical.ter import TER
from discorank.metrics.representations import Block, Ragged

from ...support.examples import examples

SACREBLEU = sacrebleu.TER()
NAME = "discorank.metrics.lexical.compiled._kernels"
METRICS = (
    ChrF(),
    ChrF(word_order=2, char_order=3),
    BLEU(),
    METEOR(stem_weight=0.6),
    TER(),
    RougeW(),
    RougeW(weight=3),
)
WORDS = ["a", "b", "cat", "cats", "dog", "dogs", "running", "runs", "ünï", "你好"]
TEXTS = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=20).map(" ".join), min_size=1, max_size=6
)
ROWS = st.lists(st.lists(st.integers(0, 6), max_size=30), min_size=2, max_size=8)


@pytest.fixture(scope="module")
def kernels(built_kernels: Path) -> ModuleType:
    (built,) = built_kernels.rglob("_kernels*")
    spec = importlib.util.spec_from_file_location(NAME, built)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def taken(kernels: ModuleType) -> Iterator[None]:
    """Lexical metrics take the kernels."""
    compiled.kernels = kernels
    try:
        yield
    finally:
        compiled.kernels = None


def both_ways(
    kernels: ModuleType, values: Callable[[], list[np.ndarray]]
) -> tuple[list[bytes], list[bytes]]:
    """What a function returns with the kernels, and without."""
    with taken(kernels):
        fast = [array.tobytes() for array in values()]
    return fast, [array.tobytes() for array in values()]


def values_of(metric: Metric, hypotheses: list[str], references: list[str]) -> list[np.ndarray]:
    return [
        metric.pairwise(hypotheses, references),
        metric.pairwise(references, references),
        metric.pairwise([*hypotheses, *references], [*hypotheses, *references]),
    ]


@examples(4)
@given(hypotheses=TEXTS, references=TEXTS)
def test_metrics_have_the_same_bits(
    kernels: ModuleType, hypotheses: list[str], references: list[str]
) -> None:
    for metric in METRICS:
        fast, plain = both_ways(kernels, partial(values_of, metric, hypotheses, references))
        assert fast == plain, metric


@examples(15)
@given(rows=ROWS, cut=st.integers(1, 7), order=st.integers(1, 8), wide=st.booleans())
def test_matches_are_the_same(
    kernels: ModuleType, rows: list[list[int]], cut: int, order: int, wide: bool
) -> None:
    symbols = Ragged.of_rows([np.array(row, np.int64) << 40 * wide for row in rows])
    everything = np.arange(len(rows))
    cut = min(cut, len(rows) - 1)
    blocks = [Block(everything, everything), Block(everything[:cut], everything[cut:])]
    fast, plain = both_ways(kernels, lambda: list(ngrams.matches(symbols, blocks, order)))
    assert fast == plain


def test_long_texts_have_the_same_bits(kernels: ModuleType) -> None:
    chance = random.Random(3)
    base = [str(min(chance.randrange(300), chance.randrange(300))) for _ in range(160)]
    texts = []
    for _ in range(4):
        words = [word if chance.random() < 0.8 else str(chance.randrange(300)) for word in base]
        start = chance.randrange(120)
        texts.append(" ".join(words[start:] + words[:start]))
    for metric in set(METRICS) - {TER()}:  # see test_edits_at_the_limits
        fast, plain = both_ways(kernels, lambda: [metric.pairwise(texts[:1], texts)])  # noqa: B023
        assert fast == plain, metric


def test_an_ngram_more_often_than_a_row_has_columns(kernels: ModuleType) -> None:
    texts = ["a" * n for n in (700, 1400, 900)] + ["b" * 600 + "a" * 530, ""]
    fast, plain = both_ways(kernels, lambda: values_of(ChrF(), texts[:2], texts[1:]))
    assert fast == plain


def test_numpy_takes_what_has_no_room_in_keys(kernels: ModuleType) -> None:
    # 16 symbols of 5 bits each
    texts = ["abcdefghijklmnopqrstuvwxyz", "zyxwvutsrqponmlkjihgfedcba"]
    metric = ChrF(char_order=16)
    fast, plain = both_ways(kernels, lambda: values_of(metric, texts, texts))
    assert fast == plain
    symbols = Ragged.of_rows([np.arange(26)])
    block = Block(np.array([0]), np.array([0]))
    with taken(kernels):
        assert ngrams.compiled_matches(symbols, [block], 16) is None
        matches = ngrams.compiled_matches(symbols, [block], 4)
    assert matches is not None
    assert matches.tolist() == [[26], [25], [24], [23]]


def test_numpy_takes_large_lists(kernels: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    symbols = Ragged.of_rows([np.arange(4)] * 3)
    block = Block(np.arange(2), np.arange(2, 3))
    monkeypatch.setattr(ngrams, "MAX_TEXTS", 1)
    with taken(kernels):
        assert ngrams.compiled_matches(symbols, [block], 2) is None


def test_long_texts_of_few_words_are_refused(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meteor, "MAX_PLACES", 99)
    with taken(kernels):
        assert METEOR().score(["a " * 9], ["a " * 11])[0] > 0
        with pytest.raises(InputError, match="100 pairs of equal words"):
            METEOR().score(["a " * 10], ["a " * 10 + "b"])


@examples(4)
@given(
    base=st.lists(st.sampled_from("abcdefghijkl"), min_size=8, max_size=60),
    chance=st.randoms(use_true_random=False),
)
def test_shifts_are_sacrebleus(kernels: ModuleType, base: list[str], chance: random.Random) -> None:
    texts = [" ".join(moved(base, chance)) for _ in range(3)]
    expected = [[SACREBLEU.sentence_score(h, [r]).score for r in texts] for h in texts]
    with taken(kernels):
        assert TER().pairwise(texts, texts).tolist() == (-np.array(expected)).tolist()


def moved(base: list[str], chance: random.Random) -> list[str]:
    """The words with some blocks elsewhere."""
    words = list(base)
    for _ in range(chance.randint(0, 4)):
        start, size = chance.randrange(len(words)), chance.randint(1, 12)
        block = words[start : start + size]
        words[start : start + size] = []
        target = chance.randint(0, len(words))
        words[target:target] = block
    return words


@pytest.mark.parametrize(
    ("lengths", "vocabulary"),
    [
        ((110, 90, 41), 300),  # much farther apart than the beam is wide
        ((8, 128, 20), 60),  # windows that move by sixteen columns
        ((1, 16, 2, 31, 0), 3),
        ((60, 60), 2),  # more shifts than are tried
        ((1, 3, 30, 200), 8),  # a reference so long that the beam widens
    ],
)
def test_edits_at_the_limits(
    kernels: ModuleType, lengths: tuple[int, ...], vocabulary: int
) -> None:
    chance = random.Random(7)
    texts = [" ".join(str(chance.randrange(vocabulary)) for _ in range(n)) for n in lengths]
    fast, plain = both_ways(kernels, lambda: [TER().pairwise([texts[0], texts[-1]], texts)])
    assert fast == plain


def test_the_version_is_that_of_the_callers(kernels: ModuleType) -> None:
    assert kernels.VERSION == compiled.VERSION


def test_pure_leaves_the_kernels_out() -> None:
    code = "from discorank.metrics.lexical.compiled import kernels; print(kernels)"
    environment = {**os.environ, "DISCORANK_PURE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout == "None\n"
