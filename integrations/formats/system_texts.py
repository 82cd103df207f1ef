"""Systems' texts aligned by segment, of files or of Python, as the documents of a systems file.

The first line of a file shows what it is: plain text with a segment per line, rows with a ``text`` as `decode` writes
them, lists of any format that has a mark, of which the first candidates count, or a systems file. A file of one system
names it by its stem. Without document ids every segment is a document of its own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import CandidateList
from ...rerank.runs.run_file import check_beside
from ..files.entries import ListEntry, TextLines, each_line, in_line, json_object, typed
from .document_outputs import read_documents
from .format_table import Format, Row, format_of, format_of_object, format_of_text, formats
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

    @property
    def counted(self) -> str:
        """How many there are, in words."""
        return f"{self.segments} {'lines' if self.plain else 'segments'}"

    @property
    def has_open_end(self) -> bool:
        """Whether its last line is empty, as it may be by mistake."""
        return self.plain and not next(iter(self.systems.values()))[-1].strip()


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
            return _plain(path, first, lines)
        if not os.path.isfile(path):
            problem = f"found {about_kind(kind)}, which must be a file"
            raise source.refusal(0, problem, "Write it into a file first")
    if kind == "rows":
        with closing(LineSource(path)) as source:
            return _of_segments(path, each_line(source, _row_segment))
    if format_of(kind).documents is not None:
        return _systems(path, kind)
    return _of_segments(path, _first_candidates(path, format_of(kind)))


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


def _plain(path: str, first: bytes, rest: Iterator[tuple[int, bytes]]) -> SystemTexts:
    """Every line is a segment, an empty one too."""
    texts = [first.decode()]
    for number, line in rest:
        limits().check("rows", number, path, what="segments")
        texts.append(line.decode())
    if texts == [""]:
        raise InputError("no segments", where=path, fix="Give a line per segment")
    return SystemTexts(path, {"": tuple(texts)}, plain=True)


def _of_segments(path: str, segments: Iterator[Segment]) -> SystemTexts:
    """One system's segments, with documents and sources where all have them."""
    texts: list[str] = []
    documents: list[Any] = []
    sources: list[Any] = []
    for number, (text, document, source) in enumerate(segments, 1):
        limits().check("rows", number, path, what="segments")
        texts.append(typed(str, text, f"{path}: segment {number}", "Give segments"))
        documents.append(document)
        sources.append(source)
    if not texts:
        raise InputError("no segments", where=path, fix="Give a row or list per segment")
    return SystemTexts(path, {"": tuple(texts)}, _if_complete(documents), _if_complete(sources))


def _if_complete(column: Sequence[Any]) -> Texts | None:
    """The texts of a column; None where one is missing."""
    return tuple(column) if all(isinstance(value, str) for value in column) else None


def _row_segment(number: int, line: bytes) -> Segment:
    """The segment of a row with a text."""
    row = json_object(line)
    if "text" not in row:
        raise InputError(f"found {excerpt(row)}, expected an object with text")
    return row["text"], row.get("document"), row.get("source")


def _first_candidates(path: str, format: Format) -> Iterator[Segment]:
    """The first candidates of the lists of a file, numbered lists in the order of their numbers."""
    with open_lists(path, format.name, in_order=False) as lists:
        records = _records(path, lists)
        for record in _in_order(path, records) if format.is_numbered else records:
            yield record.candidates[0].text, record.document, record.source


def _records(path: str, entries: Iterable[ListEntry]) -> Iterator[CandidateList]:
    for entry in entries:
        if entry.record is None:
            raise entry.error or InputError("nothing was read", where=path)
        yield entry.record


def _in_order(path: str, records: Iterable[CandidateList]) -> list[CandidateList]:
    """The lists in the order of their numbers, of which none is missing."""
    by_number: dict[int, CandidateList] = {}
    for record in records:
        if not (record.id.isascii() and record.id.isdigit()):
            problem = f"the id {record.id!r:.80}, the first is a number"
            raise InputError(problem, where=path, fix="Number the segments")
        by_number[int(record.id)] = record
    numbers = sorted(by_number)
    for before, number in pairwise(numbers):
        if number != before + 1:
            problem = f"the list {before + 1} is missing between {before} and {number}"
            raise InputError(problem, where=path, fix="Give a list per segment")
    return [by_number[number] for number in numbers]


