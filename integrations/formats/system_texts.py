"""Systems' texts aligned by segment, of files or of Python, as the documents of a systems file.

The first line of a file shows what it is: plain text with a segment per line, rows with a ``text`` as `decode` writes
them, lists of any format that has a mark, of which the first candidates count, or a systems file. A file of one system
names it by its stem. Without document ids every segment is a document of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import CandidateList
from ...rerank.runs.run_file import check_beside
from ..files.entries import each_line, in_line, json_object, typed
from .document_outputs import read_documents
from .format_table import Row, format_of, format_of_object, format_of_text, formats
from .open_lists import open_documents, open_lists
from .score_columns import read_score_columns, split_direction

Texts = tuple[str, ...]
Segment = tuple[Any, str | None, Any]  # text, document, source
Columns = Mapping[str, Sequence[Any]]
T = TypeVar("T")

# files that are no lists, by their kind
_OTHER_KINDS = {"text": "text with a segment per line", "rows": "rows with a text"}


@dataclass(frozen=True)
class SystemTexts:
    """The texts of segments in one file.

    Args:
        path: of the file.
        systems: texts by system, [segments] each; a file of one system leaves its name open: "".
        documents: the document of each segment, where the file knows it.
        sources: the source of each segment, where the file knows it.
        references: of a systems file, by name.
        plain: whether every line is a segment.
        has_human: whether it is a systems file with human scores, which are not read.
    """

    path: str
    systems: Mapping[str, Texts]
    documents: Texts | None = None
    sources: Texts | None = None
    references: Mapping[str, Texts] = field(default_factory=dict)
    plain: bool = False
    has_human: bool = False

    @property
    def segments(self) -> int:
        """How many there are."""
        return len(next(iter(self.systems.values())))


def read_system_texts(path: str) -> SystemTexts:
    """The texts of a file.

    Raises:
        InputError: it is of no kind that is known, a line cannot be read, or it has more segments than the limit.
    """
    check_beside(path)
    with closing(LineSource(path)) as source:
        lines = iter(source)
        _, first = next(lines, (0, b""))
        kind = kind_of(first, source)
        if kind == "text":
            texts = [first.decode()]
            for number, line in lines:
                limits().check("rows", number, path, what="segments")
                texts.append(line.decode())
            return _checked(
                SystemTexts(path, {"": () if texts == [""] else tuple(texts)}, plain=True)
            )
        if not os.path.isfile(path):
            problem = f"found {about_kind(kind)}, which must be a file"
            raise source.refusal(0, problem, "Write it into a file first")
    if kind == "rows":
        with closing(LineSource(path)) as source:
            return _of_segments(path, each_line(source, _row_segment))
    if format_of(kind).documents is not None:
        return _of_documents(path, kind)
    return _of_segments(path, _first_candidates(path, kind))


def _checked(file: SystemTexts) -> SystemTexts:
    """The texts; raises InputError where there are none."""
    if not file.segments:
        raise InputError("no segments", where=file.path, fix="Give a line, row or list per segment")
    return file


def is_plain(path: str) -> bool:
    """True for a file of text by line, and for a pipe, which can be read only once; errors as `kind_of`."""
    if not os.path.isfile(path):
        return True
    with closing(LineSource(path)) as source:
        _, first = next(iter(source), (0, b""))
        return kind_of(first, source) == "text"


def about_kind(kind: str) -> str:
    """The words for a file of a kind."""
    return _OTHER_KINDS.get(kind) or format_of(kind).title


def kind_of(first: bytes, source: LineSource) -> str:
    """The kind of a file by its first line: "text", "rows", or the name of a format.

    Raises:
        InputError: the line is JSON, but of nothing that has texts.

    >>> kind_of(b"0 ||| a text ||| LM0= -1 ||| -1", None)
    'moses'
    """
    line = first.strip()
    if re.match(rb'\{\s*"', line):
        return _kind_of_json(line, source)
    format = format_of_text(line)
    return "text" if format is None else format.name


def _kind_of_json(line: bytes, source: LineSource) -> str:
    with in_line(source, 1):
        row = json_object(line)
    format = format_of_object(row)
    if format is not None:
        return format.name
    if "text" in row:
        return "rows"
    keys = [key for format in formats().values() for key in format.keys]
    raise source.refusal(
        1,
        f"found {excerpt(row)}, expected an object with {', '.join(keys)}, text",
        "Give plain text, decoded rows, n-best lists or systems files",
    )


def _of_segments(path: str, segments: Iterator[Segment]) -> SystemTexts:
    """One system's segments, with documents and sources where all have them."""
    rows: list[Segment] = []
    for number, (text, document, source) in enumerate(segments, 1):
        limits().check("rows", number, path, what="segments")
        typed(str, text, f"{path}: segment {number}", "Give segments")
        rows.append((text, document, source))
    texts, documents, sources = zip(*rows, strict=True) if rows else ((), (), ())
    file = SystemTexts(path, {"": texts}, _if_complete(documents), _if_complete(sources))
    return _checked(file)


