"""chrF and chrF++: worked by hand from the equation, and equal to sacrebleu and to fastchrf."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import fastchrf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from sacrebleu.metrics.chrf import CHRF

from discorank import InputError, load_metric
from discorank.metrics.text.texts import Item

BOUNDED = bounded(max_examples=20, deadline=None, database=None, print_blob=True)

ODD = "ab .,\n\t\x1c\x1d\x1e\x1f\u2028\u2029\u00a0\u3000\ud800\udfff的猫🐈👩\u200d🚀e\u0301é%İß"
WORDS = [
    "the",
    "cat",
    "cat",
    "Cat,",
    "(sat)",
    "on.",
    "...",
    "a",
    "的猫",
    "🐈🐈",
    "a" * 9,
    "ab" * 5,
    "",
    "U.S.",
    "'s",
]
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
    st.text(st.sampled_from(ODD), max_size=20),
    st.text(max_size=20),
    st.builds(
        str.__mul__, st.sampled_from(["a", "ab", "a ", "猫", "the cat "]), st.integers(0, 60)
    ),
)
lists = st.lists(texts, min_size=1, max_size=5)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"beta": 1.0},
    {"beta": 0.5, "char_order": 3},
    {"beta": 3.0, "lowercase": True},
    {"whitespace": True},
    {"word_order": 1},
    {"word_order": 2},
    {"word_order": 2, "lowercase": True, "whitespace": True, "beta": 1.5},
    {"word_order": 4, "char_order": 1},
    {"char_order": 16},
]
settings_grid = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def plain(
    settings: dict[str, Any], hypotheses: Sequence[str], references: Sequence[str]
) -> np.ndarray:
    """The matrix as sacrebleu gives it, pair by pair."""
    metric = CHRF(**settings)
    return np.array([[metric.sentence_score(h, [r]).score for r in references] for h in hypotheses])


# F = 100 (1 + b2) P R / (b2 P + R), by hand
WORKED = [
    ("ab", "abc", {"char_order": 1, "beta": 1.0}, 80.0),  # P = 2/2, R = 2/3
    ("ab", "abc", {"char_order": 1, "beta": 2.0}, 500 / 7),  # 500 (2/3) / (4 + 2/3)
    # P = 2/3, R = 1: 500 (2/3) / (8/3 + 1)
    ("abc", "ab", {"char_order": 1, "beta": 2.0}, 1000 / 11),
    ("aab", "aba", {"char_order": 2}, 75.0),  # 3 of 3 letters, 1 of 2 bigrams
    # clipped: P = (2/4 + 1/3) / 2, R = 1
    ("aaaa", "aa", {"char_order": 2, "beta": 1.0}, 1000 / 17),
    ("ab", "abcdef", {}, 31.25),  # only orders 1 and 2 in both: P = 1, R = (2/6 + 1/5) / 2
    ("abc", "abc", {}, 100.0),  # three orders, all hit
    ("a", "b", {}, 0.0),
    ("", "a", {}, 0.0),
    ("a", "", {}, 0.0),
    ("", "", {}, 0.0),
    (" \u2028\x1c", "a", {}, 0.0),
    ("a b", "ab", {}, 100.0),  # white space is removed
    ("a\u2028b\x1f", "a b", {}, 100.0),
    ("a b", "ab", {"char_order": 1, "whitespace": True, "beta": 1.0}, 80.0),  # P = 2/3, R = 1
    ("AB", "ab", {}, 0.0),
    ("AB", "ab", {"lowercase": True}, 100.0),
    # P = (6/7 + 2/3) / 2, R = 1
    ("the cat.", "the cat", {"char_order": 1, "word_order": 1, "beta": 1.0}, 3200 / 37),
    # letters 1, words 1, word pairs 0
    ("cat the", "the cat", {"char_order": 1, "word_order": 2}, 200 / 3),
    ("a.", "a .", {"char_order": 1, "word_order": 1}, 100.0),  # one mark is split off
    (".a", ". a", {"char_order": 1, "word_order": 1}, 100.0),
    # only one mark: "a." "." against "a" "." "."
    ("a..", "a. .", {"char_order": 1, "word_order": 1}, 750 / 11),
    # its end is split off, its start is not
    ("(a)", "(a )", {"char_order": 1, "word_order": 1}, 750 / 11),
]


@pytest.mark.parametrize(("h", "r", "settings", "expected"), WORKED)
def test_worked_by_hand(h: str, r: str, settings: dict[str, Any], expected: float) -> None:
    metric = load_metric("chrf", **settings)
    assert metric.score([h], [r])[0] == pytest.approx(expected, abs=1e-9)
    assert metric.pairwise([h, "zz"], ["yy", r])[0, 1] == pytest.approx(expected, abs=1e-9)
    assert plain(settings, [h], [r])[0, 0] == pytest.approx(expected, abs=1e-9)


def test_names() -> None:
    assert load_metric("chrf++") == load_metric("chrf", word_order=2)
    assert cast(Any, load_metric("chrf")).beta == 2.0
    assert load_metric("chrf++", beta=1) == load_metric("chrf(beta=1.0,word_order=2)")


@settings_grid
@given(hypotheses=lists, references=lists)
@BOUNDED
def test_pairwise_equals_sacrebleu(
    settings: dict[str, Any], hypotheses: list[str], references: list[str]
) -> None:
    metric = load_metric("chrf", **settings)
    matrix = metric.pairwise(hypotheses, references)
    np.testing.assert_allclose(matrix, plain(settings, hypotheses, references), rtol=0, atol=1e-9)
    square = metric.pairwise(hypotheses, hypotheses)
    np.testing.assert_allclose(square, plain(settings, hypotheses, hypotheses), rtol=0, atol=1e-9)


@settings_grid
@given(
    segments=st.lists(
        st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=5
    )
)
@BOUNDED
def test_score_and_corpus_equal_sacrebleu(
    settings: dict[str, Any], segments: list[tuple[str, list[str]]]
) -> None:
    metric, peer = load_metric("chrf", **settings), CHRF(**settings)
    hypotheses, references = [h for h, _ in segments], [r for _, r in segments]
    expected = [peer.sentence_score(h, r).score for h, r in segments]
    np.testing.assert_allclose(metric.score(hypotheses, references), expected, rtol=0, atol=1e-9)
    streams: list[list[Any]] = [
        [r[i] if i < len(r) else None for r in references] for i in range(3)
    ]
    corpus = peer.corpus_score(hypotheses, streams).score
    assert metric.corpus(hypotheses, references) == pytest.approx(corpus, abs=1e-9)


HARD = {
    "repeats": ["a" * 300, "a" * 299 + "b", "ab" * 150, "aab" * 100, "b" + "a" * 300, "a", ""],
    "chinese": ["猫坐在垫子上。", "猫坐在垫子上", "一只猫坐着。" * 20, "猫" * 300, "坐猫"],
    "emoji": ["👩\u200d🚀" * 40, "🐈" * 200, "👩🚀", "🐈 👩", "\u200d" * 9],
    "separators": [
        "a\x1cb\x1dc\x1ed\x1fe",
        "a b c d e",
        "a\u2028b\u2029c\x85d\u00a0e",
        "\x1c\x1f\u2028",
        "abcde",
    ],
    "surrogates": ["\ud800" * 20, "\ud800a\udfff", "\udfff\ud800", "a\ud800 b", "\ud83d\ude00"],
    "highest": ["\U0010ffff" * 30, "\U0010fffe\U0010ffff" * 10, "\x00" * 30, "\x00\U0010ffff"],
}


@pytest.mark.parametrize(
    "settings", [{}, {"word_order": 2}, {"whitespace": True, "char_order": 9}], ids=str
)
@pytest.mark.parametrize("kind", HARD)
def test_hard_texts_equal_sacrebleu(kind: str, settings: dict[str, Any]) -> None:
    texts = HARD[kind]
    metric = load_metric("chrf", **settings)
    expected = plain(settings, texts, texts)
    np.testing.assert_allclose(metric.pairwise(texts, texts), expected, rtol=0, atol=1e-9)
    one_more = metric.pairwise(texts, [*texts, "x"])
    np.testing.assert_allclose(one_more[:, :-1], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"word_order": 2}], ids=str)
def test_a_huge_alphabet_equals_sacrebleu(settings: dict[str, Any]) -> None:
    """400 texts of ideographs drawn from all: n-gram codes do not fit 64 bits without renumbering."""
    rng = random.Random(3)
    made = [
        "".join(chr(rng.randrange(0x4E00, 0x10FFFF)) for _ in range(rng.randrange(1, 40)))
        for _ in range(300)
    ]
    made = [text.encode("utf-8", "ignore").decode() for text in made]
    made += [a[: len(a) // 2] + b[len(b) // 2 :] for a, b in pairwise(made[:101])]
    assert len(made) == 400
    matrix = load_metric("chrf", **settings).pairwise(made, made)
    peer = CHRF(**settings)
    pairs = [(i, j) for i in range(100) for j in (i, i + 1, 300 + i)] + [
        (300 + i, i + 1) for i in range(99)
    ]
    pairs += [(rng.randrange(400), rng.randrange(400)) for _ in range(200)]
    for i, j in pairs:
        expected = peer.sentence_score(made[i], [made[j]]).score
        assert matrix[i, j] == pytest.approx(expected, abs=1e-9)


@given(
    hypotheses=lists, references=lists, beta=st.sampled_from([1.0, 2.0]), whitespace=st.booleans()
)
@BOUNDED
def test_pairwise_equals_fastchrf(
    hypotheses: list[str], references: list[str], beta: float, whitespace: bool
) -> None:
    """Texts without what fastchrf cannot take (surrogates) or reads otherwise (its white space is Rust's)."""
    clean = str.maketrans(dict.fromkeys("\ud800\udfff\x1c\x1d\x1e\x1f"))
    hypotheses, references = (
        [text.translate(clean) for text in side] for side in (hypotheses, references)
    )
    try:
        peer = fastchrf.pairwise_chrf(
            [hypotheses], [references], beta=beta, remove_whitespace=not whitespace
        )[0]
    except UnicodeEncodeError:
        return
    matrix = load_metric("chrf", beta=beta, whitespace=whitespace).pairwise(hypotheses, references)
    np.testing.assert_allclose(matrix, peer, rtol=0, atol=1e-3)  # it counts in float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beta": 0}, "beta = 0"),
        ({"beta": float("inf")}, "beta = inf"),
        ({"char_order": 0}, "char_order = 0"),
        ({"char_order": 2.0}, "char_order = 2.0"),
        ({"word_order": -1}, "word_order = -1"),
        ({"lowercase": 1}, "lowercase = 1"),
        ({"lowercas": True}, "unknown setting 'lowercas'. Did you mean 'lowercase'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_metric("chrf", **settings)


@given(st.lists(st.text(st.sampled_from("ab \t\n\r\x1c\x85\u00a0\u200b\u2028\u3000")), max_size=5))
def test_every_white_space_is_removed(texts: list[str]) -> None:
    scorer = load_metric("chrf").parts[0][1].load()
    reps, lengths = scorer.prepare([Item(text) for text in texts])
    expected = ["".join(text.split()) for text in texts]
    assert lengths.tolist() == [len(text) for text in expected]
    assert reps["points"].values.tolist() == [ord(c) for text in expected for c in text]
