"""The table of formats: files with candidate lists, and files with documents that have outputs of systems.

A format is one `Format`: its name, what it is recognised by, its reader, its writer, and the words for it. Every module
of `readers` has those that it reads in ``FORMATS``, and so have readers of WMT's files, a room of their own; both are
imported when a format is asked for. Whatever asks for formats asks here: ``--from``, ``--to``, ``--output-format``,
their help, and messages about a file of another format.

A row is a document as a systems file has it, which one reader (`readers.systems`) checks whatever format it came in: a
dict with ``id``, ``source``, ``references``, ``systems``, ``human`` and ``ratings``, and keys of its own with texts or
numbers (``domain``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Literal

from ...metrics.errors import InputError, unknown
from ...metrics.storage.line_source import LineSource, NumberedLines
from ...rerank.lists import CandidateList
from ...rerank.runs.resumable import as_line
from ..files.entries import ListEntry, typed

OpenedFiles = tuple[list[NumberedLines], Iterator[ListEntry]]
Row = dict[str, Any]
FEATURE = "discorank"  # the name of a decision among the features of a candidate
Order = Literal["kept", "choice"]  # candidates where they were, or best first
NUMBERED = frozenset({"sources", "documents"})  # options of formats whose ids are numbers of lines
_WMT = ("evaluation_sets", "pearmut", "rating_table", "wmt_jsonl", "wmt_xml")


class DocumentRows:
    """Rows as numbered lines of JSON, in a single pass.

    Args:
        name: of the file or folder.
        rows: its documents; iterating raises InputError where it must be refused.
    """

    def __init__(self, name: str, rows: Iterator[Row]) -> None:
        self.name = name
        self._rows = rows

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """The lines with their numbers."""
        for number, row in enumerate(self._rows, 1):
            yield number, as_line(row).rstrip(b"\n")

    def fraction(self) -> float | None:
        """Not known."""
        return None

    def close(self) -> None:
        """Stops reading."""
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()

    def refusal(self, line: int, problem: str, fix: str = "") -> InputError:
        """An error that places `problem` at a document."""
        where = f"{self.name}: document {line}" if line else self.name
        return InputError(problem, where=where, fix=fix)


def is_eval_set_folder(path: str | Path) -> bool:
    """Whether a path is the folder of a test set of mt-metrics-eval."""
    return all((Path(path) / name).is_dir() for name in ("sources", "system-outputs"))


def texts_of(row: Row, key: str) -> dict[str, list[str]]:
    """Texts by name under ``systems`` or ``references``, each a list of segments; a whole text is one.

    Raises:
        InputError: a text is missing.
    """
    by_name = row.get(key) or {}
    return {name: segments_of(value, f"{key}.{name}") for name, value in by_name.items()}


def segments_of(value: Any, where: str) -> list[str]:
    """The segments of a text; raises InputError where one is missing."""
    segments = value if isinstance(value, list) else [value]
    texts: list[str] = typed(list[str], segments, where, "Give every text")
    return texts


@dataclass(frozen=True, slots=True)
class ListOptions:
    """How files of lists are read; every format has some of these options.

    Args:
        num_candidates: lines per list; may be left out where there are sources.
        sources, documents: files with the source and the document id of every list, one per line, where ids number the
            lines.
        requests: the file of requests that the lists answer.
        human, as_systems, include: keys of human scores (``mqm:lower``), references to be read as systems, keys with
            further systems.
        columns: of Parquet and Arrow files: ``KEY=COLUMN``.
        language_pair: of a folder or file of several.
        mqm_weights: of errors in tables of ratings: ``SEVERITY/CATEGORY=NUMBER``.
        references: files of references for documents that have none, a line per segment.
    """

    num_candidates: int | None = None
    sources: str | Path | None = None
    documents: str | Path | None = None
    requests: str | Path | None = None
    human: tuple[str, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    language_pair: str | None = None
    mqm_weights: tuple[str, ...] = ()
    references: tuple[str, ...] = ()

    @classmethod
    def of(cls, **given: Any) -> ListOptions:
        """Options by their names; a single text in the place of several is one of them."""
        several = ("human", "as_systems", "include", "columns", "mqm_weights", "references")
        for name in several:
            value = given.get(name, ())
            given[name] = (value,) if isinstance(value, str) else tuple(value)
        return cls(**given)

    def given(self) -> dict[str, Any]:
        """Those that are set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, ())}


@dataclass(frozen=True, slots=True)
class ListWriting:
    """How lists are written in a format.

    Args:
        lines: of a list, without their ends, one for every candidate; raises InputError where it cannot be written.
        read: reads lines back, of lists with so many candidates.
        shape_name: what the lists of a file must have as many of.
        shape: how many a list has, from its lines.
        earlier_shape: the same of a file from its lines and the counts of its run.
        holds: whether there is a place for a field of this name and value. None: candidates are texts alone, and the id
            of a list is its number in the file.
    """

    lines: Callable[[CandidateList], Iterable[str]]
    read: Callable[[LineSource, int], Iterator[ListEntry]]
    shape_name: str
    shape: Callable[[Sequence[str]], int]
    earlier_shape: Callable[[Iterator[str], Mapping[str, int]], int]
    holds: Callable[[str, Any], bool] | None = None


