"""Lines of a file that are read in another order than they stand in: in a temporary file, 24 bytes of memory each."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...metrics.errors import InputError
from ...metrics.storage.checksums import DIGEST_BYTES
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import Line
from .entries import ListLines

SPOOL_BYTES = 64 << 20
IdOf = Callable[[Any], str]  # the id of a JSON value; raises InputError where it has none


class LineSpool:
    """Blocks of lines, read back by their numbers from 0; a context manager that removes the temporary file."""

    def __init__(self) -> None:
        self._offsets = array("q")
        self._file = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115  closed by `__exit__`

    def __len__(self) -> int:
        """The number of blocks."""
        return len(self._offsets)

    def __enter__(self) -> LineSpool:
        """Itself."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Removes the temporary file."""
        self._file.close()

    def add(self, lines: Iterable[Line]) -> None:
        """Takes one more block."""
        self._offsets.append(self._file.tell())
        self._file.writelines(b"%d %b\n" % line for line in lines)

    def lines(self, i: int) -> Iterator[Line]:
        """The lines of a block; all blocks must have been added."""
        stop = self._offsets[i + 1] if i + 1 < len(self) else self._file.seek(0, 2)
        self._file.seek(self._offsets[i])
        data = self._file.read(stop - self._offsets[i])
        for line in data.split(b"\n")[:-1]:
            number, _, text = line.partition(b" ")
            yield int(number), text


class GroupedLines:
    """The lines of a file in groups by their id; a line without one is a group of its own, and an error later.

    Args:
        name: the file.
        lines: its lines, read to their end at once.
        id_of: the id of a line.
    """

    def __init__(self, name: str, lines: Iterable[Line], id_of: IdOf) -> None:
        self.name = name
        self._spool = LineSpool()
        digests = bytearray()
        try:
            for number, line in lines:
                digests += _digest(_key(number, line, id_of))
                self._spool.add([(number, line)])
        except BaseException:
            self.close()
            raise
        keys = np.frombuffer(bytes(digests), dtype=f"S{DIGEST_BYTES}")
        # lines by group, and where each group begins
        self._order: NDArray[np.int64] = np.argsort(keys, kind="stable")
        self._keys, self._starts = np.unique(keys[self._order], return_index=True)

    def close(self) -> None:
        """Removes the temporary file."""
        self._spool.__exit__()

    def by_appearance(self) -> Iterator[int]:
        """The groups in the order of their first lines."""
        first_lines = self._order[self._starts]
        yield from np.argsort(first_lines, kind="stable").tolist()

    def find(self, list_id: str) -> int | None:
        """The group of an id; None if there is none."""
        digest = np.frombuffer(_digest(f"id {list_id}"), dtype=f"S{DIGEST_BYTES}")
        group = int(np.searchsorted(self._keys, digest)[0])
        is_there = group < len(self._keys) and self._keys[group] == digest[0]
        return group if is_there else None

    def lines(self, group: int) -> ListLines:
        """The lines of a group, in their order; raises InputError for more than a list may have."""
        stops = [*self._starts[group + 1 : group + 2].tolist(), len(self._order)]
        lines = ListLines(self.name)
        for i in self._order[self._starts[group] : stops[0]].tolist():
            for line in self._spool.lines(i):
                lines.add(line)
        return lines


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def _key(number: int, line: bytes, id_of: IdOf) -> str:
    """The key of the group of a line."""
    try:
        return f"id {id_of(parse_json(line))}"
    except InputError:
        return f"line {number}"
