"""Files with the outputs of systems, aligned by segment, as the documents of a systems file.

A file of one system names it by its stem. Without document ids every segment is a document of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from ...metrics.errors import InputError
from ...metrics.storage.line_source import LineSource
from .system_texts import SystemTexts, Texts, read_system_texts
from .test_sets.document_rows import Row
from .test_sets.texts_in_memory import TextsInMemory, check_together

T = TypeVar("T")


@dataclass(frozen=True)
class OutputFiles:
    """Where texts are.

    Args:
        hypotheses: files of systems' outputs.
        references: files of references.
        sources: the file of sources.
        documents: the file of document ids, one per line.
    """

    hypotheses: tuple[str, ...]
    references: tuple[str, ...] = ()
    sources: str | None = None
    documents: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """All of them."""
        further = [path for path in (self.sources, self.documents) if path is not None]
        return (*self.hypotheses, *self.references, *further)

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
    rows = TextsInMemory(systems, references or {}, sources, documents).rows()
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
    """The texts of all systems.

    Raises:
        InputError: two systems have one name.
    """
    texts_by_name: dict[str, Texts] = {}
    places: dict[str, str] = {}
    for file in files:
        for own, texts in file.systems.items():
            name = own or names[file.path]
            if name in texts_by_name:
                raise InputError(
                    f"the system {name!r:.80} is in {places[name]} too",
                    where=file.path,
                    fix="Rename the file, or the system in it",
                )
            texts_by_name[name], places[name] = texts, file.path
    return texts_by_name


def _only(file: SystemTexts, what: str) -> Texts:
    """The texts of a file with one text per segment."""
    if len(file.systems) != 1:
        problem = f"{len(file.systems)} texts per segment, expected one"
        raise InputError(problem, where=file.path, fix=f"Give the {what} alone")
    return next(iter(file.systems.values()))


def _first(files: Sequence[SystemTexts], part: Callable[[SystemTexts], T | None]) -> T | None:
    """What the first file that has it says."""
    return next(filter(None, map(part, files)), None)


def _documents(files: OutputFiles, every: Sequence[SystemTexts]) -> Texts | None:
    """The document of each segment: those given, or those that files agree on."""
    if files.documents is not None:
        documents = _document_ids(files.documents)
        _check_length(every[0], SystemTexts(files.documents, {"": documents}, plain=True))
        check_together(documents, partial(_segment_of, files.documents))
        return documents
    known = [file for file in every if file.documents]
    for other in known[1:]:
        _check_agreement(known[0], other)
    if not known or known[0].documents is None:
        return None
    check_together(known[0].documents, partial(_segment_of, known[0].path))
    return known[0].documents


def _document_ids(path: str) -> Texts:
    """The ids in a file, one per line.

    Raises:
        InputError: a line is empty.
    """
    source = LineSource(path)
    ids = []
    for number, line in source:
        ids.append(line.decode().strip())
        if not ids[-1]:
            raise source.refusal(
                number, "an empty line, expected the id of a document", "Give every segment one"
            )
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
