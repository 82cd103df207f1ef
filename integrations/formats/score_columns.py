"""Human scores of texts that stand by line in files of their own: a table with a column per system, or a row each.

    beam,mbr           a row per segment, in the order of the texts; an empty cell where nobody judged one
    0,5
or
    system,segment,score
    beam,1,0           segments are numbered from 1
A file is CSV, TSV, JSON lines, Parquet or Arrow. Its name without folder and ending is that of the scores; behind it
stands ``:lower`` where lower ones are better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError, excerpt, near_files, unknown
from ..arrow.open_rows import open_rows
from ..files.entries import Number, each_line, json_object, typed
from .human_scores import HumanKey

Scores = list[float | None]
_SEGMENT = ("segment", "line", "seg_id", "id")
_FORMS = "Give a column per system and a row per segment, or the columns system, segment and score"


def split_direction(given: str) -> tuple[str, str]:
    """The path of a file of scores, and the key of these.

    >>> split_direction("judged/mqm.csv:lower")
    ('judged/mqm.csv', 'mqm:lower')
    """
    path, mark, direction = given.rpartition(":")
    if not mark or direction not in ("lower", "higher"):
        path, direction = given, ""
    name = Path(path.removesuffix(".gz")).stem
    return path, f"{name}:{direction}" if direction else name


def read_score_columns(
    given: Sequence[str], names: Mapping[str, str], systems: Sequence[str], segments: int
) -> dict[str, dict[str, Scores]]:
    """Scores by dimension and system, one or None per segment.

    Args:
        given: the files, each with its direction.
        names: names of systems by file.
        systems: names of systems.
        segments: how many texts each has.

    Raises:
        InputError: a file that cannot be read, with other systems or another number of segments.
    """
    by_dimension: dict[str, dict[str, Scores]] = {}
    named = {**{Path(path).name: name for path, name in names.items()}, **names}
    named |= {name: name for name in systems}
    for one in given:
        path, key = split_direction(one)
        dimension = HumanKey.read(key).name
        if dimension in by_dimension:
            raise InputError("two files are of one name", where=path, fix="Rename one of them")
        by_dimension[dimension] = _scores(path, named, segments)
    return by_dimension


def _scores(path: str, names: Mapping[str, str], segments: int) -> dict[str, Scores]:
    """The scores in one file, by system."""
    if not Path(path).exists():
        fix = near_files(path) or f"Name a file such as mqm.csv:lower. {_FORMS}"
        raise InputError("is not a file of human scores", where=path, fix=fix)
    scores: dict[str, Scores] = {}
    numbers = count(1)
    is_wide = False

    def take(_: int, line: bytes) -> None:
        nonlocal is_wide
        row = json_object(line, _FORMS)
        is_wide = "system" not in row
        for name, segment, score in _of_row(row, next(numbers), names):
            if not 1 <= segment <= segments:
                problem = f"segment {segment}, but there are {segments}"
                raise InputError(problem, fix=_FORMS)
            column = scores.setdefault(name, [None] * segments)
            if column[segment - 1] is not None:
                raise InputError(f"two scores of segment {segment} of {name!r:.80}")
            column[segment - 1] = score

    with closing(open_rows(path)) as source:
        rows = len(list(each_line(source, take)))
        if not scores or (is_wide and rows != segments):
            problem = f"{rows} rows of scores, the texts have {segments} segments"
            raise source.refusal(0, problem, _FORMS)
    return scores


def _of_row(
    row: Mapping[str, Any], number: int, names: Mapping[str, str]
) -> list[tuple[str, int, float]]:
    """System, segment and score, of each score in a row."""
    if "system" not in row:
        own = [(names[column], column) for column in row if column in names]
        if not own and number == 1:
            problem = f"no column of a system; there are: {', '.join(row):.300}"
            fix = f"Name columns {', '.join(sorted(set(names.values())))}"
            raise InputError(problem, fix=fix)
        there = [(name, column) for name, column in own if row[column] is not None]
        return [(name, number, typed(Number, row[column], column)) for name, column in there]
    system = row["system"]
    if system not in names:
        raise unknown("system", str(system), set(names.values()), where="system")
    place = str(next((row[key] for key in _SEGMENT if key in row), None))
    if not (place.isascii() and place.isdecimal() and len(place) <= 18):
        raise InputError(f"found {excerpt(place)}, expected the number of a segment", fix=_FORMS)
    return [(names[system], int(place), typed(Number, row.get("score"), "score"))]
