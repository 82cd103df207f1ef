"""Which actor a list that goes on is sent to, told from the driver's own record: no actor is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.errors import ResourceError
from discorank.metrics.execution.meter import Metered
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.engines.interface import Result, Task, loaded_as
from discorank.rerank.engines.ray import actors as blocks
from discorank.rerank.engines.ray.actors import Kind
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.engines.ray.work import Work
from discorank.rerank.engines.ray.worker import StepResult

KINDS: tuple[Kind, ...] = ("model", "compare")


@pytest.fixture
def work() -> Work:
    """What a driver with two actors has to do."""
    work = Work(None, RaySettings())
    metric = load_metric("ter")
    assert isinstance(metric, Metric)
    work.metrics, work.metric_numbers = [metric], {loaded_as(metric): 0}
    work.num_representing = 2
    return work


def part_of_a_list(work: Work, name: str) -> Task:
    """Some pairs of a list."""
    metric = work.metrics[0]
    texts = (f"{name} a", f"{name} b", f"{name} c")
    whole = metric.comparison(texts, texts, None, NO_CONTEXT)
    return Task(name, metric, (whole.part([0], [1]),), np.ones(1), whole=(whole,))


def done_by(work: Work, actor: str) -> list[str]:
    """Has an actor do its next step; the lists that are in it."""
    step = work.next(KINDS, False, actor)
    if step is None:
        return []
    results = [(task.key, Result(np.zeros((1, 1)))) for task in step.tasks]
    work.finished(step, None, StepResult(0.1, Metered(), list(results)), actor)
    return [task.id for task in step.tasks]


def test_a_list_that_goes_on_returns_to_its_actor(work: Work) -> None:
    for key, name in enumerate("xy"):
        work.add(key, part_of_a_list(work, name))
    assert done_by(work, "first") == ["x"]
    assert done_by(work, "second") == ["y"]
    for _ in range(3):
        for key, _ in work.taken():
            work.add(key, part_of_a_list(work, "xy"[key]))
        assert done_by(work, "second") == ["y"]
        assert done_by(work, "second") == []  # the other's texts are not there
        assert done_by(work, "first") == ["x"]


def test_what_is_more_than_a_block_is_shared(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or an actor would wait for another."""
    for key in range(4):
        work.add(key, part_of_a_list(work, str(key)))
    while done_by(work, "first"):
        pass
    monkeypatch.setattr(blocks, "BLOCK_SECONDS", 0.0)
    for key, _ in work.taken():
        work.add(key, part_of_a_list(work, str(key)))
    assert done_by(work, "second") == ["0"]
    assert done_by(work, "first") == ["1"]


def test_lists_that_are_done_are_not_remembered(work: Work) -> None:
    for key in range(5):
        work.add(key, part_of_a_list(work, str(key)))
        assert done_by(work, "first") == [str(key)]
        assert [number for number, _ in work.taken()] == [key]
        assert list(work.homes) == [key]
    work.forget([4])
    assert not len(work.queue)


def test_ray_that_does_not_start_in_time_is_a_lack_of_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray raises a plain exception for it, which was an internal error (exit code 1)."""
    cluster = pytest.importorskip("discorank.rerank.engines.ray.cluster")

    class Late:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: Any) -> None:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(cluster, "imported", lambda *names: Late)
    with pytest.raises(ResourceError, match="timed out during startup") as error:
        cluster.Cluster(RaySettings()).join()
    assert error.value.exit_code == 5
