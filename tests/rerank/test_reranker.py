"""Reranking by weighted features: normalisations by hand, metrics among the features, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from math import inf, sqrt
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import InputError, Metric, Ranking, Reranker, Scorer
from discorank.metrics.representations import Block, FloatArray, IntArray, Reps
from discorank.metrics.scorer import Info
from discorank.metrics.spec.checked_settings import settings
from discorank.metrics.text.texts import Item
from discorank.rerank.engines.expectation import Normalize, normalized
from discorank.rerank.lists import read_list
from discorank.rerank.reranker import plain_feature

from ..support.contextual import NewLetters

BOUNDED = bounded(max_examples=20, deadline=None, database=None, print_blob=True)


class TextScorer(Scorer):
    """Keeps items; subclasses give the value of one."""

    def __init__(self, metric: Metric) -> None:
        self.info = metric.info

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        rows = np.empty(len(items), object)
        rows[:] = [(str(item.text), "".join(item.context)) for item in items]
        return Reps({"item": rows}), np.array([len(text) for text, _ in rows], np.int64)

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        return [
            np.array([[self.value(reps, h, block.source)] for h in block.hypotheses], float)
            for block in blocks
        ]

    def value(self, reps: Reps, h: int, source: int) -> float:
        count: int = reps["item"][h][0].count("a")
        return count


class FarScorer(TextScorer):
    def value(self, reps: Reps, h: int, source: int) -> float:
        return abs(len(reps["item"][h][0]) - len(reps["item"][source][0]))


@settings
class CountA(Metric):
    """Reference-free: how many a's."""

    name: ClassVar[str] = f"{__name__}:CountA"
    info: ClassVar[Info] = Info(summary="toy", needs_references=False)

    def load(self) -> TextScorer:
        return TextScorer(self)


@settings
class Far(Metric):
    """Reference-free distance: how much longer or shorter than the source."""

    name: ClassVar[str] = f"{__name__}:Far"
    info: ClassVar[Info] = Info(
        summary="toy",
        needs_references=False,
        needs_source=True,
        higher_is_better=False,
    )

    def load(self) -> FarScorer:
        return FarScorer(self)


def rerank(
    features: Any, candidates: Sequence[Any], source: str | None = None, **settings: Any
) -> Ranking:
    data = {
        "id": "x",
        "candidates": list(candidates),
        **({} if source is None else {"source": source}),
    }
    return next(Reranker(features, **{"nbest": None, **settings}).decode([data]))


def utilities(ranking: Ranking) -> dict[int, float | None]:
    return {place.index: place.utility for place in ranking.ranking}


VALUES = [1.0, 3.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("how", "values", "expected"),
    [
        ("none", VALUES, VALUES),
        ("zscore", VALUES, [-sqrt(2), sqrt(2), 0, 0]),
        ("minmax", VALUES, [0, 1, 0.5, 0.5]),
        ("rank", VALUES, [0, 0.75, 0.25, 0.25]),
        ("zscore", [5.0, 5.0], [0, 0]),
        ("minmax", [5.0, 5.0], [0, 0]),
        ("rank", [5.0, 5.0], [0, 0]),
        ("none", [5.0], [5.0]),
        ("zscore", [5.0], [0]),
        ("minmax", [1.0, 3.0, -inf], [0, 1, -inf]),
        ("zscore", [1.0, 3.0, -inf], [-1, 1, -inf]),
        ("rank", [1.0, 3.0, -inf], [1 / 3, 2 / 3, -inf]),
        ("rank", [1.0, 3.0, inf], [0, 1 / 3, inf]),
        ("minmax", [0.1, 0.1, 0.1], [0, 0, 0]),
        ("zscore", [0.1, 0.1, 0.1], [0, 0, 0]),
        ("minmax", [5e-324, 1e-323, 0.0], [0.5, 1, 0]),
        ("zscore", [0.0, 1e-200], [-1, 1]),
        ("minmax", [-inf, -inf], [-inf, -inf]),
        ("minmax", [-inf, 2.0], [-inf, 0]),
    ],
)
def test_normalisation_by_hand(how: Normalize, values: list[float], expected: list[float]) -> None:
    assert normalized(np.array(values), how).tolist() == pytest.approx(expected)


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8),
    how=st.sampled_from(["zscore", "minmax", "rank"]),
)
@BOUNDED
def test_normalisation_keeps_the_order(values: list[float], how: Normalize) -> None:
    values = [round(value, 3) for value in values]
    found = normalized(np.array(values), how)
    assert np.isfinite(found).all()
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


