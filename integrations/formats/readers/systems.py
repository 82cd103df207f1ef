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

import shlex
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

Texts = tuple[str | None, ...]  # of the segments, None where one is missing; a whole text is one
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
    """The rating of a text by an annotator; spans are objects, which `_check_span` checks."""

    rater: Annotated[str, Field(min_length=1)]
    score: Number | None = None
    spans: list[Any] | None = None
    seconds: Number | None = None


RatingRows = dict[str, dict[str, list[list[RatingRow | None] | None]]]


@dataclass(frozen=True, slots=True)
class SystemsDocument:
    """One line of a systems file: texts by name, all of as many segments, or all one whole text.

    `human` holds dimension -> system or reference -> a number, or a number or null per segment; `row` is the line.
    """

    id: str
    whole: bool
    source: Texts | None
    systems: Mapping[str, Texts]
    references: Mapping[str, Texts]
    human: ByDimension
    metadata: Mapping[str, Any]
    ratings: RatingRows
    row: Mapping[str, Any]

    @property
    def segments(self) -> int:
        """How many there are."""
        return len(next(iter(self.systems.values())))

    def list_id(self, i: int) -> str:
        """The id of the list of segment i, or of the whole text."""
        return self.id if self.whole else f"{self.id}:{i}"

    def candidates(self, i: int) -> CandidateList:
        """The candidate list of segment i, or of the whole text.

        Raises:
            InputError: a text is missing.
        """
        row: dict[str, Any] = {"id": self.list_id(i)}
        if not self.whole:
            row |= {"document": self.id, "position": i}
        row["candidates"] = [
            {
                "text": self.text(texts, i, f"systems.{name}"),
                "system": name,
                **self._scores(name, i),
            }
            for name, texts in self.systems.items()
        ]
        row["references"] = [
            self.text(texts, i, f"references.{name}") for name, texts in self.references.items()
        ]
        row |= self.metadata
        if self.source is not None:
            row["source"] = self.text(self.source, i, "source")
        return read_list(row)

    def text(self, texts: Texts, i: int, where: str) -> str:
        """The text of segment i; raises InputError where it is missing."""
        text = texts[i]
        if text is None:
            fix = "Leave the system out instead"
            problem = "missing segment (null), expected a text"
            raise InputError(problem, where=f"{where}[{i}]", fix=fix)
        return text

    def _scores(self, system: str, i: int) -> dict[str, float]:
        """The human scores of a system's text, those there are."""
        values = {}
        for dimension, scores in self.human.items():
            value = scores.get(system)
            if isinstance(value, list):
                value = value[i]
            if value is not None:
                values[dimension] = value
        return values


