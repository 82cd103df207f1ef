"""Files with one bit flipped, to see that whoever reads one refuses it or reads the same."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from discorank.metrics.errors import DiscorankError

NUM_FLIPS = 40


def flipped(data: bytes, bit: int) -> bytes:
    """The bytes with one bit changed."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def refused_flips(
    path: Path, read: Callable[[], Any], expected: Any, num_flips: int | None = NUM_FLIPS
) -> int:
    """How many of some flips of a file are refused; after each of the others `read` returns what is expected.

    Args:
        path: the file, as it was before when this returns.
        read: reads it.
        expected: what it returns.
        num_flips: how many bits are flipped, one at a time; all of them if none.
    """
    data = path.read_bytes()
    bits = range(8 * len(data))
    refused = 0
    for bit in bits if num_flips is None else random.Random(0).sample(bits, num_flips):
        path.write_bytes(flipped(data, bit))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = read()
        except DiscorankError:
            refused += 1
        else:
            assert value == expected, f"bit {bit} of {path.name} changes what is read"
    path.write_bytes(data)
    return refused
