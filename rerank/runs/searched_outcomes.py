"""Documents that a search decided as a whole: none is written in part that an error of one of its lines stops.

The choices of a searched document depend on all of its lines. Where one of these ends the run, to be mended, the
lines before it are not written, so that the run goes on with the whole document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from ...metrics.errors import DiscorankError
from ..lists import CandidateList
from ..scheduler import Outcome
from .entry import Entry

ListOutcome = tuple[Entry[CandidateList], Outcome]


def written_whole(
    outcomes: Iterable[ListOutcome], num_allowed: Callable[[], int]
) -> Iterator[ListOutcome]:
    """The outcomes; of a document with more errors than may still be written, that error which stops the run alone.

    Args:
        outcomes: of entries, in input order.
        num_allowed: how many errors may still be written.
    """
    for together in _in_documents(outcomes):
        errors = [pair for pair in together if isinstance(pair[1], DiscorankError)]
        allowed = num_allowed()
        yield from errors[allowed : allowed + 1] or together


def _in_documents(outcomes: Iterable[ListOutcome]) -> Iterator[list[ListOutcome]]:
    """The outcomes of every document; a line that could not be read belongs to that before it."""
    number = 0
    before: str | None = None

    def of(pair: ListOutcome) -> int:
        nonlocal number, before
        record = pair[0].record
        if record is not None and (record.document is None or record.document != before):
            number, before = number + 1, record.document
        return number

    for _, together in groupby(outcomes, of):
        yield list(together)
