"""Runs under Ray whose actors, nodes and drivers are killed: no list is lost, and no byte differs.

Everything happens from outside: commands in processes of their own on a simulated cluster, and signals.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.ray.engine import RayEngine
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.runs.run import json_row

from ...support import faulty
from ...support.lists import made_lists, write_lists
from ...support.ray_nodes import Nodes, actors, descendants
from ...support.waiting import PATIENCE_SECONDS, wait_until

ray: Any = pytest.importorskip("ray")
ROOT = Path(__file__).parents[3]
MODELS = ROOT / "tests" / "golden" / "docmetrics" / "models"
DISCO = ROOT / "tests" / "golden" / "discoscore" / "models" / "tiny2"
LISTS = 500  # of a run that is disturbed
BIG = 3  # cores of an actor that has room on the nodes of its own test alone
# how much longer than on a machine without other work things may take here
SLOWER = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
# of a run that will find no node; its start must be shorter
WAIT_SECONDS = round(15 * SLOWER)
# of an actor that hangs; what the other one does must be shorter
BLOCK_SECONDS = round(5 * SLOWER)


Begin = Callable[[list[str]], "subprocess.Popen[str]"]
More = Callable[[], Any]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """A cluster for all tests of this file; they bring their own nodes."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(faulty.GATES, str(tmp_path_factory.mktemp("gates")))
        started = Nodes()
        yield started
        started.close()


@pytest.fixture(scope="module")
def two(nodes: Nodes) -> None:
    """Two nodes with two cores each, for the tests that kill no node."""
    nodes.add(2)
    nodes.add(2)


@pytest.fixture
def big(nodes: Nodes) -> Iterator[More]:
    """Adds nodes with room for one actor of BIG cores, which are gone after the test."""
    there: list[Any] = []

    def add() -> Any:
        there.append(nodes.add(BIG))
        return there[-1]

    yield add
    for node in there:
        if node in nodes.cluster.worker_nodes:
            nodes.kill(node)


@pytest.fixture(autouse=True)
def nothing_is_left(nodes: Nodes) -> Iterator[None]:
    """No actor outlives a test."""
    yield
    wait_until(lambda: not actors(), "an actor was left behind")


