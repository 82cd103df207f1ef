"""Compares the outputs of commands before and after, prints the differences, and counts.

Times, and what depends on them, may differ between two runs of the same command.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path
from typing import NamedTuple

from benchmarks.same_outputs.commands import Command

# bytes of a line that differs: shown before the difference, and in all
SHOWN_BEFORE = 40
SHOWN_IN_ALL = 160
# "exit code", "stdout", "stderr", and files by their paths below out/NAME
Outputs = Mapping[str, bytes]
SHOWN = "shown"  # stands for stdout and stderr, where other outputs have the name of a file


class Tally:
    """Compares, prints and counts.

    Args:
        expected: what came of every command before.
        meant: names of commands, or patterns, that are meant to differ.
        brief: whether nothing is printed of commands that do the same.
    """

    def __init__(
        self, expected: Mapping[str, Outputs], meant: Sequence[str] = (), brief: bool = False
    ) -> None:
        self.expected = expected
        self.meant = meant
        self.brief = brief
        self.same = 0
        self.different = 0
        self.meant_to_differ = 0

    def compare(self, command: Command, outputs: Outputs) -> None:
        """Compares what came of a command."""
        wrong = differences(self.expected[command.name], outputs)
        if command.equals:
            wrong += self._not_equal(command.equals, outputs)
        code = outputs.get("exit code", b"").decode()
        self.add(f"{command.name} (exit code {code})", wrong)

    def add(self, title: str, wrong: Sequence[str]) -> None:
        """Prints a line with this title, and what differs."""
        name = title.partition(" (")[0]
        if not wrong:
            self.same += 1
            if not self.brief:
                print(f"{'same':<10}{title}", flush=True)
            return
        if any(fnmatch(name, pattern) for pattern in self.meant):
            self.meant_to_differ += 1
            verdict = "meant"
        else:
            self.different += 1
            verdict = "DIFFERENT"
        print(f"{verdict:<10}{title}", flush=True)
        for line in wrong:
            print(f"    {line}", flush=True)

    def _not_equal(self, name: str, outputs: Outputs) -> list[str]:
        """Why the chosen texts are not those of another command before."""
        mine = outputs.get("again/out.jsonl", outputs.get("out.jsonl", b""))
        title = f"out.jsonl of {name}"
        return differences({title: self.expected[name]["out.jsonl"]}, {title: mine})


def differences(before: Outputs, after: Outputs) -> list[str]:
    """What is not the same, each with the first differing line of both."""
    wrong = []
    for name in sorted({*before, *after}):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            side = "after" if one is None else "before"
            wrong.append(f"{name}: only {side}")
        elif one != other:
            wrong.append(f"{name}, {first_difference(one, other)}")
    return wrong


def first_difference(one: bytes, other: bytes) -> str:
    """Number and text of the first line that differs, from shortly before that place."""
    mine, yours = one.splitlines(keepends=True), other.splitlines(keepends=True)
    number = common_length(mine, yours)
    my_line = mine[number] if number < len(mine) else b""
    your_line = yours[number] if number < len(yours) else b""
    start = max(0, common_length(my_line, your_line) - SHOWN_BEFORE)
    my_part = repr(my_line[start : start + SHOWN_IN_ALL])[1:]
    your_part = repr(your_line[start : start + SHOWN_IN_ALL])[1:]
    return f"line {number + 1}:\n      before {my_part}\n      after  {your_part}"


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """How many items at the start are the same."""
    for i, (mine, yours) in enumerate(zip(one, other, strict=False)):
        if mine != yours:
            return i
    return min(len(one), len(other))


def shown(path: Path) -> bytes:
    """What a command showed, which is in this file."""
    return without_varying(SHOWN, path.read_bytes())


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, as it is compared, and every folder."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        # these two belong to sqlite and hold random salts; their rows are in the dump
        if not name.endswith(("-wal", "-shm")):
            contents[name] = b"a folder" if path.is_dir() else content(path)
    return contents


def content(path: Path) -> bytes:
    """What is compared of a file: its bytes, of a database its rows."""
    if path.suffix != ".sqlite":
        return without_varying(path.name, path.read_bytes())
    with closing(sqlite3.connect(path)) as database:
        rows = "\n".join(database.iterdump())
    return without_varying(path.name, rows.encode())


class Variation(NamedTuple):
    """Something that may differ.

    Args:
        where: `SHOWN`, or how the names of files end that hold it.
        pattern: what it looks like.
        replacement: what is compared in its place.
        reason: why it may differ.
    """

    where: str
    pattern: bytes
    replacement: bytes
    reason: str


VARYING = (
    Variation(
        SHOWN,
        rb"(?m)^ *[\d.]+[kMG]?/([\d.]+[kMG]?|\?) "
        rb"(lists|items|documents|draws|texts|steps) \[.*\]\n",
        b"",
        "progress is shown by the clock: after half a second, then every ten seconds",
    ),
    Variation(
        SHOWN,
        rb"(?m)^[\d,]+ texts represented.* in [\d.]+ s.*\n"
        rb"((seconds|this process|driver|actor \d+|all actors) .*\n)*",
        b"",
        "the table of where the time went is shown after ten seconds, and holds times",
    ),
    Variation(
        SHOWN,
        rb"(?m)^CPU seconds of this process: .*\n",
        b"",
        "the CPU seconds of a run are shown after ten seconds",
    ),
    Variation(
        SHOWN,
        rb" tokens \([\d.]+/s\)",
        b" tokens",
        "tokens a second of a generator",
    ),
    Variation(
        ".run.json",
        rb'(?s)"workers": \[\n.*?\n  \]',
        b'"workers": SOME',
        "which list goes to which actor of Ray is chance; the sums over all actors are compared",
    ),
    Variation(
        ".run.json",
        rb'"((?:busy_|loaded_)?seconds|read|prepare|represent|cache|compare|choose|write)"'
        rb": [\d.e-]+(?=,?\n)",
        rb'"\1": TIME',
        "seconds that a run took, whole and by stage",
    ),
    Variation(
        ".run.json",
        rb'"checksum": "[0-9a-f]+"',
        b'"checksum": SOME',
        "the checksum of the run file covers its times",
    ),
)


def without_varying(name: str, data: bytes) -> bytes:
    """What was shown, or a file of this name, without what may differ."""
    for variation in VARYING:
        if name.endswith(variation.where):
            data = re.sub(variation.pattern, variation.replacement, data)
    return data
