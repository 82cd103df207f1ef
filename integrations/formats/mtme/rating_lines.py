"""Rating files of mt-metrics-eval: the errors that raters marked in each output.

A line is ``SYSTEM <tab> JSON or None <tab> RATER``; None: not rated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from ....metrics.errors import InputError, excerpt, unknown
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import LineSource
from ....rerank.runs.rows import as_line


class ErrorMark(NamedTuple):
    """A span of an output (of the source if `is_source_error`): characters start <= i < stop."""

    start: int
    stop: int
    category: str | None = None
    severity: str | None = None
    score: float | None = None
    is_source_error: bool = False


class Rating(NamedTuple):
    """What one rater marked in one output; no errors: perfect."""

    rater: str
    errors: tuple[ErrorMark, ...]

    @property
    def score(self) -> float:
        """The sum of the errors' scores."""
        return sum(error.score or 0.0 for error in self.errors)


Ratings = Mapping[str, tuple[Rating | None, ...]]  # by system, of every segment; None: not rated


def read_ratings_file(path: Path, systems: Sequence[str], length: int, rater: str) -> Ratings:
    """The ratings by system.

    Args:
        path: the file.
        systems: the outputs there are.
        length: segments.
        rater: of lines that name none.

    Raises:
        InputError: a line that is no rating, of no output, or the wrong number of lines for a system.
    """
    known = frozenset(systems)
    source = LineSource(path)
    ratings: dict[str, list[Rating | None]] = {}
    for number, line in source:
        columns = line.decode().split("\t")
        if len(columns) not in (2, 3):
            raise source.refusal(
                number, f"found {excerpt(line.decode())}, expected SYSTEM, JSON, RATER"
            )
        system, text = columns[0].strip(), columns[1].strip()
        if system not in known:
            raise unknown("system", system, known, where=f"{path}:{number}")
        name = columns[2].strip() if len(columns) == 3 else rater
        of_system = ratings.setdefault(system, [])
        of_system.append(None if text == "None" else Rating(name, _errors(text, source, number)))
        if len(of_system) > length:
            problem = f"rating {len(of_system)} of {system!r:.80}, expected {length}"
            raise source.refusal(number, problem)
    for system, values in ratings.items():
        if len(values) != length:
            raise source.refusal(0, f"{len(values)} ratings of {system!r:.80}, expected {length}")
    return {system: tuple(values) for system, values in ratings.items()}


def _errors(text: str, source: LineSource, number: int) -> tuple[ErrorMark, ...]:
    """The errors of a rating's JSON."""
    try:
        value = parse_json(text.encode())
        errors = value.get("errors") if isinstance(value, dict) else None
        if not isinstance(errors, list):
            raise InputError(f"found {excerpt(value)}, expected an object with errors")
        return tuple(_error(error) for error in errors)
    except RecursionError:
        raise source.refusal(number, "nested too deeply") from None
    except InputError as error:
        raise source.refusal(number, error.problem, error.fix) from None


def _error(value: Any) -> ErrorMark:
    """One error of a rating."""
    if not isinstance(value, dict):
        raise InputError(f"found {excerpt(value)}, expected an error with start and end")
    start: Any = value.get("start")
    end: Any = value.get("end")
    if not (_is_place(start) and _is_place(end)):
        raise InputError(f"found {excerpt(value)}, expected start and end as whole numbers")
    for key in ("category", "severity"):
        if not isinstance(value.get(key), str | None):
            raise InputError(f"{key} is {excerpt(value[key])}, expected a text or null")
    score = value.get("score")
    is_number = isinstance(score, int | float) and not isinstance(score, bool)
    if score is not None and not (is_number and isfinite(score)):
        raise InputError(f"score is {excerpt(score)}, expected a number or null")
    is_source = value.get("is_source_error") or False
    if not isinstance(is_source, bool):
        raise InputError(f"is_source_error is {excerpt(is_source)}, expected true or false")
    number = None if score is None else float(score)
    return ErrorMark(
        start, end + 1, value.get("category"), value.get("severity"), number, is_source
    )


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= -1


def written_ratings(ratings: Ratings) -> Iterator[bytes]:
    """The lines of a rating file, system by system."""
    for system, values in ratings.items():
        for rating in values:
            if rating is None:
                yield f"{system}\tNone\n".encode()
                continue
            row = {"errors": [_error_object(error) for error in rating.errors]}
            text = as_line(row).decode().strip()
            yield f"{system}\t{text}\t{rating.rater}\n".encode()


def _error_object(error: ErrorMark) -> dict[str, Any]:
    values = error._asdict()
    return {"start": values.pop("start"), "end": values.pop("stop") - 1, **values}
