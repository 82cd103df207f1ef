"""What readers of JSON lines read from: a text file, or a file of rows and columns of which every row is a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from ..errors import InputError

Line = tuple[int, bytes]  # its number, from 1, and what stands there


class NumberedLines(Protocol):
    """Lines numbered from 1, in a single pass."""

    name: str

    def __iter__(self) -> Iterator[Line]:
        """The lines with their numbers."""

    def fraction(self) -> float | None:
        """The share of the file read so far, None where its end is not known."""

    def close(self) -> None:
        """Closes the file."""

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` in this file; line 0 is the file as a whole."""
