"""Weights, expectations and the choice, against plain loops and by hand."""

from __future__ import annotations

from math import exp, inf, isfinite, isnan, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

import discorank
from discorank import Budget, Candidate, CandidateList, Document, InputError, MBRDecoder, decode
from discorank.rerank.choice import TIE, choose, in_order
from discorank.rerank.engines.expectation import expected_utility
from discorank.rerank.lists import Distinct
from discorank.rerank.pool import Pool

BOUNDED = bounded(max_examples=80, deadline=None, database=None, print_blob=True)


def listed(*texts: str) -> CandidateList:
    return CandidateList("x", tuple(map(Candidate, texts)))


def ranked(values: list[float], nbest: int | None = None, texts: str = "abcdefgh") -> list[int]:
    record = listed(*texts[: len(values)])
    return [place.index for place in choose(record, np.array(values, float), nbest).ranking]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 3, 2], [1, 2, 0]),
        ([2, 2, 2], [0, 1, 2]),
        ([1, 1 + 1e-10, 1 + 2e-10], [0, 1, 2]),
        ([1, 1 + 2e-9], [1, 0]),
        ([-1, -1 + 1e-10], [0, 1]),
        ([100, 100 + 5e-8], [0, 1]),  # relative
        ([100, 100 + 5e-7], [1, 0]),
        ([0, 1e-300], [1, 0]),  # nothing is near 0 but 0
        ([-0.0, 0.0], [0, 1]),
        # 0.7e-9 apart each: 2 and 1 are as good as the best, 0 is not; once 1 is taken, 2 is best, then 0
        ([1, 1 + 0.7e-9, 1 + 1.4e-9], [1, 2, 0]),
        ([1 + 1.4e-9, 1 + 0.7e-9, 1], [0, 1, 2]),
        ([nan, 1, nan, 2], [3, 1, 0, 2]),
        ([nan, -inf, 1], [2, 1, 0]),
        ([-inf, -inf], [0, 1]),
        ([nan, nan], [0, 1]),
        ([nan, -inf], [1, 0]),
        ([1, inf, inf], [0, 1, 2]),
        ([-inf, inf, nan, 5], [3, 0, 1, 2]),
    ],
)
def test_order(values: list[float], expected: list[int]) -> None:
    assert ranked(values) == expected
    assert list(in_order(np.array(values, float))) == expected
    for k in range(1, len(values) + 1):
        assert ranked(values, k) == expected[:k]


def plain_order(values: list[float]) -> list[int]:
    """The rule as it is written: for each place the lowest index of those as good as the best that is left."""
    left, result = list(range(len(values))), []
    while any(values[i] < inf for i in left):  # neither NaN nor +inf
        best = max(values[i] for i in left if values[i] < inf)
        limit = best - TIE * abs(best) if isfinite(best) else best
        index = next(i for i in left if limit <= values[i] < inf)
        left.remove(index)
        result.append(index)
    return result + left


near = st.builds(
    lambda n, k: n + k * 4e-10 * max(1, abs(n)), st.integers(-2, 3), st.integers(-5, 5)
)


@given(
    values=st.lists(
        near | st.sampled_from([nan, inf, -inf, 0.0, -0.0]) | st.floats(), min_size=1, max_size=9
    )
)
@BOUNDED
def test_order_equals_the_written_rule(values: list[float]) -> None:
    with np.errstate(all="raise"):
        assert list(in_order(np.array(values))) == plain_order(values)


def test_ties_in_a_long_list_are_fast() -> None:
    assert list(in_order(np.zeros(20_000))) == list(range(20_000))
    assert list(in_order(np.arange(20_000.0))) == list(range(20_000))[::-1]


