"""The systems file, one document per line with the texts of several systems, as candidate lists of its segments.

A segment i of document d becomes the list ``d:i`` of d at position i, its candidates the systems' texts with ``system``
and the human scores they have, each under its dimension's name; a score for the whole document stands at every segment.
A document of plain strings becomes one whole-text list with its own id. Keys with a text or a number are passed on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import NumberedLines, without_trailing_blanks
from ...rerank.selection.document_outputs import DocumentOutputs
from ..files.entries import ListEntry, error_entry, list_entry, placed
from ..files.seen_keys import SeenKeys
from .human_scores import HumanKey
from .jsonl import id_of, misspelt, read_objects
from .systems_document import SystemsDocument, read_document


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
            document = _document(data, chosen)
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
            outputs = _document(data, chosen).outputs()
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


def _document(data: Any, options: SystemsOptions) -> SystemsDocument:
    return read_document(data, options.human, options.as_systems, options.include)


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
