"""Moses n-best lists: ``id ||| text ||| features ||| score``, the lines of one id adjacent.

Features are ``LM0= -3.2 TM0= -1 -2`` (also ``LM0=-3.2`` and ``LM0: -3.2``) and become fields of the candidate by their
names, several values a list, values before any name ``features``; one called ``logprob`` is the log-probability. The
score becomes ``score``, which is a weighted sum and no log-probability; further columns (alignments) become
``columns``. A bad line spoils the list of its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...metrics.errors import InputError
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import NOTHING, Candidate
from ..files.entries import ListEntry
from .nbest_columns import features, finite_number, read_columns, without_logprob


def read_moses(source: LineSource) -> Iterator[ListEntry]:
    """One entry per run of lines with the same id; errors as `read_columns`."""
    shape = "id ||| text ||| features ||| score"
    return read_columns(source, shape, "Moses", 3, _candidate)


def _candidate(columns: Sequence[str]) -> Candidate:
    """The candidate of text, features, score and further columns; only the first two must be there."""
    text, features_column, *further = columns
    logprob, fields = without_logprob(features(features_column))
    if further:
        if "score" in fields:
            raise InputError(
                "a feature of this name beside the column",
                where="score",
                fix="Rename it",
            )
        fields["score"] = finite_number(further[0], "score")
    if len(further) > 1:
        fields["columns"] = further[1:]
    return Candidate(text, logprob, fields or NOTHING)
