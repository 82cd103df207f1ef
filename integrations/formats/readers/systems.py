"""The systems file, one document per line with the texts of several systems, as candidate lists of its segments.

A segment i of document d becomes the list ``d:i`` of d at position i, its candidates the systems' texts with ``system``
and the human scores they have, each under its dimension's name; a score for the whole document stands at every segment.
A document of plain strings becomes one whole-text list with its own id. Keys with a text or a number are passed on.
Documents in other formats become lists in the same way.

    "ratings": {"esa": {"A": [[{"rater": "anna", "score": 80, "spans": [{"start": 0, "end": 4, "severity": "major"}]},
                               null], null]}}
is dimension -> system or reference -> a list per segment: its ratings in the order of waves, null where a wave lacks
one, or null for none. ``start`` and ``end`` count characters, the end is behind the last one; both null: missing text.
``category``, ``in_source`` and ``seconds`` may be there. A dimension that ``human`` lacks has its means as scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from re import Pattern
from typing import Annotated, Any

from ....metrics.errors import InputError, excerpt, unknown
from ....metrics.spec.checked_settings import Field
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import NumberedLines
from ....rerank.lists import CandidateList, read_list
from ...arrow.open_rows import open_rows
from ...files.entries import ListEntry, Number, error_entry, list_entry, placed, typed
from ..format_table import (
    DocumentFormat,
    DocumentRows,
    Format,
    ListOptions,
    OpenedFiles,
    Row,
    documents_of,
    is_eval_set_folder,
)
from ..human_scores import ByDimension, HumanKey, human_scores
from .jsonl import id_of, misspelt, object_of, recognised_lines, refuse_format

Texts = str | list[Any]
_READ = frozenset({"id", "source", "references", "systems", "human", "ratings"})
_LIST_KEYS = frozenset({"document", "position", "candidates", "pseudo_references", "context_only"})
_CANDIDATE_KEYS = frozenset({"text", "system", "logprob", "roles", "foci", "rst"})


@dataclass(frozen=True, slots=True)
class SystemsOptions:
    """How to read a systems file.

    Args:
        human: keys of human scores; the key ``human`` if there are none.
        as_systems: references to be read as systems instead.
        include: keys with further systems, such as ``unscored_systems``.
    """

    human: tuple[HumanKey, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()


@dataclass(frozen=True)
class RatingRow:
    """What an annotator said of a text; spans are objects, which `_check_span` checks."""

    rater: Annotated[str, Field(min_length=1)]
    score: Number | None = None
    spans: list[Any] | None = None
    seconds: Number | None = None


RatingRows = dict[str, dict[str, list[list[RatingRow | None] | None]]]


def read_systems(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[ListEntry]:
    """One entry per segment, or one error entry for a document that cannot be read.

    Raises:
        InputError: the first line that is not empty shows another format.
    """
    for number, line in recognised_lines(source):
        data, raw = None, line + b"\n"
        try:
            data = object_of(line)
            document = read_document(data, options, number)
        except RecursionError:
            error = InputError("nested too deeply")
            yield error_entry(error, source.name, number, raw, id_of(data))
        except InputError as refusal:
            error = advised(refusal, data, source.name, "read them with --from jsonl")
            yield error_entry(in_document(error, data), source.name, number, raw, id_of(data))
        else:
            yield from _entries(document, source.name, number, raw)


def advised(error: InputError, data: Any, name: str, instead: str) -> InputError:
    """The error, with advice for a misspelt key and for a file of candidate lists."""
    if error.where != "systems" or not isinstance(data, Mapping) or "systems" in data:
        return error
    if "candidates" in data:
        fix = f"These are candidate lists; {instead}"
        return InputError(error.problem, where=error.where, fix=fix)
    return misspelt("systems", data, name) or error


def in_document(error: InputError, data: Any) -> InputError:
    """The error with the document's id in its place, where the id could be read."""
    document_id = id_of(data)
    return error if document_id is None else placed(error, f"document {document_id!r:.80}")


