"""What the checksums of a run cost: ``discorank decode -u chrf`` with them, and with the hashing taken out.

    python -m benchmarks.reliability.checksum_cost [LISTS CANDIDATES ROUNDS]

Runs the command in this process, with and without by turns, which of them first changing from round to round; once
with rows alone and once with ``--save-utilities`` too. Prints the least CPU seconds of each and their ratio, the median
of the ratios of all rounds, which on a busy machine differ by more than the cost, and the seconds spent in the hashing
itself, added up call by call.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from benchmarks.support.lists import synthetic
from benchmarks.support.measuring import cpu_seconds
from discorank.cli.main import main as discorank
from discorank.rerank.runs import block_digests, run_file, saved_matrices
from discorank.rerank.runs.block_digests import BlockDigests

# what hashes: where it is named, its name, and what stands in its place without
HASHING: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
    (
        block_digests.BlockDigests,
        "extended",
        lambda digests, data: replace(digests, num_bytes=digests.num_bytes + len(data)),
    ),
    (block_digests.BlockDigests, "all", lambda digests: ()),
    (run_file, "with_checksum", lambda values: values),
    (saved_matrices, "_checksum", lambda start, signature: b""),
)


@contextmanager
def without_hashing() -> Iterator[None]:
    """Nothing is hashed in the block."""
    with ExitStack() as patched:
        for place, name, instead in HASHING:
            value = property(instead) if name == "all" else instead
            patched.enter_context(patch.object(place, name, value))
        yield


@contextmanager
def timed_hashing() -> Iterator[list[float]]:
    """The CPU seconds of every call that hashes; in the block calls of `all` are not timed, as few as saves."""
    seconds: list[float] = []

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = cpu_seconds()
            value = function(*arguments)
            seconds.append(cpu_seconds() - start)
            return value

        return call

    with ExitStack() as patched:
        for place, name, _ in HASHING:
            if name != "all":
                patched.enter_context(patch.object(place, name, timed(getattr(place, name))))
        yield seconds


def decoded(folder: Path, more: list[str]) -> float:
    """CPU seconds of the command, from nothing."""
    for path in folder.glob("out*"):
        path.unlink()
    command = ["decode", str(folder / "in.jsonl"), "-u", "chrf", "-o", str(folder / "out")]
    start = cpu_seconds()
    if discorank([*command, *more, "--quiet"]) != 0:
        raise SystemExit("it failed")
    return cpu_seconds() - start


def plainly_decoded(folder: Path, more: list[str]) -> float:
    """CPU seconds of the command without hashing."""
    with without_hashing():
        return decoded(folder, more)


def compare(folder: Path, more: list[str], rounds: int) -> str:
    """The seconds with and without, and their ratio, as a line."""
    decoded(folder, more)
    pairs = []
    for number in range(rounds):
        if number % 2:
            pairs.append((decoded(folder, more), plainly_decoded(folder, more)))
        else:
            without = plainly_decoded(folder, more)
            pairs.append((decoded(folder, more), without))
    ratio = median(with_checksums / without for with_checksums, without in pairs)
    with timed_hashing() as calls:
        whole = decoded(folder, more)
    checked, plain = (min(column) for column in zip(*pairs, strict=True))
    share = 100 * sum(calls) / whole
    seconds = f"{checked:8.3f} {plain:8.3f} {checked / plain:7.3f}"
    return f"{seconds} {ratio:7.3f} {sum(calls):9.3f} {share:6.2f} %"


def main() -> None:
    num_lists, num_candidates, rounds = map(int, sys.argv[1:] or ("3000", "15", "15"))
    with TemporaryDirectory() as name:
        folder = Path(name)
        with open(folder / "in.jsonl", "w", encoding="utf-8") as file:
            for i in range(num_lists):
                row = {"id": str(i), "candidates": synthetic(num_candidates, i)}
                file.write(json.dumps(row) + "\n")
        print(f"{num_lists} lists of {num_candidates}, {rounds} rounds")
        print(f"{'':20}  with s  without   ratio  median  hashing s   share")
        for about, more in (
            ("rows", []),
            ("rows and utilities", ["--save-utilities", str(folder / "out.u")]),
        ):
            print(f"{about:20}{compare(folder, more, rounds)}", flush=True)
        size = (folder / "out.run.json").stat().st_size
        print(f"{(folder / 'out').stat().st_size} bytes of rows, {size} of the run file")
        digests = BlockDigests()
        for _ in range(255):
            digests = digests.extended(bytes(block_digests.LEAF_BYTES))
        blocks = " ".join(digests.all)
        print(f"the digests of an output take at most {len(blocks)} bytes of the run file")


if __name__ == "__main__":
    main()
