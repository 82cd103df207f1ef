"""A bounded cache of representations on disk, for texts that are read again in another run.

An entry's key is a digest of everything that its content depends on: the metric with the digests of its files, the text
with its context, the kind of device and the versions of the libraries. Several processes may share one folder. Nothing
in it is ever executed.

Damaged entries are computed again. An entry is a CRC-32 of its key and content, and the content, a safetensors file;
one that does not fit counts as absent. Where SQLite itself finds its file damaged, the file is moved aside
(``.damaged``) and another is begun. A cache that cannot be used at all, be it full, locked or gone, costs time and
changes nothing. Warnings report faults of the file at once, and damaged entries as one count at the end.

A CRC finds every damage of up to 32 bits in a row and misses one in 2^32 of any other; entries are large and read in
every run, and it is several times faster than a digest.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from warnings import warn
from weakref import finalize
from zlib import crc32

from ..errors import InputError
from ..representations import Reps

CHECKSUM_BYTES = 4
FILE = "representations.sqlite"
ASIDE = f"{FILE}.damaged"
MAX_BYTES = 10 * 10**9
BATCH = 500  # keys of one query
BEGIN_SECONDS = 5.0  # how long a file is tried that another process begins
AGAIN_SECONDS = 0.01  # between two tries
LATEST = 1 << 53  # a later time of use is none that was written
TOTAL = "SELECT coalesce(sum(length(value)), 0) FROM entries"
LAST_USE = f"SELECT coalesce(max(used), 0) FROM entries WHERE used BETWEEN 0 AND {LATEST}"  # noqa: S608
OLDEST = "SELECT rowid, length(value) FROM entries ORDER BY used, rowid LIMIT 100"
TABLES = """
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, used INTEGER NOT NULL, size INTEGER NOT NULL, value BLOB);
CREATE INDEX IF NOT EXISTS by_use ON entries (used);
"""
# what SQLite says of a file that is not as it was written; of other faults another file would not be free
DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR}
# beside SQLite's own, what values of a damaged file raise on the way into Python
BROKEN = (sqlite3.Error, OverflowError, ValueError, TypeError)


@dataclass
class Damage:
    """Damaged entries that a run read.

    Attributes:
        keys: of those that this process read.
        elsewhere: the number of those that other processes of the run read.
    """

    keys: set[Any] = field(default_factory=set)
    elsewhere: int = 0

    def warn(self, folder: str | Path) -> None:
        """Warn of damaged entries, if there were any; where warnings are errors, nobody could take this one."""
        count = len(self.keys) + self.elsewhere
        if count:
            problem = f"{count} entries were damaged and were made anew"
            with suppress(RuntimeWarning):
                warn(f"cache {folder}: {problem}", RuntimeWarning, stacklevel=4)


def written_entry(key: bytes, reps: Reps) -> bytes:
    """An entry as it is stored."""
    from safetensors.numpy import save

    content = save(dict(reps.arrays()))
    return _checksum(key, content) + content


def read_entry(key: Any, value: Any) -> Reps | None:
    """The representations of one item that were stored under a key; None for whatever else a damaged file gives."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return None
    content = value[CHECKSUM_BYTES:]
    if value[:CHECKSUM_BYTES] != _checksum(key, content):
        return None
    try:
        return Reps.from_arrays(load(content))
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError):
        return None


def _checksum(key: bytes, content: bytes) -> bytes:
    return crc32(content, crc32(key)).to_bytes(CHECKSUM_BYTES, "little")


