"""Append-only output files with a checkpoint, so that a run killed at any point goes on as if it had not been.

The run file says how many bytes of each output are good and how much input they stand for; what lies beyond is cut off
on resume. It is replaced in one step, after the outputs are on disk. It knows neither lists nor metrics.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, BinaryIO, NamedTuple

from ...metrics.errors import InputError, ResourceError, ResumeError
from ...metrics.storage.atomic_files import locked
from ..engines.status import amounts
from .block_digests import LEAF_BYTES, BlockDigests
from .earlier_run import earlier_run
from .run_file import Measured, State, write_run_file

EVERY_SECONDS = 1.0
# outputs that are there while something is in them, whose names come from that of the rows
BESIDE = ("errors", "waiting")


class Growth(NamedTuple):
    """An output: the digests of its bytes, and what was written behind these, less than a leaf and a row."""

    digests: BlockDigests
    since: list[bytes]


class Checkpoint:
    """The outputs of one run and the file that says how far they are good.

    Args:
        out: the main output; ``OUT.run.json`` and ``OUT.lock`` stand beside it.
        sinks: path of every output by name.
        identity: the settings that results depend on.
        about: more to write into the run file.
        write_table: makes `out` of the rows (their file, and `out`) when the run is complete, and says the digests of
            its bytes; None where the rows themselves stand at `out`.

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
        write_table: Callable[[Path, Path], BlockDigests] | None = None,
    ) -> None:
        self.out = out
        self.sinks = dict(sinks)
        self.identity = dict(identity)
        self.about = dict(about)
        self.run_file = Path(f"{out}.run.json")
        self.write_table = write_table
        self.files: dict[str, BinaryIO] = {}
        table = {"table": out} if write_table else {}
        _check_distinct({**self.sinks, **table}, self.run_file)
        for path in (*self.sinks.values(), *table.values()):
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
                if name not in BESIDE:
                    self.locks.enter_context(locked(path))
            for path in table.values():
                self.locks.enter_context(locked(path))
            earlier = earlier_run(self.run_file, self.sinks, self.identity, table.get("table"))
            self.earlier_input = earlier.input_digest
            self.state = earlier.state
            self.growth = {name: Growth(earlier.digests[name], []) for name in self.sinks}
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
        sizes, total = self._grown(writes, counts)
        digest = self.state.digest.copy()
        digest.update(raw + b"\n")
        before = self.state
        self.state = State(before.entries + 1, digest, sizes, total, before.seconds, before.work)
        self._hash_leaves(writes)
        if monotonic() - self.saved_at > EVERY_SECONDS:
            self.save()

    def keep(self, name: str, data: bytes, counts: Mapping[str, int]) -> None:
        """Appends to an output what no input entry is done by; the next `save` makes it permanent.

        Raises:
            ResourceError: the disk is full or gone.
        """
        sizes, total = self._grown({name: data}, counts)
        self.state = replace(self.state, sizes=sizes, counts=total)
        self._hash_leaves([name])

    def clear(self, name: str) -> None:
        """Takes an output away, and the count of its name; the run file says so first."""
        if not self.state.sizes.get(name, 0):
            return
        sizes, counts = dict(self.state.sizes), dict(self.state.counts)
        sizes.pop(name)
        counts.pop(name, None)
        # the state first, as a signal may come at any step
        self.state = replace(self.state, sizes=sizes, counts=counts)
        self.growth[name] = Growth(BlockDigests(), [])
        self.save()
        if name in self.files:
            self.files.pop(name).close()
        self.sinks[name].unlink(missing_ok=True)

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
            if name not in BESIDE:
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
            made: dict[str, BlockDigests] = {}
            if complete and self.write_table is not None:
                self._write(False, made)
                made["table"] = self.write_table(self.sinks["rows"], self.out)
            self._write(complete, made)
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

    def _grown(
        self, writes: Mapping[str, bytes], counts: Mapping[str, int]
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Appends to the outputs; their sizes and the counts with what was added."""
        sizes, total = dict(self.state.sizes), dict(self.state.counts)
        for name, data in writes.items():
            self._append(name, data)
            self.growth[name].since.append(data)
            sizes[name] = sizes.get(name, 0) + len(data)
        for name, n in counts.items():
            total[name] = total.get(name, 0) + n
        return sizes, total

    def _hash_leaves(self, names: Iterable[str]) -> None:
        """Hashes outputs that have grown by a leaf."""
        for name in names:
            size = self.state.sizes[name]
            if size - self.growth[name].digests.num_bytes >= LEAF_BYTES:
                self._hash(name, size)

    def _append(self, name: str, data: bytes) -> None:
        try:
            if name not in self.files:
                self.files[name] = open(self.sinks[name], "ab")  # noqa: SIM115  closed by close()
            self.files[name].write(data)
        except OSError as error:
            raise ResourceError(
                f"cannot be written ({error.strerror})", where=str(self.sinks[name])
            ) from error

    def _write(self, complete: bool, made: Mapping[str, BlockDigests]) -> None:
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
        write_run_file(self.run_file, row, {**self._hashed(state), **made})

    def _hashed(self, state: State) -> dict[str, BlockDigests]:
        """The digests of the outputs up to a state."""
        for name in self.growth:
            self._hash(name, state.sizes.get(name, 0))
        return {name: self.growth[name].digests for name in state.sizes}

    def _hash(self, name: str, size: int) -> None:
        """Hashes an output up to so many bytes, and lets go of them."""
        growth = self.growth[name]
        written = b"".join(growth.since)
        new_bytes = size - growth.digests.num_bytes
        # in one step, as a signal may come at any
        self.growth[name] = Growth(growth.digests.extended(written[:new_bytes]), [])

    def _timings(self) -> dict[str, Any]:
        """The work of all sessions, and the workers of this one."""
        work, workers = self.measured()
        return amounts(self.state.work + work) | (
            {"workers": [one.row() for one in workers]} if workers else {}
        )

    def _cut(self) -> None:
        """Takes away what the run file does not count."""
        for name, path in self.sinks.items():
            good = self.state.sizes.get(name, 0)
            if path.exists() and path.stat().st_size > good:
                os.truncate(path, good)
            if name in BESIDE and not good:
                path.unlink(missing_ok=True)


def _check_distinct(sinks: Mapping[str, Path], run_file: Path) -> None:
    """Raises InputError if two outputs are one file, or one is the run file or a lock."""
    seen = {os.path.realpath(run_file): "the run"}
    for name, path in sinks.items():
        seen[os.path.realpath(f"{path}.lock")] = f"the lock of {name}"
    for name, path in sinks.items():
        other = seen.setdefault(os.path.realpath(path), name)
        if other != name:
            raise InputError(
                f"is the file of {other} and of {name}", where=str(path), fix="Name two files"
            )
