"""Annotators, their agreement, and the spans that they marked."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.rerank.selection.ratings import (
    character_shares,
    rater_agreement,
    rater_figures,
)
from discorank.rerank.selection.system_scores import (
    DocumentOutputs,
    RatedSpan,
    RatedTexts,
    TextRating,
)

TEXT = "0123456789"


def rated(*scores: Sequence[float | None], spans: tuple[RatedSpan, ...] = ()) -> RatedTexts:
    """Segments, each with the scores of annotators a, b, ..."""
    texts = []
    for of_segment in scores:
        named = zip("abcdef", of_segment, strict=False)
        texts.append(tuple(None if s is None else TextRating(r, s, spans) for r, s in named))
    return tuple(texts)


def document(**by_system: RatedTexts) -> DocumentOutputs:
    segments = len(next(iter(by_system.values())))
    texts = dict.fromkeys(by_system, (TEXT,) * segments)
    return DocumentOutputs("d", False, None, texts, {}, {}, {"esa": by_system})


# -- annotators --


def test_annotators_in_figures() -> None:
    one = document(A=rated((10, 20), (30, None)), B=rated((50, None), (70, None)))
    a, b = rater_figures([one], "esa")
    assert (a.rater, a.ratings, a.systems, a.mean) == ("a", 4, 2, 40.0)
    assert a.deviation == pytest.approx(stdev([10, 30, 50, 70]))
    assert (b.systems, b.deviation, b.error_free) == (1, None, 1.0)


def test_agreement_of_two_annotators() -> None:
    spans = (RatedSpan(0, 4, "major"),)
    half = (TextRating("a", 1.0, spans), TextRating("b", 2.0, (RatedSpan(2, 6, "major"),)))
    one = document(
        A=(half, (TextRating("a", 5.0), TextRating("b", 4.0))),
        B=(
            (TextRating("a", 3.0, ()), TextRating("b", 6.0, ())),
            (TextRating("a", 9.0), TextRating("b", 1.0)),
        ),
    )
    everyone, pair = rater_agreement([one], "esa")
    assert (pair.a, pair.b, pair.texts) == ("a", "b", 4)
    x, y = [1, 5, 3, 9], [2, 4, 6, 1]
    covariance = sum((p - mean(x)) * (q - mean(y)) for p, q in zip(x, y, strict=True)) / 3
    assert pair.pearson == pytest.approx(covariance / stdev(x) / stdev(y))
    # one segment is ordered alike, the other the other way round
    assert pair.tau == 0.0
    # two of four characters on either side
    assert pair.span_f1 == 0.5
    assert everyone.texts == 4
    both = x + y, y + x
    covariance = (
        sum((p - mean(both[0])) * (q - mean(both[1])) for p, q in zip(*both, strict=True)) / 7
    )
    assert everyone.pearson == pytest.approx(covariance / stdev(both[0]) / stdev(both[1]))


def test_nobody_rated_the_same_texts() -> None:
    assert rater_agreement([document(A=rated((1, None)), B=rated((None, 2)))], "esa") == []


# -- spans --

SPANS = st.lists(
    st.builds(
        lambda start, length, severity: RatedSpan(start, min(10, start + length), severity),
        st.integers(0, 9),
        st.integers(0, 6),
        st.sampled_from(["minor", "major", "critical", "neutral", None]),
    ),
    max_size=4,
)


def plain_counts(gold: list[RatedSpan], predicted: list[RatedSpan]) -> tuple[float, float, float]:
    """The counts character by character, as the equation says."""
    credit = in_gold = in_predicted = 0.0
    for place in range(len(TEXT)):

        def count(spans: list[RatedSpan], *severities: str, place: int = place) -> int:
            return sum(
                s.severity in severities and (s.start or 0) <= place < (s.end or 0) for s in spans
            )

        m, n = count(gold, "major", "critical"), count(gold, "minor")
        m2, n2 = count(predicted, "major", "critical"), count(predicted, "minor")
        credit += min(m, m2) + min(n, n2)
        rest = max(0, m - m2) + max(0, n - n2), max(0, m2 - m) + max(0, n2 - n)
        credit += 0.5 * min(rest)
        in_gold += m + n
        in_predicted += m2 + n2
    return credit, in_gold, in_predicted


@given(gold=SPANS, predicted=SPANS)
def test_characters_are_counted_as_the_task_counts(
    gold: list[RatedSpan], predicted: list[RatedSpan]
) -> None:
    precision, recall, f1 = character_shares([(TEXT, gold, predicted)])
    credit, num_gold, num_predicted = plain_counts(gold, predicted)
    assert precision == pytest.approx(credit / num_predicted if num_predicted else 1)
    assert recall == pytest.approx(credit / num_gold if num_gold else 1)
    assert f1 * (precision + recall) == pytest.approx(2 * precision * recall)
    back = character_shares([(TEXT, predicted, gold)])
    assert back == pytest.approx((recall, precision, f1))


def test_spans_without_a_place_cover_nothing() -> None:
    gold = [RatedSpan(None, None, "major"), RatedSpan(0, 3, "major", in_source=True)]
    shares = character_shares([(TEXT, gold, [RatedSpan(0, 1, "minor")])])
    assert shares == (0.0, 1.0, 0.0)