class Cache:
    """Representations by key.

    Args:
        folder: where they are kept; made if it is not there.
        max_bytes: how many bytes are kept; what was not used for longest goes first.
        is_synced: whether every entry is on the disk before `put` returns, for what is dear to make again.

    Raises:
        InputError: the folder cannot be used.
    """

    def __init__(
        self, folder: str | Path, max_bytes: int = MAX_BYTES, is_synced: bool = False
    ) -> None:
        if max_bytes < 1:
            raise InputError(f"found {max_bytes}", where="max_bytes", fix="Give a positive number")
        self.folder, self.max_bytes, self.is_synced = folder, max_bytes, is_synced
        self.damage = Damage()
        self.warnings: set[str] = set()  # that were given
        self.usable = self.renewed = False
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise self._refusal(error) from error
        try:
            self._open()
        except BROKEN as error:
            try:
                is_renewed = self._renewed(error)
            except (OSError, *BROKEN):
                is_renewed = False
            if not is_renewed:
                raise self._refusal(error) from error
        # at the end of the process, if nobody closes it before
        self._end = finalize(self, self.damage.warn, folder)

    def _refusal(self, error: Exception) -> InputError:
        fix = "Name another folder"
        return InputError(f"cannot be used: {error}", where=f"cache {self.folder}", fix=fix)

    def _open(self) -> None:
        """Connects to the file, made if it is not there."""
        path = Path(self.folder) / FILE
        self.inode = _inode(path)
        self.base = sqlite3.connect(path, timeout=60, isolation_level=None)
        try:
            self.inode = _inode(path)
            self.base.text_factory = bytes
            self._log_writes()
            # what a crash of the machine loses is made again
            self.base.execute(f"PRAGMA synchronous={'FULL' if self.is_synced else 'OFF'}")
            self.base.executescript(TABLES)
            # bytes held, as far as this process knows
            self.added = self._number(TOTAL)
            # the time of this process: entries that it uses are younger than all others
            self.clock = self._number(LAST_USE) + 1
        except BaseException:
            self.base.close()
            raise
        self.usable = True

    def _log_writes(self) -> None:
        """Has writes go to a log; of two processes that begin a file, the second is told at once that it is locked."""
        ends_at = monotonic() + BEGIN_SECONDS
        while True:
            try:
                self.base.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or monotonic() > ends_at:
                    raise
            sleep(AGAIN_SECONDS)

    def _number(self, query: str) -> int:
        return int(self.base.execute(query).fetchone()[0])

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Reps]:
        """The entries that there are of these keys; damaged ones count as absent."""
        entries: dict[bytes, Reps] = {}
        if not self.usable:
            return entries
        try:
            for start in range(0, len(keys), BATCH):
                batch = keys[start : start + BATCH]
                marks = ",".join("?" * len(batch))
                select = f"SELECT key, value FROM entries WHERE key IN ({marks})"  # noqa: S608
                for key, value in self.base.execute(select, batch):
                    reps = read_entry(key, value)
                    if reps is None:
                        self.damage.keys.add(key)
                    else:
                        entries[key] = reps
                mark_used = f"UPDATE entries SET used = {self.clock} WHERE key IN ({marks})"  # noqa: S608
                self.base.execute(mark_used, batch)
        except BROKEN as error:
            self._failed(error)
        return entries

    def put(self, entries: Mapping[bytes, Reps]) -> None:
        """Keeps these, and lets go of the oldest beyond `max_bytes`."""
        if not self.usable:
            return
        rows = []
        for key, reps in entries.items():
            value = written_entry(key, reps)
            rows.append((key, self.clock, len(value), value))
        try:
            self.base.execute("BEGIN IMMEDIATE")
            self._put(rows)
            self.base.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                if self.base.in_transaction:
                    self.base.execute("ROLLBACK")
            if not isinstance(error, BROKEN):
                raise
            self._failed(error)
        self.clock += 1

    def _put(self, rows: Sequence[tuple[bytes, int, int, bytes]]) -> None:
        """Writes rows of (key, time of use, size, value) and deletes the oldest beyond `max_bytes`."""
        self.base.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", rows)
        self.added += sum(size for _, _, size, _ in rows)
        if self.added <= self.max_bytes:
            return
        total = self._number(TOTAL)  # other processes may have added, too
        while total > self.max_bytes:
            oldest = self.base.execute(OLDEST).fetchall()
            if not oldest:
                raise ValueError("entries are counted that are not there")
            for row, size in oldest:
                self.base.execute("DELETE FROM entries WHERE rowid = ?", (row,))
                total -= size
                if total <= self.max_bytes:
                    break
        self.added = total

    def _failed(self, error: Exception) -> None:
        """Begins another file where this one is damaged, else warns: what it would have held is computed again."""
        try:
            if self._renewed(error):
                return
        except (OSError, *BROKEN) as second:
            error = second
        self._warn(str(error))

    def _renewed(self, error: Exception) -> bool:
        """Whether another file was begun: once in a process, and only for one that is damaged."""
        if self.renewed or not _is_damage(error):
            return False
        self.renewed, self.usable = True, False
        self.base.close()
        path = Path(self.folder) / FILE
        if _inode(path) == self.inode:  # else another process has begun one
            os.replace(path, path.with_name(ASIDE))
            for log in ("-wal", "-shm"):
                path.with_name(FILE + log).unlink(missing_ok=True)
        self._open()
        self._warn(f"is damaged ({error}): it was moved to {ASIDE}, and what it held is made anew")
        return True

    def _warn(self, problem: str) -> None:
        """Warns of a problem, of the same once."""
        if problem not in self.warnings:
            self.warnings.add(problem)
            warn(f"cache {self.folder}: {problem}", RuntimeWarning, stacklevel=5)

    def close(self) -> None:
        """Close the file and warn of damaged entries, if there were any; the second time does nothing."""
        self.base.close()
        self.usable = False
        self._end()


def _is_damage(error: Exception) -> bool:
    """Whether an error says that the file is not as it was written."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGE
    return not isinstance(error, OSError)


def _inode(path: Path) -> int | None:
    """The identity of a file, which differs from others of its name; None where there is none."""
    try:
        return os.stat(path).st_ino
    except (OSError, ValueError):
        return None


def key(*parts: str) -> bytes:
    """The key of something that depends on these texts."""
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.digest()
