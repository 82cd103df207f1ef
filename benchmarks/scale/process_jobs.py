"""The command with one process and with several, in turns: wall and CPU seconds, start-up included.

    python -m benchmarks.scale.process_jobs LISTS [--jobs 2] [--utility chrf] [--rounds 2]

LISTS is a file that `discorank decode` reads. On a busy machine the wall tells little; processor seconds bound it from
below: no run is shorter than all of them divided by the machine's processors, or than those of the sharing process.
Stops with an error if two outputs differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

RUN = """
import json, resource, sys, time
from discorank.cli.main import main
start = time.perf_counter()
code = main()
seconds = [time.perf_counter() - start]
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    usage = resource.getrusage(who)
    seconds.append(usage.ru_utime + usage.ru_stime)
print(json.dumps(seconds))
sys.exit(code)
"""


class Spent(NamedTuple):
    """Seconds of a run: wall, and CPU of the process and of those it started."""

    wall: float
    own: float
    workers: float


def run(source: str, utility: str, jobs: str, out: Path) -> Spent:
    """One run of the command."""
    for file in out.parent.glob(f"{out.name}*"):
        file.unlink()
    words = ["decode", source, "-u", utility, "-o", str(out), "--quiet", "--jobs", jobs]
    command = [sys.executable, "-c", RUN, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Spent(*json.loads(done.stdout))


def main() -> None:
    """Prints a line per number of processes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists")
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--utility", default="chrf")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    rounds: list[list[Spent]] = []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(options.rounds):
            turn = []
            outs = [Path(name, "one"), Path(name, "several")]
            for out, jobs in zip(outs, ("1", options.jobs), strict=True):
                turn.append(run(options.lists, options.utility, jobs, out))
            if outs[0].read_bytes() != outs[1].read_bytes():
                raise SystemExit("the outputs differ")
            rounds.append(turn)
    load = os.getloadavg()[0]
    print(f"{options.utility}, {cores} processors, load {load:.0f}")
    walls = [[turn[side].wall for turn in rounds] for side in (0, 1)]
    for side, jobs in enumerate(("1", options.jobs)):
        spent = [
            Spent(
                *(median(column) for column in zip(*(turn[side] for turn in rounds), strict=True))
            )
        ]
        wall, own, workers = spent[0]
        share = min(cores, int(jobs))
        least = max(own, (own + workers) / share)
        print(
            f"--jobs {jobs}: wall {wall:.2f} s, CPU {own + workers:.2f} s ({own:.2f} of the sharing process), "
            f"at least {least:.2f} s on idle processors"
        )
    ratios = sorted(one / several for one, several in zip(*walls, strict=True))
    print(f"wall, one over several: {' '.join(f'{ratio:.2f}' for ratio in ratios)}")


if __name__ == "__main__":
    main()
