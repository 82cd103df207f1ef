"""The values of an Arrow array as Python values, and what every one costs before it is made.

Texts stay in a dictionary until the size of their row is known, so that a text that stands a million times in a row of
a small file costs nothing. Extension types are read as what they are stored as: nothing they name is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ...metrics.errors import DiscorankError, InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.limits import limits, more
from ...rerank.runs.table_files import MARK

WRITE_AGAIN = "Is it whole? Copy it or write it again"
Sizes = npt.NDArray[np.int64]  # [n], bytes
SCALAR_BYTES = 8
VALUE_BYTES = 32  # what a value takes while sizes are added up
Place = Callable[[int], str]  # where a row stands, by its number
DEPTH = 100


class UnreadableTypeError(InputError):
    """A column has a type that JSON has no word for."""


class MemoryBoundError(InputError):
    """Rows take more memory than they may."""

    def __init__(self, where: str) -> None:
        problem = f"rows of more than {limits().batch_bytes} bytes, unpacked"
        fix = f"Write smaller row groups or record batches. {more('batch_bytes')}"
        super().__init__(problem, where=where, fix=fix)


@contextmanager
def our_errors(where: str) -> Iterator[None]:
    """Errors of pyarrow as errors of ours, with the place."""
    import pyarrow as pa

    try:
        yield
    except DiscorankError:
        raise
    except MemoryError as error:
        raise MemoryBoundError(where) from error
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        raise InputError(
            f"cannot be read ({lines[0]:.200})", where=where, fix=WRITE_AGAIN
        ) from error


def rows_of(batch: Any, first: int, place: Place) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a batch by their columns, with their numbers.

    Args:
        batch: a pyarrow.RecordBatch.
        first: the number of its first row.
        place: says where a row stands.

    Raises:
        InputError: offsets or texts are none, or a row is too long; with its place.
    """
    with our_errors(place(first)):
        _check_whole(batch, first, place)
    for start, piece in _pieces(batch, first, place):
        columns = _columns(piece, place(start))
        names = piece.schema.names
        for i, row in enumerate(zip(*columns, strict=True)):
            yield start + i, dict(zip(names, row, strict=True))


def too_long(place: str) -> InputError:
    """The refusal of a row that has more bytes than are read."""
    problem = f"a row of more than {limits().line_bytes} bytes"
    return InputError(problem, where=place, fix=more("line_bytes"))