def each_document(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[tuple[int, bytes, SystemsDocument | ListEntry]]:
    """The number and bytes of every line, and its document, or the entry of its error.

    Raises:
        InputError: the first line that is not empty shows another format.
    """
    for number, line in recognised_lines(source):
        data, raw = None, line + b"\n"
        try:
            data = object_of(line)
            document: SystemsDocument | ListEntry = read_document(data, options, number)
        except RecursionError:
            error = InputError("nested too deeply")
            document = error_entry(error, source.name, number, raw, id_of(data))
        except InputError as refusal:
            error = _advised(refusal, data, source.name)
            document_id = id_of(data)
            if document_id is not None:
                error = placed(error, f"document {document_id!r:.80}")
            document = error_entry(error, source.name, number, raw, document_id)
        yield number, raw, document


def _advised(error: InputError, data: Any, name: str) -> InputError:
    """The error, with advice for a misspelt key and for a file of candidate lists."""
    if error.where != "systems" or not isinstance(data, Mapping) or "systems" in data:
        return error
    if "candidates" in data:
        command = shlex.join(["discorank", "decode", name, "-u", "chrf"])
        fix = f"These are candidate lists: use --from jsonl, or choose among them: {command}"
        return InputError(error.problem, where=error.where, fix=fix)
    return misspelt("systems", data) or error


def read_systems(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[ListEntry]:
    """One entry per segment, of which the first consumes the line, or one error entry for a document; errors as above.

    Raises:
        InputError: as `each_document`.
    """
    for number, raw, document in each_document(source, options):
        if not isinstance(document, SystemsDocument):
            yield document
            continue
        for i in range(document.segments):
            try:
                yield list_entry(document.candidates(i), number, raw)
            except InputError as error:
                in_document = placed(error, f"document {document.id!r:.80}")
                yield error_entry(in_document, source.name, number, raw, document.list_id(i))
            raw = b""


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
    given = _systems(data, chosen.include)
    first = next(iter(given))
    whole = isinstance(given[first], str)
    segments = None if whole else len(given[first])
    limits().check("entries", segments or 0, f"systems.{first}", what="sentences")
    if segments == 0:
        raise InputError("no segments", where=f"systems.{first}")

    def aligned(texts: Any, where: str) -> Texts:
        return _aligned(texts, where, segments, first)

    systems = {name: aligned(texts, f"systems.{name}") for name, texts in given.items()}
    references = {
        name: aligned(texts, f"references.{name}")
        for name, texts in _references(data.get("references"), whole).items()
    }
    source = None if data.get("source") is None else aligned(data["source"], "source")
    if both := systems.keys() & references.keys():
        where = f"references.{min(both)}"
        raise InputError("a system has this name already", where=where, fix="Rename it")
    texts = {**systems, **references}
    ratings = _ratings(data.get("ratings"), texts)
    with_means = _with_means(data, ratings, texts, whole)
    human = human_scores(with_means, chosen.human, texts, segments)
    metadata = _metadata(data, human)
    for name in chosen.as_systems:
        if name not in references:
            raise unknown("reference to read as a system", name, references, where="references")
        systems[name] = references.pop(name)
    return SystemsDocument(
        document_id, whole, source, systems, references, human, metadata, ratings, data
    )


def _systems(data: Mapping[str, Any], include: Sequence[str]) -> dict[str, Any]:
    """The texts of all systems by name, from ``systems`` and further keys."""
    systems: dict[str, Any] = {}
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
    if not isinstance(first := next(iter(systems.values())), str | list):
        where = f"systems.{next(iter(systems))}"
        raise InputError(f"found {excerpt(first)}, expected texts", where=where)
    return systems


def _aligned(texts: Any, where: str, segments: int | None, first: str) -> Texts:
    """The segments of a text; raises InputError unless it is of the kind and length of that of the first system."""
    if segments is None:
        fix = f"Give one text, as {first!r:.40} has"
        return (typed(str, texts, where, fix),)
    own: list[str | None] = typed(list[str | None], texts, where, f"Give {segments} segments")
    if len(own) != segments:
        raise InputError(f"{len(own)} segments, system {first!r:.40} has {segments}", where=where)
    return tuple(own)


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


def _references(value: Any, whole: bool) -> dict[str, Any]:
    """References by name; ``reference``, ``reference1``, ... where they have none."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    # without names: references, or the segments of one
    if isinstance(value, list) and (whole or any(isinstance(v, list) for v in value)):
        return {f"reference{i}": texts for i, texts in enumerate(value, 1)}
    return {"reference": value}


def _ratings(given: Any, texts: Mapping[str, Texts]) -> RatingRows:
    """The ratings of a document, of texts by the names of systems and references."""
    ratings: RatingRows = typed(RatingRows | None, given, "ratings") or {}
    for dimension, by_system in ratings.items():
        for name, rated in by_system.items():
            where = f"ratings.{dimension}.{name}"
            if name not in texts:
                raise unknown("system or reference", name, texts, where=where)
            if len(rated) != len(texts[name]):
                problem = f"{len(rated)} segments, the text has {len(texts[name])}"
                raise InputError(problem, where=where)
            for i, (text, of_text) in enumerate(zip(texts[name], rated, strict=True)):
                limits().check("systems", len(of_text or ()), f"{where}[{i}]")
                _check_spans(of_text or (), len(text or ""), f"{where}[{i}]")
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
    data: Mapping[str, Any], ratings: RatingRows, names: Iterable[str], whole: bool
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
            scores[name] = own[0] if whole else own
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
