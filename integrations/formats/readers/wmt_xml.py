"""Test sets of WMT as XML, as since 2021: documents with a source, references by translator and outputs by system.

It is read as a stream, document by document. There is no document type in it, so none is accepted, and with that no
entities but the five of XML: nothing is expanded, nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.limits import limits, more
from ....metrics.storage.line_source import LineSource
from ..documents import Row, segments_of, texts_of
from ..rated_texts import Notes
from .evaluation_sets import format_of_documents

MAX_DEPTH = 32
_PART_NAME = {"src": None, "ref": "translator", "hyp": "system"}
_LANGUAGES = ("lang", "language")


@dataclass
class _Part:
    """The source, a reference or an output of a document."""

    kind: str
    name: str
    language: str | None
    segments: dict[str, str] = field(default_factory=dict)
    paragraphs: list[int] = field(default_factory=list)


def read_wmt_xml(path: str) -> Iterator[Row]:
    """The documents of a file, plain or gzip, as rows.

    Raises:
        InputError: it is no such XML, a document type, or a document that lacks a segment; names the line.
    """
    return _Reader(LineSource(path)).rows()


class _Reader:
    """The parser's state: where in a document it stands."""

    def __init__(self, source: LineSource) -> None:
        self._source = source
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.buffer_text = True
        self._depth = 0
        self._starts = {
            "doc": self._start_document,
            "p": self._start_paragraph,
            "seg": self._start_segment,
        }
        self._names: dict[str, str | None] = {}  # of the dataset and the collection
        self._document: dict[str, str] | None = None
        self._parts: list[_Part] = []
        self._segment: str | None = None
        self._text: list[str] = []
        self._num_bytes = 0  # of the texts of a document
        self._rows: list[Row] = []
        self._notes = Notes(source.name)

    def rows(self) -> Iterator[Row]:
        fed = 0
        for number, line in self._source:
            piece = line + b"\n"
            self._feed(piece, number)
            fed += len(piece)
            # a tag that does not end is held by the parser
            if fed - self._parser.CurrentByteIndex > limits().line_bytes:
                raise self._source.refusal(number, "a tag without an end", more("line_bytes"))
            yield from self._rows
            self._rows.clear()
        self._feed(b"", 0, is_end=True)
        yield from self._rows
        self._notes.warn()

    def _feed(self, piece: bytes, number: int, is_end: bool = False) -> None:
        try:
            self._parser.Parse(piece, is_end)
        except expat.ExpatError as error:
            problem = f"no XML: {expat.ErrorString(error.code)}"
            raise self._source.refusal(number or error.lineno, problem) from None

    def _refusal(self, problem: str, fix: str = "") -> InputError:
        return self._source.refusal(self._parser.CurrentLineNumber, problem, fix)

    def _doctype(self, *declared: object) -> None:
        raise self._refusal("a document type, expected none", "Remove the DOCTYPE")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refusal("nested too deeply")
        if self._depth == 1 and tag != "dataset":
            raise self._refusal(f"found <{tag[:40]}>, expected a <dataset> of WMT")
        if tag in ("dataset", "collection"):
            self._names[tag] = attributes.get("id")
        elif tag in _PART_NAME:
            self._start_part(tag, attributes)
        elif tag in self._starts:
            self._starts[tag](attributes)

    def _start_document(self, attributes: dict[str, str]) -> None:
        if self._document is not None:
            raise self._refusal("a document inside a document")
        if not attributes.get("id"):
            raise self._refusal("a document without an id")
        self._document, self._parts, self._num_bytes = attributes, [], 0

    def _start_part(self, tag: str, attributes: dict[str, str]) -> None:
        if self._document is None:
            raise self._refusal(f"<{tag}> outside a document")
        language = next((attributes[key] for key in _LANGUAGES if key in attributes), None)
        key = _PART_NAME[tag]
        name = attributes.get(key, "") if key else ""
        if tag == "hyp" and not name:
            raise self._refusal("a hypothesis without the name of its system")
        if any(part.kind == tag and part.name == name for part in self._parts):
            raise self._refusal(f"a second <{tag}> {name!r:.80} in a document")
        self._parts.append(_Part(tag, name, language))
        limits().check("systems", len(self._parts), self._source.name)

    def _start_paragraph(self, attributes: dict[str, str]) -> None:
        if self._parts:
            self._parts[-1].paragraphs.append(0)

    def _start_segment(self, attributes: dict[str, str]) -> None:
        if not self._parts or self._segment is not None:
            raise self._refusal("a segment outside a source, reference or hypothesis")
        number = attributes.get("id", "")
        if not number or number in self._parts[-1].segments:
            raise self._refusal(f"a segment with the id {number!r:.40}, expected a new one")
        self._segment, self._text = number, []

    def _characters(self, text: str) -> None:
        if self._segment is None:
            return
        self._text.append(text)
        self._num_bytes += len(text)
        if self._num_bytes > limits().line_bytes:
            problem = f"a document of more than {limits().line_bytes} characters"
            raise self._refusal(problem, more("line_bytes"))

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "collection":
            self._names[tag] = None
        elif tag == "seg" and self._segment is not None:
            part = self._parts[-1]
            part.segments[self._segment] = "".join(self._text).strip()
            if part.paragraphs:
                part.paragraphs[-1] += 1
            self._segment = None
        elif tag == "doc" and self._document is not None:
            row = self._row(self._document)
            if row["source"]:
                self._rows.append(row)
            else:
                self._notes.counts["documents without a segment are left out"] += 1
            self._document, self._parts = None, []

    def _row(self, attributes: dict[str, str]) -> Row:
        """The row of the document that has just ended."""
        source = next((part for part in self._parts if part.kind == "src"), None)
        if source is None:
            raise self._refusal(f"document {attributes['id']!r:.80} has no source")
        row: Row = {"id": attributes["id"]}
        for key in ("domain", "origlang", "testsuite"):
            if key in attributes:
                row[key] = attributes[key]
        own = {"collection": self._names.get("collection"), "test_set": self._names.get("dataset")}
        own["source_language"] = source.language
        targets = [part.language for part in self._parts if part.kind != "src"]
        own["target_language"] = next((target for target in targets if target), None)
        row |= {key: value for key, value in own.items() if value is not None}
        if source.paragraphs:
            row["paragraphs"] = source.paragraphs
        row["source"] = list(source.segments.values())
        row["references"] = self._texts("ref", source)
        row["systems"] = self._texts("hyp", source)
        return row

    def _texts(self, kind: str, source: _Part) -> dict[str, list[str]]:
        """Texts by name, aligned with the source."""
        texts = {}
        for part in self._parts:
            if part.kind != kind:
                continue
            lacking = [number for number in source.segments if number not in part.segments]
            added = [number for number in part.segments if number not in source.segments]
            if lacking or added:
                what = "lacks" if lacking else "has, and the source not,"
                problem = f"<{kind}> {part.name!r:.80} {what} segment {(lacking or added)[0]:.40}"
                raise self._refusal(problem, "Give every segment of the source")
            name = reference_name(part.name) if kind == "ref" else part.name
            texts[name] = [part.segments[number] for number in source.segments]
        return texts


