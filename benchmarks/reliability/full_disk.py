"""A disk that is full in the middle of a run: the run ends with exit code 5, and goes on where there is room again.

The disk is a tmpfs in a mount namespace of its own, which needs no rights where user namespaces are allowed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.reliability import generate_storms, training_storms
from benchmarks.reliability.decode_storms import SAVED, decode_words, lists
from benchmarks.reliability.storms import (
    ENVIRONMENT,
    OUT,
    ROOT,
    SAID_AT_MOST,
    Target,
    Tried,
    calm,
    what_differs,
)

FULL = 5  # the exit code
PAGE = 4096
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
# a small disk, the command, more room, the command again; exit codes and what is there go out of the namespace
SCRIPT = """
disk=$1 size=$2 kept=$3; shift 3
mount -t tmpfs -o size=$size none "$disk" || exit 99
"$@" > "$disk/shown" 2> "$kept.said"; echo $? > "$kept.codes"
mount -o remount,size=1g "$disk"
"$@" > "$disk/shown" 2>> "$kept.said"; echo $? >> "$kept.codes"
cp -r "$disk" "$kept"
"""


class Refill(NamedTuple):
    """How a command ended on a full disk, and again when there was room."""

    full: int
    again: int
    said: str


def is_possible() -> bool:
    """Whether a disk can be mounted here."""
    command = [*NAMESPACE, "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def full_disks(tries: int, seed: int, folder: Path) -> list[Tried]:
    """Disks of random sizes that are too small; nothing where none can be mounted."""
    if not is_possible():
        print("full-disk: no disk can be mounted here", file=sys.stderr)
        return []
    return [
        tried_disk(target, tries, seed, folder / str(number))
        for number, target in enumerate(targets(folder / "inputs"))
    ]


def targets(folder: Path) -> list[Target]:
    """Commands that fill a disk."""
    source = lists(folder / "lists", 600)
    texts = training_storms.texts(folder / "texts")

    def decode(own: Path) -> Sequence[str]:
        return decode_words(source, own / OUT, "-u", "chrf", "--save-utilities", str(own / SAVED))

    return [
        Target("full-disk", "decode -u chrf --save-utilities", decode, source, code=3),
        Target("full-disk", "train sescore2", lambda own: training_storms.words(own, texts)),
        generate_storms.model_in_turns(folder / "generate", 20),
    ]


def tried_disk(target: Target, tries: int, seed: int, folder: Path) -> Tried:
    """How often a run on a full disk ended as documented, and then left what it should."""
    disk = folder / "disk"
    disk.mkdir(parents=True)
    expected, _ = calm(target, folder / "whole")
    room = sum(-(-path.stat().st_size // PAGE) * PAGE for path in (folder / "whole").rglob("*"))
    r = Random(f"{seed} {target.command}")
    outcomes: Counter[str] = Counter()
    kept = 0
    for number in range(tries):
        own = folder / f"run{number}"
        size = r.randrange(PAGE, room)
        refill = refilled(target.words(disk), disk, size, own)
        wrong = what_differs(expected, own)
        if refill.again != target.code or refill.full not in (FULL, target.code):
            wrong.append(f"exit codes {refill.full}, {refill.again}: {refill.said[:SAID_AT_MOST]}")
        outcomes[str(refill.full)] += 1
        kept += not wrong
        for problem in wrong:
            print(f"full-disk: {target.command}: {size} bytes: {problem}", file=sys.stderr)
    detail = ", ".join(f"{n} ended {code}" for code, n in sorted(outcomes.items()))
    promise = "a full disk ends the run, which then resumes"
    return Tried("full-disk", promise, target.command, tries, kept, detail)


def refilled(words: Sequence[str], disk: Path, size: int, kept: Path) -> Refill:
    """Runs a command on a disk of so many bytes, then with more room, and copies what is there to `kept`.

    Raises:
        RuntimeError: the disk cannot be mounted.
    """
    command = [sys.executable, "-m", "discorank", *words]
    script = ["sh", "-c", SCRIPT, "sh", str(disk), str(size), str(kept)]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(
        [*NAMESPACE, *script, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(NAMESPACE)}: {done.stderr}")
    full, again = map(int, Path(f"{kept}.codes").read_text().split())
    return Refill(full, again, Path(f"{kept}.said").read_text())
