"""CPU seconds of the command, start-up included, by this version and by an earlier one in turns.

    python -m benchmarks.speed.start_up [LISTS] [--before SRC] [--repeats 15]

``discorank --version`` and MBR decoding of examples/demo.jsonl by chrF; what Python with numpy takes to start stands
beside them. With LISTS, a file that `discorank decode` reads, also its lists per second. SRC is a folder with an
importable package ``discorank``. Stops with an error if two versions write different rows.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
Spent = dict[str, list[float]]
COMMAND = [sys.executable, "-m", "discorank"]


def cpu_seconds(command: list[str], folder: str) -> float:
    """CPU seconds of a command by the version in a folder."""
    environment = {**os.environ, "PYTHONPATH": folder, "OPENBLAS_NUM_THREADS": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def decoded(lists: str, folder: str, out: Path) -> tuple[float, bytes]:
    """CPU seconds of decoding a file, and the rows."""
    for file in out.parent.glob(f"{out.name}*"):
        file.unlink()
    command = [*COMMAND, "decode", lists, "-u", "chrf", "-o", str(out), "--quiet", "--jobs", "1"]
    return cpu_seconds(command, folder), out.read_bytes()


def shown(name: str, seconds: list[float], count: int = 0) -> str:
    """A line of the table."""
    rate = f"  {count / median(seconds):8.0f} lists/s" if count else ""
    return f"{name:24} least {min(seconds):6.3f}  median {median(seconds):6.3f}{rate}"


def one_round(spent: Spent, folders: dict[str, str], inputs: dict[str, str]) -> None:
    """Adds the seconds of every command and version; stops the program if rows differ."""
    numpy = cpu_seconds([sys.executable, "-c", "import numpy"], "")
    spent.setdefault("python with numpy", []).append(numpy)
    for version, folder in folders.items():
        seconds = cpu_seconds([*COMMAND, "--version"], folder)
        spent.setdefault(f"--version, {version}", []).append(seconds)
    for name, path in inputs.items():
        rows = set()
        for version, folder in folders.items():
            with tempfile.TemporaryDirectory() as made:
                seconds, written = decoded(path, folder, Path(made, "out.jsonl"))
            spent.setdefault(f"{name}, {version}", []).append(seconds)
            rows.add(written)
        if len(rows) > 1:
            raise SystemExit(f"{name}: the rows differ")


def main() -> None:
    """Prints a line per command and version."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="?")
    parser.add_argument("--before")
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    folders = {"now": str(ROOT / "src")}
    if options.before:
        folders = {"before": options.before, **folders}
    inputs = {"demo": str(ROOT / "examples" / "demo.jsonl")}
    if options.lists:
        inputs["lists"] = options.lists
    spent: Spent = {}
    for _ in range(options.repeats):
        one_round(spent, folders, inputs)
    count = Path(options.lists).read_bytes().count(b"\n") if options.lists else 0
    for name, seconds in spent.items():
        print(shown(name, seconds, count if name.startswith("lists") else 0))
    print(f"load {os.getloadavg()[0]:.0f}")


if __name__ == "__main__":
    main()
