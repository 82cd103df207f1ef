"""The outputs of one system, or of those of a systems file, as texts by segment, whatever kind of file has them.

The first line shows the kind: plain text with a segment per line, rows with a ``text`` as `decode` writes them,
n-best lists, of which the first candidates count, or a systems file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.limits import limits
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import CandidateList
from ...rerank.runs.output_checks import check_beside
from .jsonl import FAIRSEQ
from .open_lists import open_lists
from .systems import read_documents

Texts = tuple[str, ...]

_NBEST = re.compile(rb"\d+ \|\|\| .*? \|\|\| ")
_MARIAN = re.compile(rb"\d+ \|\|\| .*? \|\|\| F\d+=")
_KIND_OF_KEY = MappingProxyType(
    {"systems": "systems", "candidates": "jsonl", "translations": "sockeye", "text": "rows"}
)
ABOUT_KINDS = MappingProxyType(
    {
        "text": "text with a segment per line",
        "rows": "rows with a text",
        "systems": "a systems file",
        "jsonl": "candidate lists",
        "sockeye": "Sockeye's n-best lists",
        "moses": "a Moses n-best list",
        "marian": "a Marian n-best list",
        "fairseq": "a fairseq log",
    }
)
_NUMBERED = frozenset({"moses", "marian"})  # ids are numbers of segments


@dataclass(frozen=True)
class SystemTexts:
    """What a file says of segments.

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
            problem = f"found {ABOUT_KINDS[kind]}, which must be a file"
            raise source.refusal(0, problem, "Write it into a file first")
    if kind == "systems":
        return _systems(path)
    read = _rows if kind == "rows" else _first_candidates(kind)
    return _of_segments(path, read(path))


def kind_of(first: bytes, source: LineSource) -> str:
    """What a file is by its first line.

    Raises:
        InputError: the line is JSON, but of nothing that has texts.

    >>> kind_of(b"0 ||| a text ||| LM0= -1 ||| -1", None)
    'moses'
    """
    line = first.strip()
    if line.startswith(b'{"'):
        return _kind_of_json(line, source)
    if _MARIAN.match(line):
        return "marian"
    if _NBEST.match(line):
        return "moses"
    return "fairseq" if FAIRSEQ.match(line) else "text"


def _kind_of_json(line: bytes, source: LineSource) -> str:
    try:
        row = parse_json(line)
    except RecursionError:
        raise source.refusal(1, "nested too deeply") from None
    except InputError as error:
        raise error.inside(f"{source.name}:1") from None
    for key, kind in _KIND_OF_KEY.items():
        if key in row:
            return kind
    raise source.refusal(
        1,
        f"found {excerpt(row)}, expected an object with {', '.join(_KIND_OF_KEY)}",
        "Give plain text, decoded rows, n-best lists or systems files",
    )


def _plain(path: str, first: bytes, rest: Iterator[tuple[int, bytes]]) -> SystemTexts:
    """Every line is a segment, an empty one too."""
    texts = [first.decode()]
    for number, line in rest:
        limits().check("segments", number, path)
        texts.append(line.decode())
    if texts == [""]:
        raise InputError("no segments", where=path, fix="Give a line per segment")
    return SystemTexts(path, {"": tuple(texts)}, plain=True)


Segment = tuple[Any, str | None, Any]  # text, document, source


def _of_segments(path: str, segments: Iterator[Segment]) -> SystemTexts:
    """One system's segments, with documents and sources where all have them."""
    texts, documents, sources = [], [], []
    for number, (text, document, source) in enumerate(segments, 1):
        limits().check("segments", number, path)
        if not isinstance(text, str):
            problem = f"found {excerpt(text)}, expected the text of one segment"
            raise InputError(problem, where=f"{path}: segment {number}", fix="Give segments")
        texts.append(text)
        documents += [document] if isinstance(document, str) else []
        sources += [source] if isinstance(source, str) else []
    if not texts:
        raise InputError("no segments", where=path, fix="Give a row or list per segment")
    return SystemTexts(
        path,
        {"": tuple(texts)},
        tuple(documents) if len(documents) == len(texts) else None,
        tuple(sources) if len(sources) == len(texts) else None,
    )


def _rows(path: str) -> Iterator[Segment]:
    """The texts of JSON lines that have one each."""
    source = LineSource(path)
    for number, line in without_trailing_blanks(source):
        try:
            row = parse_json(line)
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            raise error.inside(f"{path}:{number}") from None
        if not isinstance(row, Mapping) or "text" not in row:
            raise source.refusal(number, f"found {excerpt(row)}, expected an object with text")
        yield row["text"], row.get("document"), row.get("source")


def _first_candidates(form: str) -> Callable[[str], Iterator[Segment]]:
    """How to read the first candidates of the lists of a form."""

    def read(path: str) -> Iterator[Segment]:
        records = _lists(path, form)
        for record in _in_order(path, records) if form in _NUMBERED else records:
            if not record.candidates:
                problem = f"list {record.id!r:.80} has no candidates"
                raise InputError(problem, where=path, fix="Give at least one")
            yield record.candidates[0].text, record.document, record.source

    return read


def _lists(path: str, form: str) -> Iterator[CandidateList]:
    with open_lists(path, form) as lists:
        for entry in lists:
            if entry.record is None:
                raise entry.error or InputError("nothing was read", where=path)
            yield entry.record


def _in_order(path: str, records: Iterator[CandidateList]) -> list[CandidateList]:
    """The lists in the order of their numbers, of which none is missing."""
    ordered = sorted(records, key=lambda record: _number(path, record.id))
    for before, record in pairwise(ordered):
        if int(record.id) != int(before.id) + 1:
            problem = (
                f"the list {int(before.id) + 1} is missing between {before.id} and {record.id}"
            )
            raise InputError(problem, where=path, fix="Give a list per segment")
    return ordered


def _number(path: str, list_id: str) -> int:
    if not (list_id.isascii() and list_id.isdigit()):
        problem = f"the id {list_id!r:.80}, the first is a number"
        raise InputError(problem, where=path, fix="Number the segments")
    return int(list_id)


def _systems(path: str) -> SystemTexts:
    """The segments of all documents, one after the other."""
    systems: dict[str, list[str]] = {}
    references: dict[str, list[str]] = {}
    documents: list[str] = []
    sources: list[str] = []
    has_human = False
    for document in read_documents(LineSource(path)):
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
        limits().check("segments", len(documents), path)
    return SystemTexts(
        path,
        {name: tuple(texts) for name, texts in systems.items()},
        tuple(documents),
        tuple(sources) if len(sources) == len(documents) else None,
        {name: tuple(texts) for name, texts in references.items()},
        has_human=has_human,
    )
