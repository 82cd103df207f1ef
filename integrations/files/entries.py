"""What every reader yields: candidate lists or errors with their place, and the checks over a stream of them.

One bad record is an error entry and the next is read; a reader raises only where the file must be refused whole.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Protocol

from ...metrics.errors import InputError
from ...rerank.lists import CandidateList
from ...rerank.runs.entry import Entry
from .seen_keys import SeenKeys

OWN_LIST_ID = "Give every list its own id; the candidates of a list stand together"


ListEntry = Entry[CandidateList]  # what every reader of lists yields


def list_entry(record: CandidateList, line: int, raw: bytes) -> ListEntry:
    """The entry of a list."""
    return Entry(record, None, line, raw, record.id)


def error_entry(
    error: InputError,
    name: str,
    line: int,
    raw: bytes,
    list_id: str | None = None,
) -> ListEntry:
    """The entry of an error that has its place within the line but lacks file and line."""
    return Entry(None, placed(error, f"{name}:{line}"), line, raw, list_id)


def placed(error: InputError, place: str) -> InputError:
    """A plain InputError with the same text, seen from a larger place such as ``lists.jsonl:12``."""
    where = f"{place}: {error.where}" if error.where else place
    return InputError(error.problem, where=where, fix=error.fix)


def with_order_errors(
    entries: Iterable[ListEntry], name: str, order: RecordOrder
) -> Generator[ListEntry, None, None]:
    """The entries, with error entries for repeated ids and for lines that break the order of a document."""
    for entry in entries:
        error = None if entry.record is None else order.fault(entry.record)
        if error is None:
            yield entry
        else:
            yield error_entry(error, name, entry.line, entry.raw, entry.id)


class Record(Protocol):
    """A candidate list or a prompt: it has an id and may have a place in a document."""

    @property
    def id(self) -> str:
        """Its name, unique in a file."""

    @property
    def document(self) -> str | None:
        """The id of its document."""

    @property
    def position(self) -> int | None:
        """Its place in the document."""


class RecordOrder:
    """Checks that ids are new, the records of each document adjacent, and their positions increasing.

    Args:
        fix: the advice where an id is not new.
    """

    def __init__(self, fix: str) -> None:
        self._fix = fix
        self._ids = SeenKeys()
        self._documents = SeenKeys()
        self._document: str | None = None
        self._position: int | None = None

    def fault(self, record: Record) -> InputError | None:
        """What is wrong with the next record; a record at fault counts as absent."""
        if not self._ids.add(record.id):
            return InputError(
                f"{record.id!r:.80} was there before, expected a new id",
                where="id",
                fix=self._fix,
            )
        if record.document != self._document:
            return self._enter(record)
        if record.document is None or record.position is None:
            return None
        if self._position is not None and record.position <= self._position:
            problem = (
                f"{record.position} after {self._position} in document {record.document!r:.80}, "
                "expected a larger one"
            )
            return InputError(
                problem,
                where="position",
                fix="Sort the lists of a document by position",
            )
        self._position = record.position
        return None

    def _enter(self, record: Record) -> InputError | None:
        """Begins the record's document; an error if it began before."""
        if record.document is not None and not self._documents.add(record.document):
            problem = (
                f"{record.document!r:.80} comes back after another, expected its lists in one run"
            )
            return InputError(
                problem,
                where="document",
                fix="Sort the file by document",
            )
        self._document = record.document
        self._position = record.position
        return None
