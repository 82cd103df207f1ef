"""Lines of an input on their way to a worker, which reads and decides them itself."""

from __future__ import annotations

from typing import NamedTuple


class SentLine(NamedTuple):
    """A line.

    Args:
        key: of its result.
        amounts: bytes, and pairs, which nobody knows yet.
        number: in the input.
        line: what stands there.
    """

    key: int
    amounts: tuple[int, int]
    number: int
    line: bytes
