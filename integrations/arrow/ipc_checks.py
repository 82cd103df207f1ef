"""The messages of an Arrow stream, checked before pyarrow unpacks them.

    stream   [message]...                        message   FF FF FF FF, length, metadata (a flatbuffer), body
    file     "ARROW1" 0 0, stream, footer        a packed buffer of the body begins with its length, 8 bytes

A file is read as the stream that stands in it. Of a record batch and of a dictionary, what the buffers that are packed
say of their lengths is added up, and 8 bytes for every value.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits, more

FILE_MAGIC = b"ARROW1"
STREAM_START = 8  # behind the magic number, in a file
WRITE_AGAIN = "Is it whole? Copy it or write it again"
VALUE_BYTES = 8
_CONTINUED = 0xFFFFFFFF
_DICTIONARY, _BATCH = 2, 3  # kinds of messages
_METADATA_BYTES = 16 << 20


class CheckedBatch(NamedTuple):
    """A record batch that may be unpacked.

    Args:
        end: the offset behind it.
        is_packed: whether its buffers are packed.
    """

    end: int
    is_packed: bool


class _Message(NamedTuple):
    """What the metadata of a message say."""

    kind: int
    body_bytes: int
    is_packed: bool


class _Flatbuffer:
    """A table of a flatbuffer, bounded by its bytes.

    Args:
        data: the bytes.
        start: where the table stands.
    """

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.start = data, start
        self._fields = start - self._number("<i", start)  # of the vtable
        self._fields_bytes = self._number("<H", self._fields)

    def _number(self, form: str, offset: int) -> int:
        if offset < 0:
            raise struct.error("an offset below 0")
        return int(struct.unpack_from(form, self.data, offset)[0])

    def _offset(self, field: int) -> int:
        """Where a field stands; 0 where it is not there."""
        entry = 4 + 2 * field
        if entry + 2 > self._fields_bytes:
            return 0
        distance = self._number("<H", self._fields + entry)
        return distance and self.start + distance

    def number(self, field: int, form: str) -> int:
        """A field that is a number; 0 where it is not there."""
        offset = self._offset(field)
        return self._number(form, offset) if offset else 0

    def table(self, field: int) -> _Flatbuffer | None:
        """A field that is a table."""
        offset = self._offset(field)
        return _Flatbuffer(self.data, offset + self._number("<I", offset)) if offset else None

    def pairs(self, field: int) -> list[tuple[int, int]]:
        """A field that is a vector of structs of two numbers."""
        offset = self._offset(field)
        if not offset:
            return []
        start = offset + self._number("<I", offset)
        count = self._number("<I", start)
        if count * 16 > len(self.data):
            raise struct.error("a vector beyond the end")
        return list(struct.iter_unpack("<qq", self.data[start + 4 : start + 4 + 16 * count]))


def check_messages(file: BinaryIO, name: str) -> Iterator[CheckedBatch]:
    """Every record batch, after what it needs was checked.

    Raises:
        InputError: the file is truncated, damaged, or a message costs more than is unpacked.
    """
    size = os.fstat(file.fileno()).st_size
    is_file = os.pread(file.fileno(), len(FILE_MAGIC), 0) == FILE_MAGIC
    if is_file and os.pread(file.fileno(), len(FILE_MAGIC), size - len(FILE_MAGIC)) != FILE_MAGIC:
        raise InputError("an Arrow file that ends early", where=name, fix=WRITE_AGAIN)
    offset = STREAM_START if is_file else 0
    number = 0
    while offset < size:
        where = f"{name}, record batch {number}"
        try:
            start, length = _framed(file, offset)
            if not length:
                return
            metadata = os.pread(file.fileno(), length, start)
            message = _checked(file, metadata, start + length, size, where)
        except (struct.error, OverflowError) as error:
            problem = f"a message at byte {offset} that cannot be read ({error})"
            raise InputError(problem, where=where, fix=WRITE_AGAIN) from error
        offset = start + length + message.body_bytes
        if message.kind == _BATCH:
            yield CheckedBatch(offset, message.is_packed)
            number += 1


def _framed(file: BinaryIO, offset: int) -> tuple[int, int]:
    """Where the metadata of a message begin, and their length; 0 at the end of the stream.

    Raises:
        struct.error: the file ends before, or they are too long.
    """
    head = os.pread(file.fileno(), 8, offset)
    (first,) = struct.unpack_from("<I", head)
    if first != _CONTINUED:  # of old streams, without a mark
        start, length = offset + 4, first
    else:
        (length,) = struct.unpack_from("<i", head, 4)
        start = offset + 8
    if not 0 <= length <= _METADATA_BYTES:
        raise struct.error(f"metadata of {length} bytes")
    return start, length


def _checked(file: BinaryIO, metadata: bytes, body: int, size: int, where: str) -> _Message:
    """A message, if it may be unpacked; errors as `check_messages`."""
    (root,) = struct.unpack_from("<I", metadata)
    message = _Flatbuffer(metadata, root)
    kind, body_bytes = message.number(1, "<B"), message.number(3, "<q")
    if not 0 <= body_bytes <= size - body:
        raise struct.error(f"a body of {body_bytes} bytes in a file of {size}")
    header = message.table(2)
    batch = header.table(1) if header is not None and kind == _DICTIONARY else header
    if batch is not None and kind in (_DICTIONARY, _BATCH):
        cost = _cost(file, batch, body, body_bytes)
        bound = limits().batch_bytes
        if cost > bound:
            problem = f"{cost} bytes unpacked, at most {bound}"
            fix = f"Write smaller record batches. {more('batch_bytes')}"
            raise InputError(problem, where=where, fix=fix)
    return _Message(kind, body_bytes, batch is not None and batch.table(3) is not None)


def _cost(file: BinaryIO, batch: _Flatbuffer, body: int, body_bytes: int) -> int:
    """The bytes that a record batch takes when it is unpacked; what is not packed stays in the file."""
    nodes, buffers = batch.pairs(1), batch.pairs(2)
    if any(offset < 0 or length < 0 or offset + length > body_bytes for offset, length in buffers):
        raise struct.error("a buffer beyond the body")
    if batch.table(3) is None:
        return 0
    total = sum(VALUE_BYTES * max(0, length) for length, _ in nodes)
    for offset, length in buffers:
        if length >= 8:
            (unpacked,) = struct.unpack("<q", os.pread(file.fileno(), 8, body + offset))
            total += length if unpacked == -1 else abs(unpacked)
    return total
