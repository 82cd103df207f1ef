"""Lists that are decided from all of their pairs and from some of them."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from typing import Any

import numpy as np
import pytest

from discorank import Budget, InputError, MBRDecoder
from discorank.rerank import budget_audit
from discorank.rerank.budget.plan import METHODS
from discorank.rerank.budget.statement import NO_CORRECTION, Correction
from discorank.rerank.budget_audit import FEWEST, AuditedSteps, correction_of, sampled_lists
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import CandidateList, read_list

from ..support.lists import made_lists


def lists(number: int, width: int = 12) -> list[CandidateList]:
    return [read_list(record) for record in made_lists(number, width, seed=3)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "more", [{}, {"nbest": 3}, {"shortlist": "chrf", "top_k": 6}, {"weights": "logprob"}]
)
def test_steps_are_those_of_the_budget(
    monkeypatch: pytest.MonkeyPatch, method: Any, more: dict[str, Any]
) -> None:
    """At the last one the choice is that of the run, and it is the same if all pairs choose it."""
    seen: list[AuditedSteps] = []

    def corrected(steps: AuditedSteps, *_: Any) -> Correction:
        seen.append(steps)
        return NO_CORRECTION

    monkeypatch.setattr(budget_audit, "corrected", corrected)
    records = lists(24)
    decoder = MBRDecoder("ter", budget=Budget(0.2, method=method), **more)
    correction_of(decoder, records, LocalEngine())
    (steps,) = seen
    same = []
    every_place = decoder.with_settings(budget=None, nbest=None)
    rankings = zip(decoder.decode(records), every_place.decode(records), strict=True)
    for ours, exact in rankings:
        assert ours.budget is not None
        worth = {place.text: place.utility or 0.0 for place in exact.ranking}
        if not ours.budget.steps or len(set(worth.values())) == 1:  # nothing is left to choose
            continue
        best = sum(sorted(worth.values())[-len(ours.ranking) :])
        reached = sum(worth[place.text] for place in ours.ranking)
        same.append(reached >= best - 1e-9 * abs(best))
    assert steps.same[steps.is_last].tolist() == [float(one) for one in same]
    assert ((steps.regret <= 1e-9) == (steps.same == 1)).all()
    assert len(same) >= FEWEST
    assert (steps.is_last.sum() < len(steps.same)) == (method == "adaptive")


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_lists_with_candidates_that_have_no_value_are_audited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a candidate is behind all others; it is not the list that is left out."""

    def overlap(hypothesis: str, reference: str) -> float:
        if hypothesis.endswith("-"):
            return nan
        ours, theirs = set(hypothesis), set(reference)
        return len(ours & theirs) / len(ours | theirs)

    seen: list[AuditedSteps] = []
    monkeypatch.setattr(budget_audit, "corrected", lambda steps, *_: seen.append(steps))
    records = []
    for record in lists(30):
        first, *others = record.candidates
        broken = replace(first, text=f"{first.text}-")
        records.append(replace(record, candidates=(broken, *others)))
    for nbest in (1, 3):
        budget = Budget(0.3, force=True, cheap_utility=None)
        correction_of(MBRDecoder(overlap, nbest=nbest, budget=budget), records, LocalEngine())
        sizes = [len({candidate.text for candidate in record.candidates}) for record in records]
        assert len(set(seen[-1].replay.tolist())) >= sum(size > 5 for size in sizes) > FEWEST
        assert np.isfinite(seen[-1].regret[seen[-1].is_last]).all()


def test_a_correction_changes_what_is_said_and_no_choice() -> None:
    records = lists(24)
    plain = MBRDecoder("ter", budget=Budget(0.2))
    correction = correction_of(plain, records, LocalEngine())
    corrected = plain.with_settings(budget=Budget(0.2, correction=correction))
    pairs = list(zip(plain.decode(records), corrected.decode(records), strict=True))
    for before, after in pairs:
        assert (before.text, before.utility) == (after.text, after.utility)
    assert any(
        before.budget.confidence != after.budget.confidence  # type: ignore[union-attr]
        for before, after in pairs
    )
    assert corrected.identity["budget"]["correction"] == [list(shift) for shift in correction]
    assert "correction" not in plain.identity["budget"]


def test_an_engine_has_its_metrics_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit comes before the run that would load them, as on Ray."""
    engine, loaded = LocalEngine(), list[str]()
    load = LocalEngine.load

    def recorded(self: LocalEngine, metrics: Any) -> None:
        loaded.extend(metric.signature() for metric in metrics)
        load(self, metrics)

    monkeypatch.setattr(LocalEngine, "load", recorded)
    correction_of(MBRDecoder("ter", budget=Budget(0.2, cheap_utility="chrf")), lists(24), engine)
    assert loaded[:2] == ["chrf", "ter"]


def test_too_few_lists() -> None:
    decoder = MBRDecoder("ter", budget=Budget(0.2))
    with pytest.raises(InputError, match="Audit at least"):
        correction_of(decoder, lists(FEWEST - 1), LocalEngine())
    with pytest.raises(InputError, match="without a budget"):
        correction_of(MBRDecoder("ter"), lists(FEWEST), LocalEngine())


def test_every_list_is_as_likely_to_be_drawn() -> None:
    records = [
        *lists(8, 3),
        replace(lists(1, 3)[0], id="before", context_only=True),
    ]
    counts = dict.fromkeys([record.id for record in records], 0)
    for seed in range(400):
        drawn = [record.id for record in sampled_lists(records, 3, seed)]
        assert drawn == sorted(drawn, key=[record.id for record in records].index)
        assert len(drawn) == 3
        for id_ in drawn:
            counts[id_] += 1
    assert counts.pop("before") == 0
    assert all(110 < count < 190 for count in counts.values())  # 150 on average
    assert len(sampled_lists(records, 30, 0)) == 8
