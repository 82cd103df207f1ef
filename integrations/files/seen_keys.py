"""Remembers which keys were seen, in 16 bytes each: 128-bit digests in a few sorted arrays.

New digests go to a small set; a full one becomes a sorted array, and two arrays of about one size are merged, so n
keys stand in at most log2(n / `RECENT`) arrays. Exact but for collisions of 128-bit digests.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from ...metrics.storage.checksums import DIGEST_BYTES

RECENT = 1 << 12
Digests = npt.NDArray[np.bytes_]  # [n] of DIGEST_BYTES bytes, sorted


class SeenKeys:
    """A growing set of strings that keeps only their digests.

    Args:
        recent: the size at which the set of new digests becomes an array.
    """

    def __init__(self, recent: int = RECENT) -> None:
        self._max_recent = recent
        self._recent: set[bytes] = set()
        # each array is longer than the next
        self._levels: list[Digests] = []

    def __len__(self) -> int:
        """How many keys were seen."""
        return len(self._recent) + sum(map(len, self._levels))

    def add(self, key: str) -> bool:
        """Whether the key is new; from now on it is not."""
        key_bytes = key.encode("utf-8", "surrogatepass")
        digest = blake2b(key_bytes, digest_size=DIGEST_BYTES).digest()
        if digest in self._recent:
            return False
        if any(_holds(level, digest) for level in self._levels):
            return False
        self._recent.add(digest)
        if len(self._recent) >= self._max_recent:
            self._move_to_levels()
        return True

    def _move_to_levels(self) -> None:
        """Turns the recent digests into a sorted array, and merges it with the arrays that are no longer than it."""
        digests = np.frombuffer(b"".join(self._recent), dtype="S16")
        level: Digests = np.sort(digests)
        self._recent.clear()
        while self._levels and len(self._levels[-1]) <= len(level):
            level = np.concatenate([self._levels.pop(), level])
            # a stable sort merges two sorted runs in linear time
            level.sort(kind="stable")
        self._levels.append(level)


def _holds(level: Digests, digest: bytes) -> bool:
    """Whether a sorted array has the digest, by binary search."""
    key = np.frombuffer(digest, dtype="S16")
    i = int(np.searchsorted(level, key)[0])
    return i < len(level) and bool(level[i] == key[0])