def test_places_are_distinct_texts_with_counts() -> None:
    found = choose(listed("b", "a", "b", "c", "a", "b"), np.array([1.0, 5, 1, 3, 5, 1]), None)
    assert [(p.index, p.count, p.utility, p.text) for p in found.ranking] == [
        (1, 2, 5, "a"),
        (3, 1, 3, "c"),
        (0, 3, 1, "b"),
    ]
    assert (found.index, found.text, found.utility, found.gap) == (1, "a", 5, 2)
    assert [
        p.index for p in choose(listed("b", "a", "b", "c"), np.array([1.0, 5, 1, 3]), 2).ranking
    ] == [1, 3]
    assert len(choose(listed("a", "a"), np.zeros(2), 5).ranking) == 1


def test_copies_with_other_values_take_their_best_place() -> None:
    found = choose(listed("a", "b", "a"), np.array([1.0, 2, 3]), None)
    assert [(p.index, p.count) for p in found.ranking] == [(2, 2), (1, 1)]
    assert found.gap == 1


@pytest.mark.parametrize(
    ("values", "gap"),
    [
        ([1, 3], 2),
        ([3], None),
        ([3, nan], None),
        ([nan, nan], None),
        ([-inf, 2], None),
        ([2, 2], 0),
    ],
)
def test_gap(values: list[float], gap: float | None) -> None:
    for nbest in (1, None):
        assert choose(listed(*"ab"[: len(values)]), np.array(values, float), nbest).gap == gap


@pytest.mark.parametrize(
    ("values", "left_out", "flags"),
    [
        ([2, 1], (), ()),
        ([1, nan], (), ("not-finite",)),
        ([1, inf], (), ("not-finite",)),
        ([1, -inf], (), ("not-finite",)),
        ([1, nan], (1,), ()),  # a shortlist left it out
        ([nan, inf], (), ("no-utility",)),
        ([inf], (), ()),  # there is nothing to choose
    ],
)
def test_what_is_not_finite_is_flagged(
    values: list[float], left_out: tuple[int, ...], flags: tuple[str, ...]
) -> None:
    record = listed(*"ab"[: len(values)])
    ranking = choose(record, np.array(values, float), 1, left_out=left_out)
    assert ranking.index == 0
    assert ranking.flags == flags


def test_the_gap_of_a_tie_is_not_negative() -> None:
    found = choose(listed("a", "b"), np.array([1, 1 + 1e-10]), 1)
    assert (found.index, found.gap) == (0, 0.0)


@pytest.mark.parametrize("values", [[nan], [-inf], [inf], [nan, nan]])
def test_what_is_no_number_is_null(values: list[float]) -> None:
    found = choose(listed(*"ab"[: len(values)]), np.array(values), None)
    assert found.index == 0
    assert [place.utility for place in found.ranking] == [None] * len(values)


def test_distinct() -> None:
    distinct = Distinct(tuple(map(Candidate, ["b", "a", "b", "c", "a"])))
    assert distinct.texts == ("b", "a", "c")
    assert distinct.of.tolist() == [0, 1, 0, 2, 1]
    assert distinct.first.tolist() == [0, 1, 3]
    assert distinct.pooled(np.array([1.0, 2, 4, 8, 16])).tolist() == [5, 18, 8]
    assert len(distinct) == 3


def pooled(candidates: list[Candidate], how: str, temperature: float = 1.0) -> dict[Any, float]:
    weights = Pool(how, temperature).weights_of(candidates)
    distinct = Distinct(candidates)
    return dict(zip(distinct.texts, distinct.pooled(weights).tolist(), strict=True))


SAMPLES = [Candidate("a", -1.0), Candidate("a", -1.0), Candidate("a", -2.0), Candidate("b", -1.0)]


def test_uniform_counts_multiplicity() -> None:
    assert pooled(SAMPLES, "uniform") == {"a": 3, "b": 1}


