"""The driver's record of work, and the stages of workers: no actor is needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.errors import ResourceError
from discorank.metrics.execution.evaluate import is_large
from discorank.metrics.execution.meter import Metered
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.engines.interface import Result, Task, loaded_as
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.ray import actors as blocks
from discorank.rerank.engines.ray import work as ray_work
from discorank.rerank.engines.ray.actors import Kind
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.engines.ray.work import Work
from discorank.rerank.engines.ray.worker import StepResult
from discorank.rerank.mbr import MBRDecoder

from ...support import faulty
from ...support.lists import different_texts
from ...support.stages import LONG, STAGED, StagedEngine, cut_up, rows_of

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


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> StagedEngine:
    """An engine that cuts every list into many small pieces."""
    cut_up(monkeypatch)
    return StagedEngine()


@pytest.mark.parametrize("name", STAGED)
def test_stages_give_the_bytes_of_the_local_engine(name: str, staged: StagedEngine) -> None:
    if name in ("role-match", "a mix"):
        pytest.importorskip("HanTa")
    assert rows_of(STAGED[name], staged) == rows_of(STAGED[name], LocalEngine())
    assert staged.steps["represent"] > 0
    assert not staged.work.groups


def test_large_lists_have_the_same_sums_whatever_the_tiles(
    staged: StagedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only sums of tiles leave the workers, of which there are more than the local engine has tiles."""
    texts = different_texts(760)
    record: dict[str, Any] = {"id": "large", "candidates": texts}
    logprobs = [{"text": text, "logprob": -len(text) / 7} for text in texts]
    work = [
        (MBRDecoder(utility="chrf + 0.3*bleu", nbest=None), [record]),
        (MBRDecoder(utility="chrf", self_pair=False, nbest=None), [record]),
        (
            MBRDecoder(utility="rouge-l", weights="logprob", nbest=None),
            [{**record, "candidates": logprobs}],
        ),
    ]
    assert is_large(760, 760)
    monkeypatch.setattr(ray_work, "MIN_SECONDS", 1e-3)
    assert rows_of(work, staged) == rows_of(work, LocalEngine())
    assert staged.steps["compare"] > 8
    assert staged.nbytes["compare"] < 760 * 760


def test_split_lists_keep_their_matrices(staged: StagedEngine) -> None:
    decoder = MBRDecoder(utility="chrf + 0.5*ter", keep_matrix=True)
    expected = [ranking.matrix for ranking in decoder.decode(LONG)]
    for ranking, matrix in zip(decoder.decode(LONG, staged), expected, strict=True):
        assert matrix is not None
        assert ranking.matrix is not None
        assert ranking.matrix.tobytes() == matrix.tobytes()


def test_memory_that_runs_out_costs_nothing(staged: StagedEngine) -> None:
    work = [(MBRDecoder(utility=faulty.Hungry(), nbest=None), LONG)]
    assert rows_of(work, staged) == rows_of(work, LocalEngine())
