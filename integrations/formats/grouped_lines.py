"""The JSON lines of a file by a key that they have, such as an id that comes again and again, anywhere in the file.

Lines go to a temporary file; in memory stay 40 bytes for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from hashlib import blake2b
from tempfile import SpooledTemporaryFile

import numpy as np
from numpy.typing import NDArray

from ...metrics.storage.checksums import DIGEST_BYTES
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ..files.list_lines import ListLines
from .jsonl import recognise

SPOOL_BYTES = 64 << 20
KeyOf = Callable[[int, bytes], str]  # the key of a line, of its number and its bytes


class GroupedLines:
    """The lines of a file in groups, those of a group in their order.

    Args:
        source: the file, read to its end at once.
        key_of: the key of a line.

    Raises:
        InputError: the first line that is not empty is no JSON object.
    """

    def __init__(self, source: LineSource, key_of: KeyOf) -> None:
        self.name = source.name
        digests = bytearray()
        self._numbers, self._offsets, self._sizes = array("q"), array("q"), array("q")
        self._file = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115  closed by `close`
        try:
            is_recognised = False
            for number, line in without_trailing_blanks(source):
                if line.strip() and not is_recognised:
                    recognise(source, number, line)
                    is_recognised = True
                digests += _digest(key_of(number, line))
                self._numbers.append(number)
                self._offsets.append(self._file.tell())
                self._sizes.append(len(line))
                self._file.write(line)
        except BaseException:
            self.close()
            raise
        keys = np.frombuffer(bytes(digests), dtype=f"S{DIGEST_BYTES}")
        # lines by group, and where each group begins
        self._order: NDArray[np.int64] = np.argsort(keys, kind="stable")
        self._keys, self._starts = np.unique(keys[self._order], return_index=True)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._keys)

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()

    def by_appearance(self) -> Iterator[int]:
        """The groups in the order of their first lines."""
        first_lines = self._order[self._starts]
        yield from np.argsort(first_lines, kind="stable").tolist()

    def find(self, key: str) -> int | None:
        """The group of a key; None if there is none."""
        digest = np.frombuffer(_digest(key), dtype=f"S{DIGEST_BYTES}")
        group = int(np.searchsorted(self._keys, digest)[0])
        return group if group < len(self) and self._keys[group] == digest[0] else None

    def lines(self, group: int) -> ListLines:
        """The lines of a group.

        Raises:
            InputError: more than a list may have.
        """
        end = self._starts[group + 1] if group + 1 < len(self) else len(self._order)
        lines = ListLines(self.name)
        for i in self._order[self._starts[group] : end].tolist():
            self._file.seek(self._offsets[i])
            lines.add((self._numbers[i], self._file.read(self._sizes[i])))
        return lines


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
