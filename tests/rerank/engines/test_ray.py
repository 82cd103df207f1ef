"""The Ray engine: the same bytes as the local engine, whatever dies."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest

from discorank import Budget
from discorank.cli.main import main
from discorank.metrics.base import Metric
from discorank.metrics.errors import InputError, MetricError, ModelLoadError, ResourceError
from discorank.metrics.execution.cache import Cache
from discorank.metrics.scorer import Info, Scorer
from discorank.metrics.spec.checked_settings import settings
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.ray.actors import SETTLING_SECONDS, Actor, Step, StepCall, stolen_by
from discorank.rerank.engines.ray.engine import RayEngine
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.engines.ray.work import Group
from discorank.rerank.engines.status import WorkerMeter
from discorank.rerank.lists import read_list
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.reranker import Reranker

from ...support import faulty, judging
from ...support.lists import WORDS, made_lists, write_lists
from ...support.serving import Reply, Seen, serving
from ...support.stages import DISCO, QE, SHORT, STAGED, TINY, cut_up, rows_of
from ...support.waiting import PATIENCE_SECONDS, has_rows, wait_until

ray: Any = pytest.importorskip("ray")
EXAMPLES = Path(__file__).parents[3] / "examples"
ON_RAY = ("--engine", "ray", "--set")
Captured = pytest.CaptureFixture[str]


def slow(*values: Any) -> Any:
    """A case that -m slow runs: one like it runs always."""
    return pytest.param(*values, marks=pytest.mark.slow)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One Ray session with six logical cores for all tests, whose workers know the folder of gates."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(faulty.GATES, str(tmp_path_factory.mktemp("gates")))
        ray.init(
            address="local",
            num_cpus=6,
            include_dashboard=False,
            logging_level="ERROR",
            log_to_driver=False,
        )
        yield
        ray.shutdown()


@pytest.fixture(scope="module")
def two(cluster: None) -> Iterator[RayEngine]:
    """Two actors, which the tests that kill none share."""
    with RayEngine(RaySettings(actors=2)) as engine:
        yield engine


@pytest.fixture
def on_ray(two: RayEngine) -> Iterator[None]:
    """The session, and the certainty that a test leaves no actor in it but the shared ones."""
    yield
    free = 6 - len(two.actors)
    wait_until(lambda: ray.available_resources().get("CPU") == free, "an actor was left behind")


def decode(source: str | Path, out: Path, utility: str, *more: str) -> int:
    return main(["decode", str(source), "-u", utility, "-o", str(out), "--quiet", *more])


def test_budgets_are_the_same_bytes(on_ray: None, two: RayEngine) -> None:
    budget = Budget(0.3, regret=0.3)
    decoder = MBRDecoder("ter + 0.1*chrf", budget=budget, nbest=2)
    work = [(decoder, list(made_lists(40, 12, seed=4)))]
    assert rows_of(work, two) == rows_of(work, LocalEngine())


def test_both_passes_of_shrinkage_are_the_same_bytes(on_ray: None, tmp_path: Path) -> None:
    rows = [
        {**row, "source": "the ferry leaves", "candidates": of_systems(row["candidates"])}
        for row in made_lists(12, 4, seed=5)
    ]
    source = write_lists(tmp_path / "in.jsonl", rows)
    words = ["rerank", str(source), "-m", "cohesion", "--shrink", "0.75", "--quiet", "-o"]
    assert main([*words, str(tmp_path / "local")]) == 0
    assert main([*words, str(tmp_path / "ray"), *ON_RAY, "ray.actors=1"]) == 0
    for ending in ("", ".first", ".systems.json"):
        written = Path(f"{tmp_path}/ray{ending}").read_bytes()
        assert written == Path(f"{tmp_path}/local{ending}").read_bytes()


def of_systems(candidates: Sequence[Any]) -> list[dict[str, Any]]:
    """Candidates that name their systems."""
    texts = [one["text"] if isinstance(one, dict) else one for one in candidates]
    return [{"text": text, "system": f"s{i}"} for i, text in enumerate(texts)]


def test_texts_under_a_budget_are_represented_once(on_ray: None, two: RayEngine) -> None:
    """Steps of a list go to the worker that has its texts."""
    records = [read_list(record) for record in made_lists(6, 14, seed=8)]
    decoder = MBRDecoder("ter", budget=Budget(0.3))
    engines: list[Engine] = [LocalEngine(), two]
    texts = []
    for one in engines:
        list(decoder.decode(records, one))
        texts.append(one.status().work.texts)
    assert texts[0] == texts[1]


def test_a_server_of_scores_that_stops_ends_the_run(on_ray: None, tmp_path: Path) -> None:
    """It is no fault of the lists: none becomes an error record, and the same command resumes."""
    source = write_lists(tmp_path / "in.jsonl", list(made_lists(40, 4)))
    works = 10**6

    def answer(seen: Seen, number: int) -> Reply:
        if number >= works:
            return Reply(b"", 503)
        pairs = zip(seen.body["text_1"], seen.body["text_2"], strict=True)
        scores = [len(set(q) & set(d)) for q, d in pairs]
        return Reply({"data": [{"index": i, "score": score} for i, score in enumerate(scores)]})

    with serving(answer) as server:
        address = f'base_url="{server.url}",retries=0,batch_pairs=8'
        utility = f'score-server(model="m",{address})'
        on = [*ON_RAY, "ray.actors=1"]
        assert decode(source, tmp_path / "local", utility) == 0
        works = len(server.seen) + 3
        assert decode(source, tmp_path / "out", utility, *on, "--max-errors", "99") == 5
        assert not (tmp_path / "out.errors.jsonl").exists()
        works = 10**6
        assert decode(source, tmp_path / "out", utility, *on, "--max-errors", "99") == 0
    assert (tmp_path / "out").read_bytes() == (tmp_path / "local").read_bytes()


def test_answers_of_a_judge_are_kept_and_counted_by_workers(on_ray: None, tmp_path: Path) -> None:
    """Workers share the folder of answers, and what they spend stands in the run file."""
    records = [{**record, "source": f"source {i}"} for i, record in enumerate(made_lists(12, 4))]
    source = write_lists(tmp_path / "in.jsonl", records)
    with serving(judging.judged) as server:
        utility, on = judging.spec(server), [*ON_RAY, "ray.actors=2"]
        assert decode(source, tmp_path / "local", utility) == 0
        num_calls = len(server.seen)
        assert decode(source, tmp_path / "ray", utility, *on) == 0
        # an idle worker may take a step that a slow one has too, and ask again: what is asked is the same
        asked = [json.dumps(seen.body) for seen in server.seen]
        num_on_ray = len(asked) - num_calls
        assert set(asked[num_calls:]) == set(asked[:num_calls])
        assert num_calls <= num_on_ray <= num_calls + 4
        kept = ["--cache", str(tmp_path / "ray.answers")]
        one = (*ON_RAY, "ray.actors=1")
        assert decode(source, tmp_path / "again", utility, *one, *kept) == 0
        assert len(server.seen) == num_calls + num_on_ray
    for name in ("ray", "again"):
        assert (tmp_path / name).read_bytes() == (tmp_path / "local").read_bytes()
    timings = json.loads((tmp_path / "ray.run.json").read_text())["timings"]
    assert num_calls <= timings["calls"] <= num_on_ray
    timings = json.loads((tmp_path / "again.run.json").read_text())["timings"]
    assert (timings.get("calls", 0), timings["kept_answers"]) == (0, num_calls)


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list is cut into many small pieces."""
    cut_up(monkeypatch)


