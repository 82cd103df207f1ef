"""An entry of the cache as bytes: a mark, a CRC-32 of its key and content, and the content, a safetensors file.

A CRC sees every damage of up to 32 bits in a row and misses one in 2^32 of any other; entries are large and read in
every run, and it is several times faster than a digest (benchmarks/reliability/cache_checksum_cost.py).

What 0.1 wrote is the content alone. The mark tells the two apart: read as the length of a safetensors header, which is
what a file begins with, it is larger than any.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ..representations import IntArray, Ragged, Reps

MARK = b"checked\xff"
CHECKSUM_BYTES = 4
START = len(MARK) + CHECKSUM_BYTES


@dataclass
class Faults:
    """What was wrong with the entries that a run read.

    Attributes:
        damaged: keys of those that are not what was written.
        unchecked: keys of those that had no checksum.
        elsewhere: how many of either the run's other processes have met.
    """

    damaged: set[Any] = field(default_factory=set)
    unchecked: set[bytes] = field(default_factory=set)
    elsewhere: tuple[int, int] = (0, 0)

    @property
    def counts(self) -> tuple[int, int]:
        """How many were damaged, and how many unchecked."""
        damaged, unchecked = self.elsewhere
        return damaged + len(self.damaged), unchecked + len(self.unchecked)

    def add(self, damaged: int, unchecked: int) -> None:
        """Counts what another process has met."""
        self.elsewhere = (self.elsewhere[0] + damaged, self.elsewhere[1] + unchecked)

    def in_words(self) -> str:
        """The counts in a sentence; empty where there are none."""
        damaged, unchecked = self.counts
        problems = []
        if damaged:
            problems.append(f"{damaged} entries were damaged and were made anew")
        if unchecked:
            problem = f"{unchecked} entries of 0.1 had no checksum, so damage in them was not seen"
            problems.append(f"{problem}; they have one now")
        return ", ".join(problems)


class CacheEntry(NamedTuple):
    """An entry as it was read."""

    reps: Reps | None  # of one item; None where it is damaged
    is_checked: bool = True  # whether it had a checksum


def written_entry(key: bytes, reps: Reps) -> bytes:
    """An entry as it is stored."""
    from safetensors.numpy import save

    content = save(dict(reps.arrays()))
    return MARK + _checksum(key, content) + content


def read_entry(key: Any, value: Any) -> CacheEntry:
    """The entry that was stored under a key, whatever a damaged file gives for either."""
    if not isinstance(key, bytes) or not isinstance(value, bytes):
        return CacheEntry(None)
    if not value.startswith(MARK):
        reps = _read(value)
        if reps is None or not _is_one_item(reps):
            return CacheEntry(None)
        return CacheEntry(reps, is_checked=False)
    content = value[START:]
    is_whole = value[len(MARK) : START] == _checksum(key, content)
    return CacheEntry(_read(content) if is_whole else None)


def _checksum(key: bytes, content: bytes) -> bytes:
    return crc32(content, crc32(key)).to_bytes(CHECKSUM_BYTES, "little")


def _read(content: bytes) -> Reps | None:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return Reps.from_arrays(load(content))
    except (SafetensorError, ValueError, KeyError, TypeError, MemoryError):
        return None


def _is_one_item(reps: Reps) -> bool:
    """Whether these are finite numbers of a single item; one that is not finite is cheap to make again."""
    for column in reps.columns.values():
        if isinstance(column, Ragged):
            if not _is_one_row(column.values, column.offsets):
                return False
        elif column.ndim < 1 or len(column) != 1:
            return False
    arrays = [array for _, array in reps.arrays()]
    return bool(arrays) and all(np.isfinite(array).all() for array in arrays)


def _is_one_row(values: Any, offsets: IntArray) -> bool:
    """Whether all values are of one row."""
    has_form = values.ndim > 0 and offsets.dtype == np.int64 and offsets.shape == (2,)
    return has_form and offsets.tolist() == [0, len(values)]
