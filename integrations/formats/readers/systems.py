"""The systems file, one document per line with the texts of several systems, as candidate lists of its segments.

A segment i of document d becomes the list ``d:i`` of d at position i, its candidates the systems' texts with ``system``
and the human scores they have, each under its dimension's name; a score for the whole document stands at every segment.
A document of plain strings becomes one whole-text list with its own id. Keys with a text or a number are passed on.
Documents in other formats become lists in the same way.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....metrics.errors import InputError, unknown
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import NumberedLines, without_trailing_blanks
from ....rerank.lists import CandidateList, read_list
from ....rerank.runs.resumable import as_line
from ....rerank.selection.system_scores import DocumentOutputs
from ...arrow.open_rows import open_rows
from ...files.entries import ListEntry, SeenKeys, error_entry, list_entry, placed
from ..documents import Row
from ..format_table import DocumentFormat, Format, ListOptions, OpenedFiles
from ..human_scores import ByDimension, HumanKey, Scores, human_scores
from ..rated_texts import RatingsByDimension, read_ratings_of, with_means
from .jsonl import id_of, misspelt, read_objects, refuse_format


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


def read_systems(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[ListEntry]:
    """One entry per segment, or one error entry for a document that cannot be read; errors as `read_jsonl`."""
    chosen = options or SystemsOptions()

    def read_line(name: str, number: int, line: bytes) -> Iterator[ListEntry]:
        raw = line + b"\n"
        data = None
        try:
            data = parse_json(line)
            document = _document(data, chosen, number)
        except RecursionError:
            too_deep = InputError("nested too deeply")
            yield error_entry(too_deep, name, number, raw, id_of(data))
        except InputError as error:
            document_id = id_of(data)
            error = _advised(error, data, name, "read them with --from jsonl")
            yield error_entry(_in_document(error, document_id), name, number, raw, document_id)
        else:
            yield from _entries(document, name, number, raw)

    return read_objects(source, read_line)


def read_documents(
    source: NumberedLines, options: SystemsOptions | None = None
) -> Iterator[DocumentOutputs]:
    """The documents themselves.

    Raises:
        InputError: the first line that is no document or has the id of an earlier one; with file, line, document and
            system.
    """
    chosen = options or SystemsOptions()
    seen = SeenKeys()
    for number, line in without_trailing_blanks(source):
        data = None
        try:
            data = parse_json(line)
            outputs = _document(data, chosen, number).outputs()
            if not seen.add(outputs.id):
                raise InputError(
                    "there was a document of this id before",
                    where="id",
                    fix="Give each its own",
                )
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            choose = shlex.join(["discorank", "decode", source.name, "-u", "chrf"])
            error = _advised(error, data, source.name, f"to choose among them: {choose}")
            raise _in_document(error, id_of(data)).inside(f"{source.name}:{number}") from None
        yield outputs


def _advised(error: InputError, data: Any, name: str, instead: str) -> InputError:
    """The error, with advice for a misspelt key and for a file of candidate lists."""
    if error.where != "systems" or not isinstance(data, Mapping) or "systems" in data:
        return error
    if "candidates" in data:
        fix = f"These are candidate lists; {instead}"
        return InputError(error.problem, where=error.where, fix=fix)
    return misspelt("systems", data, name) or error


def _document(data: Any, options: SystemsOptions, number: int) -> SystemsDocument:
    return read_document(data, options.human, options.as_systems, options.include, number)


def _entries(
    document: SystemsDocument,
    name: str,
    number: int,
    raw: bytes,
) -> Iterator[ListEntry]:
    """The entries of a document's segments, or of the whole document; the first consumes the line."""
    is_whole = document.segments is None
    for i in range(document.segments or 1):
        try:
            record = document.whole() if is_whole else document.segment(i)
            yield list_entry(record, number, raw)
        except InputError as error:
            list_id = document.id if is_whole else f"{document.id}:{i}"
            yield error_entry(_in_document(error, document.id), name, number, raw, list_id)
        raw = b""


def _in_document(error: InputError, document_id: str | None) -> InputError:
    """The error with the document's id in its place, where the id could be read."""
    return error if document_id is None else placed(error, f"document {document_id!r:.80}")


