"""Texts to train on, and rated texts to validate on: plain lines, or a field of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any, NamedTuple

from ...metrics.errors import InputError, excerpt
from ...metrics.text.line_source import LineSource, without_trailing_blanks
from ..files.strict_json import parse_json


class RatedText(NamedTuple):
    """A hypothesis that people have rated."""

    hypothesis: str
    references: tuple[str, ...]
    score: float  # higher is better


def read_texts(
    paths: Sequence[str], text_field: str | None = None, source_field: str | None = None
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
            "sources stand in JSON lines", where="--source-field", fix="Give --text-field, too"
        )
    for path in paths:
        source = LineSource(path)
        for number, line in without_trailing_blanks(source):
            if text_field is None:
                yield line.decode(), None
                continue
            row = _object(line, source, number)
            texts = _texts(row, text_field, source, number)
            sources = (
                _texts(row, source_field, source, number) if source_field else [None] * len(texts)
            )
            if len(sources) != len(texts):
                raise source.refusal(
                    number, f"{len(texts)} texts and {len(sources)} sources", "Align them"
                )
            yield from zip(texts, sources, strict=True)


def read_rated(path: str, score_field: str = "score", lower: bool = False) -> list[RatedText]:
    """Rows of JSON lines with "hypothesis", "reference" or "references", and a score.

    Args:
        path: the file, plain or gzip.
        score_field: the field of the score.
        lower: whether a lower score is better.

    Raises:
        InputError: a row that lacks one of them, or no rows.
    """
    source = LineSource(path)
    found = []
    for number, line in without_trailing_blanks(source):
        row = _object(line, source, number)
        hypotheses = _texts(row, "hypothesis", source, number)
        references = _texts(
            row, "references" if "references" in row else "reference", source, number
        )
        score = row.get(score_field)
        if isinstance(score, bool) or not isinstance(score, int | float) or not isfinite(score):
            found_score = f"{score_field} is {excerpt(score)}, expected a number"
            raise source.refusal(
                number, found_score, "Name the field of the score: --validation-score"
            )
        if not hypotheses or not references:
            raise source.refusal(number, "no hypothesis or no reference", "Give both as text")
        found.append(
            RatedText(hypotheses[0], tuple(references), -float(score) if lower else float(score))
        )
    if len(found) < 2:
        raise source.refusal(0, f"{len(found)} rated texts", "Give at least two")
    return found


def _object(line: bytes, source: LineSource, number: int) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except (InputError, RecursionError) as error:
        found = error.problem if isinstance(error, InputError) else "nested too deeply"
        raise source.refusal(number, found, "Write one object per line") from error
    if not isinstance(row, dict):
        raise source.refusal(
            number, f"found {excerpt(row)}, expected an object", "Write one object per line"
        )
    return row


def _texts(row: dict[str, Any], field: str, source: LineSource, number: int) -> list[str]:
    value = row.get(field)
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        found = f"{field} is {excerpt(value)}, expected a text or a list of texts"
        raise source.refusal(number, found, f"The fields here are {', '.join(row)}"[:200])
    return texts
