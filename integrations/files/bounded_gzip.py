"""Inflates gzip data block by block in bounded memory and refuses a bomb before any of its text is handed on.

A block is so small that it can give more than `FREE_BYTES` only at a ratio above `RATIO`; a block that gives much is
inflated once ahead, thrown away and counted. So a bomb anywhere in a file is met before a reader sees its lines. It
knows nothing of files or lines.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import islice

from ...metrics.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
RATIO = 400
FREE_BYTES = 64 << 20
BLOCK_BYTES = FREE_BYTES // RATIO
PIECE_BYTES = 1 << 20
SLICE_BYTES = 1 << 14
AHEAD_PIECES = 8


class Inflater:
    """Turns compressed blocks of at most `BLOCK_BYTES` into pieces of text of at most `PIECE_BYTES`."""

    def __init__(self) -> None:
        self._stream = _Stream()
        self._taken_bytes = self._given_bytes = 0

    def inflate(self, block: bytes) -> Iterator[bytes]:
        """The text in the next block.

        Raises:
            InputError: the data is corrupt, or a bomb; `where` is left to the caller.
        """
        self._stream.feed(block)
        held = list(islice(self._stream.pieces(), AHEAD_PIECES))
        total_bytes = sum(map(len, held))
        if len(held) == AHEAD_PIECES:
            total_bytes += _weigh(self._stream.copy())
        self._taken_bytes += len(block)
        self._given_bytes += total_bytes
        allowed_bytes = max(FREE_BYTES, RATIO * self._taken_bytes)
        if total_bytes > FREE_BYTES or self._given_bytes > allowed_bytes:
            raise InputError(
                f"gzip data that expands more than {RATIO} times, expected at most that beyond {FREE_BYTES >> 20} MiB",
                fix="If you trust it, decompress it first",
            )
        yield from held
        yield from self._stream.pieces()

    def finish(self) -> None:
        """To be called after the last block.

        Raises:
            InputError: the data ends within a member.
        """
        if self._stream.inside:
            raise InputError(
                f"gzip data ends early, after {self._given_bytes} bytes of text",
                fix="Copy it or write it again",
            )


class _Stream:
    """The text of concatenated gzip members; slices keep a file of many tiny members from costing quadratic time."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(31)
        self._pending = b""
        self._more = False
        self._slices: list[bytes] = []
        self.inside = False

    def feed(self, block: bytes) -> None:
        self._slices = [block[i : i + SLICE_BYTES] for i in range(0, len(block), SLICE_BYTES)][::-1]

    def copy(self) -> _Stream:
        twin = _Stream()
        twin._engine, twin._pending, twin._more = self._engine.copy(), self._pending, self._more
        twin._slices, twin.inside = list(self._slices), self.inside
        return twin

    def pieces(self) -> Iterator[bytes]:
        while self._pending or self._more or self._slices:
            if not self._pending and not self._more:
                self._pending = self._slices.pop()
            if not self.inside:
                self._pending = self._pending.lstrip(
                    b"\0"
                )  # padding between members, as gzip itself allows
                if not self._pending:
                    continue
                self._engine, self.inside = zlib.decompressobj(31), True
            if piece := self._step():
                yield piece

    def _step(self) -> bytes:
        engine = self._engine
        try:
            piece = engine.decompress(self._pending, PIECE_BYTES)
        except zlib.error as error:
            raise InputError(
                f"corrupt gzip data ({error})", fix="Copy it or write it again"
            ) from error
        self.inside = not engine.eof
        self._more = self.inside and len(piece) == PIECE_BYTES
        self._pending = engine.unconsumed_tail if self.inside else engine.unused_data
        return piece


def _weigh(stream: _Stream) -> int:
    """How many bytes a stream still gives, counted no further than the limit."""
    total_bytes = 0
    for piece in stream.pieces():
        total_bytes += len(piece)
        if total_bytes > FREE_BYTES:
            break
    return total_bytes