Texts = str | list[Any]
_READ = frozenset({"id", "source", "references", "systems", "human", "ratings"})
_LIST_KEYS = frozenset({"document", "position", "candidates", "pseudo_references", "context_only"})
_CANDIDATE_KEYS = frozenset({"text", "system", "logprob", "roles", "foci", "rst"})


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
    ratings: RatingsByDimension

    def whole(self) -> CandidateList:
        """The candidate list of a document of plain strings; errors as `segment`."""
        return read_list({"id": self.id, **self._row(None)})

    def segment(self, i: int) -> CandidateList:
        """The candidate list of segment i.

        Raises:
            InputError: a text is missing.
        """
        place = {"id": f"{self.id}:{i}", "document": self.id, "position": i}
        return read_list({**place, **self._row(i)})

    def outputs(self) -> DocumentOutputs:
        """The document as system selection reads it, all its segments; errors as `segment`."""
        source = None if self.source is None else self._segment_texts(self.source, "source")
        return DocumentOutputs(
            self.id,
            self.segments is None,
            source,
            self._segment_texts_by_name(self.systems, "systems"),
            self._segment_texts_by_name(self.references, "references"),
            {dimension: _scores_given(scores) for dimension, scores in self.human.items()},
            self.ratings,
        )

    def _segment_texts_by_name(
        self, texts_by_name: Mapping[str, Texts], key: str
    ) -> dict[str, tuple[str, ...]]:
        return {
            name: self._segment_texts(texts, f"{key}.{name}")
            for name, texts in texts_by_name.items()
        }

    def _segment_texts(self, texts: Texts, where: str) -> tuple[str, ...]:
        """The texts of all segments."""
        segments = [None] if self.segments is None else range(self.segments)
        return tuple(_text(texts, i, where) for i in segments)

    def _row(self, i: int | None) -> dict[str, Any]:
        """The keys of the candidate list of segment i, or of the whole text, but for its id and place."""
        candidates = []
        for name, texts in self.systems.items():
            text = _text(texts, i, f"systems.{name}")
            candidates.append({"text": text, "system": name, **self._scores(name, i)})
        references = [
            _text(texts, i, f"references.{name}") for name, texts in self.references.items()
        ]
        row: dict[str, Any] = {"candidates": candidates, "references": references, **self.metadata}
        if self.source is not None:
            row["source"] = self.source if i is None else _text(self.source, i, "source")
        return row

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


def _id_or_number(data: Any, number: int | None) -> str:
    """The id of a document, its number where it has none; raises InputError without either."""
    document_id = id_of(data)
    if number is not None and isinstance(data, Mapping) and "id" not in data:
        return str(number)
    if document_id is None:
        raise InputError("found no id, expected an object with id and systems", where="id")
    return document_id


def read_document(
    data: Any,
    keys: Sequence[HumanKey],
    as_systems: Sequence[str],
    include: Sequence[str],
    number: int | None = None,
) -> SystemsDocument:
    """A document from its JSON form.

    Args:
        data: the JSON value.
        keys, as_systems, include: as in `SystemsOptions`.
        number: its place, which is its id where it has none.

    Raises:
        InputError: something is missing, of the wrong type or of another length; `where` names the system.
    """
    document_id = _id_or_number(data, number)
    systems = _systems(data, include)
    first = next(iter(systems))
    first_texts = systems[first]
    segments = len(first_texts) if isinstance(first_texts, list) else None
    limits().check("sentences", segments or 0, f"systems.{first}")
    if segments == 0:
        raise InputError("no segments", where=f"systems.{first}")
    source = data.get("source")
    references = _references(data.get("references"), segments)
    _check_reference_names(references, systems)
    for name, texts in systems.items():
        _check_shape(texts, segments, f"systems.{name}".rstrip("."), first)
    for name, texts in references.items():
        _check_shape(texts, segments, f"references.{name}".rstrip("."), first)
    if source is not None and segments is not None:
        _check_shape(source, segments, "source", first)
    ratings = read_ratings_of(data, {**systems, **references}, segments)
    data = with_means(data, ratings, [*systems, *references], segments)
    human = human_scores(data, keys, [*systems, *references], segments)
    if taken := _CANDIDATE_KEYS & set(human):
        raise InputError(
            "is a key of candidates",
            where=f"human.{min(taken)}",
            fix="Give the dimension another name",
        )
    for name in as_systems:
        systems[name] = _reference(references, name)
    return SystemsDocument(
        document_id, segments, source, systems, references, human, _metadata(data), ratings
    )


def _systems(data: Mapping[str, Any], include: Sequence[str]) -> dict[str, Texts]:
    """The texts of all systems by name, from ``systems`` and further keys."""
    systems: dict[str, Texts] = {}
    for key in ("systems", *include):
        if key not in data and key == "systems":
            raise InputError("not there, expected texts by system", where=key)
        if key not in data:
            raise unknown("key", key, data)
        value = data[key] or {}
        if not isinstance(value, Mapping):
            raise InputError(f"found {type(value).__name__}, expected texts by system", where=key)
        limits().check("systems", len(systems) + len(value), key)
        for name, texts in value.items():
            if name in systems:
                raise InputError(
                    "there is a system of this name already",
                    where=f"{key}.{name}",
                    fix="Rename it",
                )
            systems[name] = texts
    if not systems:
        raise InputError("no systems, expected at least one", where="systems")
    return systems