@pytest.fixture
def begun() -> Iterator[Begin]:
    """Starts commands; those that a failing test left at work are killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(words: list[str]) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(words, cwd=ROOT, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def command(source: Path, out: Path, utility: str, *more: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "discorank",
        "decode",
        str(source),
        "-u",
        utility,
        "-o",
        str(out),
        *more,
    ]


def entries(out: Path) -> int:
    """How many lists a run has written, as its run file says."""
    with suppress(OSError, ValueError):
        return int(json.loads(Path(f"{out}.run.json").read_text())["input"]["entries"])
    return 0


def ends(process: subprocess.Popen[str], code: int) -> str:
    """What a run said, when it has ended with this exit code."""
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == code, err
    return err


class Gated:
    """Lists that stop their worker at three random places until they are told to go on; and what they come to."""

    utility = "tests.support.faulty:gated"

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.environ[faulty.GATES])
        rows, r = list(made_lists(LISTS)), random.Random(20)
        for gate in range(3):
            rows[r.randrange(LISTS * (gate + 2) // 5, LISTS * (gate + 3) // 5)][
                "candidates"
            ].append(f"gate {gate}")
        self.source, self.whole = write_lists(folder / "in.jsonl", rows), folder / "whole"
        self.open(0, 1, 2)
        assert (
            main(["decode", str(self.source), "-u", self.utility, "-o", str(self.whole), "--quiet"])
            == 0
        )
        self.bytes = self.whole.read_bytes()

    def shut(self) -> None:
        """Shuts all gates."""
        for path in self.folder.iterdir():
            path.unlink()

    def open(self, *gates: int) -> None:
        """Lets all workers through."""
        for gate in gates:
            (self.folder / str(gate)).touch()

    def reached(self, gate: int, process: subprocess.Popen[str]) -> int:
        """The process id of the worker that waits at a gate, when one does."""
        sign = self.folder / f"{gate}.reached"
        wait_until(
            lambda: sign.exists() or process.poll() is not None, f"gate {gate} was not reached"
        )
        assert process.poll() is None, "the run was over before it could be disturbed"
        return int(sign.read_text())

    def has_some(self, out: Path) -> None:
        """Checks that an output is whole lists from the start, not all of them."""
        done = out.read_bytes()
        assert done == self.bytes[: len(done)]
        assert 0 < len(done) < len(self.bytes)


@pytest.fixture(scope="module")
def made(nodes: Nodes, tmp_path_factory: pytest.TempPathFactory) -> Gated:
    return Gated(tmp_path_factory.mktemp("gated"))


@pytest.fixture
def gated(made: Gated) -> Gated:
    """The lists, with all gates shut."""
    made.shut()
    return made


def documents(n: int) -> Iterator[dict[str, Any]]:
    """Lists of made-up summaries: sentences of real ones in other orders."""
    rows = map(
        json.loads, (ROOT / "examples" / "summaries.jsonl").read_text(encoding="utf-8").splitlines()
    )
    sentences = [
        s.strip() + "."
        for row in rows
        for text in row["candidates"]
        for s in text.split(".")
        if s.strip()
    ]
    r = random.Random(3)
    for i in range(n):
        yield {
            "id": f"s{i}",
            "candidates": [" ".join(r.sample(sentences, r.randint(2, 5))) for _ in range(5)],
        }


@pytest.mark.slow  # it needs a process in which Ray has not run before, as when it is selected alone
@pytest.mark.parametrize(("gpus_per_actor", "on_each"), [(0.5, 2), (None, 1)])
def test_workers_share_the_gpus_that_nodes_declare(
    gpus_per_actor: float | None, on_each: int, nodes: Nodes, tmp_path: Path
) -> None:
    lists = list(made_lists(20))
    decoder = MBRDecoder(utility=faulty.Placed(folder=str(tmp_path)))
    expected = [json_row(row) for row in decoder.decode(lists)]
    added = [nodes.add(BIG, gpus=1) for _ in range(2)]
    settings = RaySettings(
        address=nodes.cluster.address, gpus_per_actor=gpus_per_actor, compare_actors=1
    )
    try:
        with RayEngine(settings) as engine:
            engine.load(decoder.metrics)
            wait_until(
                lambda: len(written(tmp_path)) == 2 * on_each + 1, "a worker did not load", 60
            )
            assert [json_row(row) for row in decoder.decode(lists, engine)] == expected
    finally:
        ray.shutdown()
        for node in added:
            nodes.kill(node)
    places = Counter(words[0] for words in written(tmp_path) if len(words) == 2)
    # only the worker that compares is shown no GPU
    assert sorted(places.values()) == [on_each, on_each]


def written(folder: Path) -> list[list[str]]:
    """The node and the GPUs, if any, of every worker."""
    return [path.read_text().split() for path in folder.iterdir()]


@pytest.mark.slow
def test_every_engine_writes_the_same_bytes(nodes: Nodes, two: None) -> None:
    pytest.importorskip("HanTa")
    work = [
        (MBRDecoder(utility="chrf + 0.5*ter", nbest=None), list(made_lists(300))),
        (
            MBRDecoder(utility=f'doc-bertscore(model="{MODELS}/tiny-bert",layer=2)', nbest=None),
            list(made_lists(70)),
        ),
        (MBRDecoder(utility=f'ds-sent(model="{DISCO}")', nbest=None), list(documents(40))),
    ]

    def rows(engine: Engine) -> list[bytes]:
        engine.load([metric for decoder, _ in work for metric in decoder.metrics])
        return [
            json_row(ranking)
            for decoder, lists in work
            for ranking in decoder.decode(lists, engine)
        ]

    expected = rows(LocalEngine())
    assert len(expected) == 410
    try:
        with RayEngine(RaySettings(address=nodes.cluster.address, actors=4)) as engine:
            assert rows(engine) == expected
            used = {
                node["NodeID"]: node["Resources"].get("CPU", 0)
                for node in ray.nodes()
                if node["Alive"]
            }
            assert sorted(used.values()) == [0, 2, 2]  # so four actors were on both
            assert len(engine.status().workers) == 4
            assert engine.status().work.pairs > 0
    finally:
        ray.shutdown()


def test_actors_killed_at_random_points_cost_nothing(
    nodes: Nodes, two: None, gated: Gated, tmp_path: Path, begun: Begin
) -> None:
    out = tmp_path / "out"
    # an actor fills a node
    on_both = nodes.options(actors=2, cpus_per_actor=2)
    process = begun(command(gated.source, out, gated.utility, *on_both))
    for gate in range(3):
        actor = gated.reached(gate, process)
        assert actor in actors()
        os.kill(actor, signal.SIGKILL)
        gated.open(gate)
    err = ends(process, 0)
    assert f"{LISTS} lists decided" in err
    assert " 3 died" in err
    assert out.read_bytes() == gated.bytes
    assert not Path(f"{out}.errors.jsonl").exists()


def test_a_node_that_dies_is_replaced(
    nodes: Nodes, big: More, gated: Gated, tmp_path: Path, begun: Begin
) -> None:
    first, _ = big(), big()
    out = tmp_path / "out"
    gated.open(1, 2)
    process = begun(
        command(gated.source, out, gated.utility, *nodes.options(actors=2, cpus_per_actor=BIG))
    )
    gated.reached(0, process)
    nodes.kill(first)
    big()
    gated.open(0)
    err = ends(process, 0)
    assert f"{LISTS} lists decided" in err
    assert " 1 died" in err
    assert out.read_bytes() == gated.bytes


@pytest.mark.slow
def test_without_nodes_a_run_ends_and_goes_on_elsewhere(
    nodes: Nodes, big: More, gated: Gated, tmp_path: Path, begun: Begin
) -> None:
    node, out = big(), tmp_path / "out"
    gated.open(0, 1)
    settings = {"actors": 1, "cpus_per_actor": BIG, "start_seconds": WAIT_SECONDS}
    process = begun(command(gated.source, out, gated.utility, *nodes.options(**settings)))
    gated.reached(2, process)
    nodes.kill(node)
    err = ends(process, 5)
    assert (
        f"no worker for {WAIT_SECONDS} s: wanted 1 x {BIG} CPUs and 0 GPUs, the cluster has {{"
        in err
    )
    assert "The same command resumes from here, with any engine" in err
    gated.has_some(out)
    gated.open(2)
    ends(begun(command(gated.source, out, gated.utility)), 0)
    assert out.read_bytes() == gated.bytes


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -9), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)],
)
def test_a_driver_that_dies_leaves_no_actor(
    number: signal.Signals,
    code: int,
    nodes: Nodes,
    two: None,
    gated: Gated,
    tmp_path: Path,
    begun: Begin,
) -> None:
    out = tmp_path / "out"
    gated.open(0, 1)
    words = command(gated.source, out, gated.utility, *nodes.options(actors=2))
    process = begun(words)
    gated.reached(2, process)
    wait_until(lambda: len(actors()) == 2)
    wait_until(lambda: entries(out) > 0)
    process.send_signal(number)
    ends(process, code)
    wait_until(lambda: not actors(), "an actor was left behind")
    gated.has_some(out)
    gated.open(2)
    ends(begun(command(gated.source, out, gated.utility)), 0)
    assert out.read_bytes() == gated.bytes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raylet", "ray::RuntimeEnvAgent"])
def test_ray_of_its_own_that_dies_is_told(
    name: str, gated: Gated, tmp_path: Path, begun: Begin
) -> None:
    out = tmp_path / "out"
    gated.open(0, 1)
    words = command(gated.source, out, gated.utility, "--engine", "ray", "--set", "ray.actors=1")
    process = begun(words)
    gated.reached(2, process)
    wait_until(lambda: entries(out) > 0)
    for number in descendants(process.pid, name):
        os.kill(number, signal.SIGKILL)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode in (1, 5), err
    assert "raylet" in err
    assert "The same command resumes from here, with any engine" in err
    gated.has_some(out)
    gated.open(2)
    ends(begun(command(gated.source, out, gated.utility)), 0)
    assert out.read_bytes() == gated.bytes


def test_an_end_from_outside_has_a_last_word() -> None:
    """And one that was expected has none."""
    program = (
        "import os; from discorank.rerank.engines.ray.cluster import LastWords\n"
        "expected = LastWords(); expected.prepare(); expected.drop()\n"
        "words = LastWords(); words.prepare(); os._exit(1)"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert ended.stderr.count(b"The same command resumes") == 1, ended.stderr
    assert ended.returncode == 1


@pytest.mark.slow
def test_a_late_answer_of_an_actor_given_up_changes_nothing(
    nodes: Nodes, two: None, gated: Gated, tmp_path: Path, begun: Begin
) -> None:
    out = tmp_path / "out"
    gated.open(1, 2)
    process = begun(
        command(
            gated.source, out, gated.utility, *nodes.options(actors=2, block_seconds=BLOCK_SECONDS)
        )
    )
    stopped = gated.reached(0, process)
    before = set(actors())
    os.kill(stopped, signal.SIGSTOP)
    gated.open(0)
    wait_until(lambda: set(actors()) != before, "the actor that hung was not given up")
    with suppress(ProcessLookupError):
        os.kill(stopped, signal.SIGCONT)
    assert "1 died" in ends(process, 0)
    assert out.read_bytes() == gated.bytes
    assert not Path(f"{out}.errors.jsonl").exists()


@pytest.mark.slow
def test_lists_that_kill_their_worker_are_found(
    nodes: Nodes, two: None, tmp_path: Path, begun: Begin
) -> None:
    lists = list(made_lists(60))
    poison = [10, 11, 45]
    for i in poison:
        lists[i]["candidates"].append("kill")
    source, out, rest = (
        write_lists(tmp_path / "in.jsonl", lists),
        tmp_path / "out",
        tmp_path / "rest",
    )
    utility = "tests.support.faulty:deadly"
    ends(
        begun(
            command(source, out, utility, "--max-errors", "3", *nodes.options(actors=2, retries=0))
        ),
        3,
    )
    rows = [json.loads(line) for line in Path(f"{out}.errors.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == [lists[i]["id"] for i in poison]
    assert all("its worker died 1 times" in row["reason"] for row in rows)
    good = [row for i, row in enumerate(lists) if i not in poison]
    assert (
        main(command(write_lists(tmp_path / "good.jsonl", good), rest, utility, "--quiet")[3:]) == 0
    )
    assert out.read_bytes() == rest.read_bytes()


@pytest.mark.slow
def test_where_memory_runs_out_batches_are_halved_there_alone(
    nodes: Nodes, two: None, tmp_path: Path
) -> None:
    lists = list(made_lists(300))
    (tmp_path / "claimed").touch()  # nobody is short of memory
    expected = [
        json_row(row)
        for row in MBRDecoder(utility=faulty.SmallMemory(folder=str(tmp_path))).decode(lists)
    ]
    shared = tmp_path / "shared"
    shared.mkdir()
    metric = faulty.SmallMemory(folder=str(shared))
    try:
        with RayEngine(RaySettings(address=nodes.cluster.address, actors=2)) as engine:
            rows = [json_row(row) for row in MBRDecoder(utility=metric).decode(lists, engine)]
    finally:
        ray.shutdown()
    assert rows == expected
    (small,), (large,) = (
        [sizes(path) for path in shared.glob(f"{kind}-*")] for kind in ("small", "large")
    )
    assert max(small) <= metric.most < -min(small)
    assert min(large) > 0
    assert max(large) > metric.most


def sizes(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()]
