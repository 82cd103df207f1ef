"""WER and CER: worked examples, the plain table of distances, jiwer's rules on odd texts, pairs that stand alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.base import Metric
from discorank.metrics.lexical import word_columns
from discorank.metrics.lexical.error_rate import CER, WER, normalized

WORKED = [  # metric, hypothesis, reference, rate
    (WER(), "hello duck", "hello world", 1 / 2),
    (WER(), "a b c d e", "a x c", 3 / 3),
    (WER(), "", "a b", 1),
    (WER(), "a b c", "", 3),
    (WER(), "", "", 0),
    (WER(), "  the   cat \n", "the cat", 0),
    (WER(), "the\tcat", "the cat", 2 / 2),
    (WER(), "The cat.", "the cat", 1),
    (WER(lowercase=True, no_punct=True), "The «cat».", "the cat", 0),
    (WER(normalize="standardize"), "She'll <unk> make\tIT", "she will make it", 0),
    (CER(), "kitten", "sitting", 3 / 7),
    (CER(), " ab ", "a b", 1 / 3),
    (CER(), "ab", "", 2),
    (CER(lowercase=True), "ÄB", "äb", 0),
]
SYMBOLS = "ab c\t\\\x1f\u00a0é猫🐈.'<>[]"
texts = st.lists(st.text(SYMBOLS, max_size=30), min_size=1, max_size=5)


def plain(a: Sequence[str], b: Sequence[str]) -> int:
    """Edits by the table of Levenshtein, row by row."""
    above = list(range(len(b) + 1))
    for i, mine in enumerate(a, 1):
        row = [i]
        for j, other in enumerate(b, 1):
            row.append(min(above[j] + 1, row[-1] + 1, above[j - 1] + (mine != other)))
        above = row
    return above[-1]


def table(metric: WER | CER, hypotheses: list[str], references: list[str]) -> list[list[float]]:
    """Rates of all pairs by the table."""

    def symbols(text: str) -> list[str]:
        if isinstance(metric, CER):
            return list(normalized(text, metric, of_words=False))
        return [word for word in normalized(text, metric).split(" ") if word]

    return [
        [plain(symbols(h), symbols(r)) / max(len(symbols(r)), 1) for r in references]
        for h in hypotheses
    ]


@pytest.mark.parametrize(("metric", "hypothesis", "reference", "rate"), WORKED)
def test_worked(metric: Metric, hypothesis: str, reference: str, rate: float) -> None:
    assert metric.score([hypothesis], [reference])[0] == rate
    assert metric.pairwise([hypothesis, "x y"], [reference])[0, 0] == -rate


@pytest.mark.parametrize("metric", [WER(), CER(), WER(normalize="standardize", no_punct=True)])
@settings(max_examples=25, deadline=None)
@given(hypotheses=texts, references=texts)
def test_equals_the_plain_table(
    metric: WER | CER, hypotheses: list[str], references: list[str]
) -> None:
    expected = np.array(table(metric, hypotheses, references))
    assert (metric.pairwise(hypotheses, references) == -expected).all()
    square = np.array(table(metric, hypotheses, hypotheses))
    assert (metric.pairwise(hypotheses, hypotheses) == -square).all()
    one = metric.pairwise(hypotheses[:1], references)
    assert (one == -expected[:1]).all()


def test_long_texts_equal_the_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(3)
    long = [" ".join(map(str, chance.integers(40, size=n))) for n in (300, 7, 63, 64, 65, 128)]
    expected = -np.array(table(WER(), long, long))
    assert (WER().pairwise(long, long) == expected).all()
    monkeypatch.setattr(word_columns, "PLACE_BYTES", 100)
    assert (WER().pairwise(long, list(long)) == expected).all()


def test_a_corpus_has_all_edits_over_all_words() -> None:
    hypotheses, references = ["a b c", "d", "x"], ["a b", "d e f", ""]
    assert WER().corpus(hypotheses, references) == (1 + 2 + 1) / 5
    assert WER().corpus(["a b"], [""]) == 2


def test_of_several_references_the_lowest_rate_counts() -> None:
    several = [["a", "a b c d", "x"]]
    assert WER().score(["a b"], several)[0] == 0.5
    assert WER().corpus(["a b", "z"], [several[0], ["z z"]]) == (2 + 1) / (4 + 2)
