"""BLEU: worked by hand from the equation, and equal to sacrebleu in every setting."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

from discorank import InputError, load_metric
from discorank.metrics.lexical.tokenizers import words_13a

BOUNDED = bounded(max_examples=15, deadline=None, database=None, print_blob=True)

ODD = "ab .,-1\n\t\x1c\x1d\x1e\x1f\u2028\u2029\u00a0\u3000\ud800\udfff的猫🐈👩\u200d🚀é%İß&;"
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
    "1,000",
    "&quot;",
    "",
    "U.S.",
    "x-y",
]
texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join),
    st.lists(st.sampled_from("abc"), max_size=14).map(" ".join),
    st.text(st.sampled_from(ODD), max_size=20),
    st.text(max_size=20),
    st.builds(str.__mul__, st.sampled_from(["a ", "a b ", "猫", "the cat "]), st.integers(0, 40)),
)
lists = st.lists(texts, min_size=1, max_size=5)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"effective_order": False},
    {"lowercase": True},
    {"max_ngram_order": 1},
    {"max_ngram_order": 2, "effective_order": False},
    {"max_ngram_order": 7},
    {"tokenize": "none"},
    {"tokenize": "zh"},
    {"tokenize": "char"},
    {"tokenize": "intl"},
    {"smooth_method": "none"},
    {"smooth_method": "none", "effective_order": False},
    {"smooth_method": "floor"},
    {"smooth_method": "floor", "smooth_value": 0.5, "effective_order": False},
    {"smooth_method": "floor", "smooth_value": 0.0},
    {"smooth_method": "add-k"},
    {"smooth_method": "add-k", "smooth_value": 2.0, "effective_order": False},
    {"smooth_method": "add-k", "max_ngram_order": 6, "tokenize": "none"},
]
settings_grid = pytest.mark.parametrize("settings", SETTINGS, ids=str)


def peer_of(settings: dict[str, Any]) -> BLEU:
    return BLEU(**{"effective_order": True, **settings})


def plain(
    settings: dict[str, Any], hypotheses: Sequence[str], references: Sequence[str]
) -> np.ndarray:
    """The matrix as sacrebleu gives it, pair by pair."""
    peer = peer_of(settings)
    return np.array([[peer.sentence_score(h, [r]).score for r in references] for h in hypotheses])


# BP exp(mean ln p_n), by hand
WORKED: list[tuple[str, list[str], dict[str, Any], float]] = [
    ("a b c d", ["a b c d"], {}, 100.0),
    ("a", ["a"], {}, 100.0),  # one order only
    ("a b", ["a b c d"], {}, 100 * exp(-1)),  # BP = exp(1 - 4/2)
    ("a b c", ["a c b"], {"max_ngram_order": 1}, 100.0),
    ("a b c", ["a c b"], {"max_ngram_order": 2}, 50.0),  # 1 and 1/(2*2): sqrt(1/4)
    ("a b c", ["a c b"], {"max_ngram_order": 2, "smooth_method": "none"}, 0.0),
    ("a b c", ["a c b"], {"max_ngram_order": 2, "smooth_method": "floor"}, 100 * sqrt(0.1 / 2)),
    # (0+1)/(2+1)
    ("a b c", ["a c b"], {"max_ngram_order": 2, "smooth_method": "add-k"}, 100 * sqrt(1 / 3)),
    ("a b c", ["a c b"], {}, 100 * (1 / 4 / 4) ** (1 / 3)),  # 1, 1/(2*2), 1/(4*1)
    ("a a a a", ["a a"], {"max_ngram_order": 1}, 50.0),  # clipped
    ("a b", ["b x", "x a"], {"max_ngram_order": 1}, 100.0),  # clipped over all references together
    ("a a", ["a b c d e f", "a"], {"max_ngram_order": 1}, 50.0),  # the closest length is 1
    # as near either way: the shorter, 1
    ("a b c", ["a b c x y", "a"], {"max_ngram_order": 1}, 100.0),
    ("x y", ["a b"], {}, 0.0),  # no common word
    ("", ["a"], {}, 0.0),
    ("a", [""], {}, 0.0),
    ("", [""], {}, 0.0),
    (" \u2028\x1f", ["a"], {}, 0.0),
    ("A b", ["a b"], {"lowercase": True}, 100.0),
    ("猫坐", ["猫 坐"], {"tokenize": "zh"}, 100.0),
    ("ab", ["a b"], {"tokenize": "char"}, 100.0),
    ("a.", ["a ."], {}, 100.0),
    ("a.", ["a ."], {"tokenize": "none"}, 0.0),
]


@pytest.mark.parametrize(("h", "references", "settings", "expected"), WORKED)
def test_worked_by_hand(
    h: str, references: list[str], settings: dict[str, Any], expected: float
) -> None:
    metric = load_metric("bleu", **settings)
    assert metric.score([h], [references])[0] == pytest.approx(expected, abs=1e-9)
    assert peer_of(settings).sentence_score(h, references).score == pytest.approx(
        expected, abs=1e-9
    )
    if len(references) == 1:
        assert metric.pairwise([h, "zz"], ["yy", *references])[0, 1] == pytest.approx(
            expected, abs=1e-9
        )


@settings_grid
@given(hypotheses=lists, references=lists)
@BOUNDED
def test_pairwise_equals_sacrebleu(
    settings: dict[str, Any], hypotheses: list[str], references: list[str]
) -> None:
    metric = load_metric("bleu", **settings)
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
    metric, peer = load_metric("bleu", **settings), peer_of(settings)
    hypotheses, references = [h for h, _ in segments], [r for _, r in segments]
    expected = [peer.sentence_score(h, r).score for h, r in segments]
    np.testing.assert_allclose(metric.score(hypotheses, references), expected, rtol=0, atol=1e-9)
    corpus_peer = BLEU(**{**settings, "effective_order": False})
    streams: list[list[Any]] = [
        [r[i] if i < len(r) else None for r in references] for i in range(3)
    ]
    corpus = corpus_peer.corpus_score(hypotheses, streams).score
    assert metric.corpus(hypotheses, references) == pytest.approx(corpus, abs=1e-9)


HARD = {
    "repeats": [
        "a " * 300,
        "a " * 299 + "b",
        "a b " * 150,
        "a a b " * 100,
        "b " + "a " * 300,
        "a",
        "",
        "a" * 300,
    ],
    "chinese": ["猫坐在垫子上。", "猫坐在垫子上", "一只猫坐着。" * 20, "猫" * 300, "坐 猫"],
    "emoji": ["👩\u200d🚀 " * 40, "🐈 " * 200, "👩 🚀", "🐈 👩", "\u200d" * 9],
    "separators": [
        "a\x1cb\x1dc\x1ed\x1fe",
        "a b c d e",
        "a\u2028b\u2029c\x85d\u00a0e",
        "\x1c\x1f\u2028",
        "abcde",
    ],
    "surrogates": [
        "\ud800 " * 20,
        "\ud800 a \udfff",
        "\udfff \ud800",
        "a \ud800 b",
        "\ud83d\ude00",
    ],
}


@pytest.mark.parametrize("tokenize", ["13a", "none", "zh", "char", "intl"])
@pytest.mark.parametrize("kind", HARD)
def test_hard_texts_equal_sacrebleu(kind: str, tokenize: str) -> None:
    texts = HARD[kind]
    settings = {"tokenize": tokenize}
    metric = load_metric("bleu", **settings)
    expected = plain(settings, texts, texts)
    np.testing.assert_allclose(metric.pairwise(texts, texts), expected, rtol=0, atol=1e-9)
    one_more = metric.pairwise(texts, [*texts, "x"])
    np.testing.assert_allclose(one_more[:, :-1], expected, rtol=0, atol=1e-9)


def test_a_huge_vocabulary_equals_sacrebleu() -> None:
    """400 texts of words that are nearly all different, compared in one call."""
    rng = random.Random(4)
    made = [
        " ".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(rng.randrange(1, 40)))
        for _ in range(400)
    ]
    matrix = load_metric("bleu", tokenize="none").pairwise(made, made)
    pairs = [(rng.randrange(400), rng.randrange(400)) for _ in range(300)] + [
        (i, i) for i in range(0, 400, 9)
    ]
    peer = peer_of({"tokenize": "none"})
    for i, j in pairs:
        expected = peer.sentence_score(made[i], [made[j]]).score
        assert matrix[i, j] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("lang", "tokenize"),
    [("zh", "zh"), ("zh-Hant-TW", "zh"), ("ja", "ja-mecab"), ("ko", "ko-mecab"), ("de", "13a")],
)
def test_language_chooses_the_tokenizer(lang: str, tokenize: str) -> None:
    by_language: Any = load_metric("bleu").for_language(lang)
    assert by_language.tokenize == tokenize
    fixed: Any = load_metric("bleu", tokenize="char").for_language(lang)
    assert fixed.tokenize == "char"


def test_an_unknown_tokenizer_is_named() -> None:
    with pytest.raises(InputError, match=r"unknown tokenizer 'zj'. Did you mean 'zh'"):
        load_metric("bleu", tokenize="zj").score(["a"], ["a"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_ngram_order": 0}, "max_ngram_order = 0"),
        ({"smooth_method": "epsilon"}, "smooth_method = 'epsilon'"),
        ({"smooth_value": -1.0}, "smooth_value = -1.0"),
        ({"tokenise": "zh"}, "unknown setting 'tokenise'. Did you mean 'tokenize'"),
    ],
)
def test_bad_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_metric("bleu", **settings)


PIECES = [*".,-1a9$& \n\"'é—٣x/(", "<skipped>", "&amp;", "&lt;", "-\n", "&quot;"]


@bounded(BOUNDED, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join) | st.text())
def test_13a_is_sacrebleus(text: str) -> None:
    tokenizer: Any = Tokenizer13a
    assert words_13a(text) == tokenizer()(text)
