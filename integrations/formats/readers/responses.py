"""Responses of language models in files of requests: OpenAI's batch service, vLLM's run-batch, lm-evaluation-harness.

    batch     {"custom_id", "response": {"status_code", "body": {"choices": [...]}}, "error"}
    requests  {"custom_id", "body": {"messages": [...]}} or {"custom_id", "body": {"prompt"}}
    lm-eval   {"doc_id", "doc", "target", "arguments": {"gen_args_0": {"arg_0": prompt}}, "resps": [[text, ...]],
               "filter"}
Lines of one id are a list, wherever they stand: of one request with several choices or of several requests, of
``repeats`` or of several runs of the harness. Of a request, ``source`` is the prompt, or the last message of the
user, and ``messages`` the conversation; batches stand in the order of the requests, without these in that of the
output. The harness writes every document once for each of its filters, with the same responses, which are taken once,
also where versions before 0.4.7 do not name the filter; its prompt is the source, the target a reference, and ``doc``
is passed on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from math import gcd
from operator import itemgetter
from pathlib import Path
from typing import Any

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import LineSource
from ....rerank.lists import Candidate, read_list, with_digits
from ....rerank.messages import user_text, value_at
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, error_entry, in_line, list_entry, placed, typed
from ...files.line_spool import GroupedLines, IdOf
from ...files.reply_choices import candidate_of
from ..format_table import Format, ListOptions, OpenedFiles, one_file
from .jsonl import recognised_lines

ID = "custom_id"
_FAILED = "Ask again, or leave the line out"
_TASK = "Give the samples of a task that generates text"


def _grouped(source: LineSource, id_of: IdOf) -> GroupedLines:
    """The lines of a file by their ids; InputError where the first that is not empty is no JSON object."""
    return GroupedLines(source.name, recognised_lines(source), id_of)


def read_batch(source: LineSource, requests: LineSource | None = None) -> Iterator[ListEntry]:
    """One entry per `custom_id`; an error entry for a request without an output, and for an output of no request.

    Raises:
        InputError: the first line of a file is no JSON object.
    """
    with ExitStack() as opened:
        outputs = opened.enter_context(closing(_grouped(source, _batch_id)))
        answered: set[int] = set()
        if requests is not None:
            asked = opened.enter_context(closing(_grouped(requests, _batch_id)))
            for group in asked.by_appearance():
                yield _answer(asked.lines(group), requests, outputs, answered)
        for group in outputs.by_appearance():
            if group in answered:
                continue
            lines = outputs.lines(group)
            entry = _batch_entry(lines, source.name, {})
            if requests is not None and entry.error is None:
                unasked = InputError(
                    "an output of no request", where=ID, fix="Is it the right file?"
                )
                entry = error_entry(unasked, source.name, lines.first, lines.raw, entry.id)
            yield entry


def _answer(
    lines: ListLines, requests: LineSource, outputs: GroupedLines, answered: set[int]
) -> ListEntry:
    """The entry of the requests of one id; the group of their output is marked as answered."""
    asked: list[dict[str, Any]] = []
    for number, line in lines.lines:
        try:
            with in_line(requests, number):
                row = parse_json(line)
                list_id = _batch_id(row)
                asked.append(_asked(value_at(row, "body")))
                if asked[-1] != asked[0]:
                    raise InputError("another question under the same id", where=ID)
        except InputError as error:
            return Entry(None, error, lines.first, lines.raw)
    output = outputs.find(list_id)
    if output is None:
        missing = InputError(f"no output for {list_id!r:.80}", where=ID, fix=_FAILED)
        return error_entry(missing, requests.name, lines.first, lines.raw, list_id)
    answered.add(output)
    entry = _batch_entry(outputs.lines(output), outputs.name, asked[0])
    return Entry(entry.record, entry.error, entry.line, lines.raw + entry.raw, entry.id)


def _batch_id(row: Any) -> str:
    """The id of a line; raises InputError where it has none."""
    value = value_at(row, ID)
    if not isinstance(value, str) or not value:
        raise InputError(f"found {excerpt(value)}, expected a text", where=ID)
    return value


def _asked(body: Any) -> dict[str, Any]:
    """The source and the messages of a request."""
    prompt, messages = value_at(body, "prompt"), value_at(body, "messages")
    if isinstance(prompt, str):
        return {"source": prompt}
    if not isinstance(messages, list):
        return {}
    text = user_text(messages)
    return {**({} if text is None else {"source": text}), "messages": messages}


def _batch_entry(lines: ListLines, name: str, request: Mapping[str, Any]) -> ListEntry:
    """The list of the lines of one id; failed lines are left out and counted; if all failed, the list is an error."""
    candidates: list[Candidate] = []
    faults: list[tuple[InputError, int]] = []
    list_id: str | None = None
    for number, line in lines.lines:
        try:
            row = parse_json(line)
            list_id = _batch_id(row)
            for place, choice in _choices(row):
                try:
                    candidates.append(candidate_of(choice))
                except InputError as error:
                    faults.append((InputError(error.problem, where=place, fix=error.fix), number))
        except InputError as error:
            faults.append((error, number))
    if not candidates:
        fault, number = faults[0]
        in_file = placed(fault, f"{name}:{number}")
        return Entry(None, in_file, lines.first, lines.raw, list_id)
    missing = _missing([fault for fault, _ in faults])
    row = {"id": list_id, "candidates": candidates, **missing, **request}
    return _list_entry(row, name, lines)


def _list_entry(row: Mapping[str, Any], name: str, lines: ListLines) -> ListEntry:
    try:
        return list_entry(read_list(row), lines.first, lines.raw)
    except InputError as error:
        return error_entry(error, name, lines.first, lines.raw, row["id"])


def _missing(faults: Sequence[InputError]) -> dict[str, Any]:
    """The keys of a list that say how many candidates are missing, and why the first is; none where none is."""
    if not faults:
        return {}
    return {"missing_candidates": len(faults), "missing_because": str(faults[0])}


def _choices(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The choices in a line by their index, where all have one, and where each is.

    Raises:
        InputError: the request failed.
    """
    response = row.get("response")
    status = value_at(response, "status_code")
    body = value_at(response, "body")
    failure = row.get("error") or (value_at(body, "error") if status != 200 else None)
    if failure is not None or not isinstance(response, dict) or status not in (200, None):
        problem = f"the request failed: {status or ''} {excerpt(failure)}".replace("  ", " ")
        raise InputError(problem, where="response", fix=_FAILED)
    output = value_at(body, "output")
    if isinstance(output, list):
        return [("response.body.output", output)]
    choices = value_at(body, "choices")
    if not isinstance(choices, list) or not choices:
        fix = "Is it a file of chat or completions?"
        raise InputError("no choices", where="response.body", fix=fix)
    if all(type(value_at(choice, "index")) is int for choice in choices):
        choices = sorted(choices, key=itemgetter("index"))
    return [(f"response.body.choices[{i}]", choice) for i, choice in enumerate(choices)]


