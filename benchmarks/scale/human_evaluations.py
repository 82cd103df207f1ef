"""Reading a human evaluation with the layout of WMT25's, of 120 MB and of a tenth: CPU seconds and peak memory.

    python -m benchmarks.scale.human_evaluations [--mebibytes 120]

The file has several language pairs, two annotators with spans, and texts of some 100 words; one pair is read as rows
of a systems file, every row once. Beside it stands json.loads of every line, kept, as the organisers' scripts read it.
Flat is a peak that does not grow with the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

from benchmarks.support.measuring import one_thread
from tests.support.human_files import wmt25_segments

ROWS = """
import sys, warnings
from benchmarks.support.measuring import cpu_seconds, peak_mebibytes
from discorank.integrations.formats.open_lists import open_documents
warnings.simplefilter("ignore")
rows = sum(1 for _ in open_documents(sys.argv[1], "wmt-jsonl", language_pair="en-cs_CZ"))
print(rows, cpu_seconds(), peak_mebibytes())
"""
KEPT = """
import json, sys
from benchmarks.support.measuring import cpu_seconds, peak_mebibytes
with open(sys.argv[1]) as file:
    rows = [json.loads(line) for line in file]
print(len(rows), cpu_seconds(), peak_mebibytes())
"""


PAIRS = ("en-cs_CZ", "en-uk_UA", "cs-de_DE", "en-is_IS", "en-et_EE", "ja-zh_CN", "en-bho_IN")


def write(path: Path, mebibytes: float) -> None:
    """A file of about this size: documents of all pairs in turn."""
    with open(path, "w", encoding="utf-8") as file:
        for seed in count():
            for pair in PAIRS:
                for line in wmt25_segments(pair, 12, seed, words=100):
                    parts = line["doc_id"].split("_#_")
                    parts[2] = f"{parts[2]}-{seed}"
                    file.write(json.dumps({**line, "doc_id": "_#_".join(parts)}) + "\n")
            if file.tell() >= mebibytes * 2**20:
                return


def measured(script: str, path: Path) -> tuple[int, float, float]:
    """Rows, CPU seconds and peak MiB."""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, env=one_thread()
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    rows, seconds, peak = done.stdout.split()
    return int(rows), float(seconds), float(peak)


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mebibytes", type=float, default=120)
    arguments = parser.parse_args()
    print(f"{'MiB':>6}  {'read as':<28}  {'rows':>7}  {'CPU s':>6}  {'peak MiB':>8}")
    for mebibytes in (arguments.mebibytes / 10, arguments.mebibytes):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "humeval.jsonl")
            write(path, mebibytes)
            size = path.stat().st_size / 2**20
            for name, script in (("documents of a pair", ROWS), ("json.loads, kept", KEPT)):
                rows, seconds, peak = measured(script, path)
                print(f"{size:6.1f}  {name:<28}  {rows:7}  {seconds:6.1f}  {peak:8.1f}")


if __name__ == "__main__":
    main()