def _entries(document: SystemsDocument, name: str, number: int, raw: bytes) -> Iterator[ListEntry]:
    """The entries of a document's segments, or of the whole document; the first consumes the line."""
    for i in range(document.segments or 1):
        segment = None if document.segments is None else i
        list_id = document.id if segment is None else f"{document.id}:{i}"
        try:
            yield list_entry(document.candidates(segment), number, raw)
        except InputError as error:
            placed_error = placed(error, f"document {document.id!r:.80}")
            yield error_entry(placed_error, name, number, raw, list_id)
        raw = b""


@dataclass(frozen=True, slots=True)
class SystemsDocument:
    """One line of a systems file: texts by name, all lists of `segments` texts, or all strings if that is None.

    `human` holds dimension -> system or reference -> a number, or a number or null per segment.
    """

    id: str
    segments: int | None
    source: Texts | None
    systems: Mapping[str, Texts]
    references: Mapping[str, Texts]
    human: ByDimension
    metadata: Mapping[str, Any]
    ratings: RatingRows

    def candidates(self, i: int | None) -> CandidateList:
        """The candidate list of segment i, or of a document of plain strings.

        Raises:
            InputError: a text is missing.
        """
        row: dict[str, Any] = {"id": self.id}
        if i is not None:
            row = {"id": f"{self.id}:{i}", "document": self.id, "position": i}
        candidates = []
        for name, texts in self.systems.items():
            text = _text(texts, i, f"systems.{name}")
            candidates.append({"text": text, "system": name, **self._scores(name, i)})
        row["candidates"] = candidates
        row["references"] = [
            _text(t, i, f"references.{name}") for name, t in self.references.items()
        ]
        row |= self.metadata
        if self.source is not None:
            row["source"] = self.source if i is None else _text(self.source, i, "source")
        return read_list(row)

    def all_texts(self, texts: Texts, where: str) -> tuple[str, ...]:
        """The texts of all segments; errors as `candidates`."""
        segments = [None] if self.segments is None else range(self.segments)
        return tuple([_text(texts, i, where) for i in segments])

    def _scores(self, system: str, i: int | None) -> dict[str, float]:
        """The human scores of a system's text, those there are."""
        values = {}
        for dimension, scores in self.human.items():
            value = scores.get(system)
            if isinstance(value, list):
                value = None if i is None else value[i]
            if value is not None:
                values[dimension] = value
        return values


def _text(texts: Texts, i: int | None, where: str) -> str:
    """The text of segment i, or the whole text."""
    text = texts if i is None else texts[i]
    place = where if i is None else f"{where}[{i}]"
    if text is None:
        fix = "Leave the system out instead"
        raise InputError("missing segment (null), expected a text", where=place, fix=fix)
    if not isinstance(text, str):
        raise InputError(f"found {type(text).__name__}, expected a text", where=place)
    return text


def read_document(
    data: Any, options: SystemsOptions | None = None, number: int | None = None
) -> SystemsDocument:
    """A document from its JSON form.

    Args:
        data: the JSON value.
        options: how it is read.
        number: its place, which is its id where it has none.

    Raises:
        InputError: something is missing, of the wrong type or of another length; `where` names the system.
    """
    chosen = options or SystemsOptions()
    has_id = not isinstance(data, Mapping) or "id" in data
    document_id = id_of(data) if has_id or number is None else str(number)
    if document_id is None:
        raise InputError("found no id, expected an object with id and systems", where="id")
    systems = _systems(data, chosen.include)
    first = next(iter(systems))
    segments = len(systems[first]) if isinstance(systems[first], list) else None
    limits().check("entries", segments or 0, f"systems.{first}", what="sentences")
    if segments == 0:
        raise InputError("no segments", where=f"systems.{first}")
    references = _references(data.get("references"), segments)
    source = data.get("source")
    named = {f"systems.{name}": texts for name, texts in systems.items()}
    named |= {f"references.{name}": texts for name, texts in references.items()}
    if source is not None and segments is not None:
        named["source"] = source
    _check_shapes(named, segments, first)
    if both := systems.keys() & references.keys():
        where = f"references.{min(both)}"
        raise InputError("a system has this name already", where=where, fix="Rename it")
    texts = {**systems, **references}
    ratings = _ratings(data.get("ratings"), texts, segments)
    data = _with_means(data, ratings, texts, segments)
    human = human_scores(data, chosen.human, texts, segments)
    metadata = _metadata(data, human)
    for name in chosen.as_systems:
        if name not in references:
            raise unknown("reference to read as a system", name, references, where="references")
        systems[name] = references.pop(name)
    return SystemsDocument(
        document_id, segments, source, systems, references, human, metadata, ratings
    )


