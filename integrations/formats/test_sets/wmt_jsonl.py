"""WMT's JSON lines: a segment per line, with the document it stands in.

Read are the keys of WMT24++ (``document_id``, ``source``, ``target``, ``original_target``, ``domain``, ``lp``) and of
WMT25 (``doc_id``, ``src_text``, ``tgt_text`` by system, ``refs`` by name). Lines of one document stand together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.limits import limits
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.runs.rows import as_line
from .document_rows import Row, segments_of, texts_of

_DOCUMENT_KEYS = ("doc_id", "document_id", "docid")
_SOURCE_KEYS = ("source", "src_text", "src")
_REFERENCE_KEYS = {"target": "refA", "original_target": "original", "ref": "ref"}
_OUTPUT_KEYS = ("tgt_text", "outputs", "hypotheses")
_DOCUMENT_FIELDS = {  # texts that hold for the document, as the row has them
    "domain": "domain",
    "lp": "language_pair",
    "collection_id": "collection",
    "dataset_id": "test_set",
    "src_lang": "source_language",
    "tgt_lang": "target_language",
}


def read_wmt_jsonl(path: str) -> Iterator[Row]:
    """The documents of a file, plain or gzip, as rows.

    Raises:
        InputError: a line that is no segment, or another shape than the document's first; names the line.
    """
    source = LineSource(path)
    row: Row | None = None
    first_names: list[str] = []
    for number, line in without_trailing_blanks(source):
        segment = _object(line, source, number)
        try:
            document = _text(segment, _DOCUMENT_KEYS) or f"{number}"
            texts = _texts(segment)
            if row is None or row["id"] != document:
                if row is not None:
                    yield row
                row, first_names = _new_row(segment, document, texts), sorted(texts)
            elif sorted(texts) != first_names:
                raise InputError(
                    f"texts {', '.join(sorted(texts))[:200]}; the document begins with "
                    f"{', '.join(first_names)[:200]}",
                    fix="Give the same texts of every segment of a document",
                )
            _add(row, texts)
            limits().check("sentences", len(row["source"]), f"document {document!r:.80}")
        except InputError as error:
            raise error.inside(f"{source.name}:{number}") from None
    if row is not None:
        yield row


def _object(line: bytes, source: LineSource, number: int) -> dict[str, Any]:
    try:
        value = parse_json(line)
    except (InputError, RecursionError) as error:
        problem = error.problem if isinstance(error, InputError) else "nested too deeply"
        raise source.refusal(number, problem, "Write one object per line") from None
    if not isinstance(value, dict):
        raise source.refusal(number, f"found {excerpt(value)}, expected an object")
    return value


def _text(segment: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    """The text under the first of some keys that is there."""
    for key in keys:
        if key in segment:
            if not isinstance(segment[key], str):
                raise InputError(f"found {excerpt(segment[key])}, expected a text", where=key)
            return str(segment[key])
    return None


def _texts(segment: Mapping[str, Any]) -> dict[str, str]:
    """All texts of a segment: ``source``, ``references.NAME``, ``systems.NAME``."""
    source = _text(segment, _SOURCE_KEYS)
    if source is None:
        raise InputError("no source", fix=f"Expected one of {', '.join(_SOURCE_KEYS)}")
    texts = {"source": source}
    for key, name in _REFERENCE_KEYS.items():
        if segment.get(key) is not None:
            texts[f"references.{name}"] = _one(segment[key], key)
    for name, value in _by_name(segment, "refs").items():
        texts[f"references.{name}"] = _one(value, f"refs.{name}")
    for key in _OUTPUT_KEYS:
        for name, value in _by_name(segment, key).items():
            texts[f"systems.{name}"] = _one(value, f"{key}.{name}")
    return texts


def _by_name(segment: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = segment.get(key)
    if value is None:
        return {}
    if isinstance(value, str):
        system = segment.get("system")
        return {system if isinstance(system, str) and system else "hypothesis": value}
    if not isinstance(value, dict):
        raise InputError(f"found {excerpt(value)}, expected texts by name", where=key)
    limits().check("systems", len(value), key)
    if "" in value:
        raise InputError("a text without a name", where=key, fix="Name every system and reference")
    return value


def _one(value: Any, where: str) -> str:
    """A text, or that of an object with ``ref`` or ``text``."""
    if isinstance(value, dict):
        value = value.get("ref", value.get("text"))
    if not isinstance(value, str):
        raise InputError(f"found {excerpt(value)}, expected a text", where=where)
    return value


def _new_row(segment: Mapping[str, Any], document: str, texts: Mapping[str, str]) -> Row:
    row: Row = {"id": document}
    for key, name in _DOCUMENT_FIELDS.items():
        if isinstance(segment.get(key), str):
            row[name] = segment[key]
    names = [name.partition(".") for name in texts]
    row["source"] = []
    row["references"] = {name: [] for kind, _, name in names if kind == "references"}
    row["systems"] = {name: [] for kind, _, name in names if kind == "systems"}
    return row


def _add(row: Row, texts: Mapping[str, str]) -> None:
    """Appends the texts of one more segment."""
    for place, text in texts.items():
        kind, _, name = place.partition(".")
        (row[kind][name] if name else row[kind]).append(text)


def written_wmt_jsonl(rows: Iterator[Row]) -> Iterator[bytes]:
    """A line per segment, with the keys of WMT25; errors as `texts_of`."""
    for row in rows:
        own = {key: row[name] for key, name in _DOCUMENT_FIELDS.items() if name in row}
        references, systems = texts_of(row, "references"), texts_of(row, "systems")
        for i, source in enumerate(segments_of(row.get("source"), "source")):
            line: Row = {**own, "doc_id": row["id"], "segment_id": i + 1, "src_text": source}
            line["refs"] = {name: {"ref": texts[i]} for name, texts in references.items()}
            line["tgt_text"] = {name: texts[i] for name, texts in systems.items()}
            yield as_line(line)
