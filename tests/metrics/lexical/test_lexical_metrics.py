"""Every lexical metric against its worked examples and its peer, pair by pair, in every setting: one table of cases."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import exp, sqrt
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from discorank import InputError, load_metric

from ...support.examples import examples

BOUNDED = examples(4)
Worked = tuple[str, list[str], dict[str, Any], float]  # hypothesis, references, settings, score


class Peer(Protocol):
    """Another implementation of a metric."""

    def sentence_score(self, hypothesis: str, references: Sequence[str]) -> Any:
        """The score of a segment, as `score`."""

    def corpus_score(self, hypotheses: Sequence[str], references: Sequence[Sequence[Any]]) -> Any:
        """The score of a corpus, as `score`; references are streams, None where a segment has fewer."""


class Case(NamedTuple):
    """One metric: what it is compared with, on which texts, and what was worked out by hand."""

    name: str
    peer: Callable[[Mapping[str, Any]], Peer]
    corpus_peer: Callable[[Mapping[str, Any]], Peer]
    settings: Sequence[dict[str, Any]]
    texts: st.SearchStrategy[str]
    worked: Sequence[Worked]
    refused: Sequence[tuple[dict[str, Any], str]]
    hard: Mapping[str, Sequence[str]] = {}
    hard_settings: Sequence[dict[str, Any]] = ({},)
    equal_reference_counts: bool = False  # all segments of a corpus have as many


ODD = "ab .,-1\n\t\x1c\x1d\x1e\x1f\u2028\u2029\u00a0\u3000\ud800\udfff的猫🐈👩\u200d🚀e\u0301é%İß&;"
WORDS = ["the", "cat", "cat", "Cat,", "(sat)", "on.", "...", "a", "的猫", "🐈🐈", "1,000", "&quot;"]
WORDS += ["", "U.S.", "x-y", "'s", "a" * 9, "ab" * 5]
REPEATED = ["a ", "a b ", "猫", "the cat ", "a", "ab"]
any_texts = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join),
    st.lists(st.sampled_from("abc"), max_size=14).map(" ".join),
    st.text(st.sampled_from(ODD), max_size=20),
    st.text(max_size=20),
    st.builds(str.__mul__, st.sampled_from(REPEATED), st.integers(0, 60)),
)
few_words = st.lists(st.sampled_from("abcdef"), max_size=30).map(" ".join)
HARD = {
    "letters": ["a" * 300, "a" * 299 + "b", "ab" * 150, "aab" * 100, "b" + "a" * 300, "a", ""],
    "words": ["a " * 300, "a " * 299 + "b", "a b " * 150, "a a b " * 100, "b " + "a " * 300],
    "chinese": ["猫坐在垫子上。", "猫坐在垫子上", "一只猫坐着。" * 20, "猫" * 300, "坐 猫", "坐猫"],
    "emoji": ["👩\u200d🚀 " * 40, "🐈" * 200, "🐈 " * 200, "👩🚀", "🐈 👩", "\u200d" * 9],
    "separators": ["a\x1cb\x1dc\x1ed\x1fe", "a b c d e", "a\u2028b\u2029c\x85d\u00a0e", "\x1c\x1f"],
    "surrogates": ["\ud800 " * 20, "\ud800a\udfff", "\udfff \ud800", "a\ud800 b", "\ud83d\ude00"],
    "highest": ["\U0010ffff" * 30, "\U0010fffe\U0010ffff" * 10, "\x00" * 30, "\x00\U0010ffff"],
}

CHRF_WORKED: list[Worked] = [  # F = 100 (1 + b2) P R / (b2 P + R), by hand
    ("ab", ["abc"], {"char_order": 1, "beta": 1.0}, 80.0),  # P = 2/2, R = 2/3
    ("ab", ["abc"], {"char_order": 1, "beta": 2.0}, 500 / 7),  # 500 (2/3) / (4 + 2/3)
    # P = 2/3, R = 1: 500 (2/3) / (8/3 + 1)
    ("abc", ["ab"], {"char_order": 1, "beta": 2.0}, 1000 / 11),
    ("aab", ["aba"], {"char_order": 2}, 75.0),  # 3 of 3 letters, 1 of 2 bigrams
    # clipped: P = (2/4 + 1/3) / 2, R = 1
    ("aaaa", ["aa"], {"char_order": 2, "beta": 1.0}, 1000 / 17),
    ("ab", ["abcdef"], {}, 31.25),  # only orders 1 and 2 in both: P = 1, R = (2/6 + 1/5) / 2
    ("abc", ["abc"], {}, 100.0),  # three orders, all hit
    ("a", ["b"], {}, 0.0),
    ("", ["a"], {}, 0.0),
    ("a", [""], {}, 0.0),
    ("", [""], {}, 0.0),
    (" \u2028\x1c", ["a"], {}, 0.0),
    ("a b", ["ab"], {}, 100.0),  # white space is removed
    ("a\u2028b\x1f", ["a b"], {}, 100.0),
    ("a b", ["ab"], {"char_order": 1, "whitespace": True, "beta": 1.0}, 80.0),  # P = 2/3, R = 1
    ("AB", ["ab"], {}, 0.0),
    ("AB", ["ab"], {"lowercase": True}, 100.0),
    # P = (6/7 + 2/3) / 2, R = 1
    ("the cat.", ["the cat"], {"char_order": 1, "word_order": 1, "beta": 1.0}, 3200 / 37),
    # letters 1, words 1, word pairs 0
    ("cat the", ["the cat"], {"char_order": 1, "word_order": 2}, 200 / 3),
    ("a.", ["a ."], {"char_order": 1, "word_order": 1}, 100.0),  # one mark is split off
    (".a", [". a"], {"char_order": 1, "word_order": 1}, 100.0),
    # only one mark: "a." "." against "a" "." "."
    ("a..", ["a. ."], {"char_order": 1, "word_order": 1}, 750 / 11),
    # its end is split off, its start is not
    ("(a)", ["(a )"], {"char_order": 1, "word_order": 1}, 750 / 11),
]
BLEU_WORKED: list[Worked] = [  # BP exp(mean ln p_n), by hand
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
TER_WORKED: list[Worked] = [  # 100 edits / |r|
    ("a b c d", ["a b c d"], {}, 0),
    ("a b c d", ["a b x d"], {}, 25),  # a substitution
    ("a b c", ["a b c d"], {}, 25),  # an insertion
    ("a b c d e", ["a b c d"], {}, 25),  # a deletion
    ("c d a b", ["a b c d"], {}, 25),  # a shift of two words
    ("c d a x", ["a b c d"], {}, 50),  # a shift and a substitution
    ("a b", ["c d e"], {}, 100),  # nothing in common
    ("a a a a a", ["b"], {}, 500),  # more than 100
    # a shift by less than its block's length wins, and leads astray (sacrebleu)
    ("c b a b c", ["a a c c b b"], {}, 400 / 6),
    ("A B", ["a b"], {}, 0),
    ("", ["a b"], {}, 100),
    ("a b", [""], {}, 100),
    ("", [""], {}, 0),
    ("a b", ["a b c d", "x y"], {}, 200 / 3),  # several references share their average length
]
CASES = [
    Case(
        "chrf",
        lambda given: CHRF(**given),
        lambda given: CHRF(**given),
        [
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
        ],
        any_texts,
        CHRF_WORKED,
        [
            ({"beta": 0}, "beta = 0"),
            ({"beta": float("inf")}, "beta = inf"),
            ({"char_order": 0}, "char_order = 0"),
            ({"char_order": 2.0}, "char_order = 2.0"),
            ({"word_order": -1}, "word_order = -1"),
            ({"lowercase": 1}, "lowercase = 1"),
            ({"lowercas": True}, "'lowercase'"),
        ],
        HARD,
        [{}, {"word_order": 2}, {"whitespace": True, "char_order": 9}],
    ),
    Case(
        "bleu",
        lambda given: BLEU(**{"effective_order": True, **given}),
        lambda given: BLEU(**{**given, "effective_order": False}),
        [
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
        ],
        any_texts,
        BLEU_WORKED,
        [
            ({"max_ngram_order": 0}, "max_ngram_order = 0"),
            ({"smooth_method": "epsilon"}, "smooth_method = 'epsilon'"),
            ({"smooth_value": -1.0}, "smooth_value = -1.0"),
            ({"tokenise": "zh"}, "'tokenize'"),
        ],
        {kind: texts for kind, texts in HARD.items() if kind != "highest"},
        [{"tokenize": name} for name in ("13a", "none", "zh", "char", "intl")],
    ),
    Case(
        "ter",
        lambda given: TER(**given),
        lambda given: TER(**given),
        [
            {},
            {"normalized": True},
            {"no_punct": True, "case_sensitive": True},
            {"normalized": True, "no_punct": True, "asian_support": True},
        ],
        few_words,
        TER_WORKED,
        [
            ({"tokenize": "13a"}, "'tokenize'"),
            ({"no_punct": "yes"}, "no_punct"),
        ],
        {
            "marks": [
                "Don't stop, at 3.5 (or 4-5)!",
                "Do not stop at 3,5 or 4 &amp; 5 .",
                "他说「你好」，走了。",
                "他走了，说:你好.",
                "",
            ]
        },
        [
            {"normalized": True},
            {"no_punct": True, "case_sensitive": True},
            {"normalized": True, "no_punct": True, "asian_support": True},
        ],
        equal_reference_counts=True,
    ),
]


def in_settings(names: Callable[[Case], Sequence[dict[str, Any]]]) -> pytest.MarkDecorator:
    """Every case in each of its settings."""
    rows = [(case, given) for case in CASES for given in names(case)]
    return pytest.mark.parametrize(
        ("case", "given_settings"), rows, ids=[f"{case.name} {given}" for case, given in rows]
    )


def metric_of(case: Case, given: Mapping[str, Any]) -> Any:
    """The metric, higher being better in `pairwise` alone."""
    return load_metric(case.name, **given)


def by_peer(case: Case, given: Mapping[str, Any], h: Sequence[str], r: Sequence[str]) -> Any:
    """The matrix of scores as the peer has it, pair by pair."""
    peer = case.peer(given)
    return np.array([[peer.sentence_score(one, [other]).score for other in r] for one in h])


WORKED = [(case, *row) for case in CASES for row in case.worked]


@pytest.mark.parametrize(
    ("case", "h", "references", "given_settings", "expected"),
    WORKED,
    ids=[f"{row[0].name} {row[1]!r} {row[2]}" for row in WORKED],
)
def test_worked_by_hand(
    case: Case, h: str, references: list[str], given_settings: dict[str, Any], expected: float
) -> None:
    metric = metric_of(case, given_settings)
    assert metric.score([h], [references])[0] == pytest.approx(expected, abs=1e-9)
    peer = case.peer(given_settings)
    assert peer.sentence_score(h, references).score == pytest.approx(expected, abs=1e-9)
    if len(references) == 1:
        utility = metric.pairwise([h, "zz"], ["yy", *references])[0, 1]
        assert metric.utility_sign * utility == pytest.approx(expected, abs=1e-9)


@in_settings(lambda case: case.settings)
@given(data=st.data())
@BOUNDED
def test_pairwise_equals_the_peer(
    case: Case, given_settings: dict[str, Any], data: st.DataObject
) -> None:
    metric = metric_of(case, given_settings)
    lists = st.lists(case.texts, min_size=1, max_size=5)
    hypotheses, references = data.draw(lists), data.draw(lists)
    for columns in (references, hypotheses):
        scores = metric.utility_sign * metric.pairwise(hypotheses, columns)
        expected = by_peer(case, given_settings, hypotheses, columns)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)


@in_settings(lambda case: case.settings)
@given(data=st.data())
@BOUNDED
def test_score_and_corpus_equal_the_peer(
    case: Case, given_settings: dict[str, Any], data: st.DataObject
) -> None:
    metric, peer = metric_of(case, given_settings), case.peer(given_settings)
    least = 2 if case.equal_reference_counts else 1
    of_segment = st.lists(case.texts, min_size=least, max_size=least if least > 1 else 3)
    segments = data.draw(st.lists(st.tuples(case.texts, of_segment), min_size=1, max_size=5))
    hypotheses, references = [h for h, _ in segments], [r for _, r in segments]
    expected = [peer.sentence_score(h, r).score for h, r in segments]
    np.testing.assert_allclose(metric.score(hypotheses, references), expected, rtol=0, atol=1e-9)
    most = max(map(len, references))
    streams = [[r[i] if i < len(r) else None for r in references] for i in range(most)]
    corpus = case.corpus_peer(given_settings).corpus_score(hypotheses, streams).score
    assert metric.corpus(hypotheses, references) == pytest.approx(corpus, abs=1e-9)


@in_settings(lambda case: case.hard_settings)
def test_hard_texts_equal_the_peer(case: Case, given_settings: dict[str, Any]) -> None:
    metric = metric_of(case, given_settings)
    for texts in case.hard.values():
        expected = by_peer(case, given_settings, texts, texts)
        scores = metric.utility_sign * metric.pairwise(texts, texts)
        np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)
        one_more = metric.utility_sign * metric.pairwise(texts, [*texts, "x"])
        np.testing.assert_allclose(one_more[:, :-1], expected, rtol=0, atol=1e-9)


REFUSED = [(case.name, *row) for case in CASES for row in case.refused]


@pytest.mark.parametrize(("name", "given_settings", "message"), REFUSED, ids=str)
def test_bad_settings(name: str, given_settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_metric(name, **given_settings)


HUGE = [
    ("chrf", {}, "", 0x10FFFF),
    ("chrf", {"word_order": 2}, "", 0x10FFFF),
    ("bleu", {"tokenize": "none"}, " ", 0x9FFF),
]


@pytest.mark.parametrize(("name", "given_settings", "between", "highest"), HUGE, ids=str)
def test_a_huge_alphabet_equals_the_peer(
    name: str, given_settings: dict[str, Any], between: str, highest: int
) -> None:
    """400 texts of nearly all different symbols: n-gram codes do not fit 64 bits without renumbering."""
    rng = random.Random(3)
    made = [
        between.join(chr(rng.randrange(0x4E00, highest)) for _ in range(rng.randrange(1, 40)))
        for _ in range(300)
    ]
    made = [text.encode("utf-8", "ignore").decode() for text in made]
    made += [a[: len(a) // 2] + b[len(b) // 2 :] for a, b in pairwise(made[:101])]
    (case,) = (case for case in CASES if case.name == name)
    matrix, peer = metric_of(case, given_settings).pairwise(made, made), case.peer(given_settings)
    pairs = [(i, j) for i in range(100) for j in (i, i + 1, 300 + i)]
    pairs += [(300 + i, i + 1) for i in range(99)]
    pairs += [(rng.randrange(400), rng.randrange(400)) for _ in range(200)]
    for i, j in pairs:
        expected = peer.sentence_score(made[i], [made[j]]).score
        assert matrix[i, j] == pytest.approx(expected, abs=1e-9)


LANGUAGES = [
    ("bleu", "zh", {"tokenize": "zh"}),
    ("bleu", "zh-Hant-TW", {"tokenize": "zh"}),
    ("bleu", "ja", {"tokenize": "ja-mecab"}),
    ("bleu", "ko", {"tokenize": "ko-mecab"}),
    ("bleu", "de", {}),
    ("bleu(tokenize='char')", "zh", {"tokenize": "char"}),
    ("nist", "zh", {"tokenize": "zh"}),
    ("nist", "de", {}),
    ("meteor", "en", {}),
    ("meteor", "de", {"stemmer": False}),
    ("meteor", "zh", {"stemmer": False, "tokenize": "zh"}),
]


@pytest.mark.parametrize(("name", "lang", "expected"), LANGUAGES)
def test_language_chooses_settings(name: str, lang: str, expected: dict[str, Any]) -> None:
    plain = name.partition("(")[0]
    assert load_metric(name).for_language(lang) == load_metric(plain, **expected)
