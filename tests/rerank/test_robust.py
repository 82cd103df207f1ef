"""Robust means over pseudo-references: worked by hand, against plain loops, against a text that repeats itself."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from discorank import Document, InputError, MBRDecoder, Ranking, Reranker, load_metric
from discorank.cli.main import main
from discorank.metrics.execution import tiles
from discorank.metrics.representations import FloatArray
from discorank.rerank.expectation import expected_utility
from discorank.rerank.robust import Estimator, RobustMean, robust_expected_utility

from ..support.lists import WORDS, different_texts, made_lists, write_lists

BOUNDED = bounded(max_examples=60, deadline=None, database=None, print_blob=True)
TRIMMED: dict[str, Any] = {"expectation": "trimmed", "trim": 0.2}
MEDIAN: dict[str, Any] = {"expectation": "median-of-means", "num_groups": 3}


def means(
    row: list[float], weights: list[float], share: float = 0.0, groups: tuple[Any, ...] = ()
) -> float:
    """The robust mean of one row."""
    estimator = Estimator(share, tuple(np.array(group) for group in groups))
    matrix = np.array([row])
    return float(robust_expected_utility(matrix, np.array(weights, float), None, estimator)[0])


@pytest.mark.parametrize(
    ("row", "weights", "share", "expected"),
    [
        ([1, 2, 3, 4, 100], [1, 1, 1, 1, 1], 0.2, 3.0),
        ([100, 2, 1, 4, 3], [1, 1, 1, 1, 1], 0.2, 3.0),
        # 0.1 of the weight of 5 is half of the lowest and half of the highest
        ([0, 1, 2, 3, 10], [1, 1, 1, 1, 1], 0.1, (0 * 0.5 + 1 + 2 + 3 + 10 * 0.5) / 4),
        # copies count as often as they occur
        ([1, 5, 9], [1, 2, 1], 0.25, 5.0),
        ([1, 5, 9], [2, 1, 1], 0.25, (1 + 5) / 2),
        ([7], [3], 0.4, 7.0),
        ([1, 2, 3], [1, 0, 1], 0.0, 2.0),
        ([-np.inf, 2, 4, 6, np.inf], [1, 1, 1, 1, 1], 0.2, 4.0),
        ([-np.inf, 2, 4], [1, 1, 1], 0.1, -np.inf),
    ],
)
def test_trimmed_means_by_hand(
    row: list[float], weights: list[float], share: float, expected: float
) -> None:
    assert means(row, weights, share) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("row", "weights", "groups", "expected"),
    [
        # means of groups 1.5, 3, 100
        ([1, 2, 3, 3, 100, 100], [1] * 6, ([0, 1], [2, 3], [4, 5]), 3.0),
        # exactly half of the weight: the mean of the two in the middle
        ([1, 3, 5, 100], [1] * 4, ([0], [1], [2], [3]), 4.0),
        # a group with more than half of the weight decides
        ([1, 2, 9], [1, 1, 3], ([0], [1], [2]), 9.0),
        # a group without weight is none
        ([1, 2, 9], [1, 1, 0], ([0], [1], [2]), 1.5),
        ([1, 2, np.inf], [1, 1, 1], ([0], [1], [2]), 2.0),
    ],
)
def test_medians_of_means_by_hand(
    row: list[float], weights: list[float], groups: tuple[Any, ...], expected: float
) -> None:
    assert means(row, weights, groups=groups) == pytest.approx(expected)


def test_what_is_not_a_number_has_no_mean() -> None:
    assert np.isnan(means([1, np.nan, 3], [1, 1, 1], 0.4))
    assert means([1, np.nan, 3], [1, 0, 1], 0.4) == 2.0
    assert np.isnan(means([1, np.nan, 3], [1, 1, 1], groups=([0], [1], [2])))


numbers = st.integers(-50, 50)
rows = st.lists(st.tuples(numbers, st.integers(0, 4)), min_size=1, max_size=9).filter(
    lambda pairs: sum(weight for _, weight in pairs) > 0
)


def plain_trimmed(pairs: list[tuple[int, int]], share: Fraction) -> Fraction:
    """By copies: every value as often as its weight, in 20ths, cut at both ends."""
    copies = sorted(value for value, weight in pairs for _ in range(weight * 20))
    cut = share * len(copies)
    assert cut.denominator == 1
    kept = copies[int(cut) : len(copies) - int(cut)]
    return Fraction(sum(kept), len(kept))


@BOUNDED
@given(rows, st.sampled_from([Fraction(0), Fraction(1, 10), Fraction(1, 4), Fraction(9, 20)]))
def test_trimmed_means_are_those_of_copies(pairs: list[tuple[int, int]], share: Fraction) -> None:
    row, weights = [float(v) for v, _ in pairs], [float(w) for _, w in pairs]
    expected = plain_trimmed(pairs, share)
    assert means(row, weights, float(share)) == pytest.approx(float(expected), abs=1e-9)


@BOUNDED
@given(rows, st.randoms())
def test_no_order_changes_a_bit(pairs: list[tuple[int, int]], random: Any) -> None:
    texts = [f"text {i}" for i in range(len(pairs))]
    order = list(range(len(pairs)))
    random.shuffle(order)
    for robust in (RobustMean("trimmed", 0.17, 3), RobustMean("median-of-means", 0.1, 3)):
        utilities = []
        for numbers_in_order in (range(len(pairs)), order):
            row = np.array([[pairs[i][0] / 7 for i in numbers_in_order]])
            weights = np.array([pairs[i][1] / 3 for i in numbers_in_order])
            estimator = robust.of([texts[i] for i in numbers_in_order])
            utilities.append(float(robust_expected_utility(row, weights, None, estimator)[0]))
        assert utilities[0] == utilities[1]


def test_nothing_trimmed_is_the_mean_and_one_group_too() -> None:
    random = np.random.default_rng(0)
    matrix, weights = random.normal(size=(6, 6)), random.random(6)
    own = weights / 2
    expected = expected_utility(matrix, weights, own)
    for robust in (RobustMean("trimmed", 0.0, 1), RobustMean("median-of-means", 0.0, 1)):
        estimator = robust.of([f"{i}" for i in range(6)])
        utilities = robust_expected_utility(matrix, weights, own, estimator)
        assert utilities == pytest.approx(expected)


def test_the_self_pair_is_left_out() -> None:
    matrix = np.array([[9.0, 1, 2, 3], [1, 9, 2, 3], [1, 2, 9, 3], [1, 2, 3, 9]])
    weights = np.ones(4)
    utilities = robust_expected_utility(matrix, weights, weights, Estimator(0.1))
    others = [[x for j, x in enumerate(row) if j != i] for i, row in enumerate(matrix.tolist())]
    assert utilities == pytest.approx([means(row, [1, 1, 1], 0.1) for row in others])
    alone = robust_expected_utility(matrix[:1, :1], np.ones(1), np.ones(1), Estimator(0.1))
    assert np.isnan(alone).all()


def test_groups_are_of_texts_and_nearly_equal() -> None:
    texts: list[Any] = [*different_texts(11), Document(["a", "b"])]
    groups = RobustMean("median-of-means", 0.1, 5).of(texts).groups
    assert sorted(len(group) for group in groups) == [2, 2, 2, 3, 3]
    assert sorted(i for group in groups for i in group.tolist()) == list(range(12))
    turned = RobustMean("median-of-means", 0.1, 5).of(texts[::-1]).groups
    names = [{str(texts[i]) for i in group} for group in groups]
    assert names == [{str(texts[::-1][i]) for i in group} for group in turned]
    assert len(RobustMean("median-of-means", 0.1, 5).of(texts[:2]).groups) == 2


def ranked(lists: Any, utility: Any, **settings: Any) -> list[Ranking]:
    return list(MBRDecoder(utility, nbest=None, **settings).decode(lists))


@pytest.mark.parametrize("settings", [TRIMMED, MEDIAN])
@pytest.mark.parametrize("weights", ["uniform", "logprob"])
def test_a_decoder_ranks_by_the_robust_mean(settings: dict[str, Any], weights: str) -> None:
    """Every part of a sum by itself, duplicates as often as they occur; a linear utility from all pairs."""
    (row,) = made_lists(1, 9, seed=3)
    (ranking,) = ranked([row], "chrf + 0.5*bleu", weights=weights, keep_matrix=True, **settings)
    texts = list(dict.fromkeys(c["text"] for c in row["candidates"]))
    decoder = MBRDecoder("chrf", weights=weights)
    of_candidates = decoder.weights_of(ranking.candidates)
    pooled = np.zeros(len(texts))
    for candidate, weight in zip(row["candidates"], of_candidates, strict=True):
        pooled[texts.index(candidate["text"])] += weight
    estimator = RobustMean(settings["expectation"], settings.get("trim", 0.1), 3).of(texts)
    expected = np.zeros(len(texts))
    for weight, name in ((1.0, "chrf"), (0.5, "bleu")):
        matrix = load_metric(name).pairwise(texts, texts)
        expected += weight * robust_expected_utility(matrix, pooled, None, estimator)
    for place in ranking.ranking:
        assert place.utility == pytest.approx(expected[texts.index(str(place.text))])


def test_linear_utilities_and_large_lists_have_their_pairs_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (row,) = made_lists(1, 12, seed=5)
    whole = ranked([row], "chrf", **TRIMMED)[0].ranking
    monkeypatch.setattr(tiles, "WIDEST", 2)
    assert ranked([row], "chrf", **TRIMMED)[0].ranking == whole
    roles = [
        Document([text, text], roles=[i % 3, i % 2]) for i, text in enumerate(different_texts(7))
    ]
    candidates = [{"text": list(d.sentences), "roles": list(d.roles or ())} for d in roles]
    (linear,) = ranked([{"id": "a", "candidates": candidates}], "pdd", **TRIMMED, self_pair=False)
    matrix = load_metric("pdd").pairwise(roles, roles)
    ones = np.ones(len(roles))
    expected = robust_expected_utility(matrix, ones, ones, Estimator(0.2))
    assert linear.utility == pytest.approx(expected.max())


COMMON = [*WORDS[:12], "the", "the", "the", "man", "said"]
LOOP = "the man said . " * 60


def blown_up(hypothesis: str, reference: str) -> float:
    """A utility that one reference can blow up: squared differences of counts of words."""
    words = {*hypothesis.split(), *reference.split()}
    pairs = [(hypothesis.split().count(word), reference.split().count(word)) for word in words]
    return -float(sum((a - b) ** 2 for a, b in pairs))


def summaries(seed: int) -> list[dict[str, Any]]:
    """Eight lists of nine texts that share words with one another, and some with the loop."""
    random = Random(seed)
    lists = []
    for i in range(8):
        base = [random.choice(COMMON) for _ in range(14)]
        texts = []
        for _ in range(9):
            kept = [word for word in base if random.random() < 0.8]
            texts.append(
                " ".join(random.choice(COMMON) if random.random() < 0.4 else w for w in kept)
            )
        lists.append({"id": f"{seed}.{i}", "candidates": texts})
    return lists


def chosen(lists: list[dict[str, Any]], utility: Any, **settings: Any) -> list[Any]:
    return [ranking.text for ranking in ranked(lists, utility, self_pair=False, **settings)]


def changes(seed: int, **settings: Any) -> int:
    """How many of eight choices a candidate that repeats itself changes."""
    before = summaries(seed)
    after = [{**row, "candidates": [*row["candidates"], LOOP]} for row in before]
    pairs = zip(
        chosen(before, blown_up, **settings), chosen(after, blown_up, **settings), strict=True
    )
    return sum(a != b for a, b in pairs)


def test_a_candidate_that_repeats_itself_changes_at_most_one_of_eight_choices() -> None:
    """Under a utility whose mean it upsets, by a trimmed mean; a median of means is upset less than the mean."""
    seeds = range(4)
    upset = [changes(seed) for seed in seeds]
    assert min(upset) >= 4
    trimmed = [changes(seed, **TRIMMED) for seed in seeds]
    assert sum(trimmed) <= len(trimmed)
    assert sum(changes(seed, **MEDIAN) for seed in seeds) < sum(upset)


@pytest.mark.parametrize("settings", [TRIMMED, {**MEDIAN, "num_groups": 5}])
def test_one_bad_pseudo_reference_moves_no_value_far(settings: dict[str, Any]) -> None:
    before = summaries(0)
    after = [{**row, "candidates": [*row["candidates"], LOOP]} for row in before]

    def lowest(lists: Any, **more: Any) -> float:
        values = [
            place.utility
            for ranking in ranked(lists, blown_up, self_pair=False, **more)
            for place in ranking.ranking
            if place.text != LOOP
        ]
        return min(value for value in values if value is not None)

    assert lowest(after) < 5 * lowest(before)
    assert lowest(after, **settings) > 2 * lowest(before, **settings)


def test_a_budget_and_what_is_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="expectation: beside a budget"):
        MBRDecoder("prism", budget=0.5, **TRIMMED)
    with pytest.raises(InputError, match="trim"):
        MBRDecoder("chrf", expectation="trimmed", trim=0.5)
    with pytest.raises(InputError, match="expectation"):
        MBRDecoder("chrf", expectation="medain")  # type: ignore[arg-type]


def test_runs_tell_means_apart() -> None:
    plain = MBRDecoder("chrf").identity
    assert "expectation" not in plain
    assert MBRDecoder("chrf", **TRIMMED).identity == {**plain, **TRIMMED}
    assert MBRDecoder("chrf", **MEDIAN).identity == {**plain, **MEDIAN}
    assert MBRDecoder("chrf", trim=0.3, num_groups=9).identity == plain
    reranker = Reranker({"expected": 1.0}, decoder=MBRDecoder("chrf", **TRIMMED))
    assert reranker.identity["expected"]["trim"] == 0.2


def test_the_commands_take_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(6))
    plain = ["decode", str(source), "-u", "chrf", "--quiet", "--no-self-pair"]
    robust = [*plain, "--expectation", "median-of-means", "--num-groups", "3"]
    assert (
        main([*robust, "-o", str(tmp_path / "out"), "--save-utilities", str(tmp_path / "u")]) == 0
    )
    assert main([*plain, "-o", str(tmp_path / "out")]) == 4
    assert "expectation was 'median-of-means'" in capsys.readouterr().err
    saved = [x for x in robust if x not in ("-u", "chrf")]
    assert main([*saved, "--utilities", str(tmp_path / "u"), "-o", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again").read_bytes() == (tmp_path / "out").read_bytes()
    assert main(["rerank", str(source), "-m", "length", "--trim", "0.3"]) == 2
    assert "is for the feature expected" in capsys.readouterr().err
    assert main(["explain", str(source), "-u", "chrf", "--expectation", "trimmed"]) == 0


def test_parts_of_a_sum_on_one_scale() -> None:
    """z-scores of each part's expected utilities over the distinct texts, a distance negated."""
    (row,) = made_lists(1, 9, seed=3)
    texts = list(dict.fromkeys(c["text"] for c in row["candidates"]))
    counts = np.array([sum(c["text"] == text for c in row["candidates"]) for text in texts], float)

    def z(values: FloatArray) -> FloatArray:
        return np.asarray((values - values.mean()) / values.std())

    parts = [
        expected_utility(load_metric(n).pairwise(texts, texts), counts) for n in ("chrf", "ter")
    ]
    expected = z(parts[0]) + 0.5 * z(parts[1])
    (ranking,) = ranked([row], "chrf + 0.5*ter", normalize_parts="zscore")
    for place in ranking.ranking:
        assert place.utility == pytest.approx(expected[texts.index(str(place.text))])
    scaled = ranked([row], "1000*chrf + 0.5*ter", normalize_parts="rank")[0]
    assert scaled.utility is not None
    assert scaled.utility > 400
    identity = MBRDecoder("chrf + ter", normalize_parts="minmax").identity
    assert identity["normalize_parts"] == "minmax"


def test_normalised_parts_are_refused_where_matrices_are_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match="normalize_parts: beside a diverse list"):
        MBRDecoder("chrf + bleu", normalize_parts="zscore", diverse=0.5, nbest=3)
    with pytest.raises(InputError, match="normalize_parts: beside a budget"):
        MBRDecoder("prism", normalize_parts="zscore", budget=0.5)
    source = write_lists(tmp_path / "in.jsonl", made_lists(2))
    command = ["decode", str(source), "-u", "chrf + bleu", "--normalize-parts", "zscore"]
    more = ["-o", str(tmp_path / "out"), "--save-utilities", str(tmp_path / "u")]
    assert main([*command, *more]) == 2
    assert "holds their plain sum" in capsys.readouterr().err
    assert main([*command, "-o", str(tmp_path / "out"), "--quiet"]) == 0
    settings = json.loads((tmp_path / "out.run.json").read_text())["settings"]
    assert settings["normalize_parts"] == "zscore"
