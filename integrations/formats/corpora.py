"""Texts to train on, and rated texts to validate on: plain lines, or a field of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import finite
from ..files.entries import TextLines, in_line, json_object


class RatedText(NamedTuple):
    """A hypothesis that people have rated."""

    hypothesis: str
    references: tuple[str, ...]
    score: float  # higher is better


def read_texts(
    paths: Sequence[str],
    text_field: str | None = None,
    source_field: str | None = None,
) -> Iterator[tuple[str, str | None]]:
    """The texts of files, with the source that each translates, where there is one.

    Args:
        paths: files, plain or gzip.
        text_field: the field of JSON lines that holds a text or a list of texts; lines are texts if not given.
        source_field: the field with their sources, in the same form.

    Raises:
        InputError: a line that is no such JSON, or lists of unequal length.
    """
    if source_field and not text_field:
        raise InputError(
            "sources stand in JSON lines",
            where="--source-field",
            fix="Give --text-field, too",
        )
    for path in paths:
        lines = TextLines(path) if text_field is None else LineSource(path)
        for number, line in without_trailing_blanks(lines):
            if text_field is None:
                yield line.decode(), None
                continue
            row = _object(line, lines, number)
            texts = _texts(row, text_field, lines, number)
            sources: Sequence[str | None] = [None] * len(texts)
            if source_field:
                sources = _texts(row, source_field, lines, number)
            if len(sources) != len(texts):
                raise lines.refusal(
                    number,
                    f"{len(texts)} texts and {len(sources)} sources",
                    "Align them",
                )
            yield from zip(texts, sources, strict=True)


def read_rated(
    path: str,
    score_field: str = "score",
    lower: bool = False,
) -> list[RatedText]:
    """Rows of JSON lines with "hypothesis", "reference" or "references", and a score.

    Args:
        path: the file, plain or gzip.
        score_field: the field of the score.
        lower: whether a lower score is better.

    Raises:
        InputError: a row that lacks one of them, or no rows.
    """
    lines = LineSource(path)
    rated = []
    for number, line in without_trailing_blanks(lines):
        row = _object(line, lines, number)
        hypotheses = _texts(row, "hypothesis", lines, number)
        reference_field = "references" if "references" in row else "reference"
        references = _texts(row, reference_field, lines, number)
        score = finite(row.get(score_field))
        if score is None:
            raise lines.refusal(
                number,
                f"{score_field} is {excerpt(row.get(score_field))}, expected a number",
                "Name the field of the score: --validation-score",
            )
        if not hypotheses or not references:
            raise lines.refusal(
                number,
                "no hypothesis or no reference",
                "Give both as text",
            )
        quality = -score if lower else score
        rated.append(RatedText(hypotheses[0], tuple(references), quality))
    if len(rated) < 2:
        raise lines.refusal(
            0,
            f"{len(rated)} rated texts",
            "Give at least two",
        )
    return rated


def _object(line: bytes, lines: LineSource, number: int) -> dict[str, Any]:
    """The JSON object on a line of the file."""
    with in_line(lines, number):
        return json_object(line)


def _texts(row: dict[str, Any], field: str, lines: LineSource, number: int) -> list[str]:
    """The texts in a field; a single text is a list of one."""
    value = row.get(field)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise lines.refusal(
            number,
            f"{field} is {excerpt(value)}, expected a text or a list of texts",
            f"The fields here are {', '.join(row)}"[:200],
        )
    return texts
