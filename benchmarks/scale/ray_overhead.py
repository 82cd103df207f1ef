"""What Ray costs: the same ``discorank decode`` with the local engine and with actors of one thread each, in turns.

    python -m benchmarks.scale.ray_overhead [--minutes 3] [--rounds 3] [--utility ter|encoder] [--sides local ray:1]
    python -m benchmarks.scale.ray_overhead --sides ray:1 ray:2

Lists of N=32 texts of 25 words; as many as keep the local engine busy for so many minutes, as a short run tells. `ter`
is compute-bound arithmetic, `encoder` is BERTScore with an encoder of the shape of XLM-R base (random weights). Seconds
are wall seconds: of the whole command with all its start-up, and of the run itself (its run file). All sides must write
the same bytes. Ratios are to the first side of the same round; on a machine that does other work they tell nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import decode_command, one_thread
from benchmarks.support.peers.models import make_encoder

WIDTH = 32
TRIAL_LISTS = {"ter": 400, "encoder": 12}


class Run(NamedTuple):
    """Wall seconds of a command, those of the run within it, the share its actors were at work, and its rows."""

    command: float
    run: float
    busy: float
    rows: bytes


def write_lists(path: Path, count: int) -> Path:
    """Lists of which no two share a text."""
    with open(path, "w") as file:
        for i in range(count):
            file.write(json.dumps({"id": str(i), "candidates": synthetic(WIDTH, i)}) + "\n")
    return path


def run(side: str, source: Path, utility: str) -> Run:
    """One command; `side` is local, or ray: and a number of actors."""
    kind, _, actors = side.partition(":")
    out = source.with_suffix(".out")
    for path in source.parent.glob(f"{out.name}*"):
        path.unlink()
    options = ["--engine", "ray", "--set", f"ray.actors={actors}"] if kind == "ray" else []
    command = decode_command(source, out, utility, *options)
    start = perf_counter()
    subprocess.run(command, check=True, env=one_thread(), capture_output=True)
    seconds = perf_counter() - start
    timings: dict[str, Any] = json.loads(Path(f"{out}.run.json").read_text())["timings"]
    workers = timings.get("workers", [])
    loaded = sum(worker["loaded_seconds"] for worker in workers)
    busy = sum(worker["busy_seconds"] for worker in workers) / loaded if workers else 1.0
    return Run(seconds, timings["seconds"], busy, out.read_bytes())


def spread(values: list[float]) -> str:
    """Median, least and most."""
    return f"{median(values):7.2f} [{min(values):.2f}, {max(values):.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--utility", choices=list(TRIAL_LISTS), default="ter")
    parser.add_argument("--sides", nargs="+", default=["local", "ray:1"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        utility, trial = options.utility, TRIAL_LISTS[options.utility]
        if utility == "encoder":
            make_encoder(
                folder / "encoder", [text for i in range(200) for text in synthetic(WIDTH, i)]
            )
            utility = f'bertscore(model="{folder}/encoder",layer=9)'
        first = run("local", write_lists(folder / "trial.jsonl", trial), utility)
        count = max(1, round(trial * 60 * options.minutes / first.run))
        source = write_lists(folder / "lists.jsonl", count)
        print(
            f"{options.utility}, {count} lists of N={WIDTH}, {options.rounds} rounds in turns, ",
            end="",
        )
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)
        runs_of_sides: dict[str, list[Run]] = {side: [] for side in options.sides}
        for _ in range(options.rounds):
            for side in options.sides:
                runs_of_sides[side].append(run(side, source, utility))
        base = runs_of_sides[options.sides[0]]
        if any(own_run.rows != base[0].rows for runs in runs_of_sides.values() for own_run in runs):
            raise SystemExit("the sides did not write the same bytes")
        print(f"{'':8} {'command s':>22} {'ratio':>20} {'run s':>22} {'ratio':>20} {'busy':>6}")
        for side, runs in runs_of_sides.items():
            command = [
                own_run.command / other.command for own_run, other in zip(runs, base, strict=True)
            ]
            alone = [own_run.run / other.run for own_run, other in zip(runs, base, strict=True)]
            cells = [
                spread([own_run.command for own_run in runs]),
                spread(command),
                spread([own_run.run for own_run in runs]),
            ]
            busy = median(own_run.busy for own_run in runs)
            print(
                f"{side:8} {cells[0]:>22} {cells[1]:>20} {cells[2]:>22} {spread(alone):>20} {busy:6.0%}"
            )
        print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
