"""Human scores with gaps: scores by the additive model, and pairs of systems on their common segments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discorank.metrics.representations import FloatArray
from discorank.rerank.selection.judged_systems import (
    JudgedLayer,
    doubtful_direction,
    human_layer,
)
from discorank.rerank.selection.significance import in_units, judge
from discorank.rerank.selection.system_scores import DocumentOutputs, Layer


def documents_of(values: FloatArray, sizes: list[int]) -> list[DocumentOutputs]:
    """Documents of some numbers of segments with the scores [S, segments], NaN for a missing one."""
    names = [chr(ord("A") + s) for s in range(len(values))]
    documents = []
    for d, (start, size) in enumerate(zip(np.cumsum([0, *sizes]), sizes, strict=False)):
        texts = dict.fromkeys(names, ("text",) * size)
        scores: Mapping[str, tuple[float | None, ...]] = {
            name: tuple(None if np.isnan(x) else float(x) for x in row[start : start + size])
            for name, row in zip(names, values, strict=True)
        }
        documents.append(DocumentOutputs(str(d), False, None, texts, {}, {"mqm": scores}))
    return documents


def scored(values: FloatArray, sizes: list[int]) -> Layer:
    return human_layer("mqm", True, documents_of(values, sizes))


def fitted_plainly(values: FloatArray) -> FloatArray:
    """Equation (1) by least squares over a column for each system and segment."""
    systems, segments = np.nonzero(~np.isnan(values))
    design = np.zeros((len(systems), sum(values.shape)))
    design[np.arange(len(systems)), systems] = 1
    design[np.arange(len(systems)), len(values) + segments] = 1
    solution = np.linalg.lstsq(design, values[systems, segments], rcond=None)[0]
    judged = ~np.isnan(values).all(axis=0)
    effects, of_segments = solution[: len(values)], solution[len(values) :]
    return np.asarray(effects + of_segments[judged].mean())


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0, 0.6))
def test_scores_are_those_of_the_additive_model(seed: int, share: float) -> None:
    random = np.random.default_rng(seed)
    values = random.normal(size=(4, 12)) + random.normal(size=12)
    values[random.random(values.shape) < share] = np.nan
    values[:, 0] = random.normal(size=4)  # so that a chain of common segments joins all systems
    found = scored(values, [3, 4, 5])
    assert found.system_scores() == pytest.approx(fitted_plainly(values))
    if not np.isnan(values).any():
        assert type(found) is Layer
        assert found.system_scores() == pytest.approx(values.mean(axis=1))


def test_systems_judged_on_the_same_part_of_the_segments_have_plain_means() -> None:
    found = scored(np.array([[1.0, np.nan, 3.0], [2.0, np.nan, 6.0]]), [3])
    assert type(found) is Layer
    assert found.system_scores().tolist() == [2.0, 4.0]


@settings(max_examples=20)
@given(st.integers(0, 10_000), st.sampled_from(["document", "segment"]))
def test_a_pair_is_tested_as_if_it_were_alone_on_its_common_segments(seed: int, unit: str) -> None:
    random = np.random.default_rng(seed)
    sizes = [2, 3, 2, 4]
    values = random.normal(size=(3, 11))
    values[0, :2] = np.nan
    values[1, [4, 8, 9]] = np.nan
    values[2, random.random(11) < 0.4] = np.nan
    together = scored(values, sizes)
    assert isinstance(together, JudgedLayer)
    size = 1 if unit == "segment" else None
    verdicts = judge(in_units(together, sizes, size), 200)
    for pair in verdicts.pairs:
        both = values[[pair.a, pair.b]]
        common = ~np.isnan(both).any(axis=0)
        assert pair.common == common.sum()
        if not common.any():
            assert pair.difference is None
            assert pair.p == 1
            continue
        kept = [int(here.sum()) for here in np.split(common, np.cumsum(sizes)[:-1])]
        there = [n for n in kept if n]
        alone = judge(in_units(scored(both[:, common], there), there, size), 200).pairs[0]
        assert pair.difference == pytest.approx(alone.difference)
        num_units = len(there) if unit == "document" else int(common.sum())
        if num_units == 1:
            assert pair.p == 1
            assert (pair.p_bootstrap, pair.low) == (None, None)
            continue
        assert (pair.p, pair.p_bootstrap) == pytest.approx((alone.p, alone.p_bootstrap))
        assert (pair.low, pair.high) == pytest.approx((alone.low, alone.high))


def test_a_system_judged_on_easy_segments_is_not_the_best() -> None:
    random = np.random.default_rng(0)
    difficulty = np.repeat([1.0, 4.0], 24)
    values = difficulty + random.normal(0, 0.3, size=(4, 48))
    values[3, 24:] = np.nan
    found = scored(values, [3] * 16)
    own_means = np.nanmean(values, axis=1)
    assert own_means[3] < own_means[:3].min() - 1
    assert np.ptp(found.system_scores()) < 0.3
    verdicts = judge(found, 500)
    assert verdicts.clusters == (1, 1, 1, 1)
    assert verdicts.judged == (48, 48, 48, 24)
    assert {pair.common for pair in verdicts.pairs} == {48, 24}


def test_systems_without_a_common_segment_are_not_compared() -> None:
    values = np.array([[1.0, 1.0, np.nan, np.nan], [np.nan, np.nan, 9.0, 9.0]])
    verdicts = judge(scored(values, [1, 1, 1, 1]), 100)
    (pair,) = verdicts.pairs
    assert (pair.common, pair.p) == (0, 1.0)
    assert pair.difference is None
    assert verdicts.clusters == (1, 1)


def test_a_pair_that_contradicts_the_order_of_scores_makes_no_cluster() -> None:
    # A is better than B on their common documents, but B than A through C
    values = np.full((3, 30), np.nan)
    values[0], values[1], values[2] = 0.0, 0.0, 0.0
    values[0, :10], values[1, :10], values[2, :10] = 1.0, 2.0, np.nan
    values[0, 10:20], values[1, 10:20] = 5.0, np.nan
    values[0, 20:], values[1, 20:] = np.nan, -5.0
    verdicts = judge(scored(values, [1] * 30), 1000, level=0.05)
    first = verdicts.pairs[0]
    assert first.difference == pytest.approx(-1)
    assert first.p < 0.05
    scores = np.array(verdicts.scores, float)
    assert scores[0] > scores[1]
    assert not verdicts.is_better(0, 1, 0.05)
    assert not verdicts.is_better(1, 0, 0.05)


def test_equal_systems_are_not_told_apart_by_the_bootstrap() -> None:
    values = np.repeat(np.arange(6.0)[None], 2, axis=0)
    (pair,) = judge(scored(values, [1] * 6), 100).pairs
    assert (pair.difference, pair.p, pair.p_bootstrap) == (0, 1, 1)


@pytest.mark.parametrize(
    ("values", "lower", "doubted"),
    [
        ([[0.0, -5.0], [-1.0, 0.0]], True, "without :lower"),
        ([[0.0, -5.0], [-1.0, 0.0]], False, None),
        ([[0.0, 5.0], [1.0, 0.0]], False, "mqm:lower"),
        ([[0.0, 5.0], [1.0, 0.0]], True, None),
        ([[0.0, 0.0], [0.0, 0.0]], True, None),
    ],
)
def test_a_sign_that_contradicts_the_direction_is_asked_about(
    values: list[list[float]], lower: bool, doubted: str | None
) -> None:
    remark = doubtful_direction("mqm", lower, documents_of(np.array(values), [1, 1]))
    assert (remark is None) == (doubted is None)
    assert doubted is None or doubted in (remark or "")