def test_models_give_the_same_bytes(
    on_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With lists whole and split, from a damaged cache; on the same actors, which import torch once."""
    pytest.importorskip("HanTa")
    whole: list[tuple[MBRDecoder | Reranker, Any]] = [
        (
            decider,
            [
                json.loads(line)
                for line in (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
            ],
        )
        for decider, name in (
            (MBRDecoder(utility=f"doc-bertscore({TINY})", nbest=None), "demo.jsonl"),
            (MBRDecoder(utility=f'ds-sent(model="{DISCO}")', nbest=None), "summaries.jsonl"),
            (Reranker({f"comet-qe({QE})": 1.0, "length": 0.1}), "demo.jsonl"),
        )
    ]
    split = [pair for name in ("a mix", "a function", "comet-qe") for pair in STAGED[name]]
    cache = Cache(tmp_path / "cache")
    expected = rows_of(whole, LocalEngine(cache))
    assert len(expected) == 8
    cache.base.execute("UPDATE entries SET value = substr(value, 1, 40) WHERE rowid % 2")
    damaged = "SELECT count(*) FROM entries WHERE length(value) = 40"
    assert cache.base.execute(damaged).fetchone()[0] > 5
    with RayEngine(RaySettings(actors=2), cache) as engine:
        assert rows_of(whole, engine) == expected
        assert cache.base.execute(damaged).fetchone()[0] == 0
        cut_up(monkeypatch)
        assert rows_of(split, engine) == rows_of(split, LocalEngine())
        assert not engine.work.groups
    with pytest.warns(RuntimeWarning, match=r"\d+ entries were damaged"):
        cache.close()


def test_only_a_call_that_has_arrived_is_taken_over() -> None:
    now = time.monotonic()
    steps = [Step("decide", (), [], (1, 1), copies=1) for _ in range(2)]
    for age, taken in ((2 * SETTLING_SECONDS, steps[1]), (0.0, None)):
        calls = deque(StepCall(step, now - age, None) for step in steps)
        busy = Actor(None, WorkerMeter("busy"), ("model",), calls=calls)
        idle = Actor(None, WorkerMeter("idle"), ("model",))
        call = stolen_by(idle, [busy, idle])
        assert (call and call.step) is taken


@pytest.mark.slow
def test_lists_split_over_four_actors_give_the_same_bytes(on_ray: None, split: None) -> None:
    work = [pair for name in ("chrf", "bleu", "ter", "a function") for pair in STAGED[name]]
    expected = rows_of(work, LocalEngine())
    with RayEngine(RaySettings(actors=4)) as engine:
        assert rows_of(work, engine) == expected
        assert not engine.work.groups


@pytest.mark.parametrize("method", ["compare", slow("represent"), slow("reduce")])
def test_a_split_list_outlives_its_workers(
    method: str, on_ray: None, split: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = [*STAGED["a function"], *STAGED["chrf"]]
    expected = rows_of(work, LocalEngine())
    call = Actor.call
    processes: dict[Actor, int] = {}
    killed: list[int] = []

    def call_and_kill(actor: Actor, step: Step) -> None:
        call(actor, step)
        if step.method == method and actor in processes and len(actor.calls) == 1 and not killed:
            killed.append(processes[actor])
            time.sleep(0.01)  # it is at work
            os.kill(processes[actor], signal.SIGKILL)

    with RayEngine(RaySettings(actors=2)) as engine:
        engine.load([metric for decider, _ in work for metric in decider.metrics])
        processes |= pids(engine)
        monkeypatch.setattr(Actor, "call", call_and_kill)
        assert rows_of(work, engine) == expected
    assert len(killed) == 1


def is_gone(name: Any) -> bool:
    """Whether an object died with its owner."""
    try:
        ray.get(name, timeout=600)
    except ray.exceptions.ObjectLostError:
        return True
    return False


def test_a_list_begins_anew_when_what_was_computed_is_lost(
    on_ray: None, two: RayEngine, split: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a node dies with the representations that others should read."""
    decoder = MBRDecoder(utility="chrf", nbest=None)
    lists = [
        {"id": str(i), "candidates": [f"{WORDS[(i + j) % 21]} {j}" for j in range(400)]}
        for i in range(2)
    ]
    follow = Group.next
    lost: list[int] = []  # number of the group that lost what was computed of it
    tries: set[int] = set()  # of all groups

    def follow_and_lose(group: Group, step: Step, value: Any, nbytes: int) -> list[Step]:
        tries.add(group.tries)
        if step.method == "join" and not lost:
            lost.append(group.number)
            owner = ray.remote(num_cpus=0)(faulty.Squatter).remote()
            (value,) = ray.get(owner.__ray_call__.remote(lambda _: [ray.put(bytes(1 << 20))]))
            ray.kill(owner)
            while not is_gone(value):
                time.sleep(0.05)
        return follow(group, step, value, nbytes)

    monkeypatch.setattr(Group, "next", follow_and_lose)
    rankings = [ranking.ranking for ranking in decoder.decode(lists, two)]
    assert [worker.died for worker in two.status().workers] == [0, 0]
    assert len(lost) == 1
    assert tries == {0, 1}
    assert rankings == [ranking.ranking for ranking in decoder.decode(lists)]


def test_a_text_that_kills_is_the_error_of_its_split_list(on_ray: None, split: None) -> None:
    decoder = MBRDecoder(utility=faulty.deadly, nbest=None)
    rows = [*SHORT, {"id": "bad", "candidates": ["kill", "the ferry", "fog"]}]
    tagged = [(i, read_list(row)) for i, row in enumerate(rows)]
    with RayEngine(RaySettings(actors=1, retries=0)) as engine:
        engine.load(decoder.metrics)
        *good, (_, bad) = decoder.outcomes(tagged, engine)
    assert [outcome.ranking for _, outcome in good] == [  # type: ignore[union-attr]
        ranking.ranking for ranking in decoder.decode(SHORT)
    ]
    assert isinstance(bad, MetricError)
    assert "its worker died 1 times" in str(bad)


def test_a_stage_that_fails_is_the_error_of_its_list(
    on_ray: None, two: RayEngine, split: None
) -> None:
    def sour(hypothesis: str, reference: str) -> float:
        return 1.0 if hypothesis != "bad" else 1 / 0

    decoder = MBRDecoder(utility=sour)
    rows = [
        {"id": "a", "candidates": ["x"]},
        {"id": "b", "candidates": ["bad"]},
        {"id": "c", "candidates": ["y"]},
    ]
    tagged = [(i, read_list(row)) for i, row in enumerate(rows)]
    local = [outcome for _, outcome in decoder.outcomes(tagged, LocalEngine())]
    two.load(decoder.metrics)
    outcomes = [outcome for _, outcome in decoder.outcomes(tagged, two)]
    assert isinstance(outcomes[1], MetricError)
    assert str(outcomes[1]) == str(local[1])
    assert [getattr(outcome, "text", None) for outcome in outcomes] == ["x", None, "y"]


def test_nothing_stays_in_the_object_store(
    on_ray: None, two: RayEngine, split: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used() -> float:
        return float(
            ray.cluster_resources()["object_store_memory"]
            - ray.available_resources()["object_store_memory"]
        )

    # an exception of an earlier test and its frames may hold objects until Python looks for such circles
    gc.collect()
    before = used()
    held: list[int] = []
    follow = Group.next

    def follow_and_look(group: Group, *arguments: Any) -> list[Step]:
        steps = follow(group, *arguments)
        held.append(group.nbytes)
        return steps

    monkeypatch.setattr(Group, "next", follow_and_look)
    decoder = MBRDecoder(utility="chrf")
    lists = [
        {"id": str(i), "candidates": [f"{WORDS[(i + j) % 21]} {j}" for j in range(400)]}
        for i in range(3)
    ]
    assert len(list(decoder.decode(lists, two))) == 3
    assert max(held) > 400 * 400 * 8
    assert two.work.held_bytes == 0
    wait_until(lambda: gc.collect() >= 0 and used() <= before, "something stays in the store")


def test_comparing_actors_give_the_same_bytes(on_ray: None, tmp_path: Path) -> None:
    short = list(made_lists(60))
    work = [
        *STAGED["a function"],
        (MBRDecoder(utility="chrf + 0.5*ter", nbest=None), short),
    ]
    expected = rows_of(work, LocalEngine())
    with RayEngine(RaySettings(actors=1, compare_actors=1)) as engine:
        assert rows_of(work, engine) == expected
        model, *others = engine.status().workers
    assert model.work.texts > 0 == sum(worker.work.texts for worker in others)
    assert sum(worker.work.pairs for worker in others) > 0


@pytest.mark.parametrize("at_work", [True, slow(False)])
def test_an_actor_that_hangs_is_replaced(at_work: bool, on_ray: None) -> None:
    decoder = MBRDecoder(utility=faulty.overlap, nbest=None)
    lists = list(made_lists(40))
    with RayEngine(RaySettings(actors=2, heartbeat_seconds=1)) as engine:
        engine.load(decoder.metrics)
        processes = pids(engine)
        stopped = list(processes)[1]
        rankings = decoder.decode(lists, engine)
        chosen = [next(rankings)] if at_work else []
        os.kill(processes[stopped], signal.SIGSTOP)
        try:
            chosen += rankings
            while not at_work and stopped in engine.actors:
                chosen = list(decoder.decode(lists, engine))
            assert stopped not in engine.actors
        finally:
            with suppress(ProcessLookupError):
                os.kill(processes[stopped], signal.SIGKILL)
    assert [ranking.ranking for ranking in chosen] == [
        ranking.ranking for ranking in decoder.decode(lists)
    ]


@pytest.mark.parametrize("cancelled", [True, slow(False)])
def test_what_waits_behind_a_long_list_is_taken_over(
    cancelled: bool, on_ray: None, two: RayEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the first actor begins with it after all, and its results come late."""
    if not cancelled:
        monkeypatch.setattr(ray, "cancel", lambda reference: None)
    decoder = MBRDecoder(utility=faulty.gated, nbest=None)
    gate = f"long-{cancelled}"
    lists = [
        {"id": str(i), "candidates": [f"gate {gate}" if i == 0 else "x", "x y", f"{i}"]}
        for i in range(3)
    ]
    more = [{"id": str(i), "candidates": ["x y", f"{i} x", "z"]} for i in range(30)]
    order: list[int] = []
    result, first = two.work._result, next(two.work.numbers) + 1

    def noted(number: int, outcome: Any) -> None:
        order.append(number - first)
        if len(order) == 2:
            Path(os.environ[faulty.GATES], gate).touch()
        result(number, outcome)

    monkeypatch.setattr(two.work, "_result", noted)
    rankings = [
        *decoder.decode(lists, two),
        *decoder.decode(more, two),
        *decoder.decode(lists, two),
    ]
    assert order[:3] in ([1, 2, 0], [2, 1, 0])
    expected = [*decoder.decode(lists), *decoder.decode(more), *decoder.decode(lists)]
    assert [ranking.ranking for ranking in rankings] == [ranking.ranking for ranking in expected]


def test_a_local_run_goes_on_under_ray(on_ray: None, tmp_path: Path) -> None:
    lists = list(made_lists(300))
    out, whole, utility = tmp_path / "out", tmp_path / "whole", "chrf + 0.5*ter"
    assert decode(write_lists(tmp_path / "in.jsonl", lists[:50]), out, utility) == 0
    source = write_lists(tmp_path / "in.jsonl", lists)
    assert decode(source, out, utility, *ON_RAY, "ray.actors=2") == 0
    assert decode(source, whole, utility) == 0
    assert out.read_bytes() == whole.read_bytes()
    assert json.loads(Path(f"{out}.run.json").read_text())["complete"]


def pids(engine: RayEngine) -> dict[Any, int]:
    """The process of every actor."""
    return {
        actor: ray.get(actor.handle.__ray_call__.remote(lambda worker: os.getpid()))
        for actor in engine.actors
    }


@pytest.mark.slow  # one like it, in test_ray_faults.py, runs always
@pytest.mark.parametrize("point", [1, 25, 50])
def test_a_killed_actor_costs_nothing(point: int, on_ray: None) -> None:
    decoder = MBRDecoder(utility=faulty.overlap, nbest=None)
    tagged = [(i, read_list(row)) for i, row in enumerate(made_lists(80))]
    expected = [(tag, outcome.ranking) for tag, outcome in decoder.outcomes(tagged, LocalEngine())]  # type: ignore[union-attr]
    with RayEngine(RaySettings(actors=2)) as engine:
        engine.load(decoder.metrics)
        processes = pids(engine)
        outcomes = {}
        for tag, outcome in decoder.outcomes(tagged, engine):
            if tag == point:
                busy = max(processes, key=lambda actor: len(actor.calls))
                assert busy.calls
                os.kill(processes[busy], signal.SIGKILL)
            outcomes[tag] = outcome.ranking  # type: ignore[union-attr]
        assert busy not in engine.actors
        assert sum(worker.died for worker in engine.status().workers) == 1
    assert list(outcomes.items()) == expected


@pytest.mark.slow  # one that kills its worker at once runs always, in the next test
@pytest.mark.parametrize(
    ("utility", "text", "retries", "more"),
    [("deadly", "kill", 1, ()), ("endless", "hang", 0, ("--set", "ray.block_seconds=4"))],
)
def test_a_list_that_takes_its_worker_down_is_an_error(
    utility: str, text: str, retries: int, more: tuple[str, ...], on_ray: None, tmp_path: Path
) -> None:
    lists = list(made_lists(30))
    lists[20]["candidates"].insert(0, text)
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    settings = ("ray.actors=2", "--set", f"ray.retries={retries}", *more, "--max-errors", "1")
    name = f"tests.support.faulty:{utility}"
    assert decode(source, out, name, *ON_RAY, *settings) == 3
    (error,) = [json.loads(line) for line in Path(f"{out}.errors.jsonl").read_text().splitlines()]
    assert error["id"] == lists[20]["id"]
    assert f"its worker died {retries + 1} times" in error["reason"]
    del lists[20]
    assert decode(write_lists(tmp_path / "rest.jsonl", lists), tmp_path / "rest", name) == 0
    assert out.read_bytes() == (tmp_path / "rest").read_bytes()


def test_what_ray_says_of_a_death_is_not_among_the_rows(
    on_ray: None, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = list(made_lists(30))
    lists[20]["candidates"].insert(0, "kill")
    source = write_lists(tmp_path / "in.jsonl", lists)
    utility = "tests.support.faulty:deadly"
    said = threading.Event()
    speak = ray._private.worker.print_worker_logs

    def heard(data: dict[str, Any], *more: Any) -> None:
        speak(data, *more)
        if data.get("pid") == "raylet":  # what an earlier test's workers wrote may come as well
            said.set()

    def closed(engine: RayEngine) -> None:
        assert said.wait(PATIENCE_SECONDS), "Ray has said nothing"
        close(engine)

    close = RayEngine.close
    # what another test has heard is not held back here
    monkeypatch.setattr("ray._private.ray_logging.RAY_DEDUP_LOGS", False)
    monkeypatch.setattr("ray._private.worker.print_worker_logs", heard)
    monkeypatch.setattr(RayEngine, "close", closed)
    on = (*ON_RAY, "ray.actors=1", "--set", "ray.retries=0")
    words = ("-u", utility, "--max-errors", "1", "--quiet")
    assert main(["decode", str(source), *words, *on]) == 3
    shown = capsys.readouterr()
    assert "(raylet)" in shown.err
    (error,) = [json.loads(line) for line in shown.err.splitlines() if line.startswith("{")]
    assert error["id"] == lists[20]["id"]
    assert "its worker died 1 times" in error["reason"]
    del lists[20]
    assert decode(write_lists(tmp_path / "rest.jsonl", lists), tmp_path / "rest", utility) == 0
    assert shown.out == (tmp_path / "rest").read_text()


@pytest.mark.slow
def test_actors_that_die_at_once_are_one_loss_each(on_ray: None) -> None:
    """As with a node that has many of them."""
    decoder, lists = MBRDecoder(utility=faulty.overlap), list(made_lists(80))
    with RayEngine(RaySettings(actors=3, restarts=1)) as engine:
        rankings = decoder.decode(lists, engine)
        chosen = [next(rankings)]
        for process in pids(engine).values():
            os.kill(process, signal.SIGKILL)
        chosen += rankings
        assert [worker.died for worker in engine.status().workers] == [1, 1, 1]
    assert [ranking.text for ranking in chosen] == [
        ranking.text for ranking in decoder.decode(lists)
    ]


def test_one_engine_for_many_decoders(on_ray: None) -> None:
    @settings
    class Longest(Metric):  # is in no module that a worker could import
        name: ClassVar[str] = "longest"
        info: ClassVar[Info] = faulty.Hungry.info

        def load(self) -> Scorer:
            return faulty.HungryScorer()

    lists = list(made_lists(20))
    deciders = [MBRDecoder(utility=utility) for utility in ("chrf", Longest(), "chrf")]
    with RayEngine(RaySettings(actors=1)) as engine:
        with pytest.raises(ModelLoadError, match="not on this node"):
            engine.load([faulty.Missing()])
        for decoder in deciders:
            begun = decoder.decode(lists, engine)
            next(begun)
            begun.close()  # type: ignore[attr-defined]
            assert not engine.work.keys
            texts = [ranking.text for ranking in decoder.decode(lists, engine)]
            assert texts == [ranking.text for ranking in decoder.decode(lists)]
            assert engine.status().work.pairs > 0
        begun = deciders[0].decode(lists, engine)
        next(begun)
        with pytest.raises(InputError, match="at work for two decoders at once"):
            list(deciders[1].decode(lists, engine))
        engine.close()
        engine.close()


def test_workers_that_only_die_stop_the_run(on_ray: None) -> None:
    decoder = MBRDecoder(utility=faulty.deadly)
    engine = RayEngine(RaySettings(actors=1, restarts=1, retries=5))
    with (
        engine,
        pytest.raises(
            ResourceError, match=r"2 workers in a row died with nothing finished.*resumes from"
        ),
    ):
        list(decoder.decode([{"id": "a", "candidates": ["kill", "x"]}], engine))


def test_without_capacity_the_run_stops_and_can_go_on(
    on_ray: None, tmp_path: Path, capsys: Captured
) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(20)), tmp_path / "out"
    settings = ("--set", "ray.cpus_per_actor=64", "--set", "ray.start_seconds=0.5")
    assert decode(source, out, "chrf", "--engine", "ray", "--set", "ray.actors=1", *settings) == 5
    assert (
        "no worker for 0.5 s: wanted 1 x 64 CPUs and 0 GPUs, the cluster has {'CPU': 6.0}"
        in capsys.readouterr().err
    )
    assert decode(source, out, "chrf") == 0
    assert out.exists()


@pytest.mark.slow
def test_capacity_that_vanishes_leaves_a_run_that_goes_on(on_ray: None, tmp_path: Path) -> None:
    tagged = [(i, read_list(row)) for i, row in enumerate(made_lists(60))]
    decoder = MBRDecoder(utility=faulty.overlap)
    with RayEngine(RaySettings(actors=1, cpus_per_actor=3)) as engine:
        engine.load(decoder.metrics)
        engine.settings = RaySettings(actors=1, cpus_per_actor=3, start_seconds=0.5)
        outcomes = decoder.outcomes(tagged, engine)
        next(outcomes)
        other = ray.remote(num_cpus=2)(faulty.Squatter)
        (process,) = pids(engine).values()
        squatter = other.remote()  # gets its cores when the worker's are free
        os.kill(process, signal.SIGKILL)
        with pytest.raises(ResourceError, match=r"no worker for 0\.5 s"):
            list(outcomes)
        ray.kill(squatter)


def test_a_cluster_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    out = tmp_path / "out"
    assert decode(EXAMPLES / "demo.jsonl", out, "chrf", *ON_RAY, "ray.address=127.0.0.1:1") == 5
    assert "ray.address 127.0.0.1:1: Ray cannot be reached" in capsys.readouterr().err
    assert not out.exists()


def test_settings_in_a_file(tmp_path: Path, capsys: Captured) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("engine: ray\nray: {actors: 3, cpus_per_actor: 2}\n")
    assert main(["decode", "--config", str(config), "--set", "ray.actors=4", "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert "ray.actors: 4" in shown
    config.write_text(shown)
    assert main(["decode", "--config", str(config), "--print-config"]) == 0
    assert capsys.readouterr().out == shown


def test_without_ray_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["decode", str(EXAMPLES / "demo.jsonl"), "-u", "chrf", "--engine", "ray"]) == 2
    assert 'pip install "discorank[ray]"' in capsys.readouterr().err


def test_an_interrupt_stops_ray_and_leaves_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes while the worker waits at a gate, which is open when the run goes on."""
    lists = list(made_lists(300))
    lists[250]["candidates"].append("gate 0")
    source = write_lists(tmp_path / "in.jsonl", lists)
    out, whole, gate = tmp_path / "out", tmp_path / "whole", tmp_path / "0"
    monkeypatch.setenv(faulty.GATES, str(tmp_path))
    command = [
        sys.executable,
        "-m",
        "discorank",
        "decode",
        str(source),
        "-u",
        "tests.support.faulty:gated",
        "-o",
        str(out),
    ]
    process = subprocess.Popen(
        [*command, *ON_RAY, "ray.actors=1"], stderr=subprocess.PIPE, start_new_session=True
    )
    reached = gate.with_suffix(".reached")
    wait_until(lambda: (reached.exists() and has_rows(out)) or process.poll() is not None)
    started = _descendants(process.pid)
    assert len(started) > 2  # Ray's own
    for _ in range(4):  # as somebody impatient does at a terminal, to Ray's processes too
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.15)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 130
    assert b"the same command resumes from here" in err
    assert b"1 of 1 workers alive" in err
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))
    assert 0 < len(out.read_bytes().splitlines()) < 300
    gate.touch()
    assert decode(source, out, "tests.support.faulty:gated") == 0
    assert decode(source, whole, "tests.support.faulty:gated") == 0
    assert out.read_bytes() == whole.read_bytes()


