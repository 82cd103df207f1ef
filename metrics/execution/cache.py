"""A bounded cache of representations on disk, for texts that are read again in another run.

An entry's key is a digest of everything that its content depends on: the metric with the digests of its files, the text
with its context, the kind of device and the versions of the libraries. Several processes may share one folder. What
cannot be read counts as absent; nothing in it is ever executed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from warnings import warn

from ..errors import InputError
from ..representations import Reps

FILE = "representations.sqlite"
MAX_BYTES = 10 * 10**9
BATCH = 500  # keys of one query
TOTAL = "SELECT coalesce(sum(size), 0) FROM entries"
LAST_USE = "SELECT coalesce(max(used), 0) FROM entries"
OLDEST = "SELECT key, size FROM entries ORDER BY used, rowid LIMIT 100"
TABLES = """
CREATE TABLE IF NOT EXISTS entries (key BLOB PRIMARY KEY, used INTEGER NOT NULL, size INTEGER NOT NULL, value BLOB);
CREATE INDEX IF NOT EXISTS by_use ON entries (used);
"""


class Cache:
    """Representations by key.

    Args:
        folder: where they are kept; made if it is not there.
        max_bytes: how many bytes are kept; what was not used for longest goes first.

    Raises:
        InputError: the folder cannot be used.
    """

    def __init__(self, folder: str | Path, max_bytes: int = MAX_BYTES) -> None:
        if max_bytes < 1:
            raise InputError(f"found {max_bytes}", where="max_bytes", fix="Give a positive number")
        self.folder, self.max_bytes = folder, max_bytes
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.base = sqlite3.connect(Path(folder) / FILE, timeout=60, isolation_level=None)
            self.base.execute("PRAGMA journal_mode=WAL")
            self.base.execute("PRAGMA synchronous=OFF")  # what a crash loses is made again
            self.base.executescript(TABLES)
            # bytes held, as far as this process knows
            self.added = self._number(TOTAL)
            # the time of this process: entries that it uses are younger than all others
            self.clock = self._number(LAST_USE) + 1
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"cannot be used: {error}",
                where=f"cache {folder}",
                fix="Name another folder",
            ) from error

    def _number(self, query: str) -> int:
        return int(self.base.execute(query).fetchone()[0])

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Reps]:
        """The entries that there are of these keys."""
        entries: dict[bytes, Reps] = {}
        try:
            for start in range(0, len(keys), BATCH):
                batch = keys[start : start + BATCH]
                marks = ",".join("?" * len(batch))
                select = f"SELECT key, value FROM entries WHERE key IN ({marks})"  # noqa: S608
                for key, value in self.base.execute(select, batch):
                    reps = _read(value)
                    if reps is not None:
                        entries[key] = reps
                mark_used = f"UPDATE entries SET used = {self.clock} WHERE key IN ({marks})"  # noqa: S608
                self.base.execute(mark_used, batch)
        except sqlite3.Error as error:
            self._warn(error)
        return entries

    def put(self, entries: Mapping[bytes, Reps]) -> None:
        """Keeps these, and lets go of the oldest beyond `max_bytes`."""
        rows = []
        for key, reps in entries.items():
            value = _written(reps)
            rows.append((key, self.clock, len(value), value))
        try:
            self.base.execute("BEGIN IMMEDIATE")
            self._put(rows)
            self.base.execute("COMMIT")
        except BaseException as error:
            if self.base.in_transaction:
                self.base.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            self._warn(error)
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
            for key, size in oldest:
                self.base.execute("DELETE FROM entries WHERE key = ?", (key,))
                total -= size
                if total <= self.max_bytes:
                    break
        self.added = total

    def _warn(self, error: sqlite3.Error) -> None:
        """Warns that the cache could not be used; what it would have held is computed again."""
        warn(f"cache {self.folder}: {error}", RuntimeWarning, stacklevel=4)

    def close(self) -> None:
        """Lets go of the file."""
        self.base.close()


def key(*parts: str) -> bytes:
    """The key of something that depends on these texts."""
    digest = sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.digest()


def _written(reps: Reps) -> bytes:
    from safetensors.numpy import save

    return save(dict(reps.arrays()))


def _read(value: bytes) -> Reps | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return Reps.from_arrays(load(value)) if isinstance(value, bytes) else None
    except (SafetensorError, ValueError, KeyError):
        return None
