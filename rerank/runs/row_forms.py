"""The form in which a run writes what was decided of a list: a JSON row, the chosen text, or what another form makes.

A form yields bytes that end in a newline, as many lines as it likes, and reads the chosen text of a list back from
them, as a resumed run with context needs it. Error records are JSON lines in every form.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ...metrics.errors import DiscorankError, InputError
from ...metrics.text.texts import Document, Text
from ..choice import Ranking
from ..lists import CandidateList
from ..scheduler import Outcome, accept_all
from .resumable import Written, as_line


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

    accept = staticmethod(accept_all)

    def row(self, ranking: Ranking) -> bytes:
        """The row of a list."""
        return json_row(ranking)

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


class AnswerRows:
    """The answers of the chosen texts, one per line; an empty line where there is none."""

    one_line = True

    @property
    def identity(self) -> dict[str, Any]:
        """Its name."""
        return {"format": "answers"}

    def row(self, ranking: Ranking) -> bytes:
        """The line of a list, in which line breaks of the answer are blanks; errors as `accept`."""
        self.accept(ranking)
        return " ".join((ranking.answer or "").split()).encode("utf-8", "replace") + b"\n"

    def accept(self, ranking: Ranking) -> object:
        """Raises InputError where the utility compares no answers."""
        if ranking.votes is None:
            fix = "Decide by vote, or write --format jsonl"
            raise InputError("the utility compares no answers", where="format", fix=fix)
        return ranking

    def chosen(self, lines: Iterator[str], record: CandidateList) -> Text:
        """Raises InputError: an answer does not tell its text."""
        next(lines)
        problem = "lists that are context of others cannot be gone on with from their answers"
        raise InputError(problem, where="format", fix="Write --format jsonl")

    def resume(self, lines: Iterator[str], counts: Mapping[str, int]) -> None:
        """No line depends on another."""


def written_row(outcome: Outcome, form: RowForm) -> Written:
    """The row of an outcome and what it counts; raises the error that it ended in."""
    if isinstance(outcome, DiscorankError):
        raise outcome
    if outcome is None:
        return {}, {"context_only": 1}
    row = form.row(outcome)
    distinct = len({candidate.text for candidate in outcome.candidates})
    counts = {
        "rows": 1,
        "candidates": len(outcome.candidates),
        "duplicates": len(outcome.candidates) - distinct,
    }
    if not form.one_line:
        counts["row_lines"] = row.count(b"\n")
    return {"rows": row}, counts | dict.fromkeys(outcome.flags, 1)


FORMS: Mapping[str, type[JsonRows | TextRows | AnswerRows]] = {
    "jsonl": JsonRows,
    "text": TextRows,
    "answers": AnswerRows,
}


def row_form(name: str) -> RowForm:
    """The form of a name of `FORMS`."""
    return FORMS[name]()


def json_row(ranking: Ranking) -> bytes:
    """One strict-JSON line: id, choice, places, what the list's reader should know, and the list's other keys."""
    return as_line(ranking.to_dict())


def text_row(ranking: Ranking) -> bytes:
    """The chosen text alone, one line.

    Raises:
        InputError: the text holds a line break.
    """
    text = str(ranking.text)
    if "\n" in text or "\r" in text:
        raise InputError(
            "the chosen text holds a line break",
            where="text",
            fix="Write --format jsonl" + ", or --format answers" * (ranking.votes is not None),
        )
    return text.encode("utf-8") + b"\n"
