"""A run of a million segments with 256 candidates on 64 GPUs, calculated from costs measured here and from assumptions.

    python -m benchmarks.scale.scale_study [--segments 1000000] [--candidates 256] [--gpus 64] [--quick]

COMET MBR with an encoder of the shape of XLM-R large. Measured on this machine: what the driver takes per list and per
message, what an actor takes on its CPU per text, how many operations per token and pair the formulas leave unexplained,
bytes. Assumed, as there is no such GPU here: the operations per second of a GPU (the first lines of this file). The
driver's side is then simulated with the engine's own policy (`simulated`), which is first held against runs with actors
that only sleep, so that eight of them fit on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import deque
from heapq import heappop, heappush
from math import ceil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.idle import Idle
from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import timed
from benchmarks.support.peers.models import BASE, HEAD, LARGE, make_comet, make_encoder
from discorank.integrations.formats.open_lists import open_lists
from discorank.metrics.execution.store import Store
from discorank.metrics.neural.comet.metric import Comet
from discorank.metrics.representations import Block, Reps
from discorank.metrics.text.texts import Comparison, Item
from discorank.rerank.engines.ray.engine import RayEngine
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.engines.status import Status
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.runs.run import RunSettings, run_lists
from discorank.rerank.scheduler import WINDOW_CHARACTERS, WINDOW_RECORDS

# assumed: operations per second of an H100 or H200, by its data sheet
PEAK = {
    "bfloat16": 989e12,
    "float32": 67e12,
}
SHARE = {"bfloat16": 0.4, "float32": 0.6}  # assumed: what of it the encoder and the head reach
NODES = 8  # assumed: GPUs per node
NETWORK = 12.5e9  # assumed: bytes per second of a node (100 Gbit/s)
GPU_HOURS_TO_FAILURE = 5000.0  # assumed: of an actor, with all that it runs on
RELOAD_SECONDS = 90.0  # assumed: a new actor, until its model is on the GPU
DEPTH, BLOCK_SECONDS = 2, 1.0  # the engine's: blocks of an actor, and how long one should take
MESSAGES = 2000


class Simulated(NamedTuple):
    """What came of a simulated run."""

    seconds: float
    busy: float  # share of the actors' time
    driver: float  # share of the driver's time
    messages: float  # blocks per second


def simulated(
    lists: int,
    actors: int,
    service: float,
    costs: Costs,
    window: int,
    spread: float = 0.3,
    seed: int = 0,
) -> Simulated:
    """A run with one driver: it fills the window, sends blocks, waits for one, takes what is ready, writes in order.

    Args:
        lists: how many there are.
        actors: that share them.
        service: seconds of an actor per list, on average.
        costs: the driver's.
        window: lists that may be open, finished ones behind an unfinished one included.
        spread: of the logarithm of a block's seconds.
        seed: of these.
    """
    r = np.random.default_rng(seed)
    clock, driver, work = 0.0, 0.0, 0.0
    read = sent = written = messages = 0
    ready: list[tuple[float, int, int]] = []  # (when, actor, block)
    blocks: deque[int] = deque()  # lists of every block not written yet, in the order of the input
    finished: set[int] = set()
    # number of the first of `blocks`; blocks of every actor
    first, has, free = (
        0,
        [0] * actors,
        [0.0] * actors,
    )
    while written < lists:
        more = min(window - (read - written), lists - read)
        read += more
        spent = more * costs.read
        for depth in range(DEPTH):
            for actor in range(actors):
                if has[actor] != depth or sent == read:
                    continue
                size = min(
                    ceil((read - sent) / (actors * DEPTH)),
                    max(1, int(BLOCK_SECONDS / max(service, 1e-9))),
                )
                took = size * service * float(r.lognormal(-spread * spread / 2, spread))
                spent += costs.message
                free[actor] = max(free[actor], clock + spent) + took
                heappush(ready, (free[actor], actor, first + len(blocks)))
                blocks.append(size)
                has[actor], sent, messages, work = depth + 1, sent + size, messages + 1, work + took
        driver, clock = driver + spent, max(clock + spent, ready[0][0])
        spent = 0.0
        while ready and ready[0][0] <= clock:
            _, actor, block = heappop(ready)
            finished.add(block)
            has[actor] -= 1
        while blocks and first in finished:
            size = blocks.popleft()
            finished.remove(first)
            first, written = first + 1, written + size
            spent += size * costs.send
        driver, clock = driver + spent, clock + spent
    return Simulated(clock, work / clock / actors, driver / clock, messages / clock)


def check(folder: Path, costs: Costs, candidates: int, count: int) -> None:
    """Runs with sleeping actors beside their simulation."""
    source = write_lists(folder / "check.jsonl", count, candidates)
    window = window_of(costs, candidates)
    print(
        f"\nsimulated against run: {count} lists of N={candidates}, actors that sleep 40 ms per list, ",
        end="",
    )
    print(f"load {os.getloadavg()[0]:.1f}")
    print("  actors   run s   simulated s   actors busy   simulated")
    for actors in (1, 2, 4, 8):
        status, _ = ray_run(source, actors, 0.04)
        simulation = simulated(count, actors, 0.04, costs, window, spread=0.0)
        busy = status.together.busy
        print(
            f"  {actors:6} {status.seconds:7.1f} {simulation.seconds:13.1f} {busy:13.0%} {simulation.busy:11.0%}",
            flush=True,
        )


def window_of(costs: Costs, candidates: int) -> int:
    """Lists that may be open at once."""
    return min(
        WINDOW_RECORDS,
        max(1, int(WINDOW_CHARACTERS / max(1.0, costs.input_bytes - 5 * candidates))),
    )


class Plan(NamedTuple):
    """What is to be done, and how fast a GPU is."""

    segments: int
    candidates: int
    gpus: int
    dtype: str
    distinct: float = 1.0  # share of the candidates that repeat no other of their list
    speed: float = 1.0  # of a GPU, times what is assumed
    drivers: int = 1


def service_seconds(plan: Plan, costs: Costs) -> dict[str, float]:
    """Seconds of an actor per list, by stage; the head of COMET is always float32."""
    texts = plan.candidates * plan.distinct + 1
    rate, head = (plan.speed * PEAK[kind] * SHARE[kind] for kind in (plan.dtype, "float32"))
    return {
        "prepare": texts * costs.prepare,
        "encode": texts * costs.tokens * token_operations(LARGE, costs.tokens) / rate,
        "compare": (plan.candidates * plan.distinct) ** 2
        * pair_operations(LARGE["hidden_size"])
        / head,
    }


def report(plan: Plan, costs: Costs) -> None:
    """What every part would take alone."""
    service = service_seconds(plan, costs)
    per_gpu = plan.segments / plan.gpus
    moved = costs.input_bytes + 10 * plan.candidates  # texts out, values back
    vectors = 4 * LARGE["hidden_size"] * (plan.candidates * plan.distinct + 1)
    driver = costs.read + costs.send
    nodes = plan.gpus / NODES
    parts = {
        f"prepare, {plan.gpus} actors' CPUs": per_gpu * service["prepare"],
        f"encode, {plan.gpus} GPUs, {plan.dtype}": per_gpu * service["encode"],
        f"compare, {plan.gpus} GPUs": per_gpu * service["compare"],
        "one driver's CPU": plan.segments * driver,
        "driver's network: texts out, values back": plan.segments * moved / NETWORK,
        "vectors through every node's network, if compared elsewhere": plan.segments
        * vectors
        / nodes
        / NETWORK,
    }
    for name, seconds in parts.items():
        print(f"  {name:62} {seconds:9.0f} s")
    into, out = (plan.segments * size / 1e9 for size in (costs.input_bytes, costs.output_bytes))
    saved = plan.segments * plan.candidates**2 * 8 * 4 / 3 / 1e9  # float64 in base64
    print(
        f"  input {into:.0f} GB, output {out:.2f} GB; saved utilities would be {saved:.0f} GB, ",
        end="",
    )
    print(f"a cache of vectors {plan.segments * vectors / 1e12:.2f} TB")


def runs(plan: Plan, costs: Costs) -> Simulated:
    """The run, simulated; with several drivers every one has its share of the lists and of the GPUs."""
    service, window = sum(service_seconds(plan, costs).values()), window_of(costs, plan.candidates)
    share = min(plan.segments // plan.drivers, 40_000)  # then it is steady
    simulation = simulated(share, plan.gpus // plan.drivers, service, costs, window)
    return simulation._replace(seconds=simulation.seconds * plan.segments / plan.drivers / share)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--segments", type=int, default=1_000_000)
    parser.add_argument("--candidates", type=int, default=256)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--quick", action="store_true", help="measure on fewer lists")
    options = parser.parse_args()
    count = 300 if options.quick else 2000
    with tempfile.TemporaryDirectory() as name:
        costs = measured(Path(name), options.candidates, count)
        print(f"measured here, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(
            f"  an actor prepares a text in {1e6 * costs.prepare:.0f} us; {costs.tokens:.0f} tokens with padding"
        )
        print(
            f"  encoding {1e-9 / costs.encode:.0f} and comparing {1e-9 / costs.compare:.0f} Giga-ops/s, one thread"
        )
        print(
            f"  driver, per list of N={options.candidates}: read {1e3 * costs.read:.2f} ms, ",
            end="",
        )
        print(f"send, take and write {1e3 * costs.send:.2f} ms; per message ", end="")
        print(f"{1e3 * costs.message:.2f} ms; window {window_of(costs, options.candidates)} lists")
        print(
            f"  bytes per list: {costs.input_bytes:.0f} in, {costs.output_bytes:.0f} out",
            flush=True,
        )
        check(Path(name), costs, options.candidates, count // 2)
    base = Plan(options.segments, options.candidates, options.gpus, "float32")
    for dtype in PEAK:
        print(
            f"\n{base.segments} x {base.candidates} on {base.gpus} GPUs, {dtype}: each part alone"
        )
        report(base._replace(dtype=dtype), costs)
    print(
        "\nthe run, simulated: hours, actors busy, driver busy, messages/s; expected failures and what they cost"
    )
    print(
        f"  {'':44} {'hours':>7} {'actors':>7} {'driver':>7} {'msg/s':>7} {'deaths':>7} {'GPU s':>7}"
    )
    for name, plan in plans(base).items():
        simulation = runs(plan, costs)
        hours = simulation.seconds / 3600
        deaths = plan.gpus * simulation.seconds / 3600 / GPU_HOURS_TO_FAILURE
        lost = deaths * (RELOAD_SECONDS + BLOCK_SECONDS)
        busy = f"{simulation.busy:7.0%} {simulation.driver:7.0%}"
        cells = f"{hours:7.2f} {busy} {simulation.messages:7.0f} {deaths:7.2f} {lost:7.0f}"
        print(f"  {name:44} {cells}", flush=True)


def plans(base: Plan) -> dict[str, Plan]:
    """The run as it is, and with one thing changed."""
    variants: dict[str, Plan] = {}
    for dtype in PEAK:
        for drivers in (1, 2, 4, 8, 16):
            variants[f"{dtype}, {drivers} drivers over parts of the file"] = base._replace(
                dtype=dtype, drivers=drivers
            )
    variants["float32, GPUs half as fast"] = base._replace(speed=0.5)
    variants["float32, GPUs twice as fast"] = base._replace(speed=2.0)
    variants["float32, 40 % of candidates repeat another"] = base._replace(distinct=0.6)
    variants["float32, a quarter of the GPUs"] = base._replace(gpus=base.gpus // 4)
    return variants


class Costs(NamedTuple):
    """CPU seconds, which other work on the machine does not change much, and bytes."""

    prepare: float  # an actor, per text
    encode: float  # per operation that the formula counts
    compare: float  # per operation that the formula counts
    read: float  # the driver, per list
    send: float  # the driver, per list: scheduling, sending, taking results, deciding, writing
    message: float  # the driver, per block
    tokens: float  # per text, the bucket's padding included
    input_bytes: float  # per list
    output_bytes: float  # per list


def token_operations(shape: dict[str, int], tokens: float) -> float:
    """Of one token of a text of so many in the encoder: two per weight, and four per unit of width and other token."""
    width, inner, layers = (
        shape[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers")
    )
    return layers * (2.0 * (4 * width * width + 2 * width * inner) + 4.0 * width * tokens)


def pair_operations(width: int) -> float:
    """Of one ordered pair in COMET's head: half of the first layer's product of two features, and the other layers."""
    first, second = HEAD
    return 2.0 * width * first + 2.0 * first * second


def model_costs(folder: Path) -> tuple[float, float, float, float]:
    """Seconds per text to prepare, per counted operation to encode and to compare, and tokens per text."""
    texts = synthetic(97, seed=0)
    make_comet(folder / "comet", folder / "encoder", make_encoder(folder / "encoder", texts, BASE))
    metric = Comet(model=str(folder / "comet"), encoder_path=str(folder / "encoder"))
    scorer, items = metric.scorer, tuple(Item(text) for text in texts)
    preparing, (_, lengths) = timed(lambda: scorer.prepare(items), 3)
    tokens = float((16 * np.ceil(lengths / 16)).mean())

    def encoded() -> Reps:
        store = Store(scorer)
        store.add([Comparison(items)])
        return store.reps

    encoding, reps = timed(encoded, 3)
    rows = np.arange(1, len(texts))
    comparing, _ = timed(lambda: scorer.compare(reps, [Block(rows, rows, 0)]), 3)
    return (
        preparing / len(texts),
        (encoding - preparing) / (len(texts) * tokens * token_operations(BASE, tokens)),
        comparing / (len(rows) ** 2 * pair_operations(BASE["hidden_size"])),
        tokens,
    )


def write_lists(path: Path, count: int, candidates: int) -> Path:
    """Lists with a source; a hundred different ones, again and again."""
    bases = [synthetic(candidates + 1, i) for i in range(min(count, 100))]
    with open(path, "w") as file:
        for i in range(count):
            source, *texts = bases[i % len(bases)]
            file.write(json.dumps({"id": str(i), "source": source, "candidates": texts}) + "\n")
    return path


def ray_run(source: Path, actors: int, seconds: float) -> tuple[Status, float]:
    """A run with actors that sleep so long per list: what the engine did, and the CPU seconds of the driver."""
    out = source.with_suffix(".out")
    for path in source.parent.glob(f"{out.name}*"):
        path.unlink()
    decoder = MBRDecoder(Idle(seconds=seconds))
    with (
        RayEngine(RaySettings(actors=actors, cpus_per_actor=0.1)) as engine,
        open_lists(source, "jsonl") as lists,
    ):
        engine.load(decoder.metrics)
        spent, _ = timed(lambda: run_lists(decoder, lists, "lists", out, engine, RunSettings()))
        return engine.status(), spent


def read_all(source: Path) -> None:
    """Reads all lists."""
    with open_lists(source, "jsonl") as lists:
        deque(lists, 0)


def message_seconds() -> float:
    """Of the driver, per call of an actor that does nothing."""
    import ray

    class Nothing:
        def value(self, block: list[str]) -> list[str]:
            return block

    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
    )
    try:
        actor = ray.remote(Nothing).remote()
        ray.get(actor.value.remote([]))
        seconds, _ = timed(lambda: ray.get([actor.value.remote([str(i)]) for i in range(MESSAGES)]))
        return seconds / MESSAGES
    finally:
        ray.shutdown()


def measured(folder: Path, candidates: int, count: int) -> Costs:
    """All costs."""
    prepare, encode, compare, tokens = model_costs(folder)
    source = write_lists(folder / "lists.jsonl", count, candidates)
    reading, _ = timed(lambda: read_all(source))
    _, driver = ray_run(source, 1, 0.0)
    sizes = [os.path.getsize(path) / count for path in (source, source.with_suffix(".out"))]
    read = reading / count
    return Costs(
        prepare, encode, compare, read, driver / count - read, message_seconds(), tokens, *sizes
    )


if __name__ == "__main__":
    main()