def _references(value: Any, segments: int | None) -> dict[str, Texts]:
    """References by name; ``reference``, ``reference1``, ... where they have none."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    if _holds_many_references(value, segments):
        return {f"reference{i}": texts for i, texts in enumerate(value, 1)}
    return {"reference": value}


def _holds_many_references(value: Any, segments: int | None) -> bool:
    """Whether a value without names holds references rather than the segments of one."""
    if not isinstance(value, list):
        return False
    return segments is None or any(isinstance(texts, list) for texts in value)


def _check_reference_names(references: Mapping[str, Texts], systems: Mapping[str, Texts]) -> None:
    """Raises InputError for a reference named like a system: human scores go by name."""
    for name in references:
        if name in systems:
            raise InputError(
                "there is a system of this name already",
                where=f"references.{name}",
                fix="Rename it",
            )


def _reference(references: dict[str, Texts], name: str) -> Texts:
    """Takes a reference out, to be a system."""
    if name not in references:
        raise unknown("reference to read as a system", name, references, where="references")
    return references.pop(name)


def _check_shape(texts: Any, segments: int | None, where: str, first: str) -> None:
    """Raises InputError for texts that are not of the kind and length of those of the `first` system."""
    if segments is None:
        if not isinstance(texts, str):
            problem = f"found {type(texts).__name__}, expected a string like {first!r:.40} has"
            raise InputError(problem, where=where)
    elif not isinstance(texts, list):
        problem = f"found {type(texts).__name__}, expected a list of {segments} texts"
        raise InputError(problem, where=where)
    elif len(texts) != segments:
        raise InputError(f"{len(texts)} segments, system {first!r:.40} has {segments}", where=where)


def _text(texts: Texts, i: int | None, where: str) -> str:
    """The text of segment i, or the whole text."""
    text = texts if i is None else texts[i]
    if isinstance(text, str):
        return text
    place = where if i is None else f"{where}[{i}]"
    if text is None:
        raise InputError(
            "missing segment (null), expected a text",
            where=place,
            fix="Leave the system out instead",
        )
    raise InputError(f"found {type(text).__name__}, expected a text", where=place)


def _scores_given(
    scores: Mapping[str, Scores],
) -> dict[str, tuple[float | None, ...] | float]:
    """The scores of one dimension without the systems that have none."""
    values: dict[str, tuple[float | None, ...] | float] = {}
    for name, value in scores.items():
        if value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return values


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    """The other keys with a text or a number, which are passed on."""
    metadata = {
        key: value
        for key, value in data.items()
        if key not in _READ and isinstance(value, str | int | float)
    }
    if taken := _LIST_KEYS & set(metadata):
        raise InputError(
            "is a key of candidate lists",
            where=min(taken),
            fix="Give the key another name",
        )
    return metadata


def lists_of_documents(
    open_documents: Callable[[str | Path, ListOptions], NumberedLines],
) -> Callable[[str | Path, ListOptions], OpenedFiles]:
    """How documents are opened as the candidate lists of their segments."""

    def open_lists(path: str | Path, options: ListOptions) -> OpenedFiles:
        keys = tuple(map(HumanKey.read, options.human))
        source = open_documents(path, options)
        systems_options = SystemsOptions(keys, options.as_systems, options.include)
        return [source], read_systems(source, systems_options)

    return open_lists


def _open(path: str | Path, options: ListOptions) -> NumberedLines:
    """A systems file, or a folder of mt-metrics-eval."""
    if os.path.isdir(path):
        from ..mtme.eval_set_folder import is_eval_set_folder
        from ..mtme.eval_set_rows import open_folder

        if is_eval_set_folder(path):
            return open_folder(path, options)
    return open_rows(path, options.columns, "document", refuse_format)


def _lines(rows: Iterator[Row]) -> Iterator[bytes]:
    yield from map(as_line, rows)


FORMATS = (
    Format(
        "systems",
        "a systems file",
        lists_of_documents(_open),
        frozenset({"human", "as_systems", "include", "columns"}),
        keys=("systems",),
        documents=DocumentFormat(
            _open, _lines, holds=frozenset({"human", "metrics", "not_supplied", "ratings"})
        ),
        example='{"id": "d", "systems": {"A": ["a text"], "B": ["b"]}, "human": {"mqm": {"A": [1.5]}}}\n',
    ),
)
