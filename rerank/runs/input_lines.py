"""The rest of an input as lines, where each is an entry that any process can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ...metrics.errors import InputError
from ...metrics.text.numbered_lines import Line
from ..lists import CandidateList
from .entry import Entry

Read = Callable[[str, int, bytes], Entry[CandidateList]]  # of the input's name, a number and a line


class Lines(NamedTuple):
    """The lines not yet read, and how they are read."""

    rest: Iterator[Line]
    read: Read
    fault: Callable[[Any], InputError | None]  # what is wrong with the place of the next list
    text_bytes: Callable[[], int | None]  # of the whole input, where that is known
