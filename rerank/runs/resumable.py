"""Append-only output files with a checkpoint, so that a run killed at any point goes on as if it had not been.

The run file says how many bytes of each output are good and how much input they stand for; what lies beyond is cut off
on resume. It is replaced in one step, after the outputs are on disk. It knows neither lists nor metrics.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

from ...metrics.errors import InputError, ResourceError, ResumeError
from ...metrics.execution.meter import Metered
from ...metrics.file_locks import locked
from ...metrics.spec.small_files import read_small_file
from ..engines.status import WorkerStatus, amounts, work_of

EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class State:
    """How far a run has come; replaced whole, never changed."""

    entries: int = 0  # input entries that the outputs stand for
    digest: Any = field(default_factory=lambda: blake2b(digest_size=16))  # of these entries
    sizes: Mapping[str, int] = field(default_factory=dict)  # good bytes of each output
    counts: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0  # of earlier sessions
    work: Metered = field(default_factory=Metered)  # of earlier sessions


class Measured(NamedTuple):
    """What this session has done so far: figures for the run file that no result depends on."""

    work: Metered = Metered()
    workers: tuple[WorkerStatus, ...] = ()


class Checkpoint:
    """The outputs of one run and the file that says how far they are good.

    Args:
        out: the main output; ``OUT.run.json`` and ``OUT.lock`` stand beside it.
        sinks: path of every output by name.
        identity: the settings that results depend on.
        about: more to write into the run file.

    Raises:
        InputError: `out` cannot be written.
        ResumeError: an output without a run file, another identity, or outputs shorter than the run file says.
    """

    def __init__(
        self,
        out: Path,
        sinks: Mapping[str, Path],
        identity: Mapping[str, Any],
        about: Mapping[str, Any],
    ) -> None:
        self.out = out
        self.sinks = dict(sinks)
        self.identity = dict(identity)
        self.about = dict(about)
        self.run_file = Path(f"{out}.run.json")
        self.files: dict[str, BinaryIO] = {}
        _check_distinct(self.sinks)
        for path in self.sinks.values():
            if not path.parent.is_dir():
                raise InputError(
                    "cannot be written: no such folder", where=str(path), fix="Make the folder"
                )
            if path.exists() and not path.is_file():
                raise InputError(
                    "is no plain file",
                    where=str(path),
                    fix="Name a file; without one rows go to stdout",
                )
        self.locks = ExitStack()
        try:
            for name, path in self.sinks.items():
                if name != "errors":  # its name comes from that of the rows
                    self.locks.enter_context(locked(path))
            self.state, self.found_digest = self._read()
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
        return self.found_digest is not None

    def commit(self, raw: bytes, writes: Mapping[str, bytes], counts: Mapping[str, int]) -> None:
        """Appends what one input entry yields; saves about once a second.

        Raises:
            ResourceError: the disk is full or gone.
        """
        sizes, total = dict(self.state.sizes), dict(self.state.counts)
        for name, data in writes.items():
            self._append(name, data)
            sizes[name] = sizes.get(name, 0) + len(data)
        for name, n in counts.items():
            total[name] = total.get(name, 0) + n
        digest = self.state.digest.copy()
        digest.update(raw + b"\n")
        self.state = replace(
            self.state, entries=self.state.entries + 1, digest=digest, sizes=sizes, counts=total
        )
        if monotonic() - self.saved_at > EVERY_SECONDS:
            self.save()

    def skip(self, raw: bytes) -> None:
        """Counts an input entry that an earlier run has done."""
        self.reread.update(raw + b"\n")

    def check_input(self, where: str) -> None:
        """Raises ResumeError unless the skipped entries are those that the earlier run read."""
        if self.found_digest is not None and self.reread.hexdigest() != self.found_digest:
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
            if name != "errors":
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
            self._write(complete)
        except OSError as error:
            raise ResourceError(
                f"cannot be written ({error.strerror})", where=str(self.out)
            ) from error
        self.saved_at = monotonic()

    def close(self) -> None:
        """Closes the outputs and gives up the locks; their files stay, as taking them away would let two runs in."""
        for file in self.files.values():
            with suppress(OSError):  # what could not be written was reported by save
                file.close()
        self.files = {}
        self.locks.close()

    def _append(self, name: str, data: bytes) -> None:
        try:
            if name not in self.files:
                self.files[name] = open(self.sinks[name], "ab")  # noqa: SIM115  closed by close()
            self.files[name].write(data)
        except OSError as error:
            raise ResourceError(
                f"cannot be written ({error.strerror})", where=str(self.sinks[name])
            ) from error

    def _write(self, complete: bool) -> None:
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
            "bytes": dict(state.sizes),
        }
        draft = Path(f"{self.run_file}.tmp")
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(row, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self.run_file)

    def _timings(self) -> dict[str, Any]:
        """The work of all sessions, and the workers of this one."""
        work, workers = self.measured()
        return amounts(self.state.work + work) | (
            {"workers": [one.row() for one in workers]} if workers else {}
        )

    def _read(self) -> tuple[State, str | None]:
        if not self.run_file.exists():
            for path in self.sinks.values():
                if path.exists() and path.stat().st_size:
                    raise ResumeError(
                        f"it exists, but {self.run_file.name} does not",
                        where=str(path),
                        fix="Choose another file",
                    )
            return State(), None
        try:
            row = json.loads(read_small_file(self.run_file, "").decode("utf-8"))
            was, data = dict(row["settings"]), row["input"]
            sizes, counts = (
                {str(k): int(v) for k, v in row[name].items()} for name in ("bytes", "counts")
            )
            if int(data["entries"]) < 0 or min((*sizes.values(), *counts.values()), default=0) < 0:
                raise ValueError("a negative number")
            spent, digest = row["timings"], str(data["digest"])
            seconds, work = float(spent["seconds"]), work_of(spent)
            state = State(
                int(data["entries"]), blake2b(digest_size=16), sizes, counts, seconds, work
            )
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,
            OverflowError,
        ) as error:
            raise ResumeError(
                f"cannot be read ({error})",
                where=str(self.run_file),
                fix=f"Remove it and {self.out} to start anew",
            ) from error
        self._compare(was)
        return state, digest

    def _compare(self, was: Mapping[str, Any]) -> None:
        now = json.loads(json.dumps(self.identity))
        differing = [key for key in sorted({*was, *now}) if was.get(key) != now.get(key)]
        if differing:
            changes = [f"{key} was {was.get(key)!r}, now {now.get(key)!r}" for key in differing]
            fix = "Choose another output, or the same settings"
            raise ResumeError("; ".join(changes), where=str(self.run_file), fix=fix)

    def _cut(self) -> None:
        for name, path in self.sinks.items():
            good = self.state.sizes.get(name, 0)
            size = path.stat().st_size if path.exists() else 0
            if size < good:
                raise ResumeError(
                    f"{size} bytes, the run file says {good}",
                    where=str(path),
                    fix=f"Remove {self.out} and {self.run_file} to start anew",
                )
            if size > good:
                os.truncate(path, good)
            if name == "errors" and not good:
                path.unlink(missing_ok=True)


def _check_distinct(sinks: Mapping[str, Path]) -> None:
    """Raises InputError if two outputs are one file."""
    seen: dict[str, str] = {}
    for name, path in sinks.items():
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            raise InputError(
                f"is the file of {other} and of {name}", where=str(path), fix="Name two files"
            )


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
        total = {
            name: self.state.counts.get(name, 0) + counts.get(name, 0)
            for name in {*self.state.counts, *counts}
        }
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
