"""Lists that are of no use: nothing was generated, or nothing is there to choose among."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar
from warnings import warn

from ...metrics.errors import DiscorankError, InputError
from ...rerank.lists import CandidateList
from .generator import Generated

T = TypeVar("T", CandidateList, Generated)


def checked(record: CandidateList) -> Generated:
    """The list, or the error that stands for it where every candidate is empty."""
    if any(str(candidate.text).strip() for candidate in record.candidates):
        return record
    return InputError(
        f"the model generated nothing: {len(record.candidates)} empty candidates",
        where="text",
        fix="Look at the end of the prompt, and at what ends a candidate",
    )


def has_no_choice(record: CandidateList) -> bool:
    """Whether several candidates are all the same text."""
    texts = {candidate.text for candidate in record.candidates}
    return len(record.candidates) > 1 and len(texts) == 1


def warning_of_no_choice(lists: Iterable[T]) -> Iterator[T]:
    """The lists; warns behind the last how many of them have one distinct candidate."""
    num_lists = without_choice = 0
    for record in lists:
        if not isinstance(record, DiscorankError):
            num_lists += 1
            without_choice += has_no_choice(record)
        yield record
    if without_choice:
        problem = f"{without_choice} of {num_lists} lists have one distinct candidate"
        remedy = "raise the temperature, or lower the cutoff"
        warn(f"{problem}, so that nothing is chosen: {remedy}", UserWarning, stacklevel=2)
