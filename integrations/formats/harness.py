"""Samples of lm-evaluation-harness (``--log_samples``), of tasks that generate text.

    {"doc_id", "target", "arguments": {"gen_args_0": {"arg_0": prompt}}, "resps": [[text, ...]], "filter"}
A list has the responses to one document: those of ``repeats``, and those of further lines of its `doc_id`, as where the
files of several runs follow each other. The harness writes every document once for each of its filters, with the same
responses, which are taken once. The prompt is the source, the target a reference, and `doc` is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import read_list
from ...rerank.runs.entry import Entry
from ..files.entries import ListEntry, error_entry, list_entry, placed
from ..files.list_lines import ListLines
from ..files.reply_choices import value_at
from .grouped_lines import GroupedLines

_FIX = "Give the samples of a task that generates text"


def read_harness(source: LineSource) -> Iterator[ListEntry]:
    """One entry per `doc_id`, in the order of their first lines.

    Raises:
        InputError: the first line is no JSON object.
    """
    groups = GroupedLines(source, _key)
    try:
        for group in groups.by_appearance():
            yield _entry(groups.lines(group), source.name)
    finally:
        groups.close()


def _key(number: int, line: bytes) -> str:
    """The id of a line; a name of its own for a line that has none, which is an error later."""
    try:
        return f"id {_id(parse_json(line))}"
    except (InputError, RecursionError):
        return f"line {number}"


def _id(row: Any) -> str:
    value = value_at(row, "doc_id")
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        problem = f"found {excerpt(value)}, expected a number or a text"
        raise InputError(problem, where="doc_id", fix=_FIX)
    return str(value)


def _entry(lines: ListLines, name: str) -> ListEntry:
    """The list of the lines of one document, or the error in the first bad one."""
    rows: list[dict[str, Any]] = []
    responses: dict[str, list[str]] = {}  # by filter
    list_id: str | None = None
    for number, line in lines.lines:
        try:
            row = _row(line)
            list_id = _id(row)
            of_filter = responses.setdefault(str(row.get("filter", "none")), [])
            of_filter += _responses(row)
            rows.append(row)
        except InputError as error:
            in_file = placed(error, f"{name}:{number}")
            return Entry(None, in_file, lines.first, lines.raw, list_id)
    try:
        record = read_list({**_keys(rows), "id": list_id, "candidates": _one(responses)})
    except InputError as error:
        return error_entry(error, name, lines.first, lines.raw, list_id)
    return list_entry(record, lines.first, lines.raw)


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = parse_json(line)
    except RecursionError:
        raise InputError("nested too deeply") from None
    if not isinstance(row, dict):
        raise InputError(f"found {excerpt(row)}, expected an object", fix=_FIX)
    return row


def _responses(row: Mapping[str, Any]) -> list[str]:
    """The responses to the one request of a document."""
    requests = row.get("resps")
    if not isinstance(requests, list) or len(requests) != 1:
        problem = f"found {excerpt(requests)}, expected the responses to one request"
        raise InputError(problem, where="resps", fix=_FIX)
    texts = requests[0]
    if not isinstance(texts, list) or not texts or not all(isinstance(t, str) for t in texts):
        raise InputError(f"found {excerpt(texts)}, expected texts", where="resps[0]", fix=_FIX)
    return texts


def _one(responses: Mapping[str, list[str]]) -> list[str]:
    """The responses, which are the same under every filter."""
    first, *others = responses
    for other in others:
        if responses[other] != responses[first]:
            problem = f"other responses under the filter {other!r:.40} than under {first!r:.40}"
            raise InputError(problem, where="resps", fix="Keep the lines of one filter")
    return responses[first]


def _keys(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a list has beside its candidates, which all its lines say alike.

    Raises:
        InputError: they do not.
    """
    first, *others = map(_said, rows)
    for other in others:
        for name in ("source", "references"):
            if other.get(name) != first.get(name):
                problem = "another one under the same doc_id"
                raise InputError(problem, where=name, fix="Are these samples of several tasks?")
    return first


def _said(row: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a list that a line makes."""
    keys: dict[str, Any] = {}
    prompt = _prompt(row.get("arguments"))
    if prompt is not None:
        keys["source"] = prompt
    target = row.get("target")
    targets = target if isinstance(target, list) else [target]
    if targets and all(isinstance(text, str) for text in targets):
        keys["references"] = targets
    if "doc" in row:
        keys["doc"] = row["doc"]
    return keys


def _prompt(arguments: Any) -> str | None:
    """What the model was asked, in any of the forms of the harness; None where it is no text."""
    for key in ("gen_args_0", "arg_0"):
        if isinstance(arguments, dict):
            arguments = arguments.get(key)
    while isinstance(arguments, list) and arguments:
        arguments = arguments[0]
    return arguments if isinstance(arguments, str) else None