def _systems(data: Mapping[str, Any], include: Sequence[str]) -> dict[str, Texts]:
    """The texts of all systems by name, from ``systems`` and further keys."""
    systems: dict[str, Texts] = {}
    for key in ("systems", *include):
        if key not in data:
            missing = InputError("not there, expected texts by system", where=key)
            raise missing if key == "systems" else unknown("key", key, data)
        value = data[key] or {}
        if not isinstance(value, Mapping):
            raise InputError(f"found {type(value).__name__}, expected texts by system", where=key)
        limits().check("systems", len(systems) + len(value), key)
        if both := systems.keys() & value.keys():
            where = f"{key}.{min(both)}"
            raise InputError("there is a system of this name already", where=where, fix="Rename it")
        systems |= value
    if not systems:
        raise InputError("no systems, expected at least one", where="systems")
    return systems


def _metadata(data: Mapping[str, Any], human: ByDimension) -> dict[str, Any]:
    """The other keys with a text or a number, which are passed on.

    Raises:
        InputError: one of them, or a dimension of scores, is a key that lists or candidates have.
    """
    metadata = {
        key: value
        for key, value in data.items()
        if key not in _READ and isinstance(value, str | int | float)
    }
    clashes = [key for key in metadata if key in _LIST_KEYS]
    clashes += [f"human.{name}" for name in human if name in _CANDIDATE_KEYS]
    if clashes:
        problem = "is a key of candidate lists or candidates"
        raise InputError(problem, where=min(clashes), fix="Give it another name")
    return metadata


