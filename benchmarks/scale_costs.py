"""What a run under Ray costs beside the model, and what the model costs by the operation, measured on this machine."""

from __future__ import annotations

import json
import os
from math import ceil
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from benchmarks.idle import Idle
from benchmarks.lists import synthetic
from benchmarks.peers.models import BASE, HEAD, make_comet, make_encoder
from discorank.integrations.formats import open_lists
from discorank.metrics.meter import Meter, Metered
from discorank.metrics.neural.comet import Comet
from discorank.rerank.engine import LocalEngine
from discorank.rerank.mbr import MBRDecoder
from discorank.rerank.meter import Status
from discorank.rerank.ray_engine import RayEngine
from discorank.rerank.ray_settings import RaySettings
from discorank.rerank.runs import RunSettings, run_lists


class Costs(NamedTuple):
    """Seconds and bytes, all measured here."""

    prepare: float  # an actor's CPU, per text
    encode: float  # per operation that the formula counts
    compare: float  # per operation that the formula counts
    read: float  # the driver, per list
    send: float  # the driver, per list: scheduling, taking results, deciding
    write: float  # the driver, per list
    message: float  # the driver, per block
    tokens: float  # per text, the bucket's padding included
    input_bytes: float  # per list
    output_bytes: float  # per list


def token_operations(shape: dict[str, int], tokens: float) -> float:
    """Of one token of a text of so many in the encoder: two per weight, and four per unit of width and other token."""
    width, inner, layers = (shape[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers"))
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
    engine = LocalEngine()
    found = Metered()
    for _ in range(2):  # the first is to warm up
        list(MBRDecoder(metric).decode([{"id": "a", "source": texts[0], "candidates": texts[1:]}], engine))
        found, engine.stores = engine.status().work, {}
    tokens = 16.0 * ceil(found.tokens / found.texts / 16)
    encoding = found.seconds["represent"] / (found.texts * tokens * token_operations(BASE, tokens))
    comparing = found.seconds["compare"] / (found.pairs * pair_operations(BASE["hidden_size"]))
    return found.seconds["prepare"] / found.texts, encoding, comparing, tokens


def write_lists(path: Path, count: int, candidates: int) -> Path:
    """Lists with a source; a hundred different ones, again and again."""
    bases = [synthetic(candidates + 1, i) for i in range(min(count, 100))]
    with open(path, "w") as file:
        for i in range(count):
            source, *texts = bases[i % len(bases)]
            file.write(json.dumps({"id": str(i), "source": source, "candidates": texts}) + "\n")
    return path


def ray_run(source: Path, actors: int, seconds: float) -> tuple[Status, Metered]:
    """A run with actors that sleep so long per list: what the engine did, and the driver's reading and writing."""
    out = source.with_suffix(".out")
    for path in source.parent.glob(f"{out.name}*"):
        path.unlink()
    meter, decoder = Meter(), MBRDecoder(Idle(seconds=seconds))
    with RayEngine(RaySettings(actors=actors, cpus_per_actor=0.1)) as engine, open_lists(source, "jsonl") as lists:
        run_lists(decoder, lists, "lists", out, engine, RunSettings(), meter=meter)
        return engine.status(), meter.now


def message_seconds() -> float:
    """Of the driver, per call of an actor that does nothing."""
    import ray

    class Nothing:
        def value(self, block: list[str]) -> list[str]:
            return block

    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    try:
        actor = ray.remote(Nothing).remote()
        ray.get(actor.value.remote([]))
        start = perf_counter()
        ray.get([actor.value.remote([str(i)]) for i in range(2000)])
        return (perf_counter() - start) / 2000
    finally:
        ray.shutdown()


def measured(folder: Path, candidates: int, count: int) -> Costs:
    """All costs."""
    prepare, encode, compare, tokens = model_costs(folder)
    source = write_lists(folder / "lists.jsonl", count, candidates)
    status, own = ray_run(source, 1, 0.0)
    read, write = (own.seconds[stage] / count for stage in ("read", "write"))
    send = max(0.0, status.seconds - status.waited_seconds) / count - read - write
    sizes = [os.path.getsize(path) / count for path in (source, source.with_suffix(".out"))]
    return Costs(prepare, encode, compare, read, send, write, message_seconds(), tokens, *sizes)
