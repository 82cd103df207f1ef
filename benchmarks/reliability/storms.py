"""A storm: a command is started and disturbed by signals until it ends; then all that it left is compared.

Signals come at drawn moments. Every file is compared with that of an undisturbed run, by its bytes, and every input
must come out once. How often a promise was tried and kept is a row of the table of a page, between two markers; rows of
families that were not tried this time stay as they are.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.same_outputs.comparing import Outputs, differences, files_below
from discorank.integrations.formats.open_lists import open_lists

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
MAX_COMMAND_SECONDS = 600.0
LOOK_SECONDS = 0.005
ANY_TIME = 0.25  # share of the signals that come at any time, also before the work has begun
SHOWN = "shown"  # the file with what a command writes to stdout, beside its outputs
COMMAND = "discorank"  # the module that is started
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
}
Snapshot = frozenset[tuple[str, int, int]]
RUN_FILE = ".run.json"
CANDIDATES_OF_FLAT = 8  # of every list
BEGIN, END = "<!-- tried: begin -->", "<!-- tried: end -->"
HEAD = ("| `--only` | promise | command | tried | kept | |", "|---|---|---|---|---|---|")


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


class Pace(NamedTuple):
    """How long an undisturbed command takes, and how long until it first writes something."""

    seconds: float
    seconds_until_work: float


class Moment(NamedTuple):
    """When a signal comes: so many seconds after the start, or after the first change among the outputs."""

    number: signal.Signals
    seconds: float
    at_work: bool


class Ended(NamedTuple):
    """How a process ended, what it wrote to stderr, and the signal that came before its end."""

    code: int
    said: str
    hit: signal.Signals | None = None

    @property
    def as_documented(self) -> bool:
        """Whether a signal ended it with 128 and its number, as a shell says it; or it was done already."""
        number = int(self.hit or 0)
        return self.code in (128 + number, -number, 0, 3)


def start(
    words: Sequence[str],
    folder: Path,
    module: str = COMMAND,
) -> subprocess.Popen[str]:
    """Starts ``discorank``, or another module; what it writes to stdout goes to a file beside its outputs."""
    with open(folder / SHOWN, "wb") as shown:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=shown,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **ENVIRONMENT},
        )


def heed_interrupts() -> None:
    """Commands started from here on heed SIGINT, also where this one runs in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def finish(process: subprocess.Popen[str], hit: signal.Signals | None = None) -> Ended:
    """Waits for the end of a process."""
    _, said = process.communicate(timeout=MAX_COMMAND_SECONDS)
    return Ended(process.returncode, said, hit)


def undisturbed(
    words: Sequence[str],
    folder: Path,
    module: str = COMMAND,
) -> tuple[Ended, Pace]:
    """Runs a command to its end; how it ended, and how fast it was."""
    begin = time.monotonic()
    process = start(words, folder, module)
    wait_for_change(process, folder)
    at_work = time.monotonic()
    ended = finish(process)
    return ended, Pace(time.monotonic() - begin, at_work - begin)


def disturbed(
    words: Sequence[str],
    folder: Path,
    moment: Moment,
    module: str = COMMAND,
) -> Ended:
    """Runs a command and sends it a signal, if it has not ended before."""
    process = start(words, folder, module)
    if moment.at_work:
        wait_for_change(process, folder)
    try:
        process.wait(moment.seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(moment.number)
        return finish(process, moment.number)
    return finish(process)


def drawn(r: Random, pace: Pace, signals: Sequence[signal.Signals]) -> Moment:
    """A moment at which a command of this pace is probably at work."""
    at_work = r.random() > ANY_TIME
    span = pace.seconds - pace.seconds_until_work if at_work else pace.seconds
    return Moment(r.choice(signals), r.uniform(0, span), at_work)


def wait_for_change(process: subprocess.Popen[str], folder: Path) -> None:
    """Waits until something changes in a folder, or the process ends."""
    before = snapshot(folder)
    while process.poll() is None and snapshot(folder) == before:
        time.sleep(LOOK_SECONDS)


def snapshot(folder: Path) -> Snapshot:
    """Every file of a folder with its size and time."""
    seen = set()
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            try:
                status = os.stat(path)
            except OSError:  # gone meanwhile
                continue
            seen.add((path, status.st_size, status.st_mtime_ns))
    return frozenset(seen)


class Accounted(NamedTuple):
    """What became of the inputs of a run."""

    inputs: int
    lost: int
    doubled: int


def outputs_of(folder: Path) -> Outputs:
    """All files below a folder, as they are compared: a run file without its timings, and as JSON."""
    outputs = dict(files_below(folder))
    for name in outputs:
        if name.endswith(RUN_FILE):
            outputs[name] = without_timings((folder / name).read_bytes())
        elif name.endswith(".pt"):
            outputs[name] = values_of(folder / name)
    return outputs


def without_timings(data: bytes) -> bytes:
    """A run file without how long its sessions took and what they did; as it is where it cannot be read."""
    try:
        row = json.loads(data)
    except ValueError:
        return data
    # a checksum covers the timings too
    kept = {key: value for key, value in row.items() if key not in ("timings", "checksum")}
    return json.dumps(kept, sort_keys=True).encode()


def values_of(path: Path) -> bytes:
    """Every value in a file of torch: its pickle names equal strings once or twice, as it happens."""
    import torch

    values: list[bytes] = []

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value, key=str):
                add(f"{name}.{key}", value[key])
        elif isinstance(value, torch.Tensor):
            values.append(f"{name} {value.shape} {value.numpy().tobytes().hex()}".encode())
        else:
            values.append(f"{name} {value!r}".encode())

    add("", torch.load(path, map_location="cpu", weights_only=True))
    return b"\n".join(values)


