"""Entries that every reader yields: candidate lists or errors with their place, and the checks over a stream of them.

One bad record is an error entry and the next is read; a reader raises only where the file must be refused whole. The
lines of a list are bounded in number and in bytes, and ids that were seen take 16 bytes each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from itertools import islice
from typing import Annotated, Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ...metrics.errors import InputError, excerpt
from ...metrics.spec.checked_settings import Field, ValueRefusal, checked
from ...metrics.storage.checksums import DIGEST_BYTES
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import (
    Line,
    LineSource,
    NumberedLines,
    without_trailing_blanks,
)
from ...rerank.lists import CandidateList
from ...rerank.runs.resumable import Entry

T = TypeVar("T")
ListEntry = Entry[CandidateList]  # what every reader of lists yields
Number = Annotated[float, Field(allow_inf_nan=False)]  # a finite one, in a schema for `typed`
OWN_LIST_ID = "Give every list its own id; the candidates of a list stand together"
JSON_LINES = 10  # the first lines of a file that tell JSON from text
MISSING = "is missing"  # of a key that a schema demands
_WORDS = {
    "should be": "expected",
    "a valid string": "a text",
    "a valid integer": "a whole number",
    "a valid array": "a list",
    "a valid": "a",
}
RECENT = 1 << 12
Digests = npt.NDArray[np.bytes_]  # [n] of DIGEST_BYTES bytes, sorted


class SeenKeys:
    """A growing set of strings that keeps only their 128-bit digests, exact but for collisions of these.

    New digests go to a small set; a full one becomes a sorted array, and two arrays of about one size are merged, so n
    keys stand in at most log2(n / `RECENT`) arrays.

    Args:
        recent: the size at which the set of new digests becomes an array.
    """

    def __init__(self, recent: int = RECENT) -> None:
        self._max_recent = recent
        self._recent: set[bytes] = set()
        # each array is longer than the next
        self._levels: list[Digests] = []

    def __len__(self) -> int:
        """How many keys were seen."""
        return len(self._recent) + sum(map(len, self._levels))

    def add(self, key: str) -> bool:
        """Whether the key is new; from now on it is not."""
        key_bytes = key.encode("utf-8", "surrogatepass")
        digest = blake2b(key_bytes, digest_size=DIGEST_BYTES).digest()
        if digest in self._recent:
            return False
        if any(_holds(level, digest) for level in self._levels):
            return False
        self._recent.add(digest)
        if len(self._recent) >= self._max_recent:
            self._move_to_levels()
        return True

    def _move_to_levels(self) -> None:
        """Turns the recent digests into a sorted array, and merges it with the arrays that are no longer than it."""
        digests = np.frombuffer(b"".join(self._recent), dtype="S16")
        level: Digests = np.sort(digests)
        self._recent.clear()
        while self._levels and len(self._levels[-1]) <= len(level):
            level = np.concatenate([self._levels.pop(), level])
            # a stable sort merges two sorted runs in linear time
            level.sort(kind="stable")
        self._levels.append(level)


def _holds(level: Digests, digest: bytes) -> bool:
    """Whether a sorted array has the digest, by binary search."""
    key = np.frombuffer(digest, dtype="S16")
    i = int(np.searchsorted(level, key)[0])
    return i < len(level) and bool(level[i] == key[0])


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
        """The fault of the next record; a record at fault counts as absent."""
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


class ListLines:
    """Collects the lines of one list.

    Args:
        name: the file, for errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._num_bytes = 0
        self.lines: list[Line] = []

    def add(self, line: Line) -> None:
        """Takes one more line.

        Raises:
            InputError: the list has more lines or bytes than are read; the file is to be refused.
        """
        _, text = line
        self._num_bytes += len(text) + 1
        self.lines.append(line)
        most_lines, most_bytes = limits().candidates, limits().line_bytes
        if len(self.lines) > most_lines or self._num_bytes > most_bytes:
            raise InputError(
                f"a list of more than {most_lines} candidates or {most_bytes} bytes",
                where=f"{self._name}:{self.first}",
                fix="Is the number of candidates right, and do the ids change? If so: --max candidates=NUMBER",
            )

    @property
    def first(self) -> int:
        """The number of the first line."""
        number, _ = self.lines[0]
        return number

    @property
    def raw(self) -> bytes:
        """All lines, each closed by a newline."""
        return b"".join(text + b"\n" for _, text in self.lines)


@contextmanager
def in_line(source: NumberedLines, number: int) -> Iterator[None]:
    """Errors of what is read of a line say in which it is."""
    try:
        yield
    except RecursionError:
        raise source.refusal(number, "nested too deeply") from None
    except InputError as error:
        raise error.inside(f"{source.name}:{number}") from None


def each_line(source: NumberedLines, read: Callable[[int, bytes], T]) -> Iterator[T]:
    """The values that `read` makes of the number and the bytes of every line, but for empty lines at the end.

    Raises:
        InputError: as `read`, with the line.
    """
    for number, line in without_trailing_blanks(source):
        with in_line(source, number):
            value = read(number, line)
        yield value


def typed(kind: Any, value: Any, where: str = "", fix: str = "") -> Any:
    """A value of JSON as a type: texts, finite numbers, lists, mappings, dataclasses with such fields.

    Arrays stand for tuples, a whole number for a float, and keys that a dataclass has no field for are passed over.

    Raises:
        InputError: it is of another type; says where, what was found and what was expected.
    """
    try:
        return _check_of(kind)(value)
    except ValueRefusal as refusal:
        steps = [f"[{step}]" if step.isdecimal() else f".{step}" for step in refusal.path]
        place = "".join([where, *steps]).removeprefix(".")
        problem = refusal.problem
        if problem != MISSING:
            for words, ours in _WORDS.items():
                problem = problem.replace(words, ours)
            problem = f"found {excerpt(refusal.value)}, {problem}"
        raise InputError(problem, where=place, fix=fix) from None
    except OverflowError:
        raise InputError("a number that is too large", where=where, fix=fix) from None


@cache
def _check_of(kind: Any) -> Callable[[Any], Any]:
    return checked(kind, of_json=True)


class TextLines(LineSource):
    """The lines of a file of plain text, a text per line; a file of JSON objects is refused instead of read as text."""

    def __iter__(self) -> Iterator[Line]:
        """The lines; InputError if each of the first ten, or of all if there are fewer, is a JSON object."""
        lines = super().__iter__()
        first: list[Line] = []
        for line in islice(lines, JSON_LINES):
            first.append(line)
            if line[1].strip() and not is_json_object(line[1]):
                break
        else:
            if any(text.strip() for _, text in first):
                problem = "found a JSON object in every line, expected plain text"
                raise self.refusal(1, problem, "Give a text per line, without keys")
        yield from first
        yield from lines


def is_json_object(line: bytes) -> bool:
    """True if a line is a JSON object."""
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(parse_json(line), dict)
    except (InputError, RecursionError):
        return False


def json_object(line: bytes, fix: str = "Write one object per line") -> dict[str, Any]:
    """The JSON object on a line; raises InputError, with this advice, where there is none."""
    row = parse_json(line)
    if not isinstance(row, dict):
        raise InputError(f"found {excerpt(row)}, expected an object", fix=fix)
    return row
