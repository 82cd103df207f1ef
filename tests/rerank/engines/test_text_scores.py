"""Scores of texts as tasks of an engine: those of `score` to the last bit, errors in their places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discorank import Document, load_metric
from discorank.metrics.errors import InputError, MetricError
from discorank.metrics.mixture import Function
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.processes import ProcessEngine
from discorank.rerank.engines.text_scores import distinct_tasks, outcomes_of, score_of, score_tasks

MODELS = Path(__file__).parents[2] / "golden" / "docmetrics" / "models"
TINY = f'bertscore(model="{MODELS / "tiny-bert"}",layer=2)'
NAMES = ("chrf", "bleu", "ter", "rouge-l", "chrf + -0.5*bleu", "aligned(chrf)")
TEXTS = st.text("ab c", max_size=12)
LONG = Document(["A cat sat.", "It slept."])
SHORT = Document(["A cat sat down."])


def scores(engine: Engine, name: Any, *columns: Any) -> Sequence[Any]:
    utility = load_metric(name)
    engine.load([utility])
    outcomes = outcomes_of(engine, score_tasks(utility, *columns))
    return [score_of(utility, outcome) for outcome in outcomes]


def expected(name: str, *columns: Any) -> list[float]:
    metric = load_metric(name)
    sign = metric.parts[0][1].utility_sign if len(metric.parts) == 1 else 1
    return [float(value) for value in sign * metric.score(*columns)]


@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(TEXTS, st.lists(TEXTS, min_size=1, max_size=3)), min_size=1, max_size=9),
)
def test_scores_are_those_of_score_to_the_last_bit(name: str, rows: list[Any]) -> None:
    columns = [text for text, _ in rows], [references for _, references in rows]
    assert scores(LocalEngine(), name, *columns) == expected(name, *columns)


@pytest.mark.parametrize("name", ["aligned(chrf)", TINY])
def test_documents_are_read_as_score_reads_them(name: str) -> None:
    same = Document(["A cat.", "It sleeps."])
    columns = [LONG, same, "a cat"], [[same], [LONG], ["a cat sat"]]
    assert scores(LocalEngine(), name, *columns) == expected(name, *columns)


def test_a_text_that_cannot_be_scored_costs_itself_alone() -> None:
    def fails(hypothesis: Any, reference: Any) -> float:
        if hypothesis == "bad":
            raise ValueError("no")
        return float("inf") if hypothesis == "endless" else 1.0

    columns = ["a", "bad", "endless"], ["r", "r", "r"]
    first, second, third = scores(LocalEngine(), Function(fails), *columns)
    assert first == 1
    assert isinstance(second, MetricError)
    assert isinstance(third, MetricError)
    fine, unequal = scores(LocalEngine(), "chrf", [LONG, LONG], [[LONG], [SHORT]])
    assert fine == 100
    assert isinstance(unequal, InputError)


def test_workers_give_the_same_scores() -> None:
    texts = [f"a {word} sat" for word in ["cat", "dog", "cow", "hen", "pig"]]
    columns = texts, [[text, "a cat"] for text in reversed(texts)]
    with ProcessEngine(2) as engine:
        assert scores(engine, "bleu", *columns) == expected("bleu", *columns)


def test_equal_texts_are_one_task() -> None:
    tasks = score_tasks(load_metric("chrf"), ["a", "b", "a"], ["r", "r", "r"])
    distinct, numbers = distinct_tasks(tasks)
    assert (len(distinct), numbers) == (2, [0, 1, 0])
