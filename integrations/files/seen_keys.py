"""Remembers which keys were seen, in 16 bytes each: 128-bit digests in a few sorted arrays.

New digests go to a small set; a full one becomes a sorted array, and two arrays of about one size are merged, so n
keys stand in at most log2(n / `RECENT`) arrays. Exact but for collisions of 128-bit digests.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

RECENT = 1 << 16
Digests = npt.NDArray[np.bytes_]  # [n] of 16 bytes, sorted


class SeenKeys:
    """A growing set of strings that keeps only their digests."""

    def __init__(self, recent: int = RECENT) -> None:
        self._limit = recent
        self._recent: set[bytes] = set()
        self._levels: list[Digests] = []  # largest first

    def __len__(self) -> int:
        """How many keys were seen."""
        return len(self._recent) + sum(map(len, self._levels))

    def add(self, key: str) -> bool:
        """Whether the key is new; from now on it is not."""
        digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if digest in self._recent or any(_holds(level, digest) for level in self._levels):
            return False
        self._recent.add(digest)
        if len(self._recent) >= self._limit:
            self._settle()
        return True

    def _settle(self) -> None:
        level: Digests = np.sort(np.frombuffer(b"".join(self._recent), dtype="S16"))
        self._recent.clear()
        while self._levels and len(self._levels[-1]) <= len(level):
            level = np.concatenate([self._levels.pop(), level])
            level.sort(kind="stable")  # merges two sorted runs
        self._levels.append(level)


def _holds(level: Digests, digest: bytes) -> bool:
    key = np.frombuffer(digest, dtype="S16")
    place = int(np.searchsorted(level, key)[0])
    return place < len(level) and bool(level[place] == key[0])
