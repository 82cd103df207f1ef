"""The lines that make one candidate list, bounded in number and in bytes."""

from __future__ import annotations

from ...metrics.errors import InputError
from ...metrics.text.line_source import LINE_BYTES, Line

LIST_LINES = 100_000


class ListLines:
    """Collects the lines of one list.

    Args:
        name: the file, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._num_bytes = 0
        self.lines: list[Line] = []

    def add(self, line: Line) -> None:
        """Takes one more line.

        Raises:
            InputError: the list has more than `LIST_LINES` lines or `LINE_BYTES` bytes; the file is to be refused.
        """
        _, text = line
        self._num_bytes += len(text) + 1
        self.lines.append(line)
        if len(self.lines) > LIST_LINES or self._num_bytes > LINE_BYTES:
            raise InputError(
                f"a list of more than {LIST_LINES} candidates or {LINE_BYTES} bytes",
                where=f"{self._name}:{self.first}",
                fix="Is the number of candidates right, and do the ids change?",
            )

    @property
    def first(self) -> int:
        """The number of the first line."""
        number, _ = self.lines[0]
        return number

    @property
    def raw(self) -> bytes:
        """All lines, each closed by a newline."""
        return b"".join(text + b"\n" for _, text in self.lines)
