"""What every reader yields: candidate lists or errors with their place, and the checks over a stream of them.

One bad record is an error entry and the next is read; a reader raises only where the file must be refused whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Protocol

from ...metrics.errors import InputError
from ...rerank.lists import CandidateList
from .seen_keys import SeenKeys


@dataclass(frozen=True, slots=True)
class Entry:
    """A candidate list, or the error that stands in its place.

    Args:
        record: the list; None for an error.
        error: why there is no list, with file and line; None for a list.
        line: its first line.
        raw: the bytes it consumed, each line closed by one ``\\n`` whatever its end was, for a rolling hash of the
            input. Of several lists made from one line, the first has them all and the others none; empty lines at
            the end of a file belong to no entry.
        id: the list's id, for an error where it could be read.
    """

    record: CandidateList | None
    error: InputError | None
    line: int
    raw: bytes
    id: str | None = None


def good(record: CandidateList, line: int, raw: bytes) -> Entry:
    """The entry of a list."""
    return Entry(record, None, line, raw, record.id)


def bad(error: InputError, name: str, line: int, raw: bytes, identity: str | None = None) -> Entry:
    """The entry of an error that knows its place in the line and not yet the file and the line."""
    where = f"{name}:{line}" + (f": {error.where}" if error.where else "")
    return Entry(None, InputError(error.problem, where=where, fix=error.fix), line, raw, identity)


def checked(entries: Iterable[Entry], name: str) -> Generator[Entry, None, None]:
    """The entries, with error entries for ids that were there before and for lines that break a document's order."""
    order = Order()
    for entry in entries:
        error = None if entry.record is None else order.fault(entry.record)
        yield entry if error is None else bad(error, name, entry.line, entry.raw, entry.id)


class Record(Protocol):
    """What has a name and a place in a document: a candidate list, a prompt."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def document(self) -> str | None: ...  # noqa: D102
    @property
    def position(self) -> int | None: ...  # noqa: D102


class Order:
    """Whether ids are new, the records of each document adjacent, and their positions increase.

    Args:
        own_id: what to do where an id is not new.
    """

    def __init__(
        self, own_id: str = "Give every list its own id; the candidates of a list stand together"
    ) -> None:
        self.own_id = own_id
        self._ids, self._seen = SeenKeys(), SeenKeys()
        self._document: str | None = None
        self._position: int | None = None

    def fault(self, record: Record) -> InputError | None:
        """What is wrong with the next record; a record at fault counts as absent."""
        if not self._ids.add(record.id):
            return InputError(
                f"{record.id!r:.80} was there before, expected a new id",
                where="id",
                fix=self.own_id,
            )
        if record.document != self._document:
            return self._enter(record)
        if record.document is None or record.position is None:
            return None
        if self._position is not None and record.position <= self._position:
            return InputError(
                f"{record.position} after {self._position} in document {record.document!r:.80}, expected a larger one",
                where="position",
                fix="Sort the lists of a document by position",
            )
        self._position = record.position
        return None

    def _enter(self, record: Record) -> InputError | None:
        if record.document is not None and not self._seen.add(record.document):
            return InputError(
                f"{record.document!r:.80} comes back after another, expected its lists in one run",
                where="document",
                fix="Sort the file by document",
            )
        self._document, self._position = record.document, record.position
        return None
