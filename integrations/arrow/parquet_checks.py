"""What a Parquet file says of itself, checked before pyarrow unpacks it: its footer, and the headers of its pages.

    footer                 structs, values, bytes, depth of the schema
    page                   unpacked bytes + 8 for every value <= batch_bytes
    column of a row group  the same, summed, <= max(batch_bytes, 400 * packed bytes)

8 bytes are what a value costs at least when it is unpacked: two levels of nesting and a place in a dictionary.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from ...metrics.errors import InputError
from ...metrics.storage.bounded_inflation import RATIO
from ...metrics.storage.limits import limits, more
from .column_chunks import NUM_CHILDREN, SCHEMA, ColumnChunk, column_chunks, number
from .thrift_values import Struct, ThriftReader

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"
SCHEMA_DEPTH = 100
VALUE_BYTES = 8
_TAIL_BYTES = 8  # the length of the footer, and the magic number
_HEADER_BYTES = 1 << 16  # of one page
_UNPACKED, _PACKED = 2, 3  # fields of the header of a page
_PAGES = (5, 7, 8)  # fields of that header: a page of data, of a dictionary, of data in version 2
_DICTIONARY = 7
_ENCODINGS = {5: 2, 8: 4}  # where a page of data says how its values are written
_IN_DICTIONARY = (2, 8)  # the encodings that name places in a dictionary
WRITE_AGAIN = "Is it whole? Copy it or write it again"


def check_footer(file: BinaryIO, name: str) -> list[list[ColumnChunk]]:
    """Checks the footer of a Parquet file; the columns of every row group.

    Raises:
        InputError: it is no Parquet file, is truncated, encrypted, or says more than is read.
    """
    footer = _footer_bytes(file, name)
    bounds = limits()
    reader = ThriftReader(footer, bounds.members, bounds.json_values)
    try:
        fields = reader.struct()
        _check_schema(fields.get(SCHEMA), name)
        return column_chunks(fields)
    except OverflowError as error:
        limit = "members" if str(error) == "structs" else "json_values"
        problem = f"a footer of more than {getattr(bounds, limit)} {error}"
        raise InputError(problem, where=name, fix=more(limit)) from None
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"a damaged footer ({error})", where=name, fix=WRITE_AGAIN) from error


def check_pages(file: BinaryIO, name: str, columns: Iterable[ColumnChunk]) -> list[str]:
    """Checks the pages of a row group; the paths of columns whose texts are to stay in their dictionary.

    These are the ones whose dictionary may be small and its texts many. Of others, texts are unpacked as they come: a
    dictionary that pyarrow makes of them would grow with the row group.

    Args:
        file: the Parquet file.
        name: the file and the row group, for errors.
        columns: its columns that are read.

    Raises:
        InputError: they cost more than is unpacked, or are not where they should be.
    """
    stay = []
    for column in columns:
        packed = unpacked = 0
        pages = []
        where = f"{name}, column {column.path!r:.80}"
        _check_readable(column, where)
        for page in _pages(file, where, column):
            cost = page.unpacked_bytes + VALUE_BYTES * page.num_values
            packed, unpacked = packed + page.packed_bytes, unpacked + cost
            bound = limits().batch_bytes
            problem = ""
            if cost > bound:
                problem = f"a page of {cost} bytes unpacked, at most {bound}"
            elif unpacked > max(bound, RATIO * packed):
                problem = f"{unpacked} bytes unpacked of {packed} packed ones"
            if problem:
                fix = f"Write smaller pages and row groups. {more('batch_bytes')}"
                raise InputError(problem, where=where, fix=fix)
            pages.append(page)
        if column.is_text and _stays_in_dictionary(file, column, pages):
            stay.append(column.path)
    return stay


def _check_readable(column: ColumnChunk, where: str) -> None:
    """Raises InputError for pages in another file, or encrypted ones."""
    if column.in_other_file:
        raise InputError("stands in another file", where=where, fix="Write all into one file")
    if column.is_encrypted:
        raise InputError("is encrypted", where=where, fix="Write it without encryption")


def _stays_in_dictionary(file: BinaryIO, column: ColumnChunk, pages: list[_Page]) -> bool:
    """Whether the texts of a column, unpacked, might be more than is unpacked at once; or all are in a dictionary."""
    entries = [page for page in pages if page.is_dictionary]
    coded = [page for page in pages if page.encoding in _IN_DICTIONARY]
    if not entries or not coded:
        return False
    if len(coded) + len(entries) == len(pages):
        return True
    longest = max(_longest_text(file, column.codec, page) for page in entries)
    return longest * sum(page.num_values for page in coded) > limits().batch_bytes


def _longest_text(file: BinaryIO, codec: str | None, page: _Page) -> int:
    """The bytes of the longest text of a dictionary; of the whole one where it cannot be unpacked."""
    import pyarrow as pa

    packed = os.pread(file.fileno(), page.packed_bytes, page.body)
    try:
        data = packed
        if codec is not None:
            data = pa.decompress(packed, page.unpacked_bytes, codec=codec, asbytes=True)
        longest = start = 0
        while start < len(data):
            length = int.from_bytes(data[start : start + 4], "little")
            longest, start = max(longest, length), start + 4 + length
    except (pa.ArrowException, OSError, ValueError):
        return page.unpacked_bytes
    return longest


class _Page:
    """What the header of a page says; `body` is where the page begins behind it."""

    def __init__(self, fields: Struct, body: int) -> None:
        self.body = body
        self.unpacked_bytes = number(fields, _UNPACKED)
        self.packed_bytes = number(fields, _PACKED)
        self.is_dictionary = _DICTIONARY in fields
        encodings = [
            fields[page].get(field) for page, field in _ENCODINGS.items() if page in fields
        ]
        self.encoding = encodings[0] if encodings else None
        inner = [fields[number] for number in _PAGES if number in fields]
        self.num_values = max((number(header, 1) for header in inner), default=0)


def _pages(file: BinaryIO, where: str, column: ColumnChunk) -> Iterator[_Page]:
    """The pages of a column of a row group."""
    offset = column.start
    end = offset + column.packed_bytes
    if not end:
        return
    size = os.fstat(file.fileno()).st_size
    if offset < len(MAGIC) or end > size:
        problem = f"stands in bytes {offset} to {end} of {size}"
        raise InputError(problem, where=where, fix=WRITE_AGAIN)
    while offset < end:
        data = os.pread(file.fileno(), min(_HEADER_BYTES, end - offset), offset)
        reader = ThriftReader(data, DEPTH_OF_HEADER, len(data))
        try:
            fields = reader.struct()
            page = _Page(fields, offset + reader.offset)
        except (ValueError, LookupError, OverflowError, AttributeError, TypeError) as error:
            problem = f"the header of a page at byte {offset} cannot be read ({error})"
            raise InputError(problem, where=where, fix=WRITE_AGAIN) from error
        yield page
        offset += reader.offset + page.packed_bytes


DEPTH_OF_HEADER = 64  # structs in the header of a page


def _footer_bytes(file: BinaryIO, name: str) -> bytes:
    """The bytes of the footer."""
    size = os.fstat(file.fileno()).st_size
    head = os.pread(file.fileno(), len(MAGIC), 0)
    if head == ENCRYPTED:
        raise InputError("is encrypted", where=name, fix="Write it without encryption")
    if head != MAGIC:
        shown = head.decode("ascii", "replace")
        problem = f"found {shown!r} at its start, expected a Parquet file"
        raise InputError(problem, where=name, fix="Give the file the ending of what it is")
    tail = os.pread(file.fileno(), _TAIL_BYTES, max(0, size - _TAIL_BYTES))
    if size < len(MAGIC) + _TAIL_BYTES or tail[4:] != MAGIC:
        raise InputError("a Parquet file that ends early", where=name, fix=WRITE_AGAIN)
    length = int.from_bytes(tail[:4], "little")
    if length > size - len(MAGIC) - _TAIL_BYTES:
        problem = f"a footer of {length} bytes in a file of {size}"
        raise InputError(problem, where=name, fix=WRITE_AGAIN)
    bound = limits().json_bytes
    if length > bound:
        problem = f"a footer of {length} bytes, at most {bound} are read"
        raise InputError(problem, where=name, fix=more("json_bytes"))
    return os.pread(file.fileno(), length, size - _TAIL_BYTES - length)


def _check_schema(elements: Any, name: str) -> None:
    """Raises InputError for a schema that is nested too deeply; ValueError for one that is none.

    The elements are a tree in the order of its nodes, each with the number of its children.
    """
    open_children: list[int] = []  # of the nodes above, how many are to come
    if not isinstance(elements, list) or not elements:
        raise ValueError("no schema")
    for element in elements:
        while open_children and not open_children[-1]:
            open_children.pop()
        if open_children:
            open_children[-1] -= 1
        num_children = element.get(NUM_CHILDREN, 0)
        if not isinstance(num_children, int) or not 0 <= num_children < len(elements):
            raise ValueError(f"a group of {num_children} columns in a schema of {len(elements)}")
        if num_children:
            open_children.append(num_children)
        if len(open_children) > SCHEMA_DEPTH:
            problem = f"columns nested deeper than {SCHEMA_DEPTH} levels"
            raise InputError(problem, where=name, fix="A candidate list is flat")
