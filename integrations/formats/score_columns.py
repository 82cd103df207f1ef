"""People's scores of texts that stand by line in files of their own: a table with a column per system, or a row each.

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
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError, excerpt, near_files, unknown
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import without_trailing_blanks
from ...rerank.lists import finite
from ..arrow.open_rows import open_rows
from ..files.entries import in_line
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
    scores: dict[str, Scores] = {}
    if not Path(path).exists():
        fix = near_files(path) or f"Name a file such as mqm.csv:lower. {_FORMS}"
        raise InputError("is no file of human scores", where=path, fix=fix)
    with closing(open_rows(path)) as source:
        rows = 0
        for number, line in without_trailing_blanks(source):
            with in_line(source, number):
                row = parse_json(line)
                if not isinstance(row, dict):
                    raise InputError(f"found {excerpt(row)}", fix=_FORMS)
                rows += 1
                own = _of_row(row, rows, names)
                for name, segment, score in own:
                    if not 1 <= segment <= segments:
                        problem = f"segment {segment}, but there are {segments}"
                        raise InputError(problem, fix=_FORMS)
                    column = scores.setdefault(name, [None] * segments)
                    if column[segment - 1] is not None:
                        raise InputError(f"two scores of segment {segment} of {name!r:.80}")
                    column[segment - 1] = score
        is_wide = rows and "system" not in row
        if not scores or (is_wide and rows != segments):
            problem = f"{rows} rows of scores, the texts have {segments} segments"
            raise source.refusal(0, problem, _FORMS)
    return scores


def _of_row(
    row: Mapping[str, Any], number: int, names: Mapping[str, str]
) -> list[tuple[str, int, float]]:
    """System, segment and score, of each score in a row."""
    if "system" in row:
        system = row["system"]
        if system not in names:
            raise unknown("system", str(system), set(names.values()), where="system")
        place = next((row[key] for key in _SEGMENT if key in row), None)
        if not str(place).isdecimal() or len(str(place)) > 18:
            raise InputError(
                f"found {excerpt(place)}, expected the number of a segment", fix=_FORMS
            )
        return [(names[system], int(str(place)), _number(row.get("score"), "score"))]
    own = [(names[column], column) for column in row if column in names]
    if not own and number == 1:
        raise InputError(
            f"no column of a system; there are: {', '.join(row):.300}",
            fix=f"Name columns {', '.join(sorted(set(names.values())))}",
        )
    return [
        (name, number, _number(row[column], column))
        for name, column in own
        if row[column] is not None
    ]


def _number(value: Any, where: str) -> float:
    number = finite(value)
    if number is None:
        raise InputError(f"found {excerpt(value)}, expected a number", where=where)
    return number
