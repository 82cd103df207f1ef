"""MBR decoding in Python with the threads that numpy takes by itself, and with one: CPU and wall seconds.

    python -m benchmarks.speed.threads [--threads 2] [--repeats 3]

Each is the least of the repeats in a process of its own. "default" hides `threadpoolctl`, by which the products of
lists get one thread; "one" has it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

RUN = """
import sys, time
kind, size, count, repeats = sys.argv[1], *map(int, sys.argv[2:])
if kind == "default":
    sys.modules["threadpoolctl"] = None
from benchmarks.support.lists import synthetic
from discorank import MBRDecoder
lists = [{"id": str(i), "candidates": synthetic(size, seed=i)} for i in range(count)]
decoder = MBRDecoder(utility="chrf")
list(decoder.decode(lists[:1]))
best = (float("inf"), 0.0)
for _ in range(repeats):
    cpu, wall = time.process_time(), time.perf_counter()
    list(decoder.decode(lists))
    best = min(best, (time.process_time() - cpu, time.perf_counter() - wall))
print(*best)
"""


def main() -> None:
    """Prints a line per size of lists."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(options.threads)}
    environment.pop("OMP_NUM_THREADS", None)
    for size, count in ((256, 40), (512, 8)):
        for kind in ("default", "one"):
            words = [kind, str(size), str(count), str(options.repeats)]
            done = subprocess.run(
                [sys.executable, "-c", RUN, *words],
                env=environment,
                check=True,
                capture_output=True,
                text=True,
            )
            cpu, wall = map(float, done.stdout.split())
            print(
                f"{count} lists of {size}, {kind}: CPU {cpu:.2f} s, wall {wall:.2f} s", flush=True
            )


if __name__ == "__main__":
    main()
