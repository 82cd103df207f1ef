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
            self.added = int(
                self.base.execute(TOTAL).fetchone()[0]
            )  # bytes held, as far as this process knows
            self.clock = (
                int(self.base.execute("SELECT coalesce(max(used), 0) FROM entries").fetchone()[0])
                + 1
            )
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"cannot be used: {error}", where=f"cache {folder}", fix="Name another folder"
            ) from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Reps]:
        """What is there of these keys."""
        found: dict[bytes, Reps] = {}
        try:
            for start in range(0, len(keys), BATCH):
                part = keys[start : start + BATCH]
                marks = ",".join("?" * len(part))
                select = f"SELECT key, value FROM entries WHERE key IN ({marks})"  # noqa: S608
                rows = self.base.execute(select, part)
                found |= {key: reps for key, value in rows if (reps := _read(value)) is not None}
                mark_used = f"UPDATE entries SET used = {self.clock} WHERE key IN ({marks})"  # noqa: S608
                self.base.execute(mark_used, part)
        except sqlite3.Error as error:
            self._unused(error)
        return found

    def put(self, entries: Mapping[bytes, Reps]) -> None:
        """Keeps these, and lets go of the oldest beyond `max_bytes`."""
        values = [
            (key, self.clock, len(value), value)
            for key, reps in entries.items()
            if (value := _written(reps))
        ]
        try:
            self.base.execute("BEGIN IMMEDIATE")
            self._put(values)
            self.base.execute("COMMIT")
        except BaseException as error:
            if self.base.in_transaction:
                self.base.execute("ROLLBACK")
            if not isinstance(error, sqlite3.Error):
                raise
            self._unused(error)
        self.clock += 1

    def _put(self, values: Sequence[tuple[bytes, int, int, bytes]]) -> None:
        self.base.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", values)
        self.added += sum(size for _, _, size, _ in values)
        if self.added <= self.max_bytes:
            return
        total = self.base.execute(TOTAL).fetchone()[0]
        while total > self.max_bytes:
            oldest = self.base.execute(
                "SELECT key, size FROM entries ORDER BY used, rowid LIMIT 100"
            ).fetchall()
            for key, size in oldest:
                self.base.execute("DELETE FROM entries WHERE key = ?", (key,))
                total -= size
                if total <= self.max_bytes:
                    break
        self.added = total

    def _unused(self, error: sqlite3.Error) -> None:
        """Says that the cache could not be used; what it would have held is made again."""
        warn(f"cache {self.folder}: {error}", RuntimeWarning, stacklevel=4)

    def close(self) -> None:
        """Lets go of the file."""
        self.base.close()


def key(*parts: str) -> bytes:
    """The key of something that depends on these texts."""
    found = sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        found.update(len(raw).to_bytes(8, "little"))
        found.update(raw)
    return found.digest()


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
