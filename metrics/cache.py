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

from .errors import InputError
from .reps import Reps

FILE = "representations.sqlite"
MAX_BYTES = 10 * 10**9
BATCH = 500  # keys of one query
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
        self.max_bytes = max_bytes
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.base = sqlite3.connect(Path(folder) / FILE, timeout=60, isolation_level=None)
            self.base.execute("PRAGMA journal_mode=WAL")
            self.base.execute("PRAGMA synchronous=OFF")  # what a crash loses is made again
            self.base.executescript(TABLES)
            self.clock = int(self.base.execute("SELECT coalesce(max(used), 0) FROM entries").fetchone()[0]) + 1
        except (OSError, sqlite3.Error) as error:
            raise InputError(f"cannot be used: {error}", where=f"cache {folder}", fix="Name another folder") from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Reps]:
        """What is there of these keys."""
        found: dict[bytes, Reps] = {}
        for start in range(0, len(keys), BATCH):
            part = keys[start : start + BATCH]
            marks = ",".join("?" * len(part))
            rows = self.base.execute(f"SELECT key, value FROM entries WHERE key IN ({marks})", part)  # noqa: S608
            found |= {key: reps for key, value in rows if (reps := _read(value)) is not None}
            self.base.execute(f"UPDATE entries SET used = {self.clock} WHERE key IN ({marks})", part)  # noqa: S608
        return found

    def put(self, entries: Mapping[bytes, Reps]) -> None:
        """Keeps these, and lets go of the oldest beyond `max_bytes`."""
        values = [(key, self.clock, len(value), value) for key, reps in entries.items() if (value := _written(reps))]
        self.base.execute("BEGIN IMMEDIATE")
        self.base.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", values)
        total = self.base.execute("SELECT coalesce(sum(size), 0) FROM entries").fetchone()[0]
        while total > self.max_bytes:
            oldest = self.base.execute("SELECT key, size FROM entries ORDER BY used, rowid LIMIT 100").fetchall()
            for key, size in oldest:
                self.base.execute("DELETE FROM entries WHERE key = ?", (key,))
                total -= size
                if total <= self.max_bytes:
                    break
        self.base.execute("COMMIT")
        self.clock += 1

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
        return Reps.from_arrays(load(value))
    except (SafetensorError, ValueError, KeyError):
        return None