def _descendants(process: int) -> set[int]:
    """Processes that a process started, and what these started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    processes = {process}
    while more := {
        child for child, parent in parents.items() if parent in processes and child not in processes
    }:
        processes |= more
    return processes - {process}


@pytest.mark.parametrize("how", ["split", slow("whole")])
def test_what_is_not_finite_and_what_leaves_are_the_same_records(
    how: str, on_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = [["a b", "a"], ["leave", "a"], ["nan", "a"], ["nan", "nan"], ["b", "a b"]]
    rows = [{"id": str(i), "candidates": texts} for i, texts in enumerate(lists)]
    source = write_lists(tmp_path / "in.jsonl", rows)
    utility = "tests.support.faulty:unruly"
    allowed = ("--max-errors", "9")
    assert decode(source, tmp_path / "local", utility, *allowed) == 3
    if how == "split":
        cut_up(monkeypatch)
    assert decode(source, tmp_path / "ray", utility, *allowed, *ON_RAY, "ray.actors=1") == 3
    for suffix in ("", ".errors.jsonl"):
        own = Path(f"{tmp_path}/local{suffix}").read_bytes()
        assert Path(f"{tmp_path}/ray{suffix}").read_bytes() == own
    errors = [json.loads(line) for line in own.splitlines()]
    assert [(row["id"], row["where"]) for row in errors] == [("1", utility), ("3", utility)]
    assert errors[0]["reason"] == "SystemExit: 0"
