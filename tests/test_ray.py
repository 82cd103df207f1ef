"""The Ray engine: the same bytes as the local engine, whatever dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.metrics.cache import Cache
from discorank.metrics.errors import MetricError, ModelLoadError, ResourceError
from discorank.rerank import ray_engine, ray_groups
from discorank.rerank.engine import Engine, LocalEngine
from discorank.rerank.lists import read_list
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.ray_engine import RayEngine
from discorank.rerank.ray_settings import RaySettings
from discorank.rerank.reranker import Reranker
from discorank.rerank.rows import json_row

from . import faulty
from .lists import made_lists, write_lists

ray: Any = pytest.importorskip("ray")
MODELS = Path(__file__).parent / "golden" / "docmetrics" / "models"
QE = f'model="{MODELS}/tiny-comet-qe",encoder_path="{MODELS}/tiny-xlmr"'
DISCO = Path(__file__).parent / "golden" / "discoscore" / "models" / "tiny2"
CONFIGS = Path(__file__).parents[1] / "configs"
COMET = f'model="{MODELS}/tiny-comet-ref",encoder_path="{MODELS}/tiny-xlmr"'
ROLES = f'model="{MODELS.parents[1]}/pdd/tiny-roles",encoder_path="{MODELS}/tiny-bert"'
SHORT = [{**row, "source": "the ferry leaves"} for row in made_lists(2, 20, seed=5)]
ON_RAY = ("--engine", "ray", "--set")
TINY = f'model="{MODELS}/tiny-bert",layer=2'
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """One Ray session with four logical cores for all tests."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture
def on_ray(cluster: None) -> Iterator[None]:
    """The session, and the certainty that a test leaves no actor in it."""
    yield
    deadline = time.monotonic() + 10
    while ray.available_resources().get("CPU", 0) < 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert ray.available_resources()["CPU"] == 4


def decode(source: str | Path, out: Path, utility: str, *more: str) -> int:
    return main(["decode", str(source), "-u", utility, "-o", str(out), "--quiet", *more])


def test_output_is_the_same_bytes(on_ray: None, tmp_path: Path) -> None:
    source = write_lists(tmp_path / "in.jsonl", made_lists(300))
    utility = "chrf + 0.5*ter"
    assert decode(source, tmp_path / "local", utility) == 0
    for actors in (1, 2):
        out = tmp_path / f"ray{actors}"
        assert decode(source, out, utility, *ON_RAY, f"ray.actors={actors}") == 0
        assert out.read_bytes() == (tmp_path / "local").read_bytes()
        assert json.loads(Path(f"{out}.run.json").read_text())["complete"]


def test_models_give_the_same_bytes(on_ray: None, tmp_path: Path) -> None:
    pytest.importorskip("HanTa")
    work: list[tuple[MBRDecoder | Reranker, str]] = [
        (MBRDecoder(utility=f"doc-bertscore({TINY})", nbest=None), "demo.jsonl"),
        (MBRDecoder(utility=f'ds-sent(model="{DISCO}")', nbest=None), "summaries.jsonl"),
        (Reranker({f"comet-qe({QE})": 1.0, "length": 0.1}), "demo.jsonl"),
    ]

    def rows(engine: Engine) -> list[bytes]:
        engine.load([metric for decider, _ in work for metric in decider.metrics])
        return [
            json_row(ranking)
            for decider, name in work
            for ranking in decider.decode(
                map(json.loads, (CONFIGS / name).read_text(encoding="utf-8").splitlines()), engine
            )
        ]

    expected = rows(LocalEngine())
    assert len(expected) == 8
    for actors in (1, 2):
        cache = Cache(tmp_path / f"cache{actors}")
        with RayEngine(RaySettings(actors=actors), cache) as engine:
            assert rows(engine) == expected
        assert cache.base.execute("SELECT count(*) FROM entries").fetchone()[0] > 10
        cache.close()


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list is cut into many small pieces."""
    monkeypatch.setattr(ray_engine, "SPLIT_BLOCKS", 0)
    monkeypatch.setattr(ray_groups, "BLOCK_SECONDS", 0.01)
    monkeypatch.setattr(ray_groups, "LEAST_SECONDS", 0.001)


def rows_of(deciders: Sequence[tuple[MBRDecoder | Reranker, Any]], engine: Engine) -> list[bytes]:
    """What the engine gives for every decider's lists."""
    engine.load([metric for decider, _ in deciders for metric in decider.metrics])
    return [json_row(ranking) for decider, lists in deciders for ranking in decider.decode(lists, engine)]