CANDIDATES = [
    {"text": "aa", "logprob": -2.0, "score": 0.5, "tokens": 2},
    {"text": "bbbb", "logprob": -1.0, "score": 0.25, "tokens": 1},
    {"text": "a", "logprob": -4.0, "score": 1, "tokens": 1},
]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ({"logprob": 1.0}, [-2, -1, -4]),
        ({"logprob": -0.5}, [1, 0.5, 2]),
        ({"logprob/length": 1}, [-1, -0.25, -4]),
        ({"logprob/tokens": 2}, [-2, -2, -8]),
        ({"length": 1.0}, [2, 4, 1]),
        ({"field:score": 2.0}, [1, 0.5, 2]),
        ({"logprob": 1.0, "field:score": 4.0, "length": 0.5}, [1, 2, 0.5]),
        ({CountA(): 1.0}, [2, 0, 1]),
        ({f"{__name__}:CountA": 1.0, "logprob": 1}, [0, -1, -3]),
        ({f"2*{__name__}:CountA": 0.5}, [2, 0, 1]),
    ],
)
def test_weighted_sums(features: Any, expected: list[float]) -> None:
    found = rerank(features, CANDIDATES)
    assert utilities(found) == pytest.approx(dict(enumerate(expected)))
    assert found.index == int(np.argmax(expected))
    assert found.text == CANDIDATES[found.index]["text"]


def test_a_mix_is_a_feature() -> None:
    found = rerank(
        {f"{__name__}:CountA + 0.5*{__name__}:Far": 2.0, "length": 1.0}, ["aa", "b"], source="xyz"
    )
    assert utilities(found) == pytest.approx({0: 2 * (2 - 0.5) + 2, 1: 2 * (0 - 0.5 * 2) + 1})


def test_copies_of_a_text() -> None:
    copies = [
        {"text": "a", "logprob": -3},
        {"text": "b", "logprob": -2},
        {"text": "a", "logprob": -1},
    ]
    found = rerank({"logprob": 1.0}, copies)
    assert [(place.index, place.count, place.utility) for place in found.ranking] == [
        (2, 2, -1),
        (1, 1, -2),
    ]
    assert [place.index for place in rerank({CountA(): 1.0}, ["b", "a", "a"]).ranking] == [1, 0]


