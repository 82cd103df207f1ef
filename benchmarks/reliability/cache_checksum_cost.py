"""The share of a run that goes into the checksums of cache entries.

    python -m benchmarks.reliability.cache_checksum_cost [LISTS CANDIDATES]

Decodes made-up lists by `bertscore(model="minilm")` with a cold cache and then, with scorers loaded anew and nothing
else kept, with a warm one, which reads every representation from it. Prints CPU seconds of the run, of all that is done
with the cache, and of the checksums alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import cpu_seconds
from discorank import MBRDecoder, load_metric
from discorank.metrics.execution import cache as caches
from discorank.metrics.execution.cache import FILE, Cache
from discorank.rerank.engines.local import LocalEngine

METRIC = 'bertscore(model="minilm", layer=6)'


class Timed:
    """A function that adds up the CPU seconds it takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any) -> Any:
        start = cpu_seconds()
        value = self.function(*arguments)
        self.seconds += cpu_seconds() - start
        return value


def run(records: list[dict[str, Any]], folder: str) -> str:
    """CPU seconds of decoding with this cache, as a line."""
    metric = load_metric(METRIC)
    decoder = MBRDecoder(metric)
    cache = Cache(folder)
    engine = LocalEngine(cache)
    engine.load([metric])
    checksum = Timed(caches._checksum)
    get, put = Timed(cache.get), Timed(cache.put)
    with (
        patch.object(caches, "_checksum", checksum),
        patch.object(cache, "get", get),
        patch.object(cache, "put", put),
    ):
        start = cpu_seconds()
        for _ in decoder.decode(records, engine):
            pass
        seconds = cpu_seconds() - start
    cache.close()
    spent = checksum.seconds
    in_cache = get.seconds + put.seconds
    return f"{seconds:8.2f} {in_cache:8.2f} {spent:8.3f} {100 * spent / seconds:7.2f} %"


def main() -> None:
    num_lists, num_candidates = map(int, sys.argv[1:] or ("100", "32"))
    lists = [synthetic(num_candidates, seed) for seed in range(num_lists)]
    records = [{"id": str(i), "candidates": texts} for i, texts in enumerate(lists)]
    with TemporaryDirectory() as folder:
        print("cache     run s  cache s   sums s   share")
        for kind in ("cold", "warm", "warm"):
            print(f"{kind:5} {run(records, folder)}", flush=True)
        size = (Path(folder) / FILE).stat().st_size
        texts = len({text for row in lists for text in row})
        print(f"{texts} texts, {size / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
