"""What a run under Ray costs beside the model, and what the model costs by the operation, measured on this machine."""

from __future__ import annotations

import json
import os
from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.support.idle import Idle
from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import timed
from benchmarks.support.peers.models import BASE, HEAD, make_comet, make_encoder
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

MESSAGES = 2000


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