@dataclass(frozen=True)
class _Sample:
    """A line of the harness: the responses to the one request of a document under one filter."""

    doc_id: int | str
    resps: list[list[str | None]]
    arguments: Any = None
    target: Any = None
    filter: Any = "none"


def read_harness(source: LineSource) -> Iterator[ListEntry]:
    """One entry per `doc_id`, in the order of their first lines.

    Raises:
        InputError: the first line is no JSON object.
    """
    with closing(_grouped(source, _sample_id)) as groups:
        for group in groups.by_appearance():
            yield _sample_entry(groups.lines(group), source)


def _sample_id(row: Any) -> str:
    value = typed(int | str, value_at(row, "doc_id"), "doc_id", _TASK)
    if value == "":
        raise InputError("is empty", where="doc_id", fix=_TASK)
    return str(value)


def _sample_entry(lines: ListLines, source: LineSource) -> ListEntry:
    """The list of the lines of one document, or the error in the first bad one."""
    rows: list[dict[str, Any]] = []
    responses: dict[str, list[tuple[str | None, ...]]] = {}  # of every line, by filter
    list_id: str | None = None
    for number, line in lines.lines:
        try:
            with in_line(source, number):
                row = parse_json(line)
                list_id = _sample_id(row)
                sample: _Sample = typed(_Sample, row, fix=_TASK)
                if len(sample.resps) != 1 or not any(sample.resps[0]):
                    problem = f"found {excerpt(sample.resps)}, expected texts of one request"
                    raise InputError(problem, where="resps", fix=_TASK)
                own = responses.setdefault(str(sample.filter), [])
                own.append(tuple(sample.resps[0]))
                rows.append(_keys(sample, row))
        except InputError as error:
            return Entry(None, error, lines.first, lines.raw, list_id)
    try:
        row = _of_all(rows)
        every = _responses(responses)
    except InputError as error:
        return error_entry(error, source.name, lines.first, lines.raw, list_id)
    texts = [text for text in every if text is not None]
    null = InputError("found no text", where="resps[0]")
    missing = _missing([null] * (len(every) - len(texts)))
    return _list_entry({**row, "id": list_id, "candidates": texts, **missing}, source.name, lines)


