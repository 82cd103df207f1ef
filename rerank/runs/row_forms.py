"""The form in which a run writes what was decided of a list: a JSON row, the chosen text, or what another form makes.

A form yields bytes that end in a newline, as many lines as it likes, and reads the chosen text of a list back from
them, as a resumed run with context needs it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ...metrics.text.texts import Document, Text
from ..choice import Ranking
from ..lists import CandidateList
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

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of a list, whose lines are the next that `row` made."""

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """Takes note of what an earlier run has written, of which these are the lines and the counts."""


class JsonRows:
    """One JSON object per list."""

    one_line = True

    @property
    def identity(self) -> dict[str, Any]:
        """Its name."""
        return {"format": "jsonl"}

    def row(self, ranking: Ranking) -> bytes:
        """The row of a list."""
        return json_row(ranking)

    def accept(self, ranking: Ranking) -> object:
        """Every decision can be written."""
        return accept_all(ranking)

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The chosen text of the next row."""
        text = json.loads(next(lines))["text"]
        return Document(tuple(text)) if isinstance(text, list) else text

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """No row depends on another."""


class TextRows:
    """The chosen texts alone, one per line."""

    one_line = True

    @property
    def identity(self) -> dict[str, Any]:
        """Its name."""
        return {"format": "text"}

    def row(self, ranking: Ranking) -> bytes:
        """The line of a list; errors as `text_row`."""
        return text_row(ranking)

    def accept(self, ranking: Ranking) -> object:
        """Raises InputError where `row` would."""
        return text_row(ranking)

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """The next line without its end."""
        return next(lines).rstrip("\n")

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """No line depends on another."""


def row_form(name: str) -> RowForm:
    """The form of a name, "jsonl" or "text"."""
    return TextRows() if name == "text" else JsonRows()
