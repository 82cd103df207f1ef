"""The systems file, one document per line with the texts of several systems, as candidate lists of its segments.

A segment i of document d becomes the list ``d:i`` of d at position i, its candidates the systems' texts with ``system``
and the human scores they have, each under its dimension's name; a score for the whole document stands at every segment.
A document of plain strings becomes one whole-text list with its own id. Keys with a text or a number are passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.text.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import CandidateList, read_list
from ...rerank.selection.document_outputs import DocumentOutputs
from ..files.entries import Entry, bad, good
from ..files.seen_keys import SeenKeys
from ..files.strict_json import parse_json
from .human_scores import ByDimension, HumanKey, human_scores
from .jsonl import identity, read_objects

Texts = str | list[Any]
_READ = frozenset({"id", "source", "references", "systems", "human"})
_TAKEN = frozenset({"document", "position", "candidates", "pseudo_references", "context_only"})
_FIELDS = frozenset({"text", "system", "logprob", "roles", "foci", "rst"})


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

    def whole(self) -> CandidateList:
        """The candidate list of a document of plain strings; errors as `segment`."""
        return read_list({"id": self.id, **self._row(None)})

    def segment(self, i: int) -> CandidateList:
        """The candidate list of segment i.

        Raises:
            InputError: a text is missing.
        """
        return read_list(
            {"id": f"{self.id}:{i}", "document": self.id, "position": i, **self._row(i)}
        )

    def outputs(self) -> DocumentOutputs:
        """The document as system selection reads it, all its segments; errors as `segment`."""
        source = None if self.source is None else self._all(self.source, "source")
        return DocumentOutputs(
            self.id,
            self.segments is None,
            source,
            {name: self._all(texts, f"systems.{name}") for name, texts in self.systems.items()},
            {
                name: self._all(texts, f"references.{name}")
                for name, texts in self.references.items()
            },
            {dimension: self._judged(scores) for dimension, scores in self.human.items()},
        )

    def _all(self, texts: Texts, where: str) -> tuple[str, ...]:
        """The texts of all segments."""
        segments = [None] if self.segments is None else range(self.segments)
        return tuple(_text(texts, i, where) for i in segments)

    def _judged(self, scores: Mapping[str, Any]) -> dict[str, tuple[float | None, ...] | float]:
        """The scores of one dimension without the systems that have none."""
        lists = {
            name: tuple(given) if isinstance(given, list) else given
            for name, given in scores.items()
        }
        return {name: given for name, given in lists.items() if given is not None}

    def _row(self, i: int | None) -> dict[str, Any]:
        candidates = [
            {"text": _text(texts, i, f"systems.{name}"), "system": name, **self._scores(name, i)}
            for name, texts in self.systems.items()
        ]
        references = [
            _text(texts, i, f"references.{name}") for name, texts in self.references.items()
        ]
        row: dict[str, Any] = {"candidates": candidates, "references": references, **self.metadata}
        if self.source is not None:
            row["source"] = self.source if i is None else _text(self.source, i, "source")
        return row

    def _scores(self, name: str, i: int | None) -> dict[str, float]:
        """The human scores of a system's text, those there are."""
        found = {}
        for dimension, scores in self.human.items():
            value = scores.get(name)
            if isinstance(value, list):
                value = None if i is None else value[i]
            if value is not None:
                found[dimension] = value
        return found


def read_systems(source: LineSource, options: SystemsOptions | None = None) -> Iterator[Entry]:
    """One entry per segment, or one error entry for a document that cannot be read; errors as `read_jsonl`."""
    chosen = options or SystemsOptions()

    def read(name: str, number: int, line: bytes) -> Iterator[Entry]:
        raw, data = line + b"\n", None
        try:
            data = parse_json(line)
            document = read_document(data, chosen)
        except RecursionError:
            yield bad(InputError("nested too deeply"), name, number, raw, identity(data))
        except InputError as error:
            yield bad(_within(error, identity(data)), name, number, raw, identity(data))
        else:
            yield from _entries(document, name, number, raw)

    return read_objects(source, read)


def read_documents(
    source: LineSource, options: SystemsOptions | None = None
) -> Iterator[DocumentOutputs]:
    """The documents themselves.

    Raises:
        InputError: the first line that is no document or has the id of an earlier one; with file, line, document and
            system.
    """
    chosen, seen = options or SystemsOptions(), SeenKeys()
    for number, line in without_trailing_blanks(source):
        data = None
        try:
            data = parse_json(line)
            outputs = read_document(data, chosen).outputs()
            if not seen.add(outputs.id):
                raise InputError(
                    "there was a document of this id before", where="id", fix="Give each its own"
                )
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            raise _within(error, identity(data)).inside(f"{source.name}:{number}") from None
        yield outputs