def _responses(
    responses: Mapping[str, list[tuple[str | None, ...]]],
) -> list[str | None]:
    """The responses of a document, which are the same under every filter.

    Lines under one name of versions before lm-eval 0.4.7 repeat all of them for every filter.
    """
    by_filter: dict[str, list[str | None]] = {}
    for name, lines in responses.items():
        counts = Counter(lines)
        num_filters = gcd(*counts.values())
        by_filter[name] = [
            text for own, count in counts.items() for text in own * (count // num_filters)
        ]
    first, *others = by_filter
    for other in others:
        if by_filter[other] != by_filter[first]:
            problem = f"other responses under the filter {other!r:.40} than under {first!r:.40}"
            raise InputError(problem, where="resps", fix="Keep the lines of one filter")
    return by_filter[first]


def _of_all(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys of a list, which all its lines have alike; raises InputError where they have not."""
    first, *others = rows
    for other in others:
        for name in ("source", "references"):
            if other.get(name) != first.get(name):
                fix = "Are these samples of several tasks?"
                raise InputError("another one under the same doc_id", where=name, fix=fix)
    return first


def _keys(sample: _Sample, row: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a list that a line makes, beside its candidates; the prompt may have any form of the harness."""
    keys: dict[str, Any] = {}
    prompt = sample.arguments
    for key in ("gen_args_0", "arg_0"):
        prompt = prompt.get(key) if isinstance(prompt, dict) else prompt
    while isinstance(prompt, list) and prompt:
        prompt = prompt[0]
    if isinstance(prompt, str):
        keys["source"] = prompt
    target = sample.target
    targets = list(map(with_digits, target if isinstance(target, list) else [target]))
    if targets and all(isinstance(text, str) for text in targets):
        keys["references"] = targets
    return keys | ({"doc": row["doc"]} if "doc" in row else {})


def _open_batch(path: str | Path, options: ListOptions) -> OpenedFiles:
    source = LineSource(path)
    if options.requests is None:
        return [source], read_batch(source)
    requests = LineSource(options.requests)
    return [source, requests], read_batch(source, requests)


FORMATS = (
    Format(
        "batch",
        "the output of a batch of requests",
        _open_batch,
        frozenset({"requests"}),
        keys=("custom_id",),
        example='{"custom_id": "a", "response": {"body": {"choices": [{"text": "a text"}]}}}\n',
    ),
    Format(
        "lm-eval",
        "samples of lm-evaluation-harness",
        one_file(read_harness),
        keys=("resps",),
        example='{"doc_id": 0, "target": "r", "arguments": [["q", {}]], "resps": [["a text", "b"]]}\n',
    ),
)
