"""Which texts are preferred to which: worked by hand, and what holds for every list."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank.integrations.training_data.trl_rows import (
    LengthBalance,
    PreferencePair,
    Selection,
    Standing,
    Valued,
    length_class,
    pairs_in,
    valued,
)
from discorank.metrics.errors import InputError

# mean (2*6 + 3 + 0 + 1) / 5 = 3.2, variance (2*7.84 + 0.04 + 10.24 + 4.84) / 5 = 6.16
LIST = (
    Standing("best", 2, 6.0),
    Standing("second", 1, 3.0),
    Standing("worst", 1, 0.0),
    Standing("third", 1, 1.0),
    Standing("left out", 1, None),
)
DEVIATION = 6.16**0.5


def named(pairs: list[PreferencePair]) -> list[tuple[str, str]]:
    return [(pair.chosen.text, pair.rejected.text) for pair in pairs]


def test_values_are_standardised_over_candidates() -> None:
    texts = valued(LIST)
    assert [text.text for text in texts] == ["best", "second", "third", "worst"]
    assert [text.standardised for text in texts] == pytest.approx(
        [2.8 / DEVIATION, -0.2 / DEVIATION, -2.2 / DEVIATION, -3.2 / DEVIATION]
    )


@pytest.mark.parametrize(
    ("selection", "margin", "max_pairs", "expected", "num_over"),
    [
        ("best-worst", 0.0, None, [("best", "worst")], 0),
        ("best-each", 0.0, None, [("best", "worst"), ("best", "third"), ("best", "second")], 0),
        ("best-each", 5 / DEVIATION, None, [("best", "worst"), ("best", "third")], 0),
        ("best-each", 0.0, 1, [("best", "worst")], 2),
        ("all", 2.5 / DEVIATION, 2, [("best", "worst"), ("best", "third")], 2),
        ("best-worst", 3.0, None, [], 0),
    ],
)
def test_pairs_are_chosen(
    selection: Selection,
    margin: float,
    max_pairs: int | None,
    expected: list[tuple[str, str]],
    num_over: int,
) -> None:
    pairs, over = pairs_in(LIST, selection, margin, max_pairs)
    assert (named(pairs), over) == (expected, num_over)
    for pair in pairs:
        assert pair.standardised_gap == pytest.approx(pair.gap / DEVIATION)


def test_equals_are_in_no_pair() -> None:
    tie = (Standing("a", 1, 1.0), Standing("b", 1, 1.0 - 1e-10), Standing("c", 1, 0.5))
    assert named(pairs_in(tie, "all")[0]) == [("a", "c"), ("b", "c")]
    assert pairs_in(tie[:2])[0] == []
    # a text and a document of its sentences
    same = (
        Standing("a b", 1, 1.0),
        Standing("a b", 1, 0.0),
    )
    assert pairs_in(same)[0] == []
    assert pairs_in((Standing("a", 3, 1.0),), "all")[0] == []


def test_more_pairs_than_are_looked_at_are_refused() -> None:
    texts = [Standing(str(i), 1, float(i)) for i in range(1500)]
    with pytest.raises(
        InputError, match=r"1500 texts have more than 1000000 pairs. Take best-each"
    ):
        pairs_in(texts, "all")
    assert len(pairs_in(texts, "best-each")[0]) == 1499


utilities = st.none() | st.floats(-100, 100)
standings = st.lists(st.tuples(st.integers(1, 4), utilities), max_size=8).map(
    lambda values: [Standing(f"t{i}", count, value) for i, (count, value) in enumerate(values)]
)


@given(standings, st.sampled_from(["best-worst", "best-each", "all"]), st.floats(0, 3))
def test_what_holds_for_all_pairs(
    texts: list[Standing], selection: Selection, margin: float
) -> None:
    pairs, _ = pairs_in(texts, selection, margin)
    values = {text.text: text.utility for text in texts}
    for pair in pairs:
        better, worse = values[pair.chosen.text], values[pair.rejected.text]
        assert better is not None
        assert worse is not None
        assert better > worse
        assert pair.standardised_gap >= margin
    gaps = [pair.standardised_gap for pair in pairs]
    assert gaps == sorted(gaps, reverse=True)
    assert len(set(named(pairs))) == len(pairs)
    of_all = named(pairs_in(texts, "all", margin)[0])
    assert set(named(pairs)) <= set(of_all)
    by_pairs = [
        {a.text, b.text}
        for a, b in combinations([t for t in texts if t.utility is not None], 2)
        if abs(a.utility - b.utility) > 1e-9 * max(abs(a.utility), abs(b.utility))  # type: ignore[operator, arg-type]
    ]
    if margin == 0 and selection == "all":
        assert len(pairs) == len(by_pairs)


lengths = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=60)


@given(lengths, st.integers(0, 3))
def test_preferred_texts_are_longer_as_often_as_shorter(
    sizes: list[tuple[int, int]], seed: int
) -> None:
    pairs = [PreferencePair(Valued("x" * a, 1.0, 1.0), Valued("y" * b, 0.0, 0.0)) for a, b in sizes]
    balance = LengthBalance(seed)
    for pair in pairs:
        balance.count(pair)
    balance.counted()
    kept = [pair for pair in pairs if balance.keeps(pair)]
    classes = [length_class(pair) for pair in kept]
    all_classes = [length_class(pair) for pair in pairs]
    for number in set(all_classes):
        assert classes.count(number) == classes.count(-number)
        fewer = min(all_classes.count(number), all_classes.count(-number))
        assert classes.count(number) == fewer
