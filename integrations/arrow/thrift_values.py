"""The values in a struct of Thrift's compact protocol, in which Parquet describes files and pages.

A struct becomes a dictionary of its field numbers. Structs, values and nesting are bounded: pyarrow makes objects of a
kilobyte of structs of three bytes, and descends into a schema as deep as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DEPTH = 16
_TRUE, _FALSE, _DOUBLE, _STRUCT = 1, 2, 7, 12
Struct = dict[int, Any]


class ThriftReader:
    """Reads one struct after another from bytes.

    Args:
        data: the bytes.
        max_structs: how many structs are read at most.
        max_values: how many values are read at most.
    """

    def __init__(self, data: bytes, max_structs: int, max_values: int) -> None:
        self._data = data
        self.offset = 0
        self._structs_left = max_structs
        self._values_left = max_values

    def struct(self, depth: int = 0) -> Struct:
        """The next struct.

        Raises:
            ValueError: it is none.
            OverflowError: it has more structs or values than are read.
            IndexError: the bytes end before.
        """
        if depth > DEPTH:
            raise ValueError("nested too deeply")
        self._structs_left -= 1
        if self._structs_left < 0:
            raise OverflowError("structs")
        fields: Struct = {}
        number = 0
        while head := self._byte():
            # the high half of the byte is the distance to the number of the field before
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        """A field's value, by its kind."""
        self._values_left -= 1
        if self._values_left < 0:
            raise OverflowError("values")
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind not in _READERS:
            raise ValueError(f"an unknown kind of value ({kind})")
        return _READERS[kind](self, depth)

    def _byte(self, depth: int = 0) -> int:
        value = self._data[self.offset]
        self.offset += 1
        return value

    def _varint(self) -> int:
        """A whole number in groups of 7 bits, the lowest first."""
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def _zigzag(self, depth: int = 0) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _bytes(self, depth: int = 0) -> bytes:
        return self._take(self._varint())

    def _take(self, length: int) -> bytes:
        end = self.offset + length
        if end > len(self._data):
            raise IndexError("the bytes end early")
        taken = self._data[self.offset : end]
        self.offset = end
        return taken

    def _double(self, depth: int = 0) -> bytes:
        return self._take(8)

    def _list(self, depth: int) -> list[Any]:
        """The values of a list or set: of few the number stands in the first byte."""
        head = self._byte()
        length = head >> 4 if head >> 4 != 15 else self._varint()
        kind = head & 15
        if kind in (_TRUE, _FALSE):  # in a list these are bytes of their own
            return list(self._take(length))
        return [self._value(kind, depth + 1) for _ in range(length)]

    def _map(self, depth: int) -> list[Any]:
        """Keys and values in turns."""
        length = self._varint()
        kinds = self._byte() if length else 0
        return [
            self._value(kind, depth + 1) for _ in range(length) for kind in (kinds >> 4, kinds & 15)
        ]


_READERS: dict[int, Callable[[ThriftReader, int], Any]] = {
    3: ThriftReader._byte,
    4: ThriftReader._zigzag,
    5: ThriftReader._zigzag,
    6: ThriftReader._zigzag,
    _DOUBLE: ThriftReader._double,
    8: ThriftReader._bytes,
    9: ThriftReader._list,
    10: ThriftReader._list,
    11: ThriftReader._map,
}
