"""Peak memory of decoding and reranking many lists, and of a tenth of them; each run a process of its own.

    python -m benchmarks.scale.flat_memory [--lists 100000] [--candidates 3] [--words 25] [--only rerank ...]

Flat is a ratio near 1: what is kept of a list that is done is 16 bytes of its id.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import one_thread

COMMAND = """
import sys
from benchmarks.support.measuring import cpu_seconds, peak_mebibytes
from discorank.cli.main import main
code = main(sys.argv[1:])
print(code, cpu_seconds(), peak_mebibytes())
"""
ITERATOR = """
import json, sys
from benchmarks.support.measuring import cpu_seconds, peak_mebibytes
from discorank import MBRDecoder
with open(sys.argv[1]) as lines:
    for ranking in MBRDecoder(utility="chrf").decode(map(json.loads, lines)):
        pass
print(0, cpu_seconds(), peak_mebibytes())
"""
ROUND = 1000  # lists that are made of texts; all others are the same ones in another order of words
RUNS = {
    "decode": (COMMAND, "decode", "{lists}", "-u", "chrf", "--quiet", "--jobs", "1", "-o", "{out}"),
    "decode --save-utilities": (
        COMMAND,
        *("decode", "{lists}", "-u", "chrf", "--quiet", "-o", "{out}"),
        *("--save-utilities", "{out}.u"),
    ),
    "rerank": (
        COMMAND,
        *("rerank", "{lists}", "-m", "logprob", "-m", "length", "--quiet", "-o", "{out}"),
    ),
    "rerank --shrink": (
        COMMAND,
        *("rerank", "{lists}", "-m", "logprob", "-m", "length", "--quiet", "-o", "{out}"),
        *("--shrink", "0.75"),
    ),
    "MBRDecoder.decode of an iterator": (ITERATOR, "{lists}"),
}


def write(path: Path, lists: int, candidates: int, words: int) -> None:
    """Lists of different texts with log-probabilities."""
    texts = [synthetic(candidates, seed, words) for seed in range(ROUND)]
    with open(path, "w") as file:
        for i in range(lists):
            rotated = [
                {
                    "text": f"{text[i % 97 :]} {i} {text[: i % 97]}",
                    "logprob": -float(k),
                    "system": f"s{k}",
                }
                for k, text in enumerate(texts[i % ROUND])
            ]
            file.write(json.dumps({"id": f"list {i}", "candidates": rotated}) + "\n")


def peak(lists: Path, script: str, *arguments: str) -> tuple[float, float]:
    """CPU seconds and peak MiB of a run."""
    with tempfile.TemporaryDirectory() as folder:
        filled = [part.format(lists=lists, out=Path(folder, "out")) for part in arguments]
        environment = one_thread()
        done = subprocess.run(
            [sys.executable, "-c", script, *filled],
            capture_output=True,
            text=True,
            env=environment,
        )
        printed = done.stdout.split()[-3:]
    if done.returncode or printed[0] != "0":
        raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr}")
    return float(printed[1]), float(printed[2])


def main() -> None:
    """Prints a row per run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=int, default=100_000)
    parser.add_argument("--candidates", type=int, default=3)
    parser.add_argument("--words", type=int, default=25)
    parser.add_argument("--only", nargs="+", choices=RUNS, default=list(RUNS))
    options = parser.parse_args()
    tenth = options.lists // 10
    with tempfile.TemporaryDirectory() as folder:
        paths = {n: Path(folder, f"{n}.jsonl") for n in (tenth, options.lists)}
        for n, path in paths.items():
            write(path, n, options.candidates, options.words)
        for name in options.only:
            run = RUNS[name]
            (_, small), (seconds, large) = (peak(path, *run) for path in paths.values())
            print(
                f"{name:34} {tenth} lists {small:6.1f} MiB, {options.lists} lists {large:6.1f} MiB, "
                f"{seconds:7.2f} CPU s, ratio {large / small:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