def _if_complete(column: Sequence[Any]) -> Texts | None:
    """The texts of a column; None where one is missing."""
    return tuple(column) if all(isinstance(value, str) for value in column) else None


def _row_segment(number: int, line: bytes) -> Segment:
    """The segment of a row with a text."""
    row = json_object(line)
    if "text" not in row:
        raise InputError(f"found {excerpt(row)}, expected an object with text")
    return row["text"], row.get("document"), row.get("source")


def _first_candidates(path: str, kind: str) -> Iterator[Segment]:
    """The first candidates of the lists of a file, numbered lists in the order of their numbers."""
    with open_lists(path, kind, in_order=False) as lists:
        records = lists.records()
        if format_of(kind).is_numbered:
            records = iter(_in_order(path, list(records)))
        for record in records:
            yield record.candidates[0].text, record.document, record.source


def _in_order(path: str, records: Sequence[CandidateList]) -> list[CandidateList]:
    """The lists in the order of their numbers; raises InputError where one is missing."""
    for record in records:
        if not (record.id.isascii() and record.id.isdigit()):
            problem = f"the id {record.id!r:.80}, expected a number"
            raise InputError(problem, where=path, fix="Number the segments")
    by_number = {int(record.id): record for record in records}
    first = min(by_number)
    for number in range(first, first + len(by_number)):
        if number not in by_number:
            problem = f"the list {number} is missing between {number - 1} and {max(by_number)}"
            raise InputError(problem, where=path, fix="Give a list per segment")
    return [by_number[number] for number in sorted(by_number)]


def _of_documents(path: str, kind: str) -> SystemTexts:
    """The segments of all documents, one after the other."""
    systems: dict[str, list[str]] = {}
    references: dict[str, list[str]] = {}
    documents: list[str] = []
    sources: list[str] = []
    has_human = False
    for document in read_documents(open_documents(path, kind)):
        for columns, texts in (
            (systems, document.systems),
            (references, document.references),
        ):
            if documents and set(columns) != set(texts):
                problem = f"has {sorted(texts)}, the documents before {sorted(columns)}"
                where = f"{path}: document {document.id!r:.80}"
                raise InputError(problem, where=where, fix="Give every document the same")
            for name, of_document in texts.items():
                columns.setdefault(name, []).extend(of_document)
        has_human |= bool(document.human)
        documents += [document.id] * document.segments
        sources += document.source or ()
        limits().check("rows", len(documents), path, what="segments")
    return SystemTexts(
        path,
        {name: tuple(texts) for name, texts in systems.items()},
        tuple(documents),
        tuple(sources) if len(sources) == len(documents) else None,
        {name: tuple(texts) for name, texts in references.items()},
        has_human=has_human,
    )


@dataclass(frozen=True)
class OutputFiles:
    """Where texts are.

    Args:
        hypotheses: files of systems' outputs.
        references: files of references.
        sources: the file of sources.
        documents: the file of document ids, one per line.
        human: files of people's scores, as `score_columns` reads them.
    """

    hypotheses: tuple[str, ...]
    references: tuple[str, ...] = ()
    sources: str | None = None
    documents: str | None = None
    human: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        further = [path for path in (self.sources, self.documents) if path is not None]
        scores = [split_direction(given)[0] for given in self.human]
        return (*self.hypotheses, *self.references, *further, *scores)

    @property
    def name(self) -> str:
        """The hypotheses in one string."""
        return " ".join(self.hypotheses)


class AlignedOutputs(NamedTuple):
    """The documents, the names of systems by file, whether document ids were known, and what is left out."""

    rows: list[Row]
    names: Mapping[str, str]
    has_documents: bool
    left_out: tuple[str, ...]


def read_outputs(files: OutputFiles) -> AlignedOutputs:
    """The documents that files make.

    References, sources and document ids that are not given are those that systems files, n-best lists and decoded
    rows have.

    Raises:
        InputError: as `read_system_texts`; a file has another number of segments, two systems have one name, or files
            put a segment into different documents.
    """
    names = _names(files)
    hypotheses = [read_system_texts(path) for path in files.hypotheses]
    given = [read_system_texts(path) for path in files.references]
    further = {
        name: None if path is None else read_system_texts(path)
        for name, path in (("sources", files.sources), ("documents", files.documents))
    }
    every = [*given, *hypotheses, *(file for file in further.values() if file is not None)]
    for other in every[1:]:
        _check_length(every[0], other)
    systems = _by_name(hypotheses, names)
    references = _by_name(given, names) if given else _first(hypotheses, lambda f: f.references)
    sources = _only(further["sources"]) or _first(hypotheses, lambda f: f.sources)
    documents, where = _only(further["documents"]), files.documents
    if documents is None:
        documents, where = _agreed_documents(every)
    else:
        _check_ids(documents, str(where))
    scores = read_score_columns(files.human, names, list(systems), every[0].segments)
    try:
        rows = TextsInMemory(systems, references or {}, sources, documents, scores).rows()
    except InputError as error:
        raise error.inside(where or files.name) from None
    left_out = tuple(f"human scores of {file.path}" for file in every if file.has_human)
    return AlignedOutputs(list(rows), names, documents is not None, left_out)


