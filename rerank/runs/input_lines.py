"""The rest of an input as lines, where each is an entry that any process can read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.storage.line_source import Line
from ..lists import CandidateList
from ..scheduler import WINDOW_CHARACTERS, WINDOW_RECORDS
from .row_loop import Entry

Read = Callable[[str, int, bytes], Entry[CandidateList]]  # of the input's name, a number and a line


class Lines(NamedTuple):
    """The lines not yet read, and how they are read."""

    rest: Iterator[Line]
    read: Read
    fault: Callable[[Any], InputError | None]  # what is wrong with the place of the next list
    text_bytes: Callable[[], int | None]  # of the whole input, where that is known


class NextLines:
    """Lines that are read as there is room for them.

    Args:
        lines: those not yet read.
        meter: counts the seconds of reading.
    """

    def __init__(self, lines: Iterator[Line], meter: Meter) -> None:
        self.lines, self.meter = lines, meter
        self.refused: InputError | None = None

    def fitting(self, open_lines: deque[Line]) -> Iterator[Line]:
        """The next lines as long as they find room beside those that are open, where they are put."""
        size = sum(len(line) for _, line in open_lines)
        while len(open_lines) < WINDOW_RECORDS and size < WINDOW_CHARACTERS:
            line = self._next()
            if line is None:
                return
            open_lines.append(line)
            size += len(line[1])
            yield line

    def _next(self) -> Line | None:
        try:
            with self.meter.stage("read"):
                return None if self.refused else next(self.lines, None)
        except InputError as error:
            self.refused = error
            return None
