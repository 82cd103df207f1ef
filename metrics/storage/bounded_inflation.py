"""Unpack gzip and bzip2 data piece by piece in bounded memory and refuse a bomb.

Packed bytes are read in blocks. A bomb is a block that gives more than `FREE_BYTES` of text, or data that so far gave
more than that and more than `RATIO` times its own bytes. The text of a block is held back until the block is known not
to be a bomb, in memory up to `HELD_BYTES` and in a temporary file beyond, so that nobody reads the text of a bomb. It
knows nothing of lines or of how files are named.
"""

from __future__ import annotations

import zlib
from bz2 import BZ2File
from collections.abc import Callable, Iterator
from gzip import GzipFile
from io import BytesIO
from tempfile import SpooledTemporaryFile
from typing import Literal, cast

from ..errors import InputError
from .limits import limits

GZIP_MAGIC = b"\x1f\x8b"
RATIO = 400
FREE_BYTES = 64 << 20
READ_BYTES = 1 << 13
BLOCK_BYTES = FREE_BYTES // RATIO - 2 * READ_BYTES  # with what was read ahead, before it and in it
PIECE_BYTES = 1 << 20
HELD_BYTES = 8 << 20  # of a block, in memory


class _Packed:
    """A file of packed bytes that are counted."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.num_bytes = 0

    def read(self, size: int) -> bytes:
        """So many bytes, or `READ_BYTES` of them; fewer at the end alone."""
        size = min(size, READ_BYTES)
        data = self._read(size)
        while data and len(data) < size and (more := self._read(size - len(data))):
            data += more
        self.num_bytes += len(data)
        return data


def unpacked(
    read: Callable[[int], bytes], packing: Literal["gzip", "bzip2"], where: str = ""
) -> Iterator[bytes]:
    """The text in packed data, in pieces of at most `PIECE_BYTES`; what follows the last bzip2 member is left out.

    Args:
        read: gives the next packed bytes, at most so many; none at the end.
        packing: how they are packed.
        where: the place that errors name.

    Raises:
        InputError: the data is a bomb.
        OSError, EOFError, zlib.error: the data is corrupt, or ends early.
    """
    packed = _Packed(read)
    file = cast(BytesIO, packed)
    stream = GzipFile(fileobj=file, mode="rb") if packing == "gzip" else BZ2File(file)
    num_bytes = 0  # of text, before the block
    piece = b""  # that is in no block yet
    is_open = True
    damage: Exception | None = None
    while is_open:
        block_end = packed.num_bytes + BLOCK_BYTES
        with SpooledTemporaryFile(HELD_BYTES) as block:
            block.write(piece)
            try:
                while (piece := stream.read1(PIECE_BYTES)) and packed.num_bytes <= block_end:
                    block.write(piece)
                    allowed_bytes = max(FREE_BYTES, RATIO * packed.num_bytes) - num_bytes
                    if block.tell() > min(FREE_BYTES, allowed_bytes):
                        raise _bomb(packing, where)
            except (OSError, EOFError, zlib.error) as error:
                damage, piece = error, b""
            is_open = bool(piece)
            num_bytes += block.tell()
            block.seek(0)
            yield from iter(lambda: block.read(PIECE_BYTES), b"")
    if damage is not None:
        raise damage


def _bomb(packing: str, where: str) -> InputError:
    free = FREE_BYTES >> 20
    problem = f"{packing} data that expands more than {RATIO} times, expected at most that beyond {free} MiB"
    return InputError(problem, where=where, fix="If you trust it, decompress it first")


def inflated(data: bytes) -> bytes:
    """All the text in gzip data; raises as `unpacked`, and InputError for more bytes than the limit file_bytes."""
    text = bytearray()
    for piece in unpacked(BytesIO(data).read, "gzip"):
        text += piece
        limits().check("file_bytes", len(text))
    return bytes(text)
