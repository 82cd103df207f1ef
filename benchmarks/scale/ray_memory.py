"""Peak memory of a run under Ray on a file and on one ten times as long: the driver, the object store, Ray's processes.

    python -m benchmarks.scale.ray_memory [--lists 8000] [--width 32] [--actors 2]
        [--utility chrf] [--set ray.NAME=VALUE ...]

Every list is different. The driver's figure is its largest resident size; that of the object store the most of its
memory that was ever touched (shared memory of the node's raylet, which it does not give back); Ray's own processes are
raylet and gcs_server without it, and the actors all together.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.support.commands import decode_command, one_thread
from benchmarks.support.lists import synthetic

GROWTH = 10
BASES = 500  # lists that are made; the others are these with other words at the end
LOOK_SECONDS = 0.2
KINDS = ("driver", "object store", "ray", "actors")
MEBI = 1 << 20


def write_lists(path: Path, count: int, width: int) -> None:
    """Lists of which no two share a text."""
    bases = [synthetic(width, i) for i in range(min(count, BASES))]
    with open(path, "w") as file:
        for i in range(count):
            candidates = [f"{text} {i}" for text in bases[i % len(bases)]]
            file.write(json.dumps({"id": str(i), "candidates": candidates}) + "\n")


def status_of(process: int) -> dict[str, int]:
    """The memory figures of a process in bytes, by their names in /proc."""
    with suppress(OSError):
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        pairs = (line.split(":", 1) for line in lines)
        return {
            name: int(value.split()[0]) * 1024
            for name, value in pairs
            if value.strip().endswith("kB")
        }
    return {}


def descendants(process: int) -> Iterator[tuple[int, str]]:
    """(process id, name of the program) of all that a process started, and of what these started."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    left = list(children.get(process, ()))
    while left:
        one = left.pop()
        left += children.get(one, ())
        with suppress(OSError):
            name = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")[0].decode()
            yield one, name.rpartition("/")[2]


def now(driver: int) -> dict[str, int]:
    """Bytes of every kind at this moment; the driver's and Ray's own at their most so far."""
    sizes = dict.fromkeys(KINDS, 0)
    sizes["driver"] = status_of(driver).get("VmHWM", 0)
    for process, name in descendants(driver):
        status = status_of(process)
        if name == "raylet":
            sizes["object store"] += status.get("RssShmem", 0)
        if name in ("raylet", "gcs_server"):
            sizes["ray"] += status.get("RssAnon", 0)
        if name.startswith("ray::Worker"):
            sizes["actors"] += status.get("RssAnon", 0)
    return sizes


def peaks(source: Path, utility: str, settings: Sequence[str]) -> dict[str, int]:
    """The most bytes of every kind during a run."""
    out = source.with_suffix(".out")
    options = [word for setting in settings for word in ("--set", setting)]
    command = decode_command(source, out, utility, "--engine", "ray", *options)
    most = dict.fromkeys(KINDS, 0)
    with subprocess.Popen(command, env=one_thread()) as process:
        while process.poll() is None:
            seen = now(process.pid)
            most = {kind: max(most[kind], seen[kind]) for kind in KINDS}
            time.sleep(LOOK_SECONDS)
    if process.returncode:
        raise SystemExit(f"decode failed with {process.returncode}")
    return most


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=int, default=8000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--utility", default="chrf")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    settings = [f"ray.actors={options.actors}", *options.set]
    print(f"{options.utility}, lists of N={options.width}, {', '.join(settings)}; MiB at the peak")
    print(
        f"{'lists':>8}"
        + "".join(f"{kind:>15}" for kind in (*KINDS, "driver + store"))
        + f"{'seconds':>10}"
    )
    peaks_of_runs = []
    for count in (options.lists, GROWTH * options.lists):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "lists.jsonl")
            write_lists(source, count, options.width)
            start = time.perf_counter()
            sizes = peaks(source, options.utility, settings)
        seconds = time.perf_counter() - start
        sizes["driver + store"] = sizes["driver"] + sizes["object store"]
        peaks_of_runs.append(sizes)
        cells = "".join(f"{size / MEBI:15.1f}" for size in sizes.values())
        print(f"{count:8}{cells}{seconds:10.1f}", flush=True)
    small, large = peaks_of_runs
    growth = [100 * (size / max(1, small[kind]) - 1) for kind, size in large.items()]
    print(f"{'growth':>8}" + "".join(f"{share:14.1f}%" for share in growth))


if __name__ == "__main__":
    main()
