"""The segments that ``score`` reads, from files aligned by line or from one JSONL."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from ....integrations.arrow.arrow_source import ArrowSource
from ....integrations.arrow.open_rows import open_rows
from ....integrations.files.entries import SeenKeys
from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import LineSource
from ....metrics.text.texts import Text
from ....rerank.lists import read_candidate
from ....rerank.runs.output_checks import check_beside
from ...options import needed

BATCH = 4096


class Segment(NamedTuple):
    """One aligned segment of all systems."""

    where: str
    number: int
    hypotheses: Mapping[str, Text]
    references: tuple[Text, ...]
    source: Text | None
    document: str | None


def read_segments(values: Mapping[str, Any]) -> Iterator[Segment]:
    """The segments that the options name."""
    return (
        _from_rows(values["input"], values["columns"]) if values["input"] else _from_files(values)
    )


def batches(segments: Iterator[Segment]) -> Iterator[list[Segment]]:
    """Some thousand segments at a time, whole documents."""
    batch: list[Segment] = []
    seen, last = SeenKeys(), None
    for segment in segments:
        document = segment.document
        if document is not None and document != last and not seen.add(document):
            raise InputError(
                f"{document!r} comes back after another document",
                where=f"{segment.where}: document",
                fix="The segments of one document are adjacent",
            )
        last = document
        if len(batch) >= BATCH and (document is None or document != batch[-1].document):
            yield batch
            batch = []
        batch.append(segment)
    if batch:
        yield batch


def systems_of(segments: Sequence[Segment], known: Mapping[str, Any]) -> list[str]:
    """The systems, which every segment must have."""
    systems = list(known or segments[0].hypotheses)
    for segment in segments:
        if set(segment.hypotheses) != set(systems):
            names = ", ".join(sorted(segment.hypotheses))
            raise InputError(
                f"found systems {names}; the first line has {', '.join(systems)}",
                where=segment.where,
            )
    return systems


def placed(error: InputError, batch: Sequence[Segment]) -> InputError:
    """The error at its line of the input instead of its place in the batch."""
    match = re.fullmatch(r"(\w+)\[(\d+)\](.*)", error.where)
    if match is None:
        return error
    column, i, rest = match.groups()
    where = f"{batch[int(i)].where}: {column}{rest}"
    return InputError(error.problem, where=where, fix=error.fix)


def _from_files(values: Mapping[str, Any]) -> Iterator[Segment]:
    """Segments from files that are aligned by line."""
    names = needed(values, "hypotheses", "--hypotheses")
    if len(set(names)) < len(names):
        raise InputError("a file is given twice", where="--hypotheses", fix="Give each system once")
    num_systems, num_references = len(names), len(values["references"])
    single = [name for name in (values["sources"], values["documents"]) if name]
    files = [*names, *values["references"], *single]
    for name in files:
        check_beside(name)
    columns = [(line.decode() for _, line in LineSource(name)) for name in files]
    for number, lines in enumerate(_together(columns, files), 1):
        hypotheses = lines[:num_systems]
        references = lines[num_systems : num_systems + num_references]
        rest = list(lines[num_systems + num_references :])
        source = rest.pop(0) if values["sources"] else None
        document = rest.pop(0) if values["documents"] else None
        yield Segment(
            f"line {number}",
            number,
            dict(zip(names, hypotheses, strict=True)),
            references,
            source,
            document,
        )


def _together(columns: Sequence[Iterator[str]], names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Lines of all files side by side; InputError with both counts where one is shorter."""
    for number in count():
        lines = [next(column, None) for column in columns]
        if all(line is None for line in lines):
            return
        if None in lines:
            first_longer = next(i for i, line in enumerate(lines) if line is not None)
            num_lines = number + 1 + sum(1 for _ in columns[first_longer])
            raise InputError(
                f"{number} lines, {names[first_longer]} has {num_lines}",
                where=names[lines.index(None)],
                fix="Give files with a segment per line, in the same order",
            )
        yield tuple(line for line in lines if line is not None)


def _from_rows(path: str, columns: Sequence[str]) -> Iterator[Segment]:
    """Segments from one file of JSON lines, or a Parquet or Arrow file."""
    check_beside(path)
    source = open_rows(path, columns, "segment")
    for number, line in source:
        where = source.place(number) if isinstance(source, ArrowSource) else f"{path}:{number}"
        try:
            if number == 1 and not line.lstrip().startswith(b"{"):
                raise _flat_text(path)
            yield _segment(parse_json(line), where, number)
        except InputError as error:
            raise error.inside(where) from None


def _flat_text(path: str) -> InputError:
    """The error for a file of rows that holds plain text."""
    name = shlex.quote(path)
    command = f"discorank score --hypotheses {name} --references REFERENCES -m chrf"
    fix = f"Name files of one text per line by options: {command}"
    return InputError("is no JSON object", fix=fix)


def _segment(row: Any, where: str, number: int) -> Segment:
    """A line of the input."""
    if not isinstance(row, Mapping) or "hypothesis" not in row:
        raise InputError("no hypothesis", fix='Write {"hypothesis": ..., "references": [...]}')
    hypothesis = row["hypothesis"]
    is_by_system = isinstance(hypothesis, Mapping) and "text" not in hypothesis
    systems = hypothesis if is_by_system else {str(row.get("system", "hypothesis")): hypothesis}
    hypotheses = {
        name: read_candidate(text, f"hypothesis.{name}").text for name, text in systems.items()
    }
    source, document = row.get("source"), row.get("document")
    references = _references(row.get("references", []))
    if document is not None and not isinstance(document, str):
        raise InputError(f"found {excerpt(document)}, expected a string", where="document")
    source_text = None if source is None else read_candidate(source, "source").text
    return Segment(where, number, hypotheses, references, source_text, document)


def _references(texts: Any) -> tuple[Text, ...]:
    """The references of a segment: a text or an array of them."""
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, list):
        raise InputError(f"found {excerpt(texts)}, expected an array", where="references")
    return tuple(read_candidate(text, f"references[{i}]").text for i, text in enumerate(texts))
