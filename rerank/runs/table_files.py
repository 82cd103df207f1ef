"""Rows of JSON lines as a Parquet or Arrow file, in bounded memory: they are read for their columns, and to be written.

Columns have types that hold every value of all rows:
    whole numbers int64, with fractions among them double; texts string; true and false bool; lists list; objects struct
    candidates of which some are texts and others objects: all are objects with "text"
    what no one type holds (a number here, a text there; an object of hundreds of keys): its JSON, as a string whose
    field says so in its metadata, and which is read back as what it was
null and what is missing are the same in a table. The same rows give the same bytes, with the same version of pyarrow.
Pages of Parquet are packed with zstd and have checksums.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import repeat
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, cast

from ...metrics.errors import ResourceError
from ...metrics.optional_packages import require
from ...metrics.storage.atomic_files import complete_file
from .run_file import WrittenBytes, first_bytes

MARK = {b"discorank": b"json"}  # the metadata of a field that holds JSON
MAX_FIELDS = 256  # of an object that is a struct
MAX_DEPTH = 50
GROUP_BYTES = 4 << 20  # of the lines that make a row group
PIECE_BYTES = 1 << 18  # of the lines that are Python values at a time, some ten times as large
Row = dict[str, Any]
_EXACT = 1 << 53  # whole numbers that a double holds
_INT64 = 1 << 63
_OF_CANDIDATES = ("candidates", "pseudo_references")
_ITEMS = None  # the key of what a list holds


class Shape:
    """The type of the values of one field in all rows.

    Args:
        depth: how deep the place is.
        name: of the field.
        may_be_text: whether a text stands for an object with that text, as in candidates.
    """

    __slots__ = ("depth", "inner", "kinds", "may_be_text", "name")

    def __init__(self, depth: int = 0, name: str | None = None, may_be_text: bool = False) -> None:
        self.depth, self.name, self.may_be_text = depth, name, may_be_text
        self.kinds: set[str] = set()
        self.inner: dict[str | None, Shape] = {}  # of an object's fields, and of a list's items

    def note(self, value: Any) -> None:
        """Takes a value into account."""
        if value is None or "mixed" in self.kinds:
            return
        kind = type(value).__name__
        self.kinds.add(_kind_of_number(value) if kind == "int" else kind)
        if kind == "dict":
            self._note_inner(value.items())
        elif kind == "list":
            self._note_inner(zip(repeat(_ITEMS), value))

    def _note_inner(self, pairs: Iterable[tuple[str | None, Any]]) -> None:
        for key, value in pairs:
            if key not in self.inner:
                if len(self.inner) >= MAX_FIELDS or self.depth >= MAX_DEPTH:
                    self.kinds, self.inner = {"mixed"}, {}
                    return
                is_candidate = self.depth == 1 and self.name in _OF_CANDIDATES and key is _ITEMS
                self.inner[key] = Shape(self.depth + 1, key, is_candidate)
            self.inner[key].note(value)

    @property
    def is_json(self) -> bool:
        """Whether no one type holds all values."""
        if self.kinds & {"mixed", "huge"}:
            return True
        kinds = self.kinds - {"int"} if "large" in self.kinds else self.kinds
        if self.has_texts_for_objects or kinds <= {"int", "float"}:
            return False
        return len(kinds) > 1 or (kinds == {"dict"} and not self.inner)

    @property
    def has_texts_for_objects(self) -> bool:
        """Whether some candidates are texts and others objects."""
        is_mixed = self.may_be_text and self.kinds == {"str", "dict"}
        return is_mixed and self.inner.get("text", Shape()).kinds <= {"str"}

    @property
    def needs_change(self) -> bool:
        """Whether values are written as others than they are."""
        is_changed = self.is_json or self.has_texts_for_objects
        return is_changed or any(shape.needs_change for shape in self.inner.values())

    @property
    def fields(self) -> list[Any]:
        """The pyarrow.Field of every field of an object, with the text that some candidates are."""
        shapes = {name: shape for name, shape in self.inner.items() if name is not _ITEMS}
        if self.has_texts_for_objects and "text" not in shapes:
            text = Shape()
            text.kinds = {"str"}
            shapes = {"text": text, **shapes}
        return [shape.field(name) for name, shape in shapes.items()]

    def field(self, name: str) -> Any:
        """The pyarrow.Field of this place."""
        import pyarrow as pa

        return pa.field(name, self.type(), metadata=MARK if self.is_json else None)

    def type(self) -> Any:
        """The pyarrow.DataType of this place."""
        import pyarrow as pa

        if self.is_json:
            return pa.string()
        if "dict" in self.kinds:
            return pa.struct(self.fields)
        if "list" in self.kinds:
            return pa.list_(self.inner.get(_ITEMS, Shape()).field("element"))
        simple = {"float": pa.float64(), "str": pa.string(), "bool": pa.bool_(), "int": pa.int64()}
        simple["large"] = pa.int64()
        # of several kinds of numbers, "float" comes first
        return next((simple[kind] for kind in sorted(self.kinds)), pa.null())

    def changed(self, value: Any) -> Any:
        """A value as it is written."""
        if value is None:
            return None
        if self.is_json:
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, dict):
            there = {key: inner for key, inner in value.items() if inner is not None}
            return {key: self.inner[key].changed(inner) for key, inner in there.items()}
        if isinstance(value, list):
            return [self.inner[_ITEMS].changed(inner) for inner in value]
        return {"text": value} if self.has_texts_for_objects else value


def _kind_of_number(value: int) -> str:
    """Whether a double holds a whole number, or an int64 alone, or none of them."""
    if abs(value) <= _EXACT:
        return "int"
    return "large" if -_INT64 <= value < _INT64 else "huge"


def write_table(lines: Path, table: Path) -> WrittenBytes:
    """Writes the rows of a file as a table, which takes its name when it is complete; its bytes.

    Args:
        lines: JSON objects, one per line.
        table: a name ending in .parquet, .arrow, .feather, or .arrows for a stream.

    Raises:
        ResourceError: it cannot be written.
        ModelLoadError: pyarrow is not installed.
    """
    require(str(table), "pyarrow")
    real = Path(os.path.realpath(table))
    with complete_file(real) as draft, open(draft, "wb") as file, open(lines, "rb") as rows:
        write_rows(rows, file, table.suffix.lower())
    return first_bytes(real, real.stat().st_size)


def write_rows(lines: BinaryIO, file: BinaryIO, ending: str) -> None:
    """Writes the rows of a file as a table into an open file; errors as `write_table`."""
    import pyarrow as pa

    shape = Shape()
    for rows, _ in pieces(lines):
        for row in rows:
            shape.note(row)
    schema = pa.schema(shape.fields)
    try:
        with _writer(file, schema, ending) as writer:
            group: list[Any] = []
            for rows, ends_group in pieces(lines):
                group.append(batch_of(rows, shape, schema))
                if ends_group:
                    writer.write_table(pa.Table.from_batches(group).combine_chunks())
                    group = []
    except pa.ArrowException as error:
        raise ResourceError(f"cannot be written ({error})", where=file.name) from error


def table_of(rows: Iterable[Row]) -> Any:
    """Rows as a pyarrow.Table."""
    import pyarrow as pa

    kept = list(rows)
    shape = Shape()
    for row in kept:
        shape.note(row)
    schema = pa.schema(shape.fields)
    return pa.Table.from_batches([batch_of(kept, shape, schema)], schema)


def batch_of(rows: list[Row], shape: Shape, schema: Any) -> Any:
    """Rows as a pyarrow.RecordBatch; halves of characters are written as their escapes, as in lines."""
    import pyarrow as pa

    changed = [shape.changed(row) for row in rows] if shape.needs_change else rows
    try:
        return pa.RecordBatch.from_pylist(changed, schema=schema)
    except UnicodeEncodeError:
        return pa.RecordBatch.from_pylist([_escaped(row) for row in changed], schema=schema)


def pieces(lines: BinaryIO) -> Iterator[tuple[list[Row], bool]]:
    """The rows of a file, a part of a row group at a time, and whether the group ends with it."""
    rows: list[Row] = []
    piece_bytes = group_bytes = 0
    lines.seek(0)
    line = lines.readline()
    while line:
        rows.append(json.loads(line))
        piece_bytes += len(line)
        group_bytes += len(line)
        line = lines.readline()
        ends_group = group_bytes >= GROUP_BYTES or not line
        if ends_group or piece_bytes >= PIECE_BYTES:
            yield rows, ends_group
            rows, piece_bytes = [], 0
            group_bytes = 0 if ends_group else group_bytes


def _escaped(value: Any) -> Any:
    """The value with halves of characters written as their escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_escaped(key): _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return value


def _writer(file: BinaryIO, schema: Any, ending: str) -> AbstractContextManager[Any]:
    """The writer of record batches in the form of an ending."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    if ending == ".parquet":
        writer = parquet.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
        return cast("AbstractContextManager[Any]", writer)
    if ending == ".arrows":
        return cast("AbstractContextManager[Any]", pa.ipc.new_stream(file, schema))
    return cast("AbstractContextManager[Any]", pa.ipc.new_file(file, schema))


@contextmanager
def lines_of_table(path: Path, draft: BinaryIO) -> Iterator[BinaryIO]:
    """A file for JSON lines, of which the draft of a table is made when the block ends well.

    Args:
        path: the table's name, for its ending and its folder, where the lines stand in a file without a name.
        draft: where the table is written.
    """
    require(str(path), "pyarrow")
    folder = os.path.dirname(os.path.realpath(path))
    with TemporaryFile(dir=folder) as lines:
        yield cast(BinaryIO, lines)
        write_rows(cast(BinaryIO, lines), draft, path.suffix.lower())
