"""Peak memory of ``discorank decode`` as the file grows, and CPU seconds as N grows; each run a process of its own.

python -m benchmarks.speed.growth
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import one_thread

LAST_LINE = """
import sys
from benchmarks.support.measuring import cpu_seconds, peak_mebibytes
from discorank.cli.main import main
code = main(sys.argv[1:])
print(code, cpu_seconds(), peak_mebibytes())
"""


def run(lists: int, width: int) -> tuple[float, float]:
    """CPU seconds and peak MiB of one decode with chrF."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "lists.jsonl")
        with open(path, "w") as file:
            for i in range(lists):
                file.write(json.dumps({"id": str(i), "candidates": synthetic(width, i)}) + "\n")
        command = [
            sys.executable,
            "-c",
            LAST_LINE,
            "decode",
            str(path),
            "-u",
            "chrf",
            "--quiet",
            "-o",
            f"{path}.out",
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread())
    printed = done.stdout.split()
    if printed[0] != "0":
        raise SystemExit(f"decode failed with {printed[0]}")
    return float(printed[1]), float(printed[2])


def main() -> None:
    print("file size: lists of N=32, chrF")
    first = 0.0
    for lists in (500, 2000, 8000, 20000):
        seconds, memory = run(lists, 32)
        first = first or memory
        print(
            f"  {lists:6} lists: {seconds:7.2f} CPU s, {memory:6.0f} MiB, {memory / first:.2f} of the first",
            flush=True,
        )
    print("list size: one list, chrF")
    for width in (128, 256, 512, 1024, 2048):
        seconds, memory = run(1, width)
        print(f"  N={width:5}: {seconds:7.2f} CPU s, {memory:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