def _references(value: Any, segments: int | None) -> dict[str, Texts]:
    """References by name; ``reference``, ``reference1``, ... where they have none."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    # without names: references, or the segments of one
    if isinstance(value, list) and (segments is None or any(isinstance(v, list) for v in value)):
        return {f"reference{i}": texts for i, texts in enumerate(value, 1)}
    return {"reference": value}


def _check_shapes(named: Mapping[str, Any], segments: int | None, first: str) -> None:
    """Raises InputError for texts that are not of the kind and length of those of the `first` system."""
    for where, texts in named.items():
        kind = type(texts).__name__
        if segments is None and not isinstance(texts, str):
            problem = f"found {kind}, expected a string like {first!r:.40} has"
        elif segments is not None and not isinstance(texts, list):
            problem = f"found {kind}, expected a list of {segments} texts"
        elif segments is not None and len(texts) != segments:
            problem = f"{len(texts)} segments, system {first!r:.40} has {segments}"
        else:
            continue
        raise InputError(problem, where=where.rstrip("."))


def _ratings(given: Any, texts: Mapping[str, Texts], segments: int | None) -> RatingRows:
    """The ratings of a document, of texts by the names of systems and references."""
    ratings: RatingRows = typed(RatingRows | None, given, "ratings") or {}
    for dimension, by_system in ratings.items():
        for name, rated in by_system.items():
            where = f"ratings.{dimension}.{name}"
            if name not in texts:
                problem, fix = (
                    "is neither a system nor a reference",
                    f"All: {', '.join(texts)[:200]}",
                )
                raise InputError(problem, where=where, fix=fix)
            own = [texts[name]] if segments is None else texts[name]
            if len(rated) != len(own):
                problem = f"{len(rated)} segments, the text has {len(own)}"
                raise InputError(problem, where=where)
            for i, (text, of_text) in enumerate(zip(own, rated, strict=True)):
                limits().check("systems", len(of_text or ()), f"{where}[{i}]")
                length = len(text) if isinstance(text, str) else 0
                _check_spans(of_text or (), length, f"{where}[{i}]")
    return ratings


def _check_spans(ratings: Iterable[RatingRow | None], length: int, where: str) -> None:
    """Raises InputError for a span that is none, or does not lie in its text."""
    for n, rating in enumerate(ratings):
        for m, span in enumerate(rating.spans or () if rating else ()):
            _check_span(span, length, f"{where}[{n}].spans[{m}]")


def _check_span(span: Any, length: int, where: str) -> None:
    # many are read: by hand it takes a third of the time that a schema takes
    if not isinstance(span, Mapping):
        raise InputError(f"found {excerpt(span)}, expected an object", where=where)
    start: Any = span.get("start")
    end: Any = span.get("end")
    is_missing = start is None and end is None
    is_place = type(start) is int and type(end) is int and 0 <= start <= end
    if not is_missing and not (is_place and (span.get("in_source") or end <= length)):
        problem = f"from {excerpt(start)} to {excerpt(end)} in a text of {length} characters"
        raise InputError(problem, where=where, fix="Both null: missing text")
    for key in ("severity", "category"):
        if not isinstance(span.get(key), str | None):
            typed(str | None, span[key], f"{where}.{key}")


def _with_means(
    data: Mapping[str, Any], ratings: RatingRows, names: Iterable[str], segments: int | None
) -> Mapping[str, Any]:
    """The document whose ``human`` has the means of dimensions that it lacks; null for a system nobody rated."""
    given = data.get("human")
    if not ratings or not isinstance(given, Mapping | None):
        return data
    human: Row = {}
    for dimension, by_system in ratings.items():
        scores: dict[str, Any] = dict.fromkeys(names)
        for name, texts in by_system.items():
            own = [_mean(of_text or ()) for of_text in texts]
            scores[name] = own[0] if segments is None else own
        human[dimension] = scores
    return {**data, "human": human | {**(given or {})}}


def _mean(ratings: Iterable[RatingRow | None]) -> float | None:
    scores = [rating.score for rating in ratings if rating is not None]
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


def format_of_documents(
    name: str,
    title: str,
    read: Callable[[str, ListOptions], Iterator[Row]],
    *,
    options: Iterable[str] = (),
    keys: tuple[str, ...] = (),
    first_line: Pattern[bytes] | None = None,
    example: str = "",
) -> Format:
    """A format of documents, by its reader of rows."""

    def open_rows(path: str | Path, options: ListOptions) -> DocumentRows:
        return DocumentRows(str(path), read(str(path), options))

    return Format(
        name,
        title,
        lists_of_documents(open_rows),
        frozenset({"human", "as_systems", *options}),
        keys=keys,
        first_line=first_line,
        documents=DocumentFormat(open_rows),
        example=example,
    )


def lists_of_documents(
    open_documents: Callable[[str | Path, ListOptions], NumberedLines],
) -> Callable[[str | Path, ListOptions], OpenedFiles]:
    """How documents are opened as the candidate lists of their segments."""

    def open_lists(path: str | Path, options: ListOptions) -> OpenedFiles:
        keys = tuple(map(HumanKey.read, options.human))
        source = open_documents(path, options)
        return [source], read_systems(
            source, SystemsOptions(keys, options.as_systems, options.include)
        )

    return open_lists


def _open(path: str | Path, options: ListOptions) -> NumberedLines:
    """A systems file, or a folder of mt-metrics-eval."""
    if is_eval_set_folder(path):
        return documents_of("mtme").open(path, options)
    return open_rows(path, options.columns, "document", refuse_format)


FORMATS = (
    Format(
        "systems",
        "a systems file",
        lists_of_documents(_open),
        frozenset({"human", "as_systems", "include", "columns"}),
        keys=("systems",),
        documents=DocumentFormat(_open),
        example='{"id": "d", "systems": {"A": ["a text"], "B": ["b"]}, "human": {"mqm": {"A": [1.5]}}}\n',
    ),
)