def test_sequential_context() -> None:
    lists = [
        {"id": "1", "document": "d", "candidates": ["a", "abc"]},
        {"id": "2", "document": "d", "candidates": ["abcd", "de"]},
        {"id": "3", "document": "e", "candidates": ["d", "a"]},
    ]
    sequential, one_best = (
        [
            ranking.text
            for ranking in Reranker({NewLetters(context=1): 1.0}, strategy=strategy).decode(lists)
        ]
        for strategy in ("auto", "one-best")
    )
    assert sequential == ["abc", "de", "d"]  # after "abc" d and e are new
    assert one_best == ["abc", "abcd", "d"]  # after "a" b, c and d are new
    with pytest.raises(InputError, match=r"list '1': document: no document, but .* reads context"):
        next(Reranker({NewLetters(context=1): 1.0}).decode([{"id": "1", "candidates": ["a"]}]))
    with pytest.raises(InputError, match=r'strategy: .*reads context.*"sequential" or "one-best"'):
        Reranker({NewLetters(context=1): 1.0}, strategy="independent")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"lenght": 1.0}, "unknown feature 'lenght'. Did you mean 'length'"),
        ({"logprb": 1.0}, "unknown feature 'logprb'. Did you mean 'logprob'"),
        (
            {"chrf": 1.0},
            "chrf compares with references, which reranking does not have.*as a utility: -u chrf",
        ),
        ({f"{__name__}:CountA + bleu": 1.0}, "bleu compares with references"),
        ({}, r"features: found {}. Write 'logprob/length \+ 0.5\*length', or {"),
        (["logprob", 1], r"features: found \['logprob', 1\]"),
        ("logprob + logprob", "feature 'logprob': is given twice. Add the weights"),
        ("2*logprob*2", "the weight is given twice"),
        ("logprob(x=1)", "logprob is a feature of candidates, no metric"),
        ({"logprob": "1"}, "feature 'logprob': weight '1'. Give a finite number"),
        ({"logprob": True}, "feature 'logprob': weight True"),
        ({"logprob": float("nan")}, "weight nan"),
        ({"logprob": inf}, "weight inf"),
        ({f"{__name__}:CountA(x=1)": 1.0}, "features: .*unknown setting 'x'"),
        ({"judge-qe": 1.0}, "features: judge-qe: model missing. Name the model that the server"),
    ],
)
def test_refused_features(features: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Reranker(features)


@pytest.mark.parametrize(
    ("features", "candidates", "message"),
    [
        (
            {"logprob": 1.0},
            ["a", "b"],
            r"list 'x': candidates\[0\]: no logprob. .*discorank logprobs",
        ),
        (
            {"logprob/length": 1.0},
            [{"text": "a", "logprob": -1}, "b"],
            r"candidates\[1\]: no logprob",
        ),
        (
            {"field:score": 1.0},
            [{"text": "a"}],
            r"list 'x': candidates\[0\].score: found nothing, expected a finite",
        ),
        ({"field:score": 1.0}, [{"text": "a", "score": "1"}], r"candidates\[0\].score: found '1'"),
        ({f"{__name__}:Far": 1.0}, ["a"], r"list 'x': source: .*needs the source"),
    ],
)
def test_lists_that_lack_a_feature(features: Any, candidates: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rerank(features, candidates)


def test_minus_infinity_stands_last() -> None:
    candidates = [
        {"text": "a", "logprob": -inf},
        {"text": "b", "logprob": -9},
        {"text": "c", "logprob": -inf},
    ]
    for how in ("none", "minmax", "zscore", "rank"):
        assert [
            place.index for place in rerank({"logprob": 1.0}, candidates, normalize=how).ranking
        ] == [1, 0, 2]


def test_a_feature_of_weight_0_does_not_count() -> None:
    candidates = [{"text": "aa", "logprob": -inf}, {"text": "b", "logprob": -9}]
    assert rerank({"logprob": 0.0, "length": 1.0}, candidates).text == "aa"


def test_empty_texts() -> None:
    found = rerank(
        {"logprob/length": 1.0, "length": 1.0},
        [{"text": "", "logprob": -3.0}, {"text": "ab", "logprob": -2.0}],
    )
    assert utilities(found) == {0: -3.0, 1: 1.0}


def test_a_reranker_is_a_value() -> None:
    reranker = Reranker({CountA(): 1, "logprob": 0.2})
    assert reranker == Reranker({f"{__name__}:CountA": 1.0, "logprob": 0.2})
    assert hash(pickle.loads(pickle.dumps(reranker))) == hash(reranker)
    assert reranker.metrics == (CountA(),)
    assert reranker.identity == {
        "decoder": "rerank",
        "features": {f"{__name__}:CountA": 1.0, "logprob": 0.2},
        "normalize": "none",
        "nbest": 1,
        "strategy": "independent",
    }
    assert Reranker({NewLetters(context=1): 1.0}).identity["strategy"] == "sequential"
    with pytest.raises(InputError, match=r"unknown setting 'normalise'. Did you mean 'normalize'"):
        Reranker({"logprob": 1.0}, normalise="rank")


def test_copied_characters() -> None:
    """Of the 4-grams abcd, bcde the source has the first, whatever its case; without a source nothing is copied."""
    data = {"id": "a", "source": "ABCD", "candidates": ["abcde", "wxyz", "", "\ud800"]}
    assert plain_feature("copied", read_list(data)).tolist() == [0.5, 0.0, 0.0, 0.0]
    assert plain_feature("copied", read_list({**data, "source": None})).tolist() == [0.0] * 4
    (ranking,) = Reranker({"copied": -1.0}).decode([read_list(data)])
    assert ranking.text == "wxyz"


@pytest.mark.parametrize(
    ("features", "weights"),
    [
        ("logprob", {"logprob": 1.0}),
        ("0.5*logprob/length + length", {"logprob/length": 0.5, "length": 1.0}),
        ("logprob/length*0.5 + length*1", {"logprob/length": 0.5, "length": 1.0}),
        ("length - 2*copied", {"length": 1.0, "copied": -2.0}),
        (["logprob*0.2", "length"], {"logprob": 0.2, "length": 1.0}),
        ("field:my own score*-2", {"field:my own score": -2.0}),
        ("field:own + 3*length", {"field:own": 1.0, "length": 3.0}),
    ],
)
def test_a_sum_is_the_mapping_of_its_features(features: Any, weights: dict[str, float]) -> None:
    assert Reranker(features) == Reranker(weights)


@pytest.mark.parametrize(
    ("features", "meant"),
    [
        (f"length - {__name__}:Far", f"length + {__name__}:Far"),
        ([f"-2*{__name__}:Far"], f"2*{__name__}:Far"),
        ({f"{__name__}:Far": -1.0, "length": 0.5}, f"{__name__}:Far + 0.5*length"),
        ({f"{__name__}:Far + {__name__}:CountA": -1.0}, f"{__name__}:Far + {__name__}:CountA"),
        ("logprob - tail-entropy", "logprob + tail-entropy"),
        ("length - metricx-qe", "length + metricx-qe"),
    ],
)
def test_a_minus_in_front_of_a_distance_is_refused(features: Any, meant: str) -> None:
    with pytest.raises(InputError, match="lower is better") as error:
        Reranker(features)
    assert error.value.fix == f"Write {meant!r}"


def test_a_minus_in_front_of_a_score_is_a_weight() -> None:
    for features in ("-logprob", f"-{__name__}:CountA", {"length": -1.0}, "field:cost*-1"):
        assert Reranker(features)


@pytest.mark.parametrize("normalize", ["zscore", "minmax", "rank"])
@pytest.mark.parametrize("extreme", [-1e10, -1e17, -1e200, -1.7e308])
def test_an_extreme_value_changes_no_order_among_others(normalize: Any, extreme: float) -> None:
    candidates = [
        {"text": text, "logprob": value}
        for text, value in zip("xcba", (extreme, -2, -1, -2), strict=True)
    ]
    found = rerank("logprob", candidates, normalize=normalize)
    assert [place.index for place in found.ranking] == [2, 1, 3, 0]
    assert found.gap is not None
    assert found.gap > 0


def test_rounding_stays_a_tie_when_it_is_normalised() -> None:
    candidates = [
        {"text": "a", "logprob": -1 - 1e-12},
        {"text": "b", "logprob": -1},
        {"text": "c", "logprob": -5},
    ]
    for normalize in ("none", "zscore", "minmax"):
        assert rerank("logprob", candidates, normalize=normalize).index == 0


def test_what_a_candidate_lacks_is_named_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"no logprob. Add them with discorank logprobs, or leave"):
        rerank("logprob", ["a", "b"])
    scored = [{"text": "a", "score": 1}, {"text": "b", "score": 2}]
    with pytest.raises(InputError, match=r"unknown field 'scor'. Did you mean 'score'"):
        rerank("field:scor", scored)