def test_logprob_sums_distinct_pairs() -> None:
    assert pooled(SAMPLES, "logprob") == pytest.approx({"a": 1 + exp(-1), "b": 1})
    assert pooled(SAMPLES, "logprob", 2.0) == pytest.approx({"a": 1 + exp(-0.5), "b": 1})
    assert pooled([Candidate("a", -1000.0), Candidate("b", -1001)], "logprob") == pytest.approx(
        {"a": 1, "b": exp(-1)}
    )
    assert pooled([Candidate("a", -1.0), Candidate("b", -inf)], "logprob") == {"a": 1, "b": 0}
    assert pooled([Candidate("a", -2), Candidate("b", -3)], "logprob") == pytest.approx(
        {"a": 1, "b": exp(-1)}
    )


@pytest.mark.parametrize("temperature", [0.01, 0.5, 3.0, 1e6])
def test_logprob_weights_are_a_softmax(temperature: float) -> None:
    logprobs = [-1.5, -700.0, -3.0, -2.25]
    weights = pooled([Candidate(str(i), p) for i, p in enumerate(logprobs)], "logprob", temperature)
    scaled = np.array(logprobs) / temperature
    expected = np.exp(scaled - scaled.max())
    assert np.array(list(weights.values())) / sum(weights.values()) == pytest.approx(
        expected / expected.sum()
    )


@pytest.mark.parametrize(
    ("values", "fact"),
    [
        ([2, None], r"\[1\].p: "),
        ([-1, -3], "negative"),
        ([nan], "nan"),
        ([inf], "inf"),
        ([True], "True"),
        (["1"], "'1'"),
        ([0, 0.0], "are 0"),
    ],
)
def test_bad_weights(values: list[Any], fact: str) -> None:
    given = [{} if value is None else {"p": value} for value in values]
    with pytest.raises(InputError, match=fact):
        Pool("field:p").weights_of([Candidate(f"t{i}", None, row) for i, row in enumerate(given)])


def test_bad_logprobs() -> None:
    for logprobs, fact in (([-1.0, None], r"\[1\]"), ([-inf, -inf], "are 0")):
        with pytest.raises(InputError, match=fact):
            Pool("logprob").weights_of([Candidate("a", logprob) for logprob in logprobs])


def test_a_field_as_weight() -> None:
    candidates = [
        Candidate("a", None, {"p": 2}),
        Candidate("b", None, {"p": 0.5}),
        Candidate("a", None, {"p": 1}),
    ]
    assert pooled(candidates, "field:p") == {"a": 3, "b": 0.5}


def plain_expectation(u: np.ndarray, weights: list[float], own: list[float] | None) -> list[float]:
    result = []
    for i in range(len(u)):
        total = mass = 0.0
        for j, weight in enumerate(weights):
            left = weight - (own[i] if own is not None and i == j else 0.0)
            total += left * u[i, j]
            mass += left
        result.append(total / mass if mass > TIE * sum(weights) else nan)
    return result


@given(data=st.data(), n=st.integers(1, 7), with_own=st.booleans())
@BOUNDED
def test_expected_utility_equals_a_double_loop(data: st.DataObject, n: int, with_own: bool) -> None:
    rows = n if with_own else data.draw(st.integers(1, 7))
    cell = st.floats(-100, 100)
    u = np.array(
        data.draw(st.lists(st.lists(cell, min_size=n, max_size=n), min_size=rows, max_size=rows))
    )
    own = (
        data.draw(st.lists(st.sampled_from([0.25, 1.0, 2.0]), min_size=n, max_size=n))
        if with_own
        else None
    )
    more = data.draw(st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=n, max_size=n))
    weights = [a + b for a, b in zip(own or [1.0] * n, more, strict=True)]
    found = expected_utility(u, np.array(weights), None if own is None else np.array(own))
    assert found == pytest.approx(
        plain_expectation(u, weights, own), rel=1e-9, abs=1e-9, nan_ok=True
    )


