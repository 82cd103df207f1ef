"""N-best lists of marian-decoder --n-best: ``id ||| text ||| F0= logprob ||| score``.

With --alignment, --word-scores and the like, more columns stand between text and features; they become ``alignment``,
``WordScores``, ``WordCounts``. Marian sums natural logarithms: the one feature of a single model is the total
log-probability and becomes ``logprob``; of an ensemble each model's stays a feature (``F0``, ``F1``, ...) and there is
no ``logprob``. The last column becomes ``score``: normalised and with word penalty, as the options of the decoder say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ...metrics.errors import InputError
from ...metrics.text.line_source import LineSource
from ...rerank.lists import Candidate
from ..files.entries import Entry
from .nbest_columns import features, finite_number, read_columns

_HARD = re.compile(r"(\d+-\d+( |$))*", re.ASCII)
_SOFT = re.compile(r"([\d.eE+-]+(,[\d.eE+-]+)*( |$))+", re.ASCII)
_NAMED = re.compile(r"(WordScores|WordCounts)=\s*(.*)")


def read_marian(source: LineSource) -> Iterator[Entry]:
    """One entry per run of lines with the same id; errors as `read_columns`."""
    return read_columns(source, "id ||| text ||| F0= logprob ||| score", "Marian", 4, _candidate)


def _candidate(columns: Sequence[str]) -> Candidate:
    fields: dict[str, Any] = {}
    for column in columns[1:-2]:
        name, value = _between(column)
        if name in fields:
            raise InputError(f"a second column of {name}", where=name)
        fields[name] = value
    found = features(columns[-2])
    totals = {name: value for name, value in found.items() if re.fullmatch(r"F\d+", name)}
    if not totals or not all(isinstance(value, float) for value in totals.values()):
        raise InputError(
            f"found {columns[-2]!r:.60}, expected F0= and a number",
            where="F0",
            fix="Is it from Marian?",
        )
    if taken := {"score", *fields} & found.keys():
        raise InputError("a feature of this name beside the column", where=min(taken))
    logprob = totals["F0"] if list(totals) == ["F0"] else None
    rest = {name: value for name, value in found.items() if logprob is None or name != "F0"}
    return Candidate(
        columns[0], logprob, {"score": finite_number(columns[-1], "score"), **rest, **fields}
    )


def _between(column: str) -> tuple[str, Any]:
    """Name and value of a column between text and features."""
    if named := _NAMED.fullmatch(column):
        return named[1], [
            finite_number(value, named[1]) for value in re.split(r"[ ,]+", named[2]) if value
        ]
    if _HARD.fullmatch(column) or _SOFT.fullmatch(column):
        return "alignment", column
    raise InputError(
        f"a column {column!r:.60} between text and features", fix="Is there ||| in the text?"
    )
