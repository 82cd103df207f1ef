"""One list that is split over actors: the same decision by the local engine and by actors of one thread each.

    python -m benchmarks.scale.ray_tiles -u bertscore [-u 'comet(model="...")'] [-n 2000] [--words 12] [--actors 2]

Wall seconds of the decision alone, models loaded, and CPU seconds: of this process for the local engine, of the actor
that had most to do for Ray. Where other work shares the machine, the CPU seconds tell more. The choices must be equal.
"""

from __future__ import annotations

import argparse
import os
from statistics import median
from time import perf_counter, process_time
from typing import Any

from benchmarks.support.lists import synthetic
from discorank import MBRDecoder
from discorank.rerank.engines.interface import Engine
from discorank.rerank.engines.local import LocalEngine
from discorank.rerank.engines.ray import work as ray_work
from discorank.rerank.engines.ray.engine import RayEngine
from discorank.rerank.engines.ray.settings import RaySettings
from discorank.rerank.runs.run import json_row


def processes(engine: Engine) -> list[float]:
    """CPU seconds so far of every process that computes."""
    if not isinstance(engine, RayEngine):
        return [process_time()]
    calls = [actor.handle.__ray_call__.remote(lambda _: process_time()) for actor in engine.actors]
    return list(engine.ray.get(calls))


def decide(
    decoder: MBRDecoder, record: dict[str, Any], engine: Engine
) -> tuple[float, float, bytes]:
    """Wall seconds, CPU seconds of the busiest process, and the row."""
    before, start = processes(engine), perf_counter()
    (ranking,) = decoder.decode([record], engine)
    wall = perf_counter() - start
    return (
        wall,
        max(b - a for a, b in zip(before, processes(engine), strict=True)),
        json_row(ranking),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-u", "--utility", action="append", required=True)
    parser.add_argument("-n", "--candidates", type=int, default=2000)
    parser.add_argument("--words", type=int, default=12)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    ray_work.SPLIT_BLOCKS = 0  # however short the list is
    for utility in options.utility:
        decoder = MBRDecoder(utility=utility)
        texts = list(dict.fromkeys(synthetic(2 * options.candidates, 0, options.words)))[
            : options.candidates
        ]
        record: dict[str, Any] = {"id": "one", "source": texts[0], "candidates": texts}
        print(
            f"{utility}, N={len(texts)}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
            flush=True,
        )
        runs_of_sides: dict[str, list[tuple[float, float, bytes]]] = {
            "local": [],
            f"ray:{options.actors}": [],
        }
        with RayEngine(RaySettings(actors=options.actors)) as ray:
            for round_ in range(options.rounds + 1):
                engines: tuple[Engine, ...] = LocalEngine(), ray
                for side, engine in zip(runs_of_sides, engines, strict=True):
                    engine.load(decoder.metrics)
                    measured = decide(
                        decoder,
                        {**record, "candidates": texts[:300]} if not round_ else record,
                        engine,
                    )
                    runs_of_sides[side] += [measured] * bool(round_)  # the first warms up
        if len({row for runs in runs_of_sides.values() for _, _, row in runs}) != 1:
            raise SystemExit("the choices differ")
        walls = [median(wall for wall, _, _ in runs) for runs in runs_of_sides.values()]
        busiest = [median(cpu for _, cpu, _ in runs) for runs in runs_of_sides.values()]
        for name, (local, split) in (("wall", walls), ("CPU", busiest)):
            print(
                f"  {name}: local {local:.2f} s, {options.actors} actors {split:.2f} s, {local / split:.2f} x"
            )
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
