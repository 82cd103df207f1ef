"""The values of mt-metrics-eval's own code on a small folder, within the tolerances stated in tests/golden/mtme."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from benchmarks.metric_quality.mtme_agreement import (
    GOLDEN,
    PAIRS,
    Comparison,
    agreement_table,
    comparisons,
    read_sets,
)
from discorank.rerank.selection.meta_evaluation.coefficients import SOFT, Agreement, Coefficient
from discorank.rerank.selection.meta_evaluation.eval_set import EvalSet

AT_LEAST = {  # so many of a kind are compared
    "systems": 384,
    "segments": 420,
    "rows averaged over": 420,
    "tie calibration": 120,
    "value at our epsilon": 120,
    "soft pairwise accuracy": 10,
    "soft, p of a pair": 120,
    "soft, 200 seeds": 10,
    "PERM-BOTH of systems, p": 80,
    "Williams, p": 20,
    "differences of metrics": 36,
    "tests of segments, p": 36,
    "tasks": 60,
    "ranks in tasks": 60,
    "averages of tasks": 14,
    "rank clusters": 14,
    "test of averages, p": 1,
}


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((GOLDEN / "values.json").read_text(encoding="utf-8"))
    return loaded


@pytest.fixture(scope="module")
def sets(values: dict[str, Any]) -> dict[str, EvalSet]:
    return read_sets(GOLDEN / "evalset" / "toy", values["about"])


@pytest.fixture(scope="module")
def found(values: dict[str, Any]) -> dict[str, list[Comparison]]:
    by_kind: dict[str, list[Comparison]] = defaultdict(list)
    for each in comparisons(GOLDEN / "evalset" / "toy", values):
        by_kind[each.kind].append(each)
    return by_kind


@pytest.mark.parametrize("kind", AT_LEAST)
def test_values_are_those_of_mt_metrics_eval(found: dict[str, list[Comparison]], kind: str) -> None:
    assert len(found[kind]) >= AT_LEAST[kind]
    beyond = [each for each in found[kind] if not each.distance <= each.tolerance]
    assert not beyond, beyond[:3]


def test_every_kind_is_in_the_table(found: dict[str, list[Comparison]]) -> None:
    everything = [each for of_kind in found.values() for each in of_kind]
    table = agreement_table(everything)
    assert [row[0] for row in table.cells] == list(found)
    assert {row[0] for row in table.cells} == set(AT_LEAST)


@pytest.mark.parametrize("pair", PAIRS)
def test_soft_accuracy_of_misaligned_holes_is_that_of_whole_segments(
    sets: dict[str, EvalSet], values: dict[str, Any], pair: str
) -> None:
    # the tool reshapes what is left of a table with holes, which shifts rows or fails
    eval_set = sets[pair]
    systems = values[pair]["segment_level"]["da"]["systems"]
    human = eval_set.human_table("da", "seg", systems)
    is_rated = ~np.isnan(human).any(axis=0)
    assert 0 < is_rated.sum() < human.shape[1]
    for metric in eval_set.metrics_scored("seg"):
        scores = eval_set.metric_table(metric, "seg", systems)
        whole, cut = (
            Agreement(Coefficient(SOFT), [people]).averaged([own])
            for people, own in ((human, scores), (human[:, is_rated], scores[:, is_rated]))
        )
        assert whole == cut


@pytest.mark.parametrize("pair", PAIRS)
def test_systems_and_metrics_that_count(
    sets: dict[str, EvalSet], values: dict[str, Any], pair: str
) -> None:
    for key, expected in values[pair]["systems_scored"].items():
        name, human, outliers = key.split()
        systems = sets[pair].systems_scored(
            name, "seg", human=human == "human=True", outliers=outliers == "outliers=True"
        )
        assert list(systems) == expected["systems"], key
        metrics = sets[pair].metrics_scored("seg")
        assert list(map(str, metrics)) == expected["metrics"], key
