"""PDD and role match over roles that documents bring: the golden values, the laws of Eq. 1, sets, the linear form."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, InputError, MBRDecoder, load_metric
from discorank.metrics.discourse.roles import pdd
from discorank.metrics.discourse.roles.pdd import Densities, bins_of, counts
from discorank.metrics.execution import segment_scores
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import Block, FloatArray, Ragged
from discorank.metrics.text.texts import NO_CONTEXT, Comparison

from ...support.examples import examples

BOUNDED = examples(8)
GOLDEN: Any = json.loads(
    (Path(__file__).parents[2] / "golden" / "pdd" / "cases.json").read_text(encoding="utf-8")
)
CASES = [pytest.param(case, id=case["name"]) for case in GOLDEN["cases"]]
SIZE = 4
BOUND = log((1 + 1e-8) / 1e-8)

roles = st.lists(st.integers(0, SIZE - 1), max_size=12)
some = st.lists(roles, min_size=1, max_size=6)
epsilons = st.sampled_from([1e-8, 1e-3, 0.1, 1.0])


def metric_of(name: str, **settings: Any) -> Any:
    return load_metric(name, **settings)


def document(labels: list[int] | list[str]) -> Document:
    return Document(["x"] * len(labels), roles=labels)


def documents(lists: list[list[int]]) -> list[Document]:
    return [document(labels) for labels in lists]


def segments_of(pairs: list[tuple[list[int], list[int]]]) -> list[Comparison]:
    hypotheses, references = (documents(list(side)) for side in zip(*pairs, strict=True))
    return metric_of("pdd", schema=SIZE).segments(hypotheses, references, None, None)  # type: ignore[no-any-return]


def plain_density(lists: list[list[int]], n: int) -> FloatArray:
    """[bins, roles], as the authors' code does it: a histogram over the places of every role."""
    counts = np.zeros((n, SIZE))
    for labels in lists:
        if labels:
            which = (
                np.digitize(np.arange(len(labels)), np.histogram(range(len(labels)), n)[1][:-1]) - 1
            )
            np.add.at(counts, (which, np.array(labels)), 1)
    return np.asarray(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))


def plain_pdd(h: list[list[int]], r: list[list[int]], bins: int, eps: float) -> float:
    """Eq. 1, pair by pair."""
    n = min(bins, max(map(len, h)), max(map(len, r)))
    if n == 0:
        return log((1 + eps) / eps)
    a_h, a_r = plain_density(h, n) + eps, plain_density(r, n) + eps
    return float((a_r * (np.log(a_r) - np.log(a_h))).sum() / n)