LONG = [{**row, "source": "the ferry leaves"} for row in made_lists(3, 70, seed=3)]
CROSSED = [
    {**row, "pseudo_references": [candidate["text"] for candidate in other["candidates"]]}
    for row, other in zip(LONG, made_lists(3, 40, seed=4), strict=True)
]
STAGED: dict[str, list[tuple[Any, Any]]] = {
    "chrf": [(MBRDecoder(utility="chrf", nbest=None), LONG)],
    "bleu": [(MBRDecoder(utility="bleu", nbest=None, self_pair=False), LONG)],
    "ter": [(MBRDecoder(utility="ter", nbest=None), CROSSED)],
    "a mix": [(MBRDecoder(utility=f"chrf + 0.5*bertscore({TINY}) + 2*role-match({ROLES})", nbest=None), LONG)],
    "doc-bertscore": [(MBRDecoder(utility=f"doc-bertscore({TINY})", nbest=None), LONG)],
    "comet": [(MBRDecoder(utility=f"comet({COMET})", nbest=None, weights="logprob"), LONG)],
    "comet-qe": [(Reranker({f"comet-qe({QE})": 1.0, "logprob": 0.1}), LONG)],
    "prism": [(MBRDecoder(utility=f'prism(model="{MODELS}/tiny-mbart50",lang="en")', nbest=None), SHORT)],
    "role-match": [(MBRDecoder(utility=f"role-match({ROLES})", nbest=None, self_pair=False), LONG)],
    "a shortlist": [(MBRDecoder(utility=f"bertscore({TINY})", shortlist="chrf", top_k=20, nbest=None), LONG)],
    "a function": [(MBRDecoder(utility=faulty.overlap, nbest=None), SHORT)],
}


@pytest.mark.parametrize("actors", [1, 2, 4])
def test_split_lists_give_the_same_bytes(actors: int, on_ray: None, split: None) -> None:
    work = [pair for pairs in STAGED.values() for pair in pairs]
    expected = rows_of(work, LocalEngine())
    with RayEngine(RaySettings(actors=actors)) as engine:
        assert rows_of(work, engine) == expected
        assert not engine.groups


def test_a_local_run_goes_on_under_ray(on_ray: None, tmp_path: Path) -> None:
    lists = list(made_lists(120))
    out, whole = tmp_path / "out", tmp_path / "whole"
    assert decode(write_lists(tmp_path / "in.jsonl", lists[:50]), out, "chrf") == 0
    source = write_lists(tmp_path / "in.jsonl", lists)
    assert decode(source, out, "chrf", *ON_RAY, "ray.actors=2") == 0
    assert decode(source, whole, "chrf") == 0
    assert out.read_bytes() == whole.read_bytes()


def pids(engine: RayEngine) -> dict[Any, int]:
    """The process of every actor."""
    return {actor: ray.get(actor.handle.__ray_call__.remote(lambda worker: os.getpid())) for actor in engine.actors}


@pytest.mark.parametrize("point", [1, 25, 50])
def test_a_killed_actor_costs_nothing(point: int, on_ray: None) -> None:
    decoder = MBRDecoder(utility=faulty.overlap, nbest=None)
    tagged = [(i, read_list(row)) for i, row in enumerate(made_lists(80))]
    expected = [(tag, outcome.ranking) for tag, outcome in decoder.outcomes(tagged, LocalEngine())]  # type: ignore[union-attr]
    with RayEngine(RaySettings(actors=2)) as engine:
        engine.load(decoder.metrics)
        processes = pids(engine)
        found = {}
        for tag, outcome in decoder.outcomes(tagged, engine):
            if tag == point:
                busy = max(processes, key=lambda actor: len(actor.calls))
                assert busy.calls
                os.kill(processes[busy], signal.SIGKILL)
            found[tag] = outcome.ranking  # type: ignore[union-attr]
        assert busy not in engine.actors
        assert sum(worker.died for worker in engine.status().workers) == 1
    assert list(found.items()) == expected


@pytest.mark.parametrize(
    ("utility", "text", "retries", "more"),
    [("deadly", "kill", 1, ()), ("endless", "hang", 0, ("--set", "ray.block_seconds=1"))],
)
def test_a_list_that_takes_its_worker_down_is_an_error(
    utility: str, text: str, retries: int, more: tuple[str, ...], on_ray: None, tmp_path: Path
) -> None:
    lists = list(made_lists(30))
    lists[20]["candidates"].insert(0, text)
    source, out = write_lists(tmp_path / "in.jsonl", lists), tmp_path / "out"
    settings = ("ray.actors=2", "--set", f"ray.retries={retries}", *more, "--max-errors", "1")
    name = f"tests.faulty:{utility}"
    assert decode(source, out, name, *ON_RAY, *settings) == 3
    (error,) = [json.loads(line) for line in Path(f"{out}.errors.jsonl").read_text().splitlines()]
    assert error["id"] == lists[20]["id"]
    assert f"its worker died {retries + 1} times" in error["reason"]
    del lists[20]
    assert decode(write_lists(tmp_path / "rest.jsonl", lists), tmp_path / "rest", name) == 0
    assert out.read_bytes() == (tmp_path / "rest").read_bytes()


