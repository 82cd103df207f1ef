"""COMET MBR of many lists, in one process and by Ray with fractions of a card; memory that runs out in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.gpu.models import made, texts_of
from benchmarks.gpu.rates import compared, comparison_of, flops_of
from benchmarks.gpu.record import PEAKS, Place
from discorank.metrics.execution import store as stores
from discorank.metrics.text.texts import NO_CONTEXT
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.lists import CandidateList, read_list
from discorank.rerank.mbr import MBRDecoder

LISTS, CANDIDATES = 100, 64
WARM = 2  # lists before the clock starts: every worker has loaded its model
DTYPE = "bfloat16"
WORKERS = (1, 2, 4)
HUGE_BATCH = 1 << 18  # tokens
ROOM = 4 << 30  # bytes beside what is allocated when memory is made scarce
SMALL_BATCH = 1 << 12  # the same in the rehearsal
SMALL_ROOM = 1 << 17  # numbers that a layer may be given in it


def made_lists(place: Place) -> list[CandidateList]:
    """The lists, each of samples that share most words."""
    count, width = (6, 4) if place.rehearses else (LISTS, CANDIDATES)
    lists = []
    for number in range(count):
        source, *texts = texts_of(width + 1, seed=number)
        lists.append(read_list({"id": str(number), "source": source, "candidates": texts}))
    return lists


def chosen(engine: Engine, decoder: MBRDecoder, lists: list[CandidateList]) -> list[Any]:
    """The winners."""
    return [ranking.index for ranking in decoder.decode(lists, engine)]


def mbr(place: Place) -> None:
    """The lists decided here, then by workers that share the card."""
    model = made(place.root, "comet", place.size("large"), place.device)
    metric = model.loaded(place.device, DTYPE)
    decoder = MBRDecoder(utility=metric)
    lists = made_lists(place)
    flops = 0.0
    for one in lists:
        texts = [str(candidate.text) for candidate in one.candidates]
        of_list = metric.comparison(texts, texts, str(one.source), NO_CONTEXT)
        flops += flops_of(metric.scorer, of_list)[0]
    here = decided(place, "one process", LocalEngine(), decoder, lists, flops)
    if find_spec("ray") is None:
        place.write("ray", DTYPE, "not there", "", "", "does not import")
        return
    from discorank.rerank.engines.ray.engine import RayEngine
    from discorank.rerank.engines.ray.settings import RaySettings

    has_gpu = place.device == "cuda"
    for workers in WORKERS[: 2 if place.rehearses else None]:
        share = 1 / workers if has_gpu else 0.0
        settings = RaySettings(actors=workers, gpus_per_actor=share, cpus_per_actor=2)
        with RayEngine(settings) as engine:
            name = f"ray, {workers} x {share:g} GPU"
            there = decided(place, name, engine, decoder, lists, flops)
        same = sum(a == b for a, b in zip(here, there, strict=True))
        place.write(name, DTYPE, "same choices", same, "lists", f"of {len(lists)}")


def decided(
    place: Place,
    name: str,
    engine: Engine,
    decoder: MBRDecoder,
    lists: list[CandidateList],
    flops: float,
) -> list[Any]:
    """The winners of an engine, and the time that they take it."""
    start = perf_counter()
    engine.load(decoder.metrics)
    chosen(engine, decoder, lists[:WARM])
    place.write(name, DTYPE, "start", perf_counter() - start, "s")
    start = perf_counter()
    winners = chosen(engine, decoder, lists)
    seconds = perf_counter() - start
    for stage, value in engine.status().work.seconds.items():
        place.write(name, DTYPE, stage, value, "s")
    place.write(name, DTYPE, "decided", seconds, "s", f"{len(lists)} lists")
    place.write(name, DTYPE, "rate", len(lists) / seconds, "lists/s")
    place.write(name, DTYPE, "share of the peak", 100 * flops / seconds / PEAKS[DTYPE], "%")
    return winners


@contextmanager
def scarce(place: Place) -> Iterator[None]:
    """Memory runs out soon: on a GPU, for this process's allocator; in the rehearsal large
    products are refused."""
    import torch

    if place.device == "cuda":
        torch.cuda.empty_cache()
        whole = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + ROOM) / whole)
        yield
        torch.cuda.set_per_process_memory_fraction(1.0)
        return
    from torch.nn.modules.module import register_module_forward_pre_hook

    def refuse(module: Any, inputs: tuple[Any, ...]) -> None:
        if isinstance(module, torch.nn.Linear) and inputs[0].numel() > SMALL_ROOM:
            raise MemoryError("as much as this is not there")

    hook: Any = register_module_forward_pre_hook(refuse)
    yield
    hook.remove()


def memory(place: Place) -> None:
    """A batch too large for what is left after a quarter of the texts: it is halved, and values are the same."""
    texts = texts_of(256 if place.rehearses else 6144, seed=3)
    model = made(place.root, "comet", place.size("large"), place.device)
    dtype = "float32" if place.rehearses else DTYPE
    usual = model.loaded(place.device, dtype)
    expected = _vectors(usual, texts)
    batch = SMALL_BATCH if place.rehearses else HUGE_BATCH
    metric = model.loaded(place.device, dtype, batch)
    compared(metric, comparison_of(metric, texts[:8]))
    halvings = 0
    release = stores._release

    def counted() -> None:
        nonlocal halvings
        halvings += 1
        release()

    stores._release = counted
    quarter = len(texts) // 4
    first = _vectors(metric, texts[:quarter])
    with scarce(place):
        others = _vectors(metric, texts[quarter:])
    stores._release = release
    place.write("comet", dtype, "halvings", halvings, "", f"{batch} tokens a batch")
    apart = np.abs(np.concatenate((first, others)) - expected).max() / expected.std()
    place.write("comet", dtype, "apart from usual batches", float(apart), "sd")


def _vectors(metric: Any, texts: list[str]) -> Any:
    """The vectors of texts, [n, d]."""
    store = stores.Store(metric.scorer)
    comparison = metric.comparison(texts, texts[:1], texts[0], NO_CONTEXT)
    (block,) = store.add([comparison])
    return store.reps["embedding"][block.hypotheses]