@pytest.mark.parametrize("case", CASES)
def test_golden_values(case: Any) -> None:
    hypotheses, references = documents(case["predictions"]), documents(case["references"])
    settings = {
        "bins": case["num_bins_requested"],
        "eps": case["epsilon"],
        "schema": case["num_class"],
    }
    metric = metric_of("pdd", **settings)
    assert metric.corpus(hypotheses, references) == pytest.approx(case["expected_pdd"], abs=1e-9)
    renormalised = metric_of("pdd", **settings, scale="renormalise").corpus(hypotheses, references)
    assert renormalised == pytest.approx(case["expected_pdd_renormalised"], abs=1e-9)
    if len(hypotheses) == 1:
        assert metric.score(hypotheses, references)[0] == pytest.approx(
            case["expected_pdd"], abs=1e-9
        )
        assert metric.pairwise(hypotheses, references)[0, 0] == pytest.approx(
            -case["expected_pdd"], abs=1e-9
        )
        match = metric_of("role-match", schema=case["num_class"]).score(hypotheses, references)[0]
        assert match == pytest.approx(case.get("expected_exact_match", match), abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_numbers_need_no_schema(case: Any) -> None:
    """Which numbers roles have, and how many there may be, changes no value."""
    moved = [
        [[9 + 3 * role for role in text] for text in case[side]]
        for side in ("predictions", "references")
    ]
    metric = metric_of("pdd", bins=case["num_bins_requested"], eps=case["epsilon"])
    for hypotheses, references in ((case["predictions"], case["references"]), moved):
        divergence = metric.corpus(documents(hypotheses), documents(references))
        assert divergence == pytest.approx(case["expected_pdd"], abs=1e-9)
    match = metric_of("role-match").score(
        [Document(["a", "b"], roles=[8, 60])], [Document(["a", "b"], roles=[8, 61])]
    )
    assert match[0] == 0.5


def test_golden_matrices() -> None:
    golden = GOLDEN["pairwise"]
    texts = documents(golden["docs"])
    metric = metric_of(
        "pdd", bins=golden["num_bins_requested"], eps=golden["epsilon"], schema=golden["num_class"]
    )
    np.testing.assert_allclose(-metric.pairwise(texts, texts), golden["matrix"], atol=1e-9)
    match = metric_of("role-match", schema=golden["num_class"])
    np.testing.assert_allclose(match.pairwise(texts, texts), golden["exact_match"], atol=1e-9)


@pytest.mark.parametrize("case", GOLDEN["exact_match_cases"])
def test_golden_role_match(case: Any) -> None:
    scores = metric_of("role-match", schema=9).score(
        [document(case["pred"])], [document(case["ref"])]
    )
    assert scores[0] == pytest.approx(case["expected"], abs=1e-12)


@pytest.mark.parametrize("case", GOLDEN["paper_only"])
def test_what_the_paper_calls_invalid(case: Any) -> None:
    hypotheses, references = documents(case["predictions"]), documents(case["references"])
    settings = {"bins": case["num_bins_requested"], "schema": case["num_class"]}
    assert metric_of("pdd", **settings).score(hypotheses, references)[0] == pytest.approx(
        case["code_value"]
    )
    with pytest.raises(InputError, match=r"sentences for .* bins.*clamp"):
        metric_of("pdd", **settings, clamp=False).score(hypotheses, references)


def test_a_worked_example() -> None:
    """Two bins; the first agrees, in the second the hypothesis lacks the role that half of the reference has."""
    metric = metric_of("pdd", bins=2, eps=0.5)
    divergence = metric.score([document([0, 0, 1, 1])], [document([0, 0, 1, 2])])[0]
    second = [(1.0, 1.5), (1.0, 0.5)]  # (A_r, A_h) of roles 1 and 2
    assert divergence == pytest.approx(sum(r * log(r / h) for r, h in second) / 2, abs=1e-12)


@pytest.mark.parametrize(
    ("length", "bins", "sizes"), [(10, 3, [3, 3, 4]), (6, 5, [1, 1, 1, 1, 2]), (7, 2, [3, 4])]
)
def test_the_remainder_goes_where_the_edges_fall(length: int, bins: int, sizes: list[int]) -> None:
    assert np.bincount(bins_of(length, bins)).tolist() == sizes


def test_bins_are_those_of_a_histogram() -> None:
    """numpy sees a sentence exactly on the last edge of its range in the last bin, and a lone one in the middle."""
    for length in (1, 2, 3, 7, 59, 117, 300):
        for bins in (1, 2, 3, 8, 14, 20):
            counted = np.histogram(range(length), bins)[0]
            assert np.bincount(bins_of(length, bins), minlength=bins).tolist() == counted.tolist()


@given(hypotheses=some, references=some, bins=st.integers(1, 6), eps=epsilons)
@BOUNDED
def test_all_pairs_equal_the_equation(
    hypotheses: list[list[int]], references: list[list[int]], bins: int, eps: float
) -> None:
    metric = metric_of("pdd", bins=bins, eps=eps, schema=SIZE)
    matrix = -metric.pairwise(documents(hypotheses), documents(references))
    expected = [[plain_pdd([h], [r], bins, eps) for r in references] for h in hypotheses]
    np.testing.assert_allclose(matrix, expected, rtol=1e-11, atol=1e-11)
    assert (matrix >= 0).all()
    assert (matrix <= log((1 + eps) / eps) + 1e-9).all()


@given(hypothesis=roles, references=some, bins=st.integers(1, 6), eps=epsilons)
@BOUNDED
def test_several_references_are_pooled(
    hypothesis: list[int], references: list[list[int]], bins: int, eps: float
) -> None:
    metric = metric_of("pdd", bins=bins, eps=eps, schema=SIZE)
    divergence = metric.score([document(hypothesis)], [documents(references)])[0]
    assert divergence == pytest.approx(
        plain_pdd([hypothesis], references, bins, eps), rel=1e-11, abs=1e-11
    )


@given(
    pairs=st.lists(st.tuples(roles, roles), min_size=1, max_size=6),
    bins=st.integers(1, 6),
    eps=epsilons,
)
@BOUNDED
def test_sets_are_pooled(pairs: list[tuple[list[int], list[int]]], bins: int, eps: float) -> None:
    hypotheses, references = [h for h, _ in pairs], [r for _, r in pairs]
    metric = metric_of("pdd", bins=bins, eps=eps, schema=SIZE)
    divergence = metric.corpus(documents(hypotheses), documents(references))
    assert divergence == pytest.approx(
        plain_pdd(hypotheses, references, bins, eps), rel=1e-11, abs=1e-11
    )


@given(
    pairs=st.lists(st.tuples(roles, roles), min_size=1, max_size=5),
    copies=st.lists(st.lists(st.integers(0, 2), min_size=5, max_size=5), min_size=1, max_size=8),
    bins=st.integers(1, 6),
    eps=epsilons,
    terms=st.sampled_from([1, 64, 1 << 20]),
)
@BOUNDED
def test_sums_of_statistics_tell_the_distance_of_any_sets(
    pairs: list[tuple[list[int], list[int]]],
    copies: list[list[int]],
    bins: int,
    eps: float,
    terms: int,
) -> None:
    scorer = metric_of("pdd", bins=bins, eps=eps, schema=SIZE).scorer
    rows = segment_scores.scores_and_statistics(scorer.metric, segments_of(pairs))[1]
    drawn = np.array(copies)[:, : len(pairs)]
    drawn[:, 0] += ~drawn.any(axis=1)  # no set is empty
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdd, "TERMS", terms)
        values = scorer.aggregate_sums(drawn @ rows, drawn.sum(axis=1).astype(float))
    for value, some in zip(values, drawn, strict=True):
        repeated = [pair for pair, n in zip(pairs, some, strict=True) for _ in range(n)]
        hypotheses, references = [h for h, _ in repeated], [r for _, r in repeated]
        assert value == pytest.approx(
            plain_pdd(hypotheses, references, bins, eps), rel=1e-11, abs=1e-11
        )
        assert value == pytest.approx(
            scorer.aggregate(np.repeat(rows, some, axis=0)), rel=1e-11, abs=1e-11
        )


