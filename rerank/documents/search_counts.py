"""How much work a search over documents is, told before anything is computed: in how many contexts it decides lists."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

from ...metrics.storage.limits import limits
from ..context import follows
from ..distinct import Distinct
from ..lists import CandidateList
from ..strategies import SEARCHES, StrategySetting, resolve


class ContextCounts:
    """In how many contexts the lists of one document may be decided: as many as there are choices that they read.

    Args:
        width: how many preceding sentences are context.
    """

    def __init__(self, width: int) -> None:
        self._before: deque[int] = deque(maxlen=width)
        self._position: int | None = None
        self._after_gap = False

    def skip(self) -> None:
        """Goes past a line that could not be read."""
        self._after_gap = True

    def next(self, record: CandidateList) -> int:
        """The number of contexts of the next list."""
        if not follows(self._position, record.position, self._after_gap):
            self._before.clear()
        number = prod(self._before)
        self._before.append(1 if record.context_only else len(Distinct(record.candidates)))
        self._position, self._after_gap = record.position, False
        return number


def num_contexts(entries: Iterable[CandidateList | None], width: int) -> Iterator[int]:
    """In how many contexts every list of a document may be decided; `entries` are those of `DocumentSearch.program`."""
    counts = ContextCounts(width)
    for record in entries:
        if record is None:
            counts.skip()
        else:
            yield counts.next(record)


class SearchCounts:
    """Counts of the documents so far.

    Args:
        strategy, beam: as for `MBRDecoder`.
        width: how many preceding sentences the metrics read.
    """

    def __init__(self, strategy: StrategySetting, beam: int, width: int) -> None:
        self.setting, self.width = strategy, width
        self.strategy = resolve(strategy, width, beam)
        self.beam = beam if self.strategy == "beam" else None
        self.is_search = self.strategy in SEARCHES
        self.counts = ContextCounts(width)
        self.document: str | None = None
        self.states = self.most_states = self.of_document = self.lists = self.most_lists = 0

    def skip(self) -> None:
        """Goes past a line that could not be read."""
        self.counts.skip()

    def add(self, record: CandidateList) -> int:
        """The number of contexts in which a list is decided, at most."""
        if not self.is_search:
            return 1
        if record.document is None or record.document != self.document:
            self.counts, self.of_document, self.lists = ContextCounts(self.width), 0, 0
        self.document = record.document
        number = self.counts.next(record)
        if self.beam is not None:
            number = min(number, self.beam)
        self.states += number
        self.of_document += number
        self.lists += 1
        self.most_states = max(self.most_states, self.of_document)
        self.most_lists = max(self.most_lists, self.lists)
        return number

    def report(self) -> dict[str, Any]:
        """Everything as JSON data; nothing where there is no search."""
        if not self.is_search:
            return {}
        return {
            "search": {
                "strategy": self.strategy,
                "states": self.states,
                "states_of_a_document": self.most_states,
                "lists_of_a_document": self.most_lists,
            }
        }

    def problems(self) -> list[str]:
        """What a search would refuse, or has nothing to do for."""
        if self.setting in SEARCHES and not self.is_search:
            return [
                f"--strategy {self.setting} is {self.strategy} here: there is nothing to search for"
            ]
        problems = []
        bound = limits().states
        if self.strategy == "joint" and self.most_states > bound:
            problems.append(
                f"--strategy joint decides lists of a document in {self.most_states} contexts, at most {bound}: "
                "choose --strategy beam, give fewer candidates, or: --max states=NUMBER"
            )
        bound = limits().document_lists
        if self.is_search and self.most_lists > bound:
            problems.append(
                f"--strategy {self.strategy} holds a document of {self.most_lists} lists, at most {bound}: "
                "choose --strategy sequential, or: --max document_lists=NUMBER"
            )
        return problems
