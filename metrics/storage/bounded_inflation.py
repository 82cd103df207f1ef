"""Inflates gzip and bzip2 data block by block in bounded memory and refuses a bomb.

A block is so small that it can give more than `FREE_BYTES` only at a ratio above `RATIO`. A gzip block that gives much
is inflated once ahead, thrown away and counted. So a bomb anywhere in a file is met before a reader sees its lines. The
state of a bzip2 stream cannot be copied: there a bomb is met where its text passes the limit. It knows nothing of files
or lines.
"""

from __future__ import annotations

import zlib
from bz2 import BZ2Decompressor
from collections.abc import Iterator
from gzip import BadGzipFile
from itertools import islice
from typing import Protocol

from ..errors import InputError
from .limits import limits

GZIP_MAGIC = b"\x1f\x8b"
RATIO = 400
FREE_BYTES = 64 << 20
BLOCK_BYTES = FREE_BYTES // RATIO
PIECE_BYTES = 1 << 20
SLICE_BYTES = 1 << 14
AHEAD_PIECES = 8

_GZIP_WINDOW = 31  # zlib's number for gzip members with the largest window


class Inflater(Protocol):
    """Turns compressed blocks of at most `BLOCK_BYTES` into pieces of text of at most `PIECE_BYTES`."""

    def inflate(self, block: bytes) -> Iterator[bytes]:
        """The text in the next block.

        Raises:
            InputError: the data is a bomb; `where` is left to the caller.
            OSError, zlib.error: the data is corrupt.
        """

    def finish(self) -> None:
        """To be called after the last block.

        Raises:
            EOFError: the data ends within a member.
        """


class GzipInflater:
    """The `Inflater` of gzip data."""

    def __init__(self) -> None:
        self._members = _GzipMembers()
        self._taken_bytes = self._given_bytes = 0

    def inflate(self, block: bytes) -> Iterator[bytes]:
        """The text in the next block."""
        self._members.feed(block)
        ahead = list(islice(self._members.pieces(), AHEAD_PIECES))
        total_bytes = sum(map(len, ahead))
        if len(ahead) == AHEAD_PIECES:
            total_bytes += _remaining_bytes(self._members.copy())
        self._taken_bytes += len(block)
        self._given_bytes += total_bytes
        allowed_bytes = max(FREE_BYTES, RATIO * self._taken_bytes)
        if total_bytes > FREE_BYTES or self._given_bytes > allowed_bytes:
            raise _bomb("gzip")
        yield from ahead
        yield from self._members.pieces()

    def finish(self) -> None:
        """To be called after the last block."""
        if self._members.inside:
            raise EOFError(f"gzip data ends early, after {self._given_bytes} bytes of text")


def inflated(data: bytes) -> bytes:
    """All the text in gzip data.

    Raises:
        InputError: the data is a bomb, or its text has more bytes than the limit text_bytes.
        OSError, EOFError, zlib.error: the data is corrupt, or ends early.
    """
    inflater = GzipInflater()
    text = bytearray()
    for start in range(0, len(data), BLOCK_BYTES):
        for piece in inflater.inflate(data[start : start + BLOCK_BYTES]):
            text += piece
            limits().check("text_bytes", len(text))
    inflater.finish()
    return bytes(text)


class _GzipMembers:
    """The text of concatenated gzip members; slices keep a file of many tiny members from costing quadratic time."""

    def __init__(self) -> None:
        self._engine = zlib.decompressobj(_GZIP_WINDOW)
        self._pending = b""
        self._more = False
        self._slices: list[bytes] = []  # of the block, last one first
        self.inside = False

    def feed(self, block: bytes) -> None:
        slices = [block[i : i + SLICE_BYTES] for i in range(0, len(block), SLICE_BYTES)]
        self._slices = slices[::-1]

    def copy(self) -> _GzipMembers:
        twin = _GzipMembers()
        twin._engine = self._engine.copy()
        twin._pending = self._pending
        twin._more = self._more
        twin._slices = list(self._slices)
        twin.inside = self.inside
        return twin

    def pieces(self) -> Iterator[bytes]:
        """The rest of the text in the block that was fed."""
        while self._pending or self._more or self._slices:
            if not self._pending and not self._more:
                self._pending = self._slices.pop()
            if not self.inside:
                # zeros may pad the room between members, as for gzip itself
                self._pending = self._pending.lstrip(b"\0")
                if not self._pending:
                    continue
                self._engine = zlib.decompressobj(_GZIP_WINDOW)
                self.inside = True
            if piece := self._step():
                yield piece

    def _step(self) -> bytes:
        engine = self._engine
        try:
            piece = engine.decompress(self._pending, PIECE_BYTES)
        except zlib.error as error:
            # a wrong header, checksum or length, as the gzip module has it
            raise (BadGzipFile(str(error)) if "check" in str(error) else error) from None
        self.inside = not engine.eof
        self._more = self.inside and len(piece) == PIECE_BYTES
        self._pending = engine.unconsumed_tail if self.inside else engine.unused_data
        return piece


def _remaining_bytes(members: _GzipMembers) -> int:
    """How many bytes members still give, counted no further than the limit."""
    total_bytes = 0
    for piece in members.pieces():
        total_bytes += len(piece)
        if total_bytes > FREE_BYTES:
            break
    return total_bytes


class Bzip2Inflater:
    """The `Inflater` of bzip2 data; what stands behind the last member and is no member is left out, as by bzip2."""

    def __init__(self) -> None:
        self._engine = BZ2Decompressor()
        self._in_trailer = False
        self._taken_bytes = self._given_bytes = 0

    def inflate(self, block: bytes) -> Iterator[bytes]:
        """The text in the next block."""
        self._taken_bytes += len(block)
        for i in range(0, len(block), SLICE_BYTES):
            yield from self._pieces(block[i : i + SLICE_BYTES])

    def _pieces(self, pending: bytes) -> Iterator[bytes]:
        allowed_bytes = max(FREE_BYTES, RATIO * self._taken_bytes)
        while (pending or self._has_more()) and not self._in_trailer:
            piece = self._step(pending)
            # within a member the engine holds what it has not read yet; behind one it is left to the next engine
            pending = self._engine.unused_data
            self._given_bytes += len(piece)
            if self._given_bytes > allowed_bytes:
                raise _bomb("bzip2")
            if piece:
                yield piece

    def _has_more(self) -> bool:
        return not self._engine.eof and not self._engine.needs_input

    def _step(self, pending: bytes) -> bytes:
        """The next piece, from a new engine where a member has ended."""
        if not self._engine.eof:
            return self._engine.decompress(pending, PIECE_BYTES)
        self._engine = BZ2Decompressor()
        try:
            return self._engine.decompress(pending, PIECE_BYTES)
        except OSError:
            self._in_trailer = True
            return b""

    def finish(self) -> None:
        """To be called after the last block."""
        if not self._engine.eof and not self._in_trailer:
            raise EOFError(f"bzip2 data ends early, after {self._given_bytes} bytes of text")


def _bomb(form: str) -> InputError:
    return InputError(
        f"{form} data that expands more than {RATIO} times, expected at most that beyond {FREE_BYTES >> 20} MiB",
        fix="If you trust it, decompress it first",
    )