@dataclass(frozen=True, slots=True)
class DocumentFormat:
    """How documents are read in a format.

    Args:
        open: a file or folder as lines of a systems file.
    """

    open: Callable[[str | Path, ListOptions], NumberedLines]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of files.

    Args:
        name: as in ``--from``.
        title: what its files are, in words: "a Moses n-best list".
        open: opens files of lists.
        options: names of the `ListOptions` that it has.
        keys: the keys of a JSON object of which each shows that a line is of this format.
        first_line: what the first line looks like where it is no JSON object.
        is_numbered: ids are numbers of segments, and lists may stand in any order.
        reads_sources: its reader takes the sources; of others, sources are joined to its lists.
        every_line: every line of sources and documents must have a list.
        written: how lists are written; None where they are not.
        documents: how documents are read and written; None where files hold lists.
        example: the text of a small file of it; empty where one needs options, or is a folder.
    """

    name: str
    title: str
    open: Callable[[str | Path, ListOptions], OpenedFiles]
    options: frozenset[str] = frozenset()
    keys: tuple[str, ...] = ()
    first_line: re.Pattern[bytes] | None = None
    is_numbered: bool = False
    reads_sources: bool = False
    every_line: bool = True
    written: ListWriting | None = None
    documents: DocumentFormat | None = None
    example: str = ""


def one_file(
    read: Callable[[LineSource], Iterator[ListEntry]],
) -> Callable[[str | Path, ListOptions], OpenedFiles]:
    """How to open a format of one file that is read without options."""

    def open_file(path: str | Path, options: ListOptions) -> OpenedFiles:
        source = LineSource(path)
        return [source], read(source)

    return open_file


@cache
def _readers() -> Mapping[str, Format]:
    """The formats of the modules in `readers`."""
    folder = str(Path(__file__).parent / "readers")
    names = [f"readers.{module.name}" for module in iter_modules([folder])]
    return {format.name: format for name in names for format in _formats_in(name)}


@cache
def formats() -> Mapping[str, Format]:
    """All formats by name: JSON lines, other lists, and documents, each in the order of their names."""
    of_wmt = [format for name in _WMT for format in _formats_in(f"wmt.{name}")]

    def key(format: Format) -> tuple[bool, bool, str]:
        return format.name != "jsonl", format.documents is not None, format.name

    return {format.name: format for format in sorted([*_readers().values(), *of_wmt], key=key)}


def _formats_in(module: str) -> Sequence[Format]:
    """The formats of a module."""
    declared: Sequence[Format] = import_module(f".{module}", __package__).FORMATS
    return declared


def format_of(name: str, where: str = "") -> Format:
    """The format of a name; raises InputError for an unknown one."""
    if name == "jsonl":  # without the others, as most files are of it
        return _formats_in("readers.jsonl")[0]
    format = _readers().get(name) or formats().get(name)
    if format is None:
        raise unknown("format", name, formats(), where=where)
    return format


def writer_of(name: str, where: str = "") -> ListWriting:
    """How lists are written in the format of a name.

    Raises:
        InputError: lists are not written in it.
    """
    written = {format.name: format.written for format in formats().values() if format.written}
    if name not in written:
        raise unknown("format of lists that are written", name, written, where=where)
    return written[name]


def documents_of(name: str, where: str = "") -> DocumentFormat:
    """How documents are read and written in the format of a name.

    Raises:
        InputError: its files hold no documents with outputs of systems.
    """
    held = {format.name: format.documents for format in formats().values() if format.documents}
    if name in held:
        return held[name]
    if name in formats():
        fix = f"One of {', '.join(held)}"
        raise InputError(f"{name} has no outputs of systems", where=where, fix=fix)
    raise unknown("format of documents", name, held, where=where)


def format_of_object(row: Mapping[str, Any]) -> Format | None:
    """The format of a JSON object by its keys; None where none has one of them."""
    for format in formats().values():
        if any(key in row for key in format.keys):
            return format
    return None


def format_of_text(line: bytes) -> Format | None:
    """The format whose first line looks like a line that is no JSON; None where it may be any text.

    >>> format_of_text(b"0 ||| a text ||| LM0= -1 ||| -1").name
    'moses'
    """
    for format in formats().values():
        if format.first_line is not None and format.first_line.match(line):
            return format
    return None


def with_format_names(text: str) -> str:
    """A text of help with names of formats.

    ``{formats}`` are all, ``{formats:NAME}`` those that have this field, or else this option.
    """

    def names(match: re.Match[str]) -> str:
        wanted = match[1]
        return ", ".join(
            format.name
            for format in formats().values()
            if not wanted or getattr(format, wanted, wanted in format.options)
        )

    return re.sub(r"\{formats(?::(\w+))?\}", names, text)
