"""The outputs of a run, with a checkpoint, so that a run killed at any point resumes as if it had not been.

The loop of every run, of decode, generate and logprobs alike: entries in, rows or error records out, in input order.
What an earlier run has done is read over, and must be what it read. Then every entry yields what is written of it, or
an error record, of which there may be so many; what was written is kept whatever ends the run.

The run file says how many bytes of each output are good and how much input they stand for; what lies beyond is cut off
on resume. It is replaced in one step, after the outputs are on disk. Without an output file, rows go to stdout and
error records to stderr, with nothing to resume. It knows neither lists nor metrics.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path
from platform import python_version
from time import monotonic
from typing import Any, BinaryIO, Generic, TypeVar

from ...metrics.errors import DiscorankError, InputError, ResumeError
from ...metrics.execution.meter import Meter
from ...metrics.optional_packages import require
from ...metrics.storage.atomic_files import locked, unwritable
from ..engines.status import amounts
from .run_file import (
    Measured,
    State,
    WrittenBytes,
    checked_output,
    is_table,
    lines_of_run,
    read_run_file,
    recorded_run,
    write_run_file,
)

EVERY_SECONDS = 1.0
# the output that is there while something is in it, whose name comes from that of the rows
ERRORS = "errors"
PACKAGES = ("discorank", "numpy", "sacrebleu", "tokenizers", "torch", "transformers")
# what an installer leaves beside a package (importlib.metadata, which reads it too, takes long to import)
_INSTALLED = re.compile(rf"({'|'.join(PACKAGES)})-(.+)\.dist-info")
_STRING_OR_NUMBER = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?Infinity|NaN')
_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_SPELT = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}
# what an outcome adds to every output, and to the counts; of rows that are JSON objects, their values
Written = tuple[dict[str, bytes], dict[str, int]]
Addition = tuple[Mapping[str, Mapping[str, Any] | bytes], Mapping[str, int]]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Entry(Generic[T_co]):
    """A record (a candidate list, the input of a generator), or why there is none.

    Args:
        record: the record; None for an error.
        error: why there is none, with file and line; None for a record.
        line: its first line in the file.
        raw: the bytes it consumed, each line closed by one ``\\n`` whatever its end was, for a rolling hash of the
            input. Of several records made from one line, the first has them all and the others none; empty lines at
            the end of a file belong to no entry.
        id: the record's id, for an error where it could be read.
    """

    record: T_co | None
    error: InputError | None
    line: int
    raw: bytes
    id: str | None = None


class StoppedByErrorsError(DiscorankError):
    """More error records than allowed; the run can be resumed after mending the input."""

    exit_code = 3


class Checkpoint:
    """The outputs of one run and the file that says how far they are good.

    Args:
        out: the main output; ``OUT.run.json`` and ``OUT.lock`` stand beside it.
        sinks: path of every output by name.
        identity: the settings that results depend on.
        about: more to write into the run file.
        write_table: makes `out` of the rows (their file, and `out`) when the run is complete, and says what it wrote;
            None where the rows themselves stand at `out`.

    Raises:
        InputError: `out` cannot be written.
        ResumeError: an output without a run file, another identity, a damaged run file, or outputs that are not what it
            says.
    """

    def __init__(
        self,
        out: Path,
        sinks: Mapping[str, Path],
        identity: Mapping[str, Any],
        about: Mapping[str, Any],
        write_table: Callable[[Path, Path], WrittenBytes] | None = None,
    ) -> None:
        self.out = out
        self.sinks = dict(sinks)
        self.identity = dict(identity)
        self.about = dict(about)
        self.run_file = Path(f"{out}.run.json")
        self.write_table = write_table
        self.files: dict[str, BinaryIO] = {}
        table = {"table": out} if write_table else {}
        _check_outputs({**self.sinks, **table}, self.run_file)
        self.locks = ExitStack()
        try:
            for name, path in {**self.sinks, **table}.items():
                if name != ERRORS:
                    self.locks.enter_context(locked(path))
            self.state, self.earlier_input = earlier_run(
                self.run_file, self.sinks, self.identity, table.get("table")
            )
            self._cut()
        except BaseException:
            self.close()
            raise
        self.reread = blake2b(digest_size=16)
        self.begun = self.saved_at = monotonic()
        self.measured: Callable[[], Measured] = Measured

    @property
    def resumed(self) -> bool:
        """Whether an earlier run stands here."""
        return self.earlier_input is not None

    def commit(self, raw: bytes, writes: Mapping[str, bytes], counts: Mapping[str, int]) -> None:
        """Appends what one input entry yields; saves about once a second.

        Raises:
            ResourceError: the disk is full or gone.
        """
        outputs, total = self._grown(writes, counts)
        digest = self.state.digest.copy()
        digest.update(raw + b"\n")
        before = self.state
        # in one step, as a signal may come at any
        self.state = State(before.entries + 1, digest, outputs, total, before.seconds, before.work)
        if monotonic() - self.saved_at > EVERY_SECONDS:
            self.save()

    def skip(self, raw: bytes) -> None:
        """Counts an input entry that an earlier run has done."""
        self.reread.update(raw + b"\n")

    def check_input(self, where: str) -> None:
        """Raises ResumeError unless the skipped entries are those that the earlier run read."""
        if self.earlier_input is not None and self.reread.hexdigest() != self.earlier_input:
            raise ResumeError(
                f"the first {self.state.entries} entries differ from those that {self.out} was made from",
                where=where,
                fix="Restore them, or choose another output",
            )

    def begin(self, measured: Callable[[], Measured] = Measured) -> None:
        """Opens the outputs; from here on `save` is allowed, and asks what this session has done."""
        self.measured = measured
        self.state = replace(self.state, digest=self.reread)
        for name, path in self.sinks.items():
            if name != ERRORS:
                self._append(name, b"")
                if not self.resumed:
                    os.truncate(path, 0)
        self.save()

    def leave(self, name: str, data: bytes) -> None:
        """Appends data that no checkpoint counts: a later run cuts it off."""
        self.save()
        self._append(name, data)
        self.files[name].flush()

    def save(self, *, complete: bool = False) -> None:
        """Makes everything committed so far permanent."""
        try:
            for file in self.files.values():
                file.flush()
                os.fsync(file.fileno())
            made: dict[str, WrittenBytes] = {}
            if complete and self.write_table is not None:
                self._write(False, made)
                made["table"] = self.write_table(self.sinks["rows"], self.out)
            self._write(complete, made)
        except OSError as error:
            raise unwritable(self.out, error) from error
        self.saved_at = monotonic()

    def close(self) -> None:
        """Closes the outputs and gives up the locks; their files stay, as taking them away would let two runs in."""
        for file in self.files.values():
            with suppress(OSError):  # what could not be written was reported by save
                file.close()
        self.files = {}
        self.locks.close()

    def _grown(
        self, writes: Mapping[str, bytes], counts: Mapping[str, int]
    ) -> tuple[dict[str, WrittenBytes], dict[str, int]]:
        """Appends to the outputs; these and the counts with what was added."""
        outputs, total = dict(self.state.outputs), dict(self.state.counts)
        for name, data in writes.items():
            self._append(name, data)
            outputs[name] = outputs.get(name, WrittenBytes()).plus(data)
        for name, n in counts.items():
            total[name] = total.get(name, 0) + n
        return outputs, total

    def _append(self, name: str, data: bytes) -> None:
        try:
            if name not in self.files:
                self.files[name] = open(self.sinks[name], "ab")  # noqa: SIM115  closed by close()
            self.files[name].write(data)
        except OSError as error:
            raise unwritable(self.sinks[name], error) from error

    def _write(self, complete: bool, made: Mapping[str, WrittenBytes]) -> None:
        """Writes the run file; `made` are the outputs that were made of others."""
        state = self.state
        seconds = state.seconds + monotonic() - self.begun
        row = {
            "complete": complete,
            **self.about,
            "truncations": {
                name: n for name, n in self.state.counts.items() if name.startswith("truncated-")
            },
            "settings": self.identity,
            "input": {"entries": state.entries, "digest": state.digest.hexdigest()},
            "counts": dict(sorted(state.counts.items())),
            "timings": {"seconds": round(seconds, 3), **self._timings()},
        }
        write_run_file(self.run_file, row, {**state.outputs, **made})

    def _timings(self) -> dict[str, Any]:
        """The work of all sessions, and the workers of this one."""
        work, workers = self.measured()
        return amounts(self.state.work + work) | (
            {"workers": [one.row() for one in workers]} if workers else {}
        )

    def _cut(self) -> None:
        """Takes away what the run file does not count."""
        for name, path in self.sinks.items():
            good = self.state.outputs.get(name, WrittenBytes()).num_bytes
            if path.exists() and path.stat().st_size > good:
                os.truncate(path, good)
            if name == ERRORS and not good:
                path.unlink(missing_ok=True)


def _check_outputs(paths: Mapping[str, Path], run_file: Path) -> None:
    """Raises InputError if an output cannot be one, if two are one file, or one is the run file or a lock."""
    seen = {os.path.realpath(run_file): "the run"}
    for name, path in paths.items():
        seen[os.path.realpath(f"{path}.lock")] = f"the lock of {name}"
    for name, path in paths.items():
        where = str(path)
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            problem = f"is the file of {other} and of {name}"
            raise InputError(problem, where=where, fix="Name two files")
        if not path.parent.is_dir():
            problem = "cannot be written: no such folder"
            raise InputError(problem, where=where, fix="Make the folder")
        if path.exists() and not path.is_file():
            fix = "Name a file; without one rows go to stdout"
            raise InputError("is no plain file", where=where, fix=fix)


def earlier_run(
    run_file: Path,
    sinks: Mapping[str, Path],
    identity: Mapping[str, Any],
    table: Path | None = None,
) -> tuple[State, str | None]:
    """How far the run at these outputs has come, and its input digest; None if there was no run.

    A run of other settings that ended before its first row is none: nothing is lost with it.

    Args:
        run_file: says how far it has come.
        sinks: path of every output by name.
        identity: the settings that it must have.
        table: what is made of the rows when the run is complete, if anything.

    Raises:
        ResumeError: an output without a run file, another identity, a damaged run file, or outputs that are not what it
            says.
    """
    tables = {} if table is None else {"table": table}
    there = [path for path in (*tables.values(), *sinks.values(), run_file) if path.exists()]
    if run_file not in there:
        for path in there:
            if path.stat().st_size:
                problem = f"it exists, but {run_file.name} does not"
                raise ResumeError(problem, where=str(path), fix="Choose another file")
        return State(), None
    fix = f"Restore it, or remove {' and '.join(map(str, there))} to start anew"
    try:
        run = recorded_run(read_run_file(run_file, fix), str(run_file), fix)
        now = json.loads(json.dumps(identity))
        differing = [
            key for key in sorted({*run.settings, *now}) if run.settings.get(key) != now.get(key)
        ]
        if differing:
            # an error record that ended the run is no output
            written = [path for name, path in sinks.items() if name != "errors" and path in there]
            if not (run.complete or run.entries or any(path.stat().st_size for path in written)):
                return State(), None
            changes = [
                f"{key} was {run.settings.get(key)!r}, now {now.get(key)!r}" for key in differing
            ]
            fix = "Choose another output, or the same settings"
            raise ResumeError("; ".join(changes), where=str(run_file), fix=fix)
        good = {name: checked_output(path, name, run, fix) for name, path in sinks.items()}
        if table is not None and run.complete:
            checked_output(table, "table", run, fix)
    except InputError as error:
        raise ResumeError(error.problem, where=error.where, fix=error.fix) from error
    outputs = {name: output for name, output in good.items() if output.num_bytes}
    hasher = blake2b(digest_size=16)
    state = State(run.entries, hasher, outputs, run.counts, run.seconds, run.work)
    return state, run.input_digest


class Stream:
    """The outputs of a run that leaves nothing behind: rows on stdout, error records on stderr."""

    resumed = False

    def __init__(self) -> None:
        self.state = State()
        self.sinks: dict[str, Path] = {}
        self.out = Path("-")

    def commit(self, raw: bytes, writes: Mapping[str, bytes], counts: Mapping[str, int]) -> None:
        """Writes what one input entry yields."""
        for name, data in writes.items():
            stream = sys.stderr if name == "errors" else sys.stdout
            stream.buffer.write(data)
            stream.flush()
        total = Counter(self.state.counts)
        total.update(counts)
        self.state = replace(self.state, entries=self.state.entries + 1, counts=total)

    def leave(self, name: str, data: bytes) -> None:
        """Writes an error record that stops the run."""
        self.commit(b"", {name: data}, {})

    def skip(self, raw: bytes) -> None:
        """There is nothing to skip."""

    def check_input(self, where: str) -> None:
        """There is nothing to compare with."""

    def begin(self, measured: Callable[[], Measured] = Measured) -> None:
        """There is nothing to open."""

    def save(self, *, complete: bool = False) -> None:
        """There is nothing to save."""

    def close(self) -> None:
        """There is nothing to close."""


def outputs(
    out: Path | None,
    identity: Mapping[str, Any],
    about: Mapping[str, Any],
    more: Mapping[str, Path] | None = None,
) -> Checkpoint | Stream:
    """The outputs of a run: rows at `out`, error records beside it and `more`; or stdout and stderr without `out`.

    Where `out` is a Parquet or Arrow file, the rows are lines beside it, of which it is made when the run is complete.

    Raises:
        InputError, ResumeError: as `Checkpoint`.
        ModelLoadError: it needs pyarrow, which is not installed.
    """
    if out is None:
        return Stream()
    table_writer = None
    if is_table(out):
        require(str(out), "pyarrow")
        from .table_files import write_table

        table_writer = write_table
    sinks = {"rows": lines_of_run(out), "errors": Path(f"{out}.errors.jsonl"), **(more or {})}
    return Checkpoint(out, sinks, identity, {**about, "versions": _versions()}, table_writer)


def error_row(error: DiscorankError, file: str, line: int, identity: str | None) -> bytes:
    """An error record: where, which list, why, and what to do."""
    reason = {
        "where": error.where,
        "reason": error.problem,
        "fix": error.fix,
        "kind": type(error).__name__,
    }
    return as_line({"file": file, "line": line, "id": identity, **reason})


def as_line(row: Mapping[str, Any]) -> bytes:
    """A JSON object as one UTF-8 line.

    A lone surrogate is written as its escape; of the numbers for which JSON has no word, infinity as 1e999 and NaN as
    null.
    """
    try:
        text = _STRICT.encode(row)
    except ValueError:
        text = json.dumps(row, ensure_ascii=False)
        text = _STRING_OR_NUMBER.sub(lambda match: _SPELT.get(match[0], match[0]), text)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace") + b"\n"


@dataclass(frozen=True)
class RowLoop:
    """How the rows of a run are written.

    Args:
        checkpoint: the outputs, which are closed at the end.
        name: the input's name, for messages and error records.
        max_errors: how many error records a run may write.
        on_progress: called with the number of entries done and of error records.
        meter: counts the seconds of reading and writing.
        on_row: called with the lines that are written of a list.
        begins_late: whether outputs are opened when the first outcome is there: a run that cannot begin leaves none.
    """

    checkpoint: Checkpoint | Stream
    name: str
    max_errors: int
    on_progress: Callable[[int, int], None]
    meter: Meter = field(default_factory=Meter)
    on_row: Callable[[bytes], object] = lambda row: None
    begins_late: bool = False

    def run(
        self,
        entries: Iterable[Entry[Any]],
        replay: Callable[[Entry[Any]], object],
        outcomes: Callable[[Iterator[Entry[Any]]], Generator[tuple[Entry[Any], T]]],
        written: Callable[[T], Addition],
        measured: Callable[[], Measured],
    ) -> Mapping[str, int]:
        """Writes the rows of all entries that no earlier run has done; returns the counts of the run.

        Args:
            entries: what a reader yields, in order.
            replay: takes an entry that an earlier run has done.
            outcomes: the other entries, each with what came of it, in order.
            written: what an outcome adds to the outputs and to the counts; raises the error that it ended in.
            measured: what this session has done, for the run file.

        Raises:
            ResumeError: the first entries are not those of the earlier run.
            StoppedByErrorsError: one error record more than there may be.
        """
        source = self._metered(entries)
        with closing(self.checkpoint):
            for entry in islice(source, self.checkpoint.state.entries):
                self.checkpoint.skip(entry.raw)
                replay(entry)
            self.checkpoint.check_input(self.name)
            with closing(outcomes(source)) as pairs:
                first = list(islice(pairs, int(self.begins_late)))
                self.checkpoint.begin(measured)
                try:
                    for entry, outcome in chain(first, pairs):
                        with self.meter.stage("write"):
                            self._write(entry, outcome, written)
                        self.on_progress(self.checkpoint.state.entries, num_errors(self.checkpoint))
                except BaseException:  # what was written is kept whatever happens
                    self.checkpoint.save()
                    raise
                self.checkpoint.save(complete=True)
        return self.checkpoint.state.counts

    def _write(self, entry: Entry[Any], outcome: T, written: Callable[[T], Addition]) -> None:
        try:
            rows, counts = written(outcome)
        except DiscorankError as error:
            error = _placed(error, entry, self.name)
            record = error_row(error, self.name, entry.line, entry.id)
            if num_errors(self.checkpoint) >= self.max_errors:
                self.checkpoint.leave("errors", record)
                raise stopped(error, entry, self.name) from error
            rows, counts = {"errors": record}, {"errors": 1}
        writes = {
            name: row if isinstance(row, bytes) else as_line(row) for name, row in rows.items()
        }
        self.checkpoint.commit(entry.raw, writes, counts)
        if "rows" in writes:
            self.on_row(writes["rows"])

    def _metered(self, entries: Iterable[Entry[Any]]) -> Iterator[Entry[Any]]:
        source = iter(entries)
        while True:
            with self.meter.stage("read"):
                entry = next(source, None)
            if entry is None:
                return
            yield entry


def num_errors(checkpoint: Checkpoint | Stream) -> int:
    """How many error records are written."""
    return checkpoint.state.counts.get("errors", 0)


def stopped(error: DiscorankError, entry: Entry[Any], name: str) -> StoppedByErrorsError:
    """The error that ends a run at one error record more than it may have."""
    placed = _placed(error, entry, name)
    # one advice: that of the error, if it has any
    fix = placed.fix or "Mend it and run again"
    reason = type(placed)(placed.problem, where=placed.where)
    return StoppedByErrorsError(
        f"stopped at an error record: {reason} (--max-errors N continues without N such)",
        where=f"{name}:{entry.line}",
        fix=fix,
    )


def _placed(error: DiscorankError, entry: Entry[Any], name: str) -> DiscorankError:
    """The error without the file and line that its record says beside it."""
    prefix = f"{name}:{entry.line}"
    where = error.where.removeprefix(prefix).removeprefix(": ")
    return type(error)(error.problem, where=where, fix=error.fix)


def _versions() -> dict[str, str]:
    """Of Python and of those packages that are installed."""
    installed: dict[str, str] = {}
    for folder in sys.path:
        with suppress(OSError):
            for name in sorted(os.listdir(folder or ".")):
                if match := _INSTALLED.fullmatch(name):
                    installed.setdefault(match[1], match[2])
    packages = {package: installed[package] for package in PACKAGES if package in installed}
    return {"python": python_version(), **packages}