def _entries(document: SystemsDocument, name: str, number: int, raw: bytes) -> Iterator[Entry]:
    whole = document.segments is None
    for i in range(document.segments or 1):
        try:
            yield good(document.whole() if whole else document.segment(i), number, raw)
        except InputError as error:
            listed = document.id if whole else f"{document.id}:{i}"
            yield bad(_within(error, document.id), name, number, raw, listed)
        raw = b""


def _within(error: InputError, document: str | None) -> InputError:
    if document is None:
        return error
    place = f"document {document!r:.80}"
    return InputError(
        error.problem, where=f"{place}: {error.where}" if error.where else place, fix=error.fix
    )


def read_document(data: Any, options: SystemsOptions) -> SystemsDocument:
    """A document from its JSON form.

    Raises:
        InputError: something is missing, of the wrong type or of another length; `where` names the system.
    """
    if not isinstance(data, Mapping) or identity(data) is None:
        raise InputError("found no id, expected an object with id and systems", where="id")
    systems = _systems(data, options.include)
    first = next(iter(systems))
    segments = len(systems[first]) if isinstance(systems[first], list) else None
    if segments == 0:
        raise InputError("no segments", where=f"systems.{first}")
    references = _references(data.get("references"), segments)
    if twice := [name for name in references if name in systems]:  # human scores go by name
        raise InputError(
            "there is a system of this name already",
            where=f"references.{twice[0]}",
            fix="Rename it",
        )
    for key, given in (
        ("systems", systems),
        ("references", references),
        ("source", {"": data.get("source")}),
    ):
        for name, texts in given.items():
            _check_shape(texts, segments, f"{key}.{name}".rstrip("."), first)
    human = human_scores(data, options.human, [*systems, *references], segments)
    if taken := _FIELDS & set(human):
        raise InputError(
            "is a key of candidates",
            where=f"human.{min(taken)}",
            fix="Give the dimension another name",
        )
    for name in options.as_systems:
        systems[name] = _reference(references, name)
    return SystemsDocument(
        data["id"], segments, data.get("source"), systems, references, human, _metadata(data)
    )


def _systems(data: Mapping[str, Any], include: Sequence[str]) -> dict[str, Texts]:
    found: dict[str, Texts] = {}
    for key in ("systems", *include):
        if key not in data and key == "systems":
            raise InputError("not there, expected texts by system", where=key)
        if key not in data:
            raise unknown("key", key, data)
        given = data[key] or {}
        if not isinstance(given, Mapping):
            raise InputError(f"found {type(given).__name__}, expected texts by system", where=key)
        for name, texts in given.items():
            if name in found:
                raise InputError(
                    "there is a system of this name already", where=f"{key}.{name}", fix="Rename it"
                )
            found[name] = texts
    if not found:
        raise InputError("no systems, expected at least one", where="systems")
    return found


def _references(given: Any, segments: int | None) -> dict[str, Texts]:
    """References by name; ``reference``, ``reference1``, ... where they have none."""
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return dict(given)
    several = isinstance(given, list) and (
        segments is None or any(isinstance(texts, list) for texts in given)
    )
    return (
        {f"reference{i}": texts for i, texts in enumerate(given, 1)}
        if several
        else {"reference": given}
    )


def _reference(references: dict[str, Texts], name: str) -> Texts:
    """Takes a reference out, to be a system."""
    if name not in references:
        raise unknown("reference to read as a system", name, references, where="references")
    return references.pop(name)


def _check_shape(texts: Any, segments: int | None, where: str, first: str) -> None:
    if where == "source" and (texts is None or segments is None):
        return
    if segments is None:
        if not isinstance(texts, str):
            raise InputError(
                f"found {type(texts).__name__}, expected a string like {first!r:.40} has",
                where=where,
            )
    elif not isinstance(texts, list):
        raise InputError(
            f"found {type(texts).__name__}, expected a list of {segments} texts", where=where
        )
    elif len(texts) != segments:
        raise InputError(f"{len(texts)} segments, system {first!r:.40} has {segments}", where=where)


def _text(texts: Texts, i: int | None, where: str) -> str:
    found = texts if i is None else texts[i]
    if isinstance(found, str):
        return found
    place = where if i is None else f"{where}[{i}]"
    if found is None:
        raise InputError(
            "missing segment (null), expected a text",
            where=place,
            fix="Leave the system out instead",
        )
    raise InputError(f"found {type(found).__name__}, expected a text", where=place)


def _metadata(data: Mapping[str, Any]) -> dict[str, Any]:
    found = {k: v for k, v in data.items() if k not in _READ and isinstance(v, str | int | float)}
    if taken := _TAKEN & set(found):
        raise InputError(
            "is a key of candidate lists", where=min(taken), fix="Give the key another name"
        )
    return found
