"""Texts to train on, and rated texts to validate on: plain lines, or a field of JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.storage.line_source import LineSource
from ..files.entries import Number, TextLines, each_line, json_object, typed


class RatedText(NamedTuple):
    """A hypothesis with a human score."""

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
        fix = "Give --text-field, too"
        raise InputError("sources stand in JSON lines", where="--source-field", fix=fix)

    def pairs(_: int, line: bytes) -> list[tuple[str, str | None]]:
        if text_field is None:
            return [(line.decode(), None)]
        row = json_object(line)
        texts = _texts(row, text_field)
        sources: Sequence[str | None] = [None] * len(texts)
        if source_field:
            sources = _texts(row, source_field)
        if len(sources) != len(texts):
            problem = f"{len(texts)} texts and {len(sources)} sources"
            raise InputError(problem, fix="Align them")
        return list(zip(texts, sources, strict=True))

    for path in paths:
        lines = TextLines(path) if text_field is None else LineSource(path)
        for of_line in each_line(lines, pairs):
            yield from of_line


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

    def rated_of(_: int, line: bytes) -> RatedText:
        row = json_object(line)
        hypotheses = _texts(row, "hypothesis")
        references = _texts(row, "references" if "references" in row else "reference")
        fix = "Name the field of the score: --validation-score"
        score: float = typed(Number, row.get(score_field), score_field, fix)
        if not hypotheses or not references:
            raise InputError("no hypothesis or no reference", fix="Give both as text")
        return RatedText(hypotheses[0], tuple(references), -score if lower else score)

    lines = LineSource(path)
    rated = list(each_line(lines, rated_of))
    if len(rated) < 2:
        raise lines.refusal(0, f"{len(rated)} rated texts", "Give at least two")
    return rated


def _texts(row: Mapping[str, Any], field: str) -> list[str]:
    """The texts in a field; a single text is a list of one."""
    fix = f"The fields here are {', '.join(row)}"[:200]
    texts: str | list[str] = typed(str | list[str], row.get(field), field, fix)
    return [texts] if isinstance(texts, str) else texts