def test_workers_that_only_die_stop_the_run(on_ray: None) -> None:
    decoder = MBRDecoder(utility=faulty.deadly)
    engine = RayEngine(RaySettings(actors=1, restarts=1, retries=5))
    with engine, pytest.raises(ResourceError, match=r"2 workers in a row died with nothing finished.*goes on from"):
        list(decoder.decode([{"id": "a", "candidates": ["kill", "x"]}], engine))


def test_without_capacity_the_run_stops_and_can_go_on(on_ray: None, tmp_path: Path, capsys: Captured) -> None:
    source, out = write_lists(tmp_path / "in.jsonl", made_lists(20)), tmp_path / "out"
    settings = ("--set", "ray.cpus_per_actor=64", "--set", "ray.start_seconds=0.5")
    assert decode(source, out, "chrf", "--engine", "ray", "--set", "ray.actors=1", *settings) == 5
    assert "no worker for 0.5 s: wanted 1 x 64 CPUs and 0 GPUs, the cluster has {'CPU': 4.0}" in capsys.readouterr().err
    assert decode(source, out, "chrf") == 0
    assert out.exists()


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


def test_a_model_that_is_missing_where_a_worker_runs(on_ray: None) -> None:
    with RayEngine(RaySettings(actors=1)) as engine, pytest.raises(ModelLoadError, match="not on this node"):
        engine.load([faulty.Missing()])


def test_a_failing_utility_is_an_error_record(on_ray: None) -> None:
    def sour(hypothesis: str, reference: str) -> float:
        return 1.0 if hypothesis != "bad" else 1 / 0

    decoder = MBRDecoder(utility=sour)
    rows = [{"id": "a", "candidates": ["x"]}, {"id": "b", "candidates": ["bad"]}, {"id": "c", "candidates": ["y"]}]
    with RayEngine(RaySettings(actors=1)) as engine:
        engine.load(decoder.metrics)
        found = [outcome for _, outcome in decoder.outcomes([(0, read_list(row)) for row in rows], engine)]
    assert isinstance(found[1], MetricError)
    assert "ZeroDivisionError" in str(found[1])
    assert [getattr(outcome, "text", None) for outcome in found] == ["x", None, "y"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["decode", "{demo}", "-u", "chrf", "--set", "ray.actors=0"], "actors"),
        (["decode", "{demo}", "-u", "chrf", "--set", "ray.actor=2"], "Did you mean 'ray.actors'"),
        (["decode", "{demo}", "-u", "chrf", "--set", "ray.gpus_per_actor=-1"], "gpus_per_actor"),
        (["decode", "{demo}", "-u", "chrf", "--set", "ray.start_seconds=soon"], "start_seconds"),
        (["score", "-m", "chrf", "--engine", "ray"], "--engine ray: only decode and rerank know it"),
    ],
)
def test_wrong_settings(arguments: list[str], message: str, capsys: Captured) -> None:
    assert main([argument.replace("{demo}", str(CONFIGS / "demo.jsonl")) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_cluster_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Captured) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    out = tmp_path / "out"
    assert decode(CONFIGS / "demo.jsonl", out, "chrf", *ON_RAY, "ray.address=127.0.0.1:1") == 5
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


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["decode", str(CONFIGS / "demo.jsonl"), "-u", "chrf", "--engine", "ray"]) == 2
    assert "pip install 'discorank[ray]'" in capsys.readouterr().err


def test_an_interrupt_stops_ray_and_leaves_a_run_that_goes_on(tmp_path: Path) -> None:
    source, out, whole = write_lists(tmp_path / "in.jsonl", made_lists(110)), tmp_path / "out", tmp_path / "whole"
    command = [sys.executable, "-m", "discorank", "decode", str(source), "-u", "tests.faulty:overlap", "-o", str(out)]
    process = subprocess.Popen([*command, *ON_RAY, "ray.actors=1"], stderr=subprocess.PIPE)
    while not (out.exists() and out.stat().st_size) and process.poll() is None:
        time.sleep(0.02)
    started = _descendants(process.pid)
    assert len(started) > 2  # Ray's own
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"the same command goes on from here" in err
    deadline = time.monotonic() + 10
    while (left := [pid for pid in started if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    assert 0 < len(out.read_bytes().splitlines()) < 110
    assert decode(source, out, "tests.faulty:overlap") == 0
    assert decode(source, whole, "tests.faulty:overlap") == 0
    assert out.read_bytes() == whole.read_bytes()


def _descendants(process: int) -> set[int]:
    """Processes that a process started, and what these started."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = {process}
    while more := {child for child, parent in parents.items() if parent in found and child not in found}:
        found |= more
    return found - {process}
