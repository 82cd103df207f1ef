"""The lines that make one candidate list, bounded in number and in bytes."""

from __future__ import annotations

from ...metrics.errors import InputError
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import Line


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
            InputError: the list has more lines or bytes than are read; the file is to be refused.
        """
        _, text = line
        self._num_bytes += len(text) + 1
        self.lines.append(line)
        most_lines, most_bytes = limits().candidates, limits().line_bytes
        if len(self.lines) > most_lines or self._num_bytes > most_bytes:
            raise InputError(
                f"a list of more than {most_lines} candidates or {most_bytes} bytes",
                where=f"{self._name}:{self.first}",
                fix="Is the number of candidates right, and do the ids change? If so: --max candidates=NUMBER",
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