@given(texts=some, bins=st.integers(1, 6), eps=epsilons, data=st.data())
@BOUNDED
def test_scattered_pairs_are_the_bytes_of_the_matrix(
    texts: list[list[int]], bins: int, eps: float, data: st.DataObject
) -> None:
    roles_of_all = Ragged.of_rows([np.array(labels, np.int64) for labels in texts])
    densities = Densities.of(counts(roles_of_all, bins, SIZE), eps)
    h, r = (index.ravel() for index in np.indices((len(texts), len(texts))))
    whole = densities.divergences(h, r)
    some_pairs = data.draw(st.lists(st.sampled_from(range(len(h))), min_size=1, max_size=3))
    assert (
        densities.divergences(h[some_pairs], r[some_pairs]).tobytes() == whole[some_pairs].tobytes()
    )
    everything = np.arange(len(texts))
    assert (
        densities._matrix(everything, everything).tobytes() == densities._scattered(h, r).tobytes()
    )


@pytest.mark.parametrize("name", ["pdd", "role-match"])
@given(hypotheses=some, references=some, data=st.data())
@BOUNDED
def test_the_linear_form_equals_the_pairs(
    name: str, hypotheses: list[list[int]], references: list[list[int]], data: st.DataObject
) -> None:
    metric = metric_of(
        name, schema=SIZE, **({"bins": data.draw(st.integers(1, 6))} if name == "pdd" else {})
    )
    weights = np.array(
        data.draw(st.lists(st.floats(0.01, 1), min_size=len(references), max_size=len(references)))
    )
    weights /= weights.sum()
    store = Store(metric.scorer)
    comparison = metric.comparison(documents(hypotheses), documents(references), None, NO_CONTEXT)
    block = store.add([comparison])[0]
    expected = metric.scorer.expected(store.reps, [block], [weights])[0]
    np.testing.assert_allclose(
        expected, metric.scorer.compare(store.reps, [block])[0] @ weights, rtol=1e-11, atol=1e-11
    )
    alone = [Block(block.hypotheses[[i]], block.references) for i in range(len(hypotheses))]
    each = metric.scorer.expected(store.reps, alone, [weights] * len(alone))
    np.testing.assert_allclose(np.concatenate(each), expected, rtol=1e-12, atol=1e-12)


@given(x=roles.filter(bool), y=roles.filter(bool))
@BOUNDED
def test_zero_for_equal_densities_and_never_for_an_empty_text(x: list[int], y: list[int]) -> None:
    for eps in (0.003, 0.1, 0.9, 3.0):
        assert metric_of("pdd", schema=SIZE, eps=eps).score([document(x)], [document(x)])[0] == 0
    metric = metric_of("pdd", schema=SIZE)
    matrix = -metric.pairwise(documents([x, y, []]), documents([x, []]))
    assert matrix[0, 0] == 0
    assert matrix[2].tolist() == [BOUND, BOUND]
    assert matrix[:, 1].tolist() == [BOUND] * 3
    if len(x) == len(y) <= 8:  # one sentence per bin: what role match says
        match = metric_of("role-match", schema=SIZE).score(documents([y]), documents([x]))[0]
        assert matrix[1, 0] == pytest.approx((1 - match) * BOUND, rel=1e-6)