def _names(files: OutputFiles) -> dict[str, str]:
    """Names by file: stems, names of files, or paths, whichever differ.

    Raises:
        InputError: a file is given twice.
    """
    paths = (*files.hypotheses, *files.references)
    for i, path in enumerate(paths):
        if path in paths[:i]:
            both = path in files.hypotheses and path in files.references
            problem = "is a hypothesis and a reference" if both else "is given twice"
            raise InputError(problem, where=path, fix="Give each file once")
    plain = [Path(path.removesuffix(".gz")) for path in paths]
    choices = [path.stem for path in plain], [path.name for path in plain], list(paths)
    named = next(names for names in choices if len(set(names)) == len(paths))
    return dict(zip(paths, named, strict=True))


def _check_length(first: SystemTexts, other: SystemTexts) -> None:
    """Raises InputError for files of unequal lengths."""
    if first.segments == other.segments:
        return
    longer = max(first, other, key=lambda file: file.segments)
    fix = "Give one segment per line in every file, in the same order, an empty line for no text"
    if longer.plain and not next(iter(longer.systems.values()))[-1].strip():
        fix = f"The last line of {longer.path} is empty: remove it, if it is not a segment"
    counted, expected = (
        f"{file.segments} {'lines' if file.plain else 'segments'}" for file in (other, first)
    )
    raise InputError(f"{counted}, {first.path} has {expected}", where=other.path, fix=fix)


def _by_name(files: Sequence[SystemTexts], names: Mapping[str, str]) -> dict[str, Texts]:
    """The texts of all systems; raises InputError where two have one name."""
    texts_by_name: dict[str, Texts] = {}
    places: dict[str, str] = {}
    for file in files:
        for own, texts in file.systems.items():
            name = own or names[file.path]
            if name in texts_by_name:
                problem = f"the system {name!r:.80} is in {places[name]} too"
                fix = "Rename the file, or the system in it"
                raise InputError(problem, where=file.path, fix=fix)
            texts_by_name[name], places[name] = texts, file.path
    return texts_by_name


def _only(file: SystemTexts | None) -> Texts | None:
    """The texts of a file with one text per segment; None without a file."""
    if file is None:
        return None
    if len(file.systems) != 1:
        problem = f"{len(file.systems)} texts per segment, expected one"
        raise InputError(problem, where=file.path, fix="Give a line per segment")
    return next(iter(file.systems.values()))


def _first(files: Sequence[SystemTexts], part: Callable[[SystemTexts], T | None]) -> T | None:
    """The value of the first file that has one."""
    return next(filter(None, map(part, files)), None)


def _check_ids(documents: Sequence[str], path: str) -> None:
    """Raises InputError for an empty id of a document."""
    for number, document in enumerate(documents, 1):
        if not document.strip():
            problem = "an empty line, expected the id of a document"
            raise InputError(problem, where=f"{path}:{number}", fix="Give every segment one")


def _agreed_documents(every: Sequence[SystemTexts]) -> tuple[Texts | None, str | None]:
    """The document of each segment as files know it, and the first of these; raises InputError where two disagree."""
    known = [file for file in every if file.documents]
    if not known:
        return None, None
    first, *others = known
    for other in others:
        pairs = zip(first.documents or (), other.documents or (), strict=True)
        for number, (a, b) in enumerate(pairs, 1):
            if a != b:
                problem = f"is of document {b!r:.80}, in {first.path} of {a!r:.80}"
                where = f"{other.path}: segment {number}"
                fix = "Give the same segments in the same order"
                raise InputError(problem, where=where, fix=fix)
    return first.documents, first.path


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
        first, length = "", 0
        for where, column in self._columns():
            if isinstance(column, str | Mapping) or not hasattr(column, "__len__"):
                fix = "Give a list with a value per segment"
                raise InputError(f"found {excerpt(column)}", where=where, fix=fix)
            first, length = (first, length) if first else (where, len(column))
            if not length or len(column) != length:
                problem = f"found {len(column)} segments, {first} has {length}"
                raise InputError(problem, where=where, fix="Give a text of every segment")
        seen: set[str] = set()
        before = None
        for number, document in enumerate(self.ids, 1):
            if document != before and document in seen:
                problem = f"document {document!r:.80} comes back after another"
                fix = "Sort the segments by document, the same way everywhere"
                raise InputError(problem, where=f"segment {number}", fix=fix)
            seen.add(document)
            before = document

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

    def _columns(self) -> Iterator[tuple[str, Any]]:
        """All of them, with how errors name each."""
        of_texts = {"systems": self.systems, "references": self.references}
        of_texts |= {f"human[{name!r:.80}]": scores for name, scores in (self.human or {}).items()}
        for where, columns in of_texts.items():
            yield from ((f"{where}[{name!r:.80}]", column) for name, column in columns.items())
        for where, column in (("sources", self.sources), ("documents", self.documents)):
            if column is not None:
                yield where, column


def _cut(columns: Columns, start: int, stop: int) -> dict[str, list[Any]]:
    return {name: list(column[start:stop]) for name, column in columns.items()}
