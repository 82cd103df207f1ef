"""Test sets of WMT as XML, as since 2021: documents with a source, references by translator and outputs by system.

A file is read as a stream, a document at a time. Document types are refused, and with them all entities but the five
of XML: nothing is expanded, nothing is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

from ....metrics.errors import InputError
from ....metrics.storage.limits import limits, more
from ....metrics.storage.line_source import LineSource
from ...files.entries import in_line
from ..format_table import Row
from ..readers.systems import format_of_documents
from .rated_rows import Notes

MAX_DEPTH = 32
_OF_DOCUMENT = ("domain", "origlang", "testsuite")  # attributes that a row has
_LANGUAGES = ("lang", "language")
Element = ElementTree.Element


class _Documents(ElementTree.TreeBuilder):
    """Builds the elements of a file, and hands over each document when it ends."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[Element] = []
        self.complete: list[tuple[Element, dict[str, str]]] = []

    def doctype(self, *declared: object) -> None:
        """Refuses a document type."""
        raise InputError("a document type, expected none", fix="Remove the DOCTYPE")

    def start(self, tag: str, attributes: dict[Any, Any], /) -> Element:
        """Opens an element."""
        if not self._open and tag != "dataset":
            raise InputError(f"found <{tag[:40]}>, expected a <dataset> of WMT")
        if len(self._open) == MAX_DEPTH:
            raise InputError("nested too deeply")
        inside = [element.tag for element in self._open]
        if tag in ("doc", "seg") and tag in inside:
            raise InputError(f"<{tag}> inside another <{tag}>")
        if tag in ("src", "ref", "hyp", "seg") and "doc" not in inside:
            raise InputError(f"<{tag}> outside a document")
        self._open.append(super().start(tag, attributes))
        limits().check("systems", len(self._open[-2]) if tag == "hyp" else 0, "hyp")
        return self._open[-1]

    def end(self, tag: str, /) -> Element:
        """Closes an element; a complete document is kept apart from the others."""
        element = super().end(tag)
        self._open.pop()
        if tag == "doc":
            names = {one.tag: one.get("id") for one in self._open}
            self.complete.append((element, {k: v for k, v in names.items() if v is not None}))
        if self._open and tag in ("doc", "collection"):
            self._open[-1].remove(element)
        return element


def read_wmt_xml(path: str) -> Iterator[Row]:
    """The documents of a file, plain or gzip, as rows.

    Raises:
        InputError: it is no such XML, a document type, or a document that lacks a segment; names the line.
    """
    source = LineSource(path)
    notes = Notes(source.name)
    documents = _Documents()
    parser = ElementTree.XMLParser(target=documents, encoding="utf-8")  # noqa: S314  as above
    number = held = 0
    for number, line in source:
        with in_line(source, number):
            held += len(line) + 1
            if held > limits().line_bytes:
                problem = f"a document or tag of more than {limits().line_bytes} bytes"
                raise InputError(problem, fix=more("line_bytes"))
            with _as_ours():
                parser.feed(line + b"\n")
            for element, names in documents.complete:
                held = 0
                row = _row(element, names)
                if row["source"]:
                    yield row
                else:
                    notes.counts["documents without a segment are left out"] += 1
        documents.complete.clear()
    with in_line(source, max(1, number)), _as_ours():
        parser.close()
    notes.warn()


@contextmanager
def _as_ours() -> Iterator[None]:
    """An error of the parser as an InputError."""
    try:
        yield
    except ElementTree.ParseError as error:
        reason, _, _ = str(error).partition(": line")
        raise InputError(f"no XML: {reason}") from None


def _row(document: Element, names: Mapping[str, str]) -> Row:
    """The row of a document, of a dataset and maybe a collection of these names.

    Raises:
        InputError: it has no id or source, or a text that is not aligned with the source.
    """
    identity = document.get("id")
    if not identity:
        raise InputError("a document without an id")
    parts = [part for part in document if part.tag in ("src", "ref", "hyp")]
    sources = [part for part in parts if part.tag == "src"]
    inside = sum(len(list(part.iter("seg"))) for part in parts)
    try:
        if not sources:
            raise InputError("has no source")
        if inside < len(list(document.iter("seg"))):
            raise InputError("a segment outside a source, reference or hypothesis")
        source = _segments(sources[0])
        row: Row = {"id": identity}
        row |= {key: document.attrib[key] for key in _OF_DOCUMENT if key in document.attrib}
        own = {"collection": names.get("collection"), "test_set": names.get("dataset")}
        own["source_language"] = _language(sources[0])
        targets = [_language(part) for part in parts if part.tag != "src"]
        own["target_language"] = next(filter(None, targets), None)
        row |= {key: value for key, value in own.items() if value is not None}
        if paragraphs := [len(list(p.iter("seg"))) for p in sources[0].iter("p")]:
            row["paragraphs"] = paragraphs
        row |= {"source": list(source.values()), "references": {}, "systems": {}}
        for part in parts:
            if part.tag != "src":
                _add_texts(row, part, source)
    except InputError as error:
        raise error.inside(f"document {identity!r:.80}") from None
    return row


def _language(part: Element) -> str | None:
    return next((part.attrib[key] for key in _LANGUAGES if key in part.attrib), None)


def _segments(part: Element) -> dict[str, str]:
    """The texts of a source, reference or output by the ids of their segments."""
    segments: dict[str, str] = {}
    for segment in part.iter("seg"):
        number = segment.get("id", "")
        if not number or number in segments:
            raise InputError(f"a segment with the id {number!r:.40}, expected a new one")
        segments[number] = "".join(segment.itertext()).strip()
    return segments


def _add_texts(row: Row, part: Element, source: Mapping[str, str]) -> None:
    """Adds the texts of a reference or an output, aligned with the source."""
    is_reference = part.tag == "ref"
    given = part.get("translator" if is_reference else "system", "")
    name = reference_name(given) if is_reference else given
    key = "references" if is_reference else "systems"
    if not name:
        raise InputError("a hypothesis without the name of its system")
    if name in row[key]:
        raise InputError(f"a second <{part.tag}> {given!r:.80}")
    segments = _segments(part)
    for first, other, what in (
        (source, segments, "lacks"),
        (segments, source, "has, and the source not,"),
    ):
        if lacking := [number for number in first if number not in other]:
            problem = f"<{part.tag}> {given!r:.80} {what} segment {lacking[0]:.40}"
            raise InputError(problem, fix="Give every segment of the source")
    row[key][name] = [segments[number] for number in source]


def reference_name(translator: str) -> str:
    """The name of a reference: refA of translator A.

    >>> reference_name("A"), reference_name(""), reference_name("expert")
    ('refA', 'ref', 'expert')
    """
    return f"ref{translator}" if re.fullmatch("[A-Z]?", translator) else translator


FORMATS = (
    format_of_documents(
        "wmt-xml",
        "XML of a WMT test set",
        lambda path, options: read_wmt_xml(path),
        example=(
            '<dataset id="t"><doc id="d"><src lang="en"><p><seg id="1">s</seg></p></src>'
            '<hyp system="A"><p><seg id="1">a text</seg></p></hyp></doc></dataset>\n'
        ),
    ),
)