def test_an_empty_candidate_never_wins() -> None:
    record = {
        "id": "a",
        "candidates": [
            "",
            {"text": ["x"], "roles": [0]},
            {"text": ["x", "y"], "roles": [1, 2]},
            "",
            "",
        ],
    }
    for name in ("pdd", "role-match"):
        ranking = next(MBRDecoder(metric_of(name), nbest=None).decode([record]))
        assert ranking.ranking[-1].text == ""


def test_scales() -> None:
    pair = [document([0, 1])], [document([2, 3])]
    assert metric_of("pdd").score(*pair)[0] == pytest.approx(BOUND, rel=1e-6)
    assert metric_of("pdd", scale="unit").score(*pair)[0] == pytest.approx(1, rel=1e-6)
    ratio = (
        metric_of("pdd", scale="renormalise", eps=0.1).score(*pair)[0]
        / metric_of("pdd", eps=0.1).score(*pair)[0]
    )
    assert ratio == pytest.approx(1 / (1 + 8 * 0.1))  # NA is left out: 8 roles of news


def test_roles_left_out_take_no_place() -> None:
    metric = metric_of("pdd", bins=3)
    with_na = document(["Main Event", "NA", "Consequence", "NA", "Current Context"])
    without = document(["Main Event", "Consequence", "Current Context"])
    assert metric.score([with_na], [without])[0] == 0
    assert metric_of("pdd", bins=3, drop=()).score([with_na], [without])[0] > 0.4
    assert (
        metric_of("pdd", drop=("Main Event",)).score([document([0, 0])], [document([1])])[0]
        == BOUND
    )


def test_numbers_and_names_are_the_same_roles() -> None:
    names = document(["Answer", "Miscellaneous"])
    for name in ("pdd", "role-match"):
        metric = metric_of(name, schema="lfqa")
        assert (
            metric.pairwise([names], [document([2, 5])])[0, 0]
            == metric.pairwise([names], [names])[0, 0]
        )
    own = metric_of("role-match", schema=("claim", "evidence"))
    assert own.score([document(["claim", "claim"])], [document(["claim", "evidence"])])[0] == 0.5
    assert own.signature() == 'role-match(schema=["claim", "evidence"])'
    assert metric_of(own.signature()) == own


@pytest.mark.parametrize(
    ("settings", "text", "found"),
    [
        ({}, document(["Main event"]), r"roles\[0\].*'Main event'"),
        ({}, document([0, -1]), r"roles\[1\].*-1"),
        ({"schema": 2}, document([0, 5]), r"roles\[1\].*5"),
        ({}, "A plain text.", "no roles"),
        ({}, Document(["a"], id="article 7", roles=["x"]), "article 7.*'x'"),
        ({"schema": "newz"}, "", "newz"),
        ({"schema": ("a", "a")}, "", "schema"),
        ({"schema": 0}, "", "schema"),
        ({"drop": ("Na",)}, "", "Na"),
        ({"context": 2}, "", "context"),
        ({"eps": 0.0}, "", "eps"),
        ({"bins": 0}, "", "bins"),
        ({"sentences": "rules"}, "", "rules"),
    ],
)
def test_settings_and_roles_that_are_refused(settings: Any, text: Any, found: str) -> None:
    for name in ("pdd", "role-match") if text else ("pdd",):
        with pytest.raises(InputError, match=found):
            metric_of(name, **settings).pairwise([text], [document([0])])


def test_what_is_explained() -> None:
    texts = documents([[0, 0, 1, 1], [0, 0, 1, 2]])
    metric = metric_of("pdd", bins=2)
    store = Store(metric.scorer)
    block = store.add([metric.comparison(texts, texts, None, NO_CONTEXT)])[0]
    assert metric.scorer.describe(store.reps, block, 0, 1) == {
        "bins": 2,
        "role bins that differ": [
            {"bin": 2, "role": "Consequence", "hypothesis": 1.0, "reference": 0.5},
            {"bin": 2, "role": "Previous Event", "hypothesis": 0.0, "reference": 0.5},
        ],
    }
    match = metric_of("role-match").scorer
    assert match.describe(store.reps, block, 0, 1) == {
        "places that differ": [
            {"sentence": 4, "hypothesis": "Consequence", "reference": "Previous Event"}
        ]
    }