def _systems(path: str, kind: str) -> SystemTexts:
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
    source = None if files.sources is None else read_system_texts(files.sources)
    every = [*given, *hypotheses, *([] if source is None else [source])]
    for other in every[1:]:
        _check_length(every[0], other)
    systems = _by_name(hypotheses, names)
    references = _by_name(given, names) if given else _first(hypotheses, lambda f: f.references)
    sources = (
        _first(hypotheses, lambda f: f.sources) if source is None else _only(source, "sources")
    )
    documents = _documents(files, every)
    scores = read_score_columns(files.human, names, list(systems), every[0].segments)
    rows = TextsInMemory(systems, references or {}, sources, documents, scores).rows()
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
    plain = [path.removesuffix(".gz") for path in paths]
    for named in (
        [Path(path).stem for path in plain],
        [Path(path).name for path in plain],
        list(paths),
    ):
        if len(set(named)) == len(named):
            break
    return dict(zip(paths, named, strict=True))


def _check_length(first: SystemTexts, other: SystemTexts) -> None:
    """Raises InputError for files of unequal lengths."""
    if first.segments == other.segments:
        return
    longer = first if first.segments > other.segments else other
    fix = "Give one segment per line in every file, in the same order, an empty line for no text"
    if longer.has_open_end:
        fix = f"The last line of {longer.path} is empty: remove it, if it is no segment"
    problem = f"{other.counted}, {first.path} has {first.counted}"
    raise InputError(problem, where=other.path, fix=fix)


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


def _only(file: SystemTexts, what: str) -> Texts:
    """The texts of a file with one text per segment."""
    if len(file.systems) != 1:
        problem = f"{len(file.systems)} texts per segment, expected one"
        raise InputError(problem, where=file.path, fix=f"Give the {what} alone")
    return next(iter(file.systems.values()))


def _first(files: Sequence[SystemTexts], part: Callable[[SystemTexts], T | None]) -> T | None:
    """The value of the first file that has one."""
    return next(filter(None, map(part, files)), None)


def _documents(files: OutputFiles, every: Sequence[SystemTexts]) -> Texts | None:
    """The document of each segment: those given, or those that files agree on."""
    path, documents = files.documents, None
    if path is not None:
        documents = _document_ids(path)
        _check_length(every[0], SystemTexts(path, {"": documents}, plain=True))
    else:
        known = [file for file in every if file.documents]
        for other in known[1:]:
            _check_agreement(known[0], other)
        if known:
            path, documents = known[0].path, known[0].documents
    if documents is not None:
        check_together(documents, partial(_segment_of, path or ""))
    return documents


def _document_ids(path: str) -> Texts:
    """The ids in a file, one per line; raises InputError for an empty one."""
    source = TextLines(path)
    ids = []
    for number, line in source:
        ids.append(line.decode().strip())
        if not ids[-1]:
            problem = "an empty line, expected the id of a document"
            raise source.refusal(number, problem, "Give every segment one")
    if not ids:
        raise source.refusal(0, "no document ids", "Give a line per segment")
    return tuple(ids)


def _check_agreement(first: SystemTexts, other: SystemTexts) -> None:
    """Raises InputError where two files put a segment into different documents."""
    pairs = zip(first.documents or (), other.documents or (), strict=True)
    for number, (a, b) in enumerate(pairs):
        if a != b:
            problem = f"is of document {b!r:.80}, in {first.path} of {a!r:.80}"
            where = _segment_of(other.path, number)
            raise InputError(problem, where=where, fix="Give the same segments in the same order")


def _segment_of(path: str, number: int) -> str:
    """How errors name a segment of a file, by its number from 0."""
    return f"{path}: segment {number + 1}"


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
        lengths = {where: _length(where, column) for where, column in self._columns}
        first = next(iter(lengths))
        for where, length in lengths.items():
            if not length:
                raise InputError("no segments", where=where, fix="Give at least one")
            if length != lengths[first]:
                problem = f"found {length} segments, {first} has {lengths[first]}"
                raise InputError(problem, where=where, fix="Give a text of every segment")
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
