"""Where the columns of a Parquet file stand, as its footer says.

It is read here and not asked of pyarrow, which ends the process where what the footer says of a column contradicts the
schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .thrift_values import Struct

# fields of the footer, of an element of the schema, of a row group, of a column in it, and of what that says of itself
SCHEMA, _ROW_GROUPS = 2, 4
NAME, NUM_CHILDREN = 4, 5
_COLUMNS = 1
_FILE_PATH, _DESCRIPTION, _ENCRYPTION = 1, 3, 8
_TYPE, _PATH, _CODEC, _UNPACKED, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 1, 3, 4, 6, 7, 9, 11
_TEXT = 6  # the type of byte arrays
_CODECS = (None, "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")  # in their order


class ColumnChunk(NamedTuple):
    """The part of a column that stands in a row group.

    Args:
        path: its name, those of what it stands in before it, with dots between.
        in_other_file: whether it stands in another file.
        is_encrypted: whether its pages are.
        is_text: whether its values are texts, or other bytes of any length.
        codec: how its pages are packed, as pyarrow calls it; None where they are not.
        unpacked_bytes: of all its pages, unpacked.
        packed_bytes: of all its pages in the file.
        start: the byte of the file at which its first page begins; 0 where there is none.
    """

    path: str
    in_other_file: bool
    is_encrypted: bool
    is_text: bool
    codec: str | None
    unpacked_bytes: int
    packed_bytes: int
    start: int


def column_chunks(footer: Struct) -> list[list[ColumnChunk]]:
    """The columns of every row group, which are those of the schema in its order.

    pyarrow takes columns by their place, so that one of another name would be read without a look at its pages.

    Raises:
        ValueError, LookupError, TypeError, AttributeError: the footer is not as Parquet has it.
    """
    leaves = list(_leaves(footer[SCHEMA]))
    groups = [group[_COLUMNS] for group in footer[_ROW_GROUPS]]
    for columns in groups:
        for column, leaf in zip(columns, leaves, strict=True):
            _check_path(column[_DESCRIPTION][_PATH], leaf)
    return [[_chunk(column) for column in columns] for columns in groups]


def number(fields: Struct, field: int) -> int:
    """A field that is a whole number from 0; ValueError if it is none."""
    value = fields[field]
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r:.40} where a number should stand")
    return value


class _Node(NamedTuple):
    """An element of the schema, in another one but for the root."""

    name: bytes
    inside: _Node | None


def _leaves(elements: Sequence[Struct]) -> Iterator[_Node]:
    """The columns of a schema, whose elements are a tree in the order of its nodes."""
    groups: list[_Node] = []
    open_children: list[int] = []  # of each group, how many are to come
    for element in elements:
        while open_children and not open_children[-1]:
            open_children.pop()
            groups.pop()
        node = _Node(element[NAME], groups[-1] if groups else None)
        if open_children:
            open_children[-1] -= 1
        num_children = element.get(NUM_CHILDREN, 0)
        if num_children:
            open_children.append(num_children)
            groups.append(node)
        elif _TYPE in element:
            yield node


def _check_path(names: Sequence[bytes], leaf: _Node) -> None:
    """Raises ValueError where a column does not have the names of its place in the schema, but for the root's."""
    node: _Node | None = leaf
    for name in reversed(names):
        if node is None or node.name != name:
            break
        node = node.inside
    # what is left is the root, which has no name in a path
    if node is None or node.inside is not None or node is leaf:
        raise ValueError(f"a column {b'.'.join(names)!r:.80} where {leaf.name!r:.80} stands")


def _chunk(column: Struct) -> ColumnChunk:
    """The column of a struct of the footer."""
    said: dict[int, Any] = column[_DESCRIPTION]
    starts = [number(said, field) for field in (_DATA_PAGE, _DICTIONARY_PAGE) if field in said]
    return ColumnChunk(
        path=".".join(name.decode() for name in said[_PATH]),
        in_other_file=bool(column.get(_FILE_PATH)),
        is_encrypted=_ENCRYPTION in column,
        is_text=said[_TYPE] == _TEXT,
        codec=_CODECS[number(said, _CODEC)],
        unpacked_bytes=number(said, _UNPACKED),
        packed_bytes=number(said, _PACKED),
        # without rows there may be no page, and then none begins anywhere
        start=min((start for start in starts if start), default=0),
    )
