"""ROUGE-N, -L and -W: worked examples, a plain table and rouge_score on any text, and pairs that stand alone."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer as Peer  # type: ignore[import-untyped]

from discorank.metrics.base import Metric
from discorank.metrics.errors import InputError, ModelLoadError
from discorank.metrics.lexical import word_columns
from discorank.metrics.lexical.rouge import RougeL, RougeN, RougeW
from discorank.metrics.registry import load_metric

from ...support.examples import examples

WORKED = [  # hypothesis, reference, LCS, WLCS with weight 2
    ("police kill the gunman", "police killed the gunman", 3, 1 + 4),  # Lin 2004, section 3.1
    ("the gunman kill police", "police killed the gunman", 2, 4),
    ("a b c d x y z k", "a b c d e f g", 4, 16),  # Lin 2004, section 4: Y1 and Y2 against X
    ("a h b k c i d", "a b c d e f g", 4, 4),
    ("a b", "c d", 0, 0),
    ("a b c", "a b c", 3, 9),
    ("b a b", "a b", 2, 4),
    ("A, b.", "a B!", 2, 4),
]
TOKENS = [  # text, words of the Unicode tokenizer
    ("It's 3.5°C, naïve!", ["it", "s", "3", "5", "c", "naïve"]),
    ("我爱NLP。", ["我", "爱", "nlp"]),
    ("ひらカナ・々", ["ひ", "ら", "カ", "ナ", "々"]),
    ("한국어 문장", ["한국어", "문장"]),
    ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
    ("cafe\u0301s", ["cafe\u0301s"]),
    ("か\u3099x", ["か\u3099", "x"]),
    (" \u0301 。", []),
]
METRICS = [RougeL(), RougeW(), RougeN(1), RougeN(2)]
words = st.lists(st.sampled_from("abcde"), max_size=40).map(" ".join)
texts = st.lists(words, min_size=1, max_size=5)
free = st.lists(
    st.text(alphabet="abB running flies cats é_-3.", max_size=60), min_size=1, max_size=4
)


def plain(hypothesis: Sequence[str], reference: Sequence[str], weight: float) -> float:
    """F by the quadratic table as Lin writes it."""
    best = [[0.0] * (len(reference) + 1) for _ in range(len(hypothesis) + 1)]
    run = [[0] * (len(reference) + 1) for _ in range(len(hypothesis) + 1)]
    for i, mine in enumerate(hypothesis, 1):
        for j, other in enumerate(reference, 1):
            if mine == other:
                k = run[i - 1][j - 1]
                best[i][j] = best[i - 1][j - 1] + (k + 1) ** weight - k**weight
                run[i][j] = k + 1
            else:
                best[i][j] = max(best[i - 1][j], best[i][j - 1])
    if not best[-1][-1]:
        return 0.0
    precision = (best[-1][-1] / len(hypothesis) ** weight) ** (1 / weight)
    recall = (best[-1][-1] / len(reference) ** weight) ** (1 / weight)
    return float(2 * precision * recall / (precision + recall))


def table(hypotheses: Sequence[str], references: Sequence[str], weight: float) -> list[list[float]]:
    return [[plain(h.split(), r.split(), weight) for r in references] for h in hypotheses]


@pytest.mark.parametrize(("hypothesis", "reference", "common", "weighted"), WORKED)
def test_worked(hypothesis: str, reference: str, common: int, weighted: int) -> None:
    n = len(hypothesis.split()) + len(reference.split())
    assert RougeL().score([hypothesis], [reference]) == pytest.approx([2 * common / n], abs=1e-12)
    assert RougeW(weight=2.0).score([hypothesis], [reference]) == pytest.approx(
        [2 * weighted**0.5 / n], abs=1e-12
    )


@pytest.mark.parametrize("metric", METRICS)
def test_empty_texts_score_0(metric: Metric) -> None:
    both = metric.pairwise(["", "a"], ["", "a"]).tolist()
    assert both == [[0, 0], [0, 0 if metric == RougeN(2) else 1]]
    assert metric.pairwise(["", "…"], ["b", "a", ""]).tolist() == [[0, 0, 0], [0, 0, 0]]


@examples(10)
@given(texts, texts)
def test_equals_the_plain_table(hypotheses: list[str], references: list[str]) -> None:
    for metric, weight in ((RougeL(), 1.0), (RougeW(), 1.2), (RougeW(weight=3.0), 3.0)):
        square = metric.pairwise(hypotheses, hypotheses)
        np.testing.assert_allclose(square, table(hypotheses, hypotheses, weight), atol=1e-9)
        both = metric.pairwise(hypotheses, references)
        np.testing.assert_allclose(both, table(hypotheses, references, weight), atol=1e-9)


def test_long_texts_equal_the_plain_table() -> None:
    chance = random.Random(5)
    long = [
        " ".join(str(chance.randrange(90)) for _ in range(n)) for n in (600, 640, 3, 63, 64, 65)
    ]
    for metric, weight in ((RougeL(), 1.0), (RougeW(), 1.2)):
        np.testing.assert_allclose(
            metric.pairwise(long[:1], long[1:]), table(long[:1], long[1:], weight), atol=1e-9
        )
        np.testing.assert_allclose(
            metric.pairwise(long[2:], long[2:]), table(long[2:], long[2:], weight), atol=1e-9
        )


@pytest.mark.parametrize("stemmer", [False, True])
@pytest.mark.parametrize(
    ("kind", "metric"),
    [
        ("rougeL", RougeL(tokenizer="rouge_score")),
        *((f"rouge{n}", RougeN(n, tokenizer="rouge_score")) for n in (1, 2, 3, 5)),
    ],
)
@examples(4)
@given(hypotheses=free, references=free)
def test_equals_rouge_score(
    kind: str, metric: Metric, stemmer: bool, hypotheses: list[str], references: list[str]
) -> None:
    peer = Peer([kind], use_stemmer=stemmer)
    metric = metric.with_defaults(stemmer=stemmer)
    expected = [[peer.score(r, h)[kind].fmeasure for r in references] for h in hypotheses]
    np.testing.assert_allclose(metric.pairwise(hypotheses, references), expected, atol=1e-12)
    several = [peer.score_multi(references, h)[kind].fmeasure for h in hypotheses]
    np.testing.assert_allclose(
        metric.score(hypotheses, [references] * len(hypotheses)), several, atol=1e-12
    )


@pytest.mark.parametrize(
    ("n", "common", "of_h", "of_r"), [(1, 3, 4, 4), (2, 1, 3, 3), (5, 0, 0, 0)]
)
def test_shared_ngrams(n: int, common: int, of_h: int, of_r: int) -> None:
    """Lin 2004, section 3.1: "police killed the gunman"."""
    (value,) = RougeN(n).score(["police kill the gunman"], ["police killed the gunman"])
    assert value == 2 * common / max(of_h + of_r, 1)
    assert RougeN(1).score(["a a a b"], ["a a c"])[0] == 2 * 2 / 7


def test_small_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = [" ".join(random.Random(seed).choices("abcdefgh", k=10 + seed)) for seed in range(12)]
    expected = [metric.pairwise(lists, lists).tobytes() for metric in METRICS]
    monkeypatch.setattr(word_columns, "PLACE_BYTES", 100)
    assert [metric.pairwise(lists, lists).tobytes() for metric in METRICS] == expected


@pytest.mark.parametrize(("text", "expected"), TOKENS)
def test_unicode_words(text: str, expected: list[str]) -> None:
    assert RougeL().load().split(text.lower()) == expected


def test_stemmer_joins_forms_of_long_words() -> None:
    assert RougeL(stemmer=True).score(["running cats"], ["runs cat"]) == [1]
    assert RougeL(stemmer=True).score(["running as"], ["runs a"]) == [0.5]
    assert RougeL().score(["running cats"], ["runs cat"]) == [0]


@pytest.mark.parametrize("metric", [RougeL(stemmer=True), RougeW(stemmer=True)])
def test_stemmer_without_nltk(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk", None)
    monkeypatch.setitem(sys.modules, "nltk.stem.porter", None)
    with pytest.raises(ModelLoadError, match=r"discorank\[rouge\]"):
        metric.load()


def test_signatures() -> None:
    assert RougeL().signature() == "rouge-l"
    assert load_metric("rouge-2").signature() == "rouge(n=2)"
    with pytest.raises(InputError, match="n missing"):
        load_metric("rouge")
    assert RougeW(weight=1.5, stemmer=True).signature() == "rouge-w(weight=1.5,stemmer=true)"
