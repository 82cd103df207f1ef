"""Texts of systems that Python has at hand, aligned by segment, as the documents of a systems file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from ....metrics.errors import InputError, excerpt
from .document_rows import Row

Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class TextsInMemory:
    """A value per segment, in the same order everywhere.

    Args:
        systems: the texts of every system, by its name.
        references: the texts of every reference, by its name; none for metrics that need none.
        sources: the source texts.
        documents: the document of each segment; None if every segment is one of its own.
        human: people's scores by dimension and system, None for a segment without one.

    Raises:
        InputError: columns of unequal lengths, a text in the place of a column, or a document that comes back after
            another.
    """

    systems: Columns
    references: Columns
    sources: Sequence[str] | None = None
    documents: Sequence[Any] | None = None
    human: Mapping[str, Columns] | None = None

    def __post_init__(self) -> None:
        if not self.systems:
            raise InputError("no systems", where="systems", fix="Give at least one")
        first, *others = self._columns
        expected = _length(*first)
        for where, column in others:
            length = _length(where, column)
            if length != expected:
                problem = f"found {length} segments, {first[0]} has {expected}"
                raise InputError(problem, where=where, fix="Give a text of every segment")
        if not expected:
            raise InputError("no segments", where=first[0], fix="Give at least one")
        check_together(self.ids, "documents[{}]".format)

    @property
    def ids(self) -> list[str]:
        """The document of each segment; their numbers, from 1, where none are given."""
        if self.documents is None:
            return [str(number) for number in range(1, len(next(iter(self.systems.values()))) + 1)]
        return [str(document) for document in self.documents]

    def rows(self) -> Iterator[Row]:
        """The documents."""
        start = 0
        for document, segments in groupby(self.ids):
            stop = start + len(list(segments))
            row: Row = {"id": document}
            if self.sources is not None:
                row["source"] = list(self.sources[start:stop])
            row["references"] = _cut(self.references, start, stop)
            row["systems"] = _cut(self.systems, start, stop)
            if self.human:
                row["human"] = {
                    name: _cut(scores, start, stop) for name, scores in self.human.items()
                }
            yield row
            start = stop

    @property
    def _columns(self) -> list[tuple[str, Any]]:
        """All of them, with how errors name each."""
        named = [(f"systems[{name!r:.80}]", column) for name, column in self.systems.items()]
        for name, column in self.references.items():
            named.append((f"references[{name!r:.80}]", column))
        optional = {"sources": self.sources, "documents": self.documents}
        named += [(name, column) for name, column in optional.items() if column is not None]
        for dimension, scores in (self.human or {}).items():
            for name, column in scores.items():
                named.append((f"human[{dimension!r:.80}][{name!r:.80}]", column))
        return named


def _length(where: str, column: Any) -> int:
    """How many segments a column has; raises InputError for what is none."""
    if isinstance(column, str | Mapping) or not hasattr(column, "__len__"):
        fix = "Give a list with a value per segment"
        raise InputError(f"found {excerpt(column)}", where=where, fix=fix)
    return len(column)


def _cut(columns: Columns, start: int, stop: int) -> dict[str, list[Any]]:
    return {name: list(column[start:stop]) for name, column in columns.items()}


def check_together(documents: Sequence[str], place_of: Callable[[int], str]) -> None:
    """Checks that the segments of every document stand one after the other.

    Args:
        documents: of each segment.
        place_of: how errors name a segment, by its number from 0.

    Raises:
        InputError: a document comes back after another.
    """
    seen: set[str] = set()
    before = None
    for number, document in enumerate(documents):
        if document != before and document in seen:
            problem = f"document {document!r:.80} comes back after another"
            fix = "Sort the segments by document, the same way everywhere"
            raise InputError(problem, where=place_of(number), fix=fix)
        seen.add(document)
        before = document
