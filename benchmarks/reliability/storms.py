"""A storm: a command is started and disturbed by signals until it ends; then all that it left is compared."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from benchmarks.reliability.kept_outputs import accounted, outputs_of, what_differs
from benchmarks.reliability.processes import (
    COMMAND,
    Ended,
    Pace,
    disturbed,
    drawn,
    finish,
    start,
    undisturbed,
)
from benchmarks.reliability.promises import Tried
from benchmarks.same_outputs.comparing import Outputs

# half of the signals cannot be heeded
SIGNALS = (
    *[signal.SIGKILL] * 3,
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
)
MAX_RUNS_PER_TRY = 10
OUT = "out.jsonl"  # the rows of a run, in the folder of its outputs
SAID_AT_MOST = 300  # characters of what a command said, where something is wrong


def nothing_wrong(folder: Path) -> list[str]:
    """Nothing."""
    return []


@dataclass(frozen=True)
class Target:
    """A command to be disturbed.

    Args:
        family: its name for ``--only``.
        command: what the table shows of it.
        words: its arguments, by the folder of its outputs.
        source: its input, of which every entry must come out once.
        prepare: fills the folder of the outputs before the first start.
        code: how it ends when nothing disturbs it.
        promise_after: a promise that must hold after every signal, whatever comes later.
        wrong_after: what breaks that promise.
        signals: those to draw from.
        module: what is started.
        out: the rows, in the folder of its outputs.
        form: of the rows.
    """

    family: str
    command: str
    words: Callable[[Path], Sequence[str]]
    source: Path | None = None
    prepare: Callable[[Path], object] = nothing_wrong
    code: int = 0
    promise_after: str = ""
    wrong_after: Callable[[Path], list[str]] = nothing_wrong
    signals: Sequence[signal.Signals] = SIGNALS
    module: str = COMMAND
    out: str = OUT
    form: str = "jsonl"


@dataclass
class Tally:
    """What happened in the storms of a command."""

    target: Target
    hits: Counter[str] = field(default_factory=Counter)  # by the name of the signal
    survived: int = 0  # hits of runs that left what they should
    runs: int = 0
    heeded: int = 0  # hits of signals that can be heeded
    right_ends: int = 0
    right_after: int = 0
    inputs: int = 0
    lost: int = 0
    doubled: int = 0

    def note_hit(self, ended: Ended, folder: Path) -> None:
        """Counts a signal, how the command ended by it, and what it left."""
        assert ended.hit is not None
        self.hits[ended.hit.name] += 1
        if ended.hit != signal.SIGKILL:
            self.heeded += 1
            self.right_ends += ended.as_documented
            if not ended.as_documented:
                self.complain(f"{ended.hit.name}: exit code {ended.code}: {ended.said}")
        wrong = self.target.wrong_after(folder)
        self.right_after += not wrong
        self.complain(*wrong)

    def note_end(self, hits: int, ended: Ended, expected: Outputs, folder: Path) -> None:
        """Counts a run that has ended."""
        self.runs += 1
        wrong = what_differs(expected, folder)
        if ended.code != self.target.code:
            wrong.append(f"exit code {ended.code}: {ended.said}")
        self.survived += 0 if wrong else hits
        self.complain(*wrong)
        if self.target.source is not None:
            out, form = folder / self.target.out, self.target.form
            inputs, lost, doubled = accounted(self.target.source, out, form)
            self.inputs += inputs
            self.lost += lost
            self.doubled += doubled

    def complain(self, *wrong: str) -> None:
        """Says what is wrong on stderr, for whoever mends it."""
        for problem in wrong:
            print(f"{self.target.family}: {problem[-SAID_AT_MOST:]}", file=sys.stderr, flush=True)

    def rows(self) -> list[Tried]:
        """What was promised, tried and kept."""
        target, tried = self.target, self.hits.total()
        by_name = ", ".join(f"{n} {name}" for name, n in sorted(self.hits.items()))
        rows = [
            ("the same bytes after signals", tried, self.survived, f"{by_name}: {self.runs} runs")
        ]
        if target.source is not None:
            once = self.inputs - self.lost - self.doubled
            detail = f"{self.lost} lost, {self.doubled} doubled"
            rows.append(("every input comes out once", self.inputs, once, detail))
        if self.heeded:
            detail = "SIGHUP 129, SIGINT 130, SIGTERM 143"
            rows.append(("ends as documented", self.heeded, self.right_ends, detail))
        if target.promise_after:
            rows.append((target.promise_after, tried, self.right_after, "after each signal"))
        return [
            Tried(target.family, promise, target.command, tried, kept, detail)
            for promise, tried, kept, detail in rows
        ]


def stormed(target: Target, tries: int, seed: int, folder: Path) -> list[Tried]:
    """Disturbs a command until `tries` signals have hit it; what came of it.

    Raises:
        RuntimeError: the command fails without any signal.
    """
    expected, pace = calm(target, folder / "whole")
    r, tally = Random(f"{seed} {target.family}"), Tally(target)
    for number in range(MAX_RUNS_PER_TRY * tries):
        if tally.hits.total() == tries:
            break
        own = folder / f"run{number}"
        own.mkdir()
        target.prepare(own)
        before = tally.hits.total()
        ended = _one_run(target, tally, tries - before, r, pace, own)
        tally.note_end(tally.hits.total() - before, ended, expected, own)
    return tally.rows()


def calm(target: Target, folder: Path) -> tuple[Outputs, Pace]:
    """What the command leaves when nothing disturbs it, and how fast it is.

    Raises:
        RuntimeError: it fails.
    """
    folder.mkdir(parents=True)
    target.prepare(folder)
    ended, pace = undisturbed(target.words(folder), folder, target.module)
    if ended.code != target.code:
        raise RuntimeError(f"{target.command}: exit code {ended.code}\n{ended.said}")
    return outputs_of(folder), pace


def _one_run(target: Target, tally: Tally, most: int, r: Random, pace: Pace, folder: Path) -> Ended:
    """One run, disturbed until it ends or `most` signals have hit it; how it ended."""
    words = target.words(folder)
    for _ in range(most):
        ended = disturbed(words, folder, drawn(r, pace, target.signals), target.module)
        if ended.hit is None:
            return ended
        tally.note_hit(ended, folder)
    return finish(start(words, folder, target.module))
