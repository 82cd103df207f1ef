"""Documents of a test set as the lines of a systems file, which one reader checks whatever format they came in.

A row is a dict with ``id``, ``source``, ``references``, ``systems`` and ``human`` as `readers.systems` reads them, and
keys of its own with texts or numbers (``domain``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...metrics.errors import InputError
from ...rerank.runs.resumable import as_line

Row = dict[str, Any]


class DocumentRows:
    """Rows as numbered lines of JSON, in a single pass.

    Args:
        name: of the file or folder.
        rows: its documents; iterating raises InputError where it must be refused.
    """

    def __init__(self, name: str, rows: Iterator[Row]) -> None:
        self.name = name
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers."""
        for number, row in enumerate(self._rows, 1):
            yield number, as_line(row).rstrip(b"\n")

    def fraction(self) -> float | None:
        """Not known."""
        return None

    def close(self) -> None:
        """Stops reading."""
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` at a document."""
        where = f"{self.name}: document {line}" if line else self.name
        return InputError(problem, where=where, fix=fix)


def texts_of(row: Row, key: str) -> dict[str, list[str]]:
    """Texts by name under ``systems`` or ``references``, each a list of segments; a whole text is one.

    Raises:
        InputError: a text is missing.
    """
    by_name = row.get(key) or {}
    return {name: segments_of(value, f"{key}.{name}") for name, value in by_name.items()}


def segments_of(value: Any, where: str) -> list[str]:
    """The segments of a text."""
    segments = value if isinstance(value, list) else [value]
    for i, text in enumerate(segments):
        if not isinstance(text, str):
            raise InputError("a text is missing", where=f"{where}[{i}]", fix="Give every text")
    return segments
