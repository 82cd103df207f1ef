"""Unpacks gzip and bzip2 data piece by piece in bounded memory and refuses a bomb.

Packed bytes are read in blocks. A bomb is a block that gives more than `FREE_BYTES` of text, or data that so far gave
more than that and more than `RATIO` times its own bytes. So a bomb anywhere in a file is met within `FREE_BYTES`. It
knows nothing of lines or of how files are named.
"""

from __future__ import annotations

from bz2 import BZ2File
from collections.abc import Callable, Iterator
from gzip import GzipFile
from io import BytesIO
from typing import Literal, cast

from ..errors import InputError
from .limits import limits

GZIP_MAGIC = b"\x1f\x8b"
RATIO = 400
FREE_BYTES = 64 << 20
READ_BYTES = 1 << 13
BLOCK_BYTES = FREE_BYTES // RATIO - 2 * READ_BYTES  # with what was read ahead, before it and in it
PIECE_BYTES = 1 << 20


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
    num_bytes = block_start = text_before = 0
    while piece := stream.read1(PIECE_BYTES):
        if packed.num_bytes - block_start > BLOCK_BYTES:
            block_start, text_before = packed.num_bytes, num_bytes
        num_bytes += len(piece)
        allowed_bytes = max(FREE_BYTES, RATIO * packed.num_bytes)
        if num_bytes - text_before > FREE_BYTES or num_bytes > allowed_bytes:
            free = FREE_BYTES >> 20
            problem = f"{packing} data that expands more than {RATIO} times, expected at most that beyond {free} MiB"
            raise InputError(problem, where=where, fix="If you trust it, decompress it first")
        yield piece


def inflated(data: bytes) -> bytes:
    """All the text in gzip data; raises as `unpacked`, and InputError for more bytes than the limit file_bytes."""
    text = bytearray()
    for piece in unpacked(BytesIO(data).read, "gzip"):
        text += piece
        limits().check("file_bytes", len(text))
    return bytes(text)
