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
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import Candidate
from ..files.entries import ListEntry
from .nbest_columns import LOGPROB, MODEL, features, finite_number, read_columns

_HARD = re.compile(r"(\d+-\d+( |$))*", re.ASCII)
_SOFT = re.compile(r"([\d.eE+-]+(,[\d.eE+-]+)*( |$))+", re.ASCII)
_NAMED = re.compile(r"(WordScores|WordCounts)=\s*(.*)")


def read_marian(source: LineSource) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id; errors as `read_columns`."""
    shape = "id ||| text ||| F0= logprob ||| score"
    return read_columns(source, shape, "Marian", 4, _candidate)


def _candidate(columns: Sequence[str]) -> Candidate:
    """The candidate of text, further columns, features and score."""
    text, *further, features_column, score_column = columns
    fields: dict[str, Any] = {}
    for column in further:
        name, value = _further_column(column)
        if name in fields:
            raise InputError(f"a second column of {name}", where=name)
        fields[name] = value
    values = features(features_column)
    logprobs = {name: value for name, value in values.items() if MODEL.fullmatch(name)}
    if not logprobs or not all(isinstance(value, float) for value in logprobs.values()):
        raise InputError(
            f"found {features_column!r:.60}, expected F0= and a number",
            where="F0",
            fix="Is it from Marian?",
        )
    if taken := {"score", LOGPROB, *fields} & values.keys():
        raise InputError("a feature of this name beside the column", where=min(taken))
    logprob = None
    if list(logprobs) == ["F0"]:
        logprob = values.pop("F0")
    score = finite_number(score_column, "score")
    return Candidate(text, logprob, {"score": score, **values, **fields})


def _further_column(column: str) -> tuple[str, Any]:
    """Name and value of a column between text and features."""
    if named := _NAMED.fullmatch(column):
        name, text = named.groups()
        numbers = [number for number in re.split(r"[ ,]+", text) if number]
        return name, [finite_number(number, name) for number in numbers]
    if _HARD.fullmatch(column) or _SOFT.fullmatch(column):
        return "alignment", column
    problem = f"a column {column!r:.60} between text and features"
    raise InputError(problem, fix="Is there ||| in the text?")
