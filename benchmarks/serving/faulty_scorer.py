"""A metric that fails at texts which say so, and has a number of its own for every other pair."""

from __future__ import annotations

import sys
import time
import zlib

SLOW_SECONDS = 0.3


def value(hypothesis: str, reference: str) -> float:
    """The number of a pair, never 0."""
    return 1 + zlib.crc32(f"{hypothesis}\n{reference}".encode()) / 2**32


def faulty(hypothesis: str, reference: str) -> float:
    """The number of a pair, or what its first word says."""
    kind = str(hypothesis).partition(" ")[0]
    if kind == "slow":
        time.sleep(SLOW_SECONDS)
    elif kind == "memory":
        raise MemoryError
    elif kind == "raise":
        raise ValueError("a pair that cannot be scored")
    elif kind == "exit":
        sys.exit(1)
    elif kind == "nan":
        return float("nan")
    return value(str(hypothesis), str(reference))