def _pieces(batch: Any, first: int, place: Place) -> Iterator[tuple[int, Any]]:
    """Parts of a batch that fit into memory as values, none with a row that is too long."""
    bound = limits().line_bytes
    try:
        by_column = [sizes(column, limits().batch_bytes // VALUE_BYTES) for column in batch.columns]
        total = np.sum(by_column, axis=0)
    except OverflowError:
        total = np.array([bound + 1] * len(batch))
    if len(batch) == 1 and int(total[0]) > bound:
        raise too_long(place(first))
    if len(batch) == 1 or int(total.sum()) <= bound:
        yield first, batch
        return
    # the row before the half is refused before the one behind it is looked at
    half = len(batch) // 2
    yield from _pieces(batch.slice(0, half), first, place)
    yield from _pieces(batch.slice(half), first + half, place)


def _columns(batch: Any, place: str) -> list[list[Any]]:
    """The values of every column."""
    try:
        with our_errors(place):
            fields = enumerate(batch.schema)
            return [values(batch.column(i), field.metadata) for i, field in fields]
    except InputError as error:
        raise InputError(error.problem, where=error.where or place, fix=error.fix) from None


def _check_whole(batch: Any, first: int, place: Place) -> None:
    """Raises InputError for the first row that is not as Arrow has it."""
    try:
        batch.validate(full=True)
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
        if "utf8" in reason.lower():
            problem = f"text that is not UTF-8 ({reason})"
            where = place(first + _first_damaged(batch))
            raise InputError(problem, where=where, fix="Save it as UTF-8") from error
        problem = f"cannot be read ({reason})"
        raise InputError(problem, where=place(first), fix=WRITE_AGAIN) from error


def _first_damaged(batch: Any) -> int:
    """The first row, from 0, that is not as Arrow has it; 0 where none is so by itself."""
    for i in range(len(batch)):
        try:
            batch.slice(i, 1).validate(full=True)
        except ValueError:
            return i
    return 0


def check_type(type_: Any, where: str, depth: int = 0) -> None:
    """Raises UnreadableTypeError for a type that is not read; `where` is the column."""
    import pyarrow.types as kinds

    if depth > DEPTH:
        raise UnreadableTypeError(f"nested deeper than {DEPTH} levels", where=where)
    stored = storage_type(type_)
    if kinds.is_dictionary(stored) or _is_list(stored):
        check_type(stored.value_type, where, depth + 1)
    elif kinds.is_map(stored):
        if not _is_text(storage_type(stored.key_type)):
            raise UnreadableTypeError(f"found keys of the type {stored.key_type}", where=where)
        check_type(stored.item_type, where, depth + 1)
    elif kinds.is_struct(stored):
        _check_fields(stored, where, depth)
    elif not (_is_text(stored) or _is_number(stored) or kinds.is_null(stored)):
        problem = f"found the type {stored!s:.60}, expected text, numbers, lists or structs"
        raise UnreadableTypeError(problem, where=where)


def _check_fields(struct: Any, where: str, depth: int) -> None:
    """Raises UnreadableTypeError for fields of a struct that are not read."""
    fields = [struct.field(i) for i in range(struct.num_fields)]
    if len({field.name for field in fields}) < len(fields):
        raise UnreadableTypeError("two fields of one name", where=where)
    for field in fields:
        check_type(field.type, f"{where}.{field.name}"[:200], depth + 1)


def storage_type(type_: Any) -> Any:
    """The storage type of an extension type; any other type is itself."""
    import pyarrow as pa

    while isinstance(type_, pa.BaseExtensionType):
        type_ = type_.storage_type
    return type_


def sizes(array: Any, max_values: int) -> Sizes:
    """How many bytes every value takes as text at least, [n].

    Raises:
        OverflowError: there are more values than `max_values`.
    """
    import pyarrow.types as kinds

    array = _stored(array)
    count = len(array)
    if count > max_values:
        raise OverflowError(f"{count} values")
    kind = array.type
    if kinds.is_dictionary(kind):
        return _of_dictionary(array, max_values)
    if _is_text(kind):
        return _lengths(array)
    if kinds.is_struct(kind):
        children = [sizes(array.field(i), max_values) for i in range(kind.num_fields)]
        return np.asarray(np.sum([np.full(count, 2), *children], axis=0), dtype=np.int64)
    if kinds.is_map(kind) or _is_list(kind):
        offsets, children = _children(array)
        child_sizes = sum((sizes(child, max_values) for child in children), np.int64(SCALAR_BYTES))
        ends = np.concatenate([[0], np.cumsum(child_sizes)])
        return np.asarray(ends[offsets[1:]] - ends[offsets[:-1]] + 2)
    return np.full(count, SCALAR_BYTES, dtype=np.int64)


def values(array: Any, metadata: Any = None) -> list[Any]:
    """The values as JSON has them; null is None, and left out of structs.

    Args:
        array: the array.
        metadata: of its field, which may say that texts are JSON.

    Raises:
        InputError: what should be JSON is none, or a key of a map stands twice.
    """
    if metadata and MARK.items() <= metadata.items():
        # behind a struct that is null stands anything, as a rule nothing
        return [parse_json(text.encode()) if text else None for text in values(array)]
    return _plain_values(_stored(array))


def _plain_values(array: Any) -> list[Any]:
    """The values of an array of no extension type."""
    import pyarrow.types as kinds

    kind = array.type
    if kinds.is_dictionary(kind):
        return _dictionary_values(array)
    if kinds.is_struct(kind):
        made = _structs(array)
    elif kinds.is_map(kind):
        made = _maps(array)
    elif _is_list(kind):
        made = _lists(array)
    else:
        return list(array.to_pylist())
    if not array.null_count:
        return made
    valid = array.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(made, valid, strict=True)]


def _structs(array: Any) -> list[Any]:
    """Objects, without the fields that are null."""
    fields = [array.type.field(i) for i in range(array.type.num_fields)]
    names = [field.name for field in fields]
    columns = [values(array.field(i), field.metadata) for i, field in enumerate(fields)]
    if not columns:
        return [{} for _ in range(len(array))]
    rows = zip(*columns, strict=True)
    return [
        {name: value for name, value in zip(names, row, strict=True) if value is not None}
        for row in rows
    ]


def _maps(array: Any) -> list[Any]:
    """Objects of the keys of a map.

    Raises:
        InputError: a key stands twice.
    """
    offsets, (keys, items) = _children(array)
    key_values, item_values = values(keys), values(items)
    made = []
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        pairs = list(zip(key_values[start:end], item_values[start:end], strict=True))
        row = {key: value for key, value in pairs if value is not None}
        if len({key for key, _ in pairs}) < len(pairs):
            raise InputError("a key of a map stands twice", fix="Keep one of them")
        made.append(row)
    return made


def _lists(array: Any) -> list[Any]:
    offsets, (child,) = _children(array)
    items = values(child, array.type.value_field.metadata)
    bounds: Sequence[int] = offsets.tolist()
    return [items[start:end] for start, end in pairwise(bounds)]


def _children(array: Any) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Where the items of every list begin and end among its children, [n + 1], and the children that are in use."""
    import pyarrow as pa
    import pyarrow.types as kinds

    count = len(array)
    if kinds.is_fixed_size_list(array.type):
        width = array.type.list_size
        child = array.values.slice(array.offset * width, count * width)
        return np.arange(count + 1, dtype=np.int64) * width, [child]
    if not count:
        both = [array.keys, array.items] if kinds.is_map(array.type) else [array.values]
        return np.zeros(1, dtype=np.int64), [child.slice(0, 0) for child in both]
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, length = int(offsets[0]), int(offsets[-1] - offsets[0])
    both = [array.keys, array.items] if isinstance(array, pa.MapArray) else [array.values]
    return offsets - first, [child.slice(first, length) for child in both]


def _of_dictionary(array: Any, max_values: int) -> Sizes:
    """The sizes of values in a dictionary."""
    of_entries = sizes(array.dictionary, max_values)
    if not len(of_entries):
        return np.zeros(len(array), dtype=np.int64)
    return of_entries[_places(array)]


def _dictionary_values(array: Any) -> list[Any]:
    """The values, of which every one in use is made once."""
    if not len(array.dictionary):
        return [None] * len(array)
    used, places = np.unique(_places(array), return_inverse=True)
    entries = values(_stored(array.dictionary).take(used))
    made = [entries[place] for place in places.tolist()]
    if not array.indices.null_count:
        return made
    valid = array.indices.is_valid().to_pylist()
    return [value if is_valid else None for value, is_valid in zip(made, valid, strict=True)]


def _places(array: Any) -> npt.NDArray[np.int64]:
    """The place of every value in the dictionary, 0 for null, [n]."""
    filled = array.indices.fill_null(0)
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)


def _lengths(array: Any) -> Sizes:
    """The bytes of every text, [n]."""
    import pyarrow.compute as compute

    filled = compute.binary_length(array).fill_null(0)
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64) + SCALAR_BYTES


def _stored(array: Any) -> Any:
    """An array of an extension type as what it is stored as; texts in views as plain ones, which has more functions."""
    import pyarrow as pa

    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    return array.cast(pa.large_string()) if pa.types.is_string_view(array.type) else array


def _is_text(type_: Any) -> bool:
    import pyarrow.types as kinds

    return bool(
        kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_)
    )


def _is_number(type_: Any) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_boolean(type_))


def _is_list(type_: Any) -> bool:
    import pyarrow.types as kinds

    return bool(
        kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_)
    )
