"""The form in which a run writes what was decided of a list: a JSON row, the chosen text, or what another form makes.

A form yields bytes that end in a newline, as many lines as it likes, and reads the chosen texts back from them, as a
run with context that goes on needs them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from ...metrics.text.texts import Document, Text
from ..choice import Ranking
from ..scheduler import accept_all
from .rows import json_row, text_row


class RowForm(Protocol):
    """How a run writes its rows."""

    @property
    def identity(self) -> dict[str, Any]:
        """The settings that the bytes depend on."""

    @property
    def one_line(self) -> bool:
        """Whether every row is one line."""

    def row(self, ranking: Ranking) -> bytes:
        """The lines of a list.

        Raises:
            InputError: they cannot be written in this form.
        """

    def accept(self, ranking: Ranking) -> object:
        """Raises InputError where `row` would."""

    def chosen(self, lines: Iterable[str]) -> Iterator[Text]:
        """The chosen texts of lines that `row` made, in order."""


class JsonRows:
    """One JSON object per list."""

    identity: dict[str, Any] = {"format": "jsonl"}
    one_line = True

    def row(self, ranking: Ranking) -> bytes:
        """The row of a list."""
        return json_row(ranking)

    def accept(self, ranking: Ranking) -> object:
        """Every decision can be written."""
        return accept_all(ranking)

    def chosen(self, lines: Iterable[str]) -> Iterator[Text]:
        """The chosen texts of rows."""
        for line in lines:
            text = json.loads(line)["text"]
            yield Document(tuple(text)) if isinstance(text, list) else text


class TextRows:
    """The chosen texts alone, one per line."""

    identity: dict[str, Any] = {"format": "text"}
    one_line = True

    def row(self, ranking: Ranking) -> bytes:
        """The line of a list; errors as `text_row`."""
        return text_row(ranking)

    def accept(self, ranking: Ranking) -> object:
        """Raises InputError where `row` would."""
        return text_row(ranking)

    def chosen(self, lines: Iterable[str]) -> Iterator[Text]:
        """The lines without their ends."""
        for line in lines:
            yield line.rstrip("\n")


def row_form(name: str) -> RowForm:
    """The form of a name, "jsonl" or "text"."""
    return TextRows() if name == "text" else JsonRows()
