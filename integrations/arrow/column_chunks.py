"""Where the columns of a Parquet file stand, as its footer says.

It is read here and not asked of pyarrow, which ends the process where what the footer says of a column contradicts the
schema.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .thrift_values import Struct

# fields of the footer, of a row group, of a column in it, and of what that says of itself
_ROW_GROUPS, _COLUMNS = 4, 1
_FILE_PATH, _DESCRIPTION = 1, 3
_TYPE, _PATH, _CODEC, _UNPACKED, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 1, 3, 4, 6, 7, 9, 11
_TEXT = 6  # the type of byte arrays
_CODECS = (None, "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")  # in their order


class ColumnChunk(NamedTuple):
    """The part of a column that stands in a row group.

    Args:
        path: its name, those of what it stands in before it, with dots between.
        in_other_file: whether it stands in another file.
        is_text: whether its values are texts, or other bytes of any length.
        codec: how its pages are packed, as pyarrow calls it; None where they are not.
        unpacked_bytes: of all its pages, unpacked.
        packed_bytes: of all its pages in the file.
        start: the byte of the file at which its first page begins.
    """

    path: str
    in_other_file: bool
    is_text: bool
    codec: str | None
    unpacked_bytes: int
    packed_bytes: int
    start: int


def column_chunks(footer: Struct) -> list[list[ColumnChunk]]:
    """The columns of every row group.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the footer is not as Parquet has it.
    """
    return [[_chunk(column) for column in group[_COLUMNS]] for group in footer[_ROW_GROUPS]]


def number(fields: Struct, field: int) -> int:
    """A field that is a whole number from 0; ValueError if it is none."""
    value = fields[field]
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.40} where a number should stand")
    return value


def _chunk(column: Struct) -> ColumnChunk:
    """The column of a struct of the footer."""
    said: dict[int, Any] = column[_DESCRIPTION]
    starts = [number(said, field) for field in (_DATA_PAGE, _DICTIONARY_PAGE) if field in said]
    return ColumnChunk(
        path=".".join(name.decode() for name in said[_PATH]),
        in_other_file=bool(column.get(_FILE_PATH)),
        is_text=said[_TYPE] == _TEXT,
        codec=_CODECS[number(said, _CODEC)],
        unpacked_bytes=number(said, _UNPACKED),
        packed_bytes=number(said, _PACKED),
        start=min(start for start in starts if start),
    )