def test_expectation_by_hand() -> None:
    u = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert expected_utility(u, np.array([1.0, 3.0])).tolist() == [1.75, 3.75]
    assert expected_utility(u, np.array([1.0, 3.0]), np.array([1.0, 1.0])).tolist() == [2.0, 11 / 3]
    assert np.isnan(expected_utility(u[:1, :1], np.array([2.0]), np.array([2.0]))).all()
    assert expected_utility(u, np.array([4.0, 12.0])).tolist() == [1.75, 3.75]
    assert (
        expected_utility(u.T.copy().T, np.array([1.0, 3.0])).tobytes()
        == expected_utility(u, np.array([1.0, 3.0])).tobytes()
    )


def test_expectation_of_what_is_no_number() -> None:
    u = np.array([[1.0, nan], [1.0, 2.0], [1.0, -inf]])
    found = expected_utility(u, np.ones(2))
    assert isnan(found[0])
    assert found[1:].tolist() == [1.5, -inf]
    assert choose(listed("a", "b", "c"), found, None).index == 1


def test_a_pseudo_reference_of_weight_0_does_not_count() -> None:
    u = np.array([[1.0, -inf], [0.5, 2.0]])
    assert expected_utility(u, np.array([1.0, 0.0])).tolist() == [1.0, 0.5]


EMPTY_LIST = ["x y z", "a b c d e f", "", "q r", "m n"]


@pytest.mark.parametrize("utility", ["wer", "ter", "cer", "2*wer + 0.001*chrf"])
def test_an_empty_text_does_not_win_over_others(utility: str) -> None:
    """Deleting every word costs less than words that are all wrong: by value, the empty text is best."""
    found = decode(EMPTY_LIST, utility, nbest=None)
    assert found.text == "q r"
    assert found.flags == ("empty",)
    assert found.ranking[-1].index == 2
    assert found.ranking[-1].utility == max(place.utility for place in found.ranking)  # type: ignore[type-var]


@pytest.mark.parametrize(
    "settings",
    [
        {"self_pair": False},
        {"nbest": 2, "diverse": 1.0},
        {"shortlist": "wer", "top_k": 2},
        {"budget": Budget(0.3, force=True)},
        {"normalize_parts": "rank"},
        {"weights": "field:p"},
    ],
)
def test_an_empty_text_does_not_win_however_it_is_chosen(settings: dict[str, Any]) -> None:
    candidates = [{"text": text, "p": 50 if not text else 1} for text in EMPTY_LIST]
    found = decode(candidates, "ter", **settings)
    assert found.text
    assert "empty" in found.flags
    assert all(place.text for place in found.ranking[:2])


@pytest.mark.parametrize("text", ["", " ", "\t\n", "\u200b", "\ufeff ", Document(("", " "))])
def test_what_is_empty(text: Any) -> None:
    found = decode([text, "a b", "c d e"], "wer")
    assert (found.index, found.flags[-1]) == (1, "empty")


def test_where_all_are_empty_the_first_of_the_best_wins() -> None:
    found = decode(["", " ", ""], "wer")
    assert (found.index, found.flags) == (0, ())


def test_an_empty_text_does_not_win_by_a_feature() -> None:
    candidates = [{"text": "a b", "logprob": -9}, {"text": "", "logprob": -1}, "c"]
    candidates[2] = {"text": "c", "logprob": -8}
    found = discorank.rerank(candidates, "logprob", nbest=None)
    assert [place.index for place in found.ranking] == [2, 0, 1]
    assert found.flags == ("empty",)


def test_a_document_without_words_does_not_win() -> None:
    lists = [
        {
            "id": f"d:{i}",
            "document": "d",
            "position": i,
            "candidates": ["a b c d", "", "e f g"],
        }
        for i in range(2)
    ]
    rankings = list(MBRDecoder("ter", choose="document").decode(lists))
    assert [ranking.text for ranking in rankings] == ["e f g"] * 2
    assert all(ranking.flags == ("empty",) for ranking in rankings)
