"""Reranking under a budget: what is read has its score, a whole budget changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from discorank import Budget, InputError, MBRDecoder, MetricError, Ranking, Reranker
from discorank.metrics.base import Metric
from discorank.metrics.representations import Block, FloatArray, Reps
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.runs.run import json_row

from ..support.letters_scorer import LettersScorer
from ..support.lists import made_lists

LISTS = list(made_lists(6, 16, seed=3))


@settings
class Judge(Metric):
    """Reference-free, as a model would be: the share of e among the letters of a text, NaN for "nan"."""

    name: ClassVar[str] = f"{__name__}:Judge"
    info: ClassVar[Info] = Info(summary="toy", needs_references=False, bucketed=True)

    def load(self) -> Scorer:
        return JudgeScorer(self.info)


class JudgeScorer(LettersScorer):
    """The share of e among the letters of a text."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        def value(row: int) -> float:
            letters = bytes(reps["letters"][np.array([row])].values.tolist()).decode()
            return float("nan") if letters == "nan " else letters.count("e") / len(letters)

        return [np.array([[value(row)] for row in b.hypotheses.tolist()]) for b in blocks]


def rankings(lists: Sequence[Any], **more: Any) -> list[Ranking]:
    features = {Judge(): 2.0, "logprob": 0.01}
    reranker = Reranker(**{"features": features, "nbest": None, **more})
    return list(reranker.decode(lists, LocalEngine()))


def test_a_budget_of_all_candidates_changes_no_bit() -> None:
    exact = rankings(LISTS)
    found = rankings(LISTS, budget=Budget(1.0))
    assert [json_row(replace(r, budget=None)) for r in found] == [json_row(r) for r in exact]
    assert all(r.budget is not None and r.budget.confidence == 1.0 for r in found)


@pytest.mark.parametrize("more", [{}, {"nbest": 2}, {"decoder": MBRDecoder("chrf")}])
def test_what_is_read_has_its_score(more: dict[str, Any]) -> None:
    features = {Judge(): 2.0, "logprob": 0.01}
    if "decoder" in more:
        features["expected"] = 0.001
    budget = Budget(0.4)
    exact = rankings(LISTS, **{**more, "nbest": None, "features": features})
    found = rankings(LISTS, budget=budget, **more, features=features)
    for whole, ranking in zip(exact, found, strict=True):
        assert ranking.budget is not None
        computed = ranking.budget.computed[:, 0]
        assert ranking.budget.pairs == computed.sum() <= max(1, np.ceil(0.4 * len(computed)))
        texts = list(dict.fromkeys(candidate.text for candidate in ranking.candidates))
        utilities = {place.text: place for place in whole.ranking}
        for place in ranking.ranking:
            if computed[texts.index(place.text)]:
                assert place.index == utilities[place.text].index
                assert place.utility == pytest.approx(utilities[place.text].utility, 1e-12)


def test_texts_are_read_once_and_no_more_than_the_budget_has() -> None:
    engine = LocalEngine()
    reranker = Reranker({Judge(): 1.0}, budget=Budget(0.3, cheap_utility=None))
    spent = [ranking.budget for ranking in reranker.decode(LISTS, engine)]
    assert engine.meter.now.texts == sum(budget.pairs for budget in spent if budget is not None)


def test_a_text_without_a_score_is_not_chosen() -> None:
    record = {"id": "a", "candidates": ["nan", "eel", "the ferry", "fog", "a b c", "nan nan"]}
    (found,) = rankings([record], features={Judge(): 1.0}, budget=0.5)
    assert found.text != "nan"
    texts = [{"text": "nan", "logprob": -1.0}, {"text": "nan", "logprob": -2.0}, "x"]
    short = {"id": "a", "candidates": texts}
    with pytest.raises(MetricError, match="none of the 1 texts that were read"):
        rankings([short], features={Judge(): 1.0}, budget=Budget(0.5))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"normalize": "zscore"},
            "normalize: needs a value of every candidate, which budget leaves out",
        ),
        ({"features": {"logprob": 1.0}}, "no feature is costly"),
        ({"features": {"cohesion": 1.0}}, "no feature is costly"),
    ],
)
def test_refusals(more: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Reranker(**{"features": {Judge(): 1.0}, "budget": 0.5, **more})