def reference_name(translator: str) -> str:
    """The name of a reference: refA of translator A.

    >>> reference_name("A"), reference_name(""), reference_name("expert")
    ('refA', 'ref', 'expert')
    """
    return f"ref{translator}" if re.fullmatch("[A-Z]?", translator) else translator


def _translator(name: str) -> str:
    """The translator of a reference; of one that is called ref, none."""
    match = re.fullmatch("ref([A-Z]?)", name)
    return name if match is None else match[1]


def written_wmt_xml(rows: Iterator[Row]) -> Iterator[bytes]:
    """The lines of a file with these documents.

    Raises:
        InputError: a text is missing, or holds a character that XML has not.
    """
    first = next(rows, None)
    test_set = str((first or {}).get("test_set", "testset"))
    collection: str | None = None
    yield b"<?xml version='1.0' encoding='utf-8'?>\n"
    yield f"<dataset id={quoteattr(test_set)}>\n".encode()
    for row in [] if first is None else _chain(first, rows):
        own = row.get("collection")
        if own != collection:
            if collection is not None:
                yield b"  </collection>\n"
            if own is not None:
                yield f"  <collection id={quoteattr(str(own))}>\n".encode()
            collection = own
        yield from _written_document(row)
    if collection is not None:
        yield b"  </collection>\n"
    yield b"</dataset>\n"


def _chain(first: Row, rows: Iterator[Row]) -> Iterator[Row]:
    yield first
    yield from rows


def _written_document(row: Row) -> Iterator[bytes]:
    """The lines of one document."""
    attributes: dict[str, Any] = {
        key: row[key] for key in ("domain", "origlang", "testsuite") if key in row
    }
    # other readers want an original language
    yield _tag("doc", {"origlang": row.get("source_language"), **attributes, "id": row["id"]}, 2)
    source = segments_of(row.get("source"), "source")
    paragraphs = row.get("paragraphs") or [len(source)]
    yield from _part("src", {"lang": row.get("source_language")}, source, paragraphs)
    target = row.get("target_language")
    for name, texts in texts_of(row, "references").items():
        own = {"lang": target, "translator": _translator(name) or None}
        yield from _part("ref", own, texts, paragraphs)
    for name, texts in texts_of(row, "systems").items():
        yield from _part("hyp", {"system": name, "lang": target}, texts, paragraphs)
    yield b"    </doc>\n"


def _part(
    tag: str, attributes: dict[str, str | None], texts: list[str], paragraphs: list[int]
) -> Iterator[bytes]:
    """The lines of a source, reference or hypothesis."""
    yield _tag(tag, attributes, 3)
    number = 0
    for size in paragraphs:
        yield b"        <p>\n"
        for text in texts[number : number + size]:
            number += 1
            _check_characters(text, f"{tag} segment {number}")
            yield f'          <seg id="{number}">{escape(text)}</seg>\n'.encode()
        yield b"        </p>\n"
    yield f"      </{tag}>\n".encode()


def _tag(tag: str, attributes: dict[str, str | None], depth: int) -> bytes:
    given = [f" {key}={quoteattr(str(value))}" for key, value in attributes.items() if value]
    return f"{'  ' * depth}<{tag}{''.join(given)}>\n".encode()


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _check_characters(text: str, where: str) -> None:
    if match := _NO_XML.search(text):
        raise InputError(
            f"found the character {excerpt(match[0])}, which XML has not",
            where=where,
            fix="Leave it out",
        )


FORMATS = (
    format_of_documents(
        "wmt-xml",
        "XML of a WMT test set",
        read_wmt_xml,
        lines=written_wmt_xml,
        example=(
            '<dataset id="t"><doc id="d"><src lang="en"><p><seg id="1">s</seg></p></src>'
            '<hyp system="A"><p><seg id="1">a text</seg></p></hyp></doc></dataset>\n'
        ),
    ),
)