def what_differs(expected: Outputs, folder: Path) -> list[str]:
    """What is not as expected in a folder, and every run file that does not say that it is complete."""
    outputs = outputs_of(folder)
    wrong = differences(expected, outputs)
    for name, data in outputs.items():
        if name.endswith(RUN_FILE) and b'"complete": true' not in data:
            wrong.append(f"{name}: is not complete")
    return wrong


def accounted(source: Path, out: Path, form: str = "jsonl") -> Accounted:
    """Counts inputs that are neither a row nor an error record nor context alone, and those that are twice.

    Args:
        source: the input, JSON lines.
        out: the output.
        form: of its rows.
    """
    inputs = Counter(str(row["id"]) for row in json_lines(source) if not row.get("context_only"))
    outcomes = Counter(ids_in(out, form))
    outcomes += Counter(str(row["id"]) for row in json_lines(Path(f"{out}.errors.jsonl")))
    lost = (inputs - outcomes).total()
    return Accounted(inputs.total(), lost, (outcomes - inputs).total())


def ids_in(out: Path, form: str) -> Iterable[str]:
    """The ids of the lists in an output."""
    if form == "jsonl":
        return [str(row["id"]) for row in json_lines(out)]
    num_candidates = CANDIDATES_OF_FLAT if form == "flat" else None
    with open_lists(out, form, num_candidates=num_candidates) as lists:
        # a log has an entry for the ids between its own
        return [entry.record.id for entry in lists if entry.record is not None]


def json_lines(path: Path) -> Iterable[dict[str, Any]]:
    """The rows of a file, none if there is no such file."""
    if path.suffix == ".parquet" and path.exists():
        import pyarrow.parquet

        yield from pyarrow.parquet.read_table(path).to_pylist()
    elif path.exists():
        for line in path.read_bytes().splitlines():
            yield json.loads(line)


class Tried(NamedTuple):
    """A row of the table.

    Args:
        family: what ``--only`` takes to try it again.
        promise: what is promised.
        command: what was disturbed.
        tried: how often.
        kept: how often the promise held.
        detail: what happened, counted.
    """

    family: str
    promise: str
    command: str
    tried: int
    kept: int
    detail: str = ""

    def line(self) -> str:
        """The row in Markdown; in bold where the promise was broken."""
        kept = str(self.kept) if self.kept == self.tried else f"**{self.kept}**"
        cells = (self.family, self.promise, f"`{self.command}`", str(self.tried), kept, self.detail)
        return f"| {' | '.join(cells)} |"


def table(lines: Sequence[str]) -> str:
    """The table of these rows."""
    return "\n".join((*HEAD, *lines))


def write_table(page: Path, rows: Sequence[Tried], families: Sequence[str]) -> None:
    """Writes rows between the markers of a page, in the order of all `families`.

    Raises:
        ValueError: the page has no markers.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: found no lines {BEGIN} and {END}")
    tried_now = {row.family for row in rows}
    lines = [line for line in old.splitlines() if family_of(line) in {*families} - tried_now]
    lines += [row.line() for row in rows]
    lines.sort(key=lambda line: families.index(family_of(line)))
    page.write_text(f"{before}{BEGIN}\n{table(lines)}\n{END}{after}", encoding="utf-8")


def family_of(line: str) -> str:
    """The family of a line of the table; empty for another line."""
    cells = line.split(" | ")
    return cells[0].removeprefix("| ") if len(cells) > 1 else ""
