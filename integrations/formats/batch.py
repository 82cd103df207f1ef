"""Output files of OpenAI's batch service and of vLLM's run-batch, joined with the file of requests where it is given.

    output    {"custom_id", "response": {"status_code", "body": {"choices": [...]}}, "error"}
    request   {"custom_id", "body": {"messages": [...]}} or {"custom_id", "body": {"prompt"}}
A list has the choices of all lines of one `custom_id`, of one request with several choices or of several requests; its
id is that. Of the request, `source` is the prompt, or the last message of the user, and `messages` the conversation.
Lists stand in the order of the requests, without these in that of the output, where requests are done in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...metrics.errors import InputError, excerpt
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource
from ...rerank.lists import NOTHING, Candidate, read_list
from ...rerank.runs.entry import Entry
from ..files.entries import ListEntry, error_entry, list_entry, placed
from ..files.list_lines import ListLines
from ..files.reply_choices import is_unfinished, text_of, total_logprob, value_at
from .grouped_lines import GroupedLines

ID = "custom_id"
_FAILED = "Ask again, or leave the line out"


def read_batch(source: LineSource, requests: LineSource | None = None) -> Iterator[ListEntry]:
    """One entry per `custom_id`; an error entry for a request without an output, and for an output of no request.

    Raises:
        InputError: the first line of a file is no JSON object.
    """
    outputs = GroupedLines(source, _key)
    asked: GroupedLines | None = None
    try:
        if requests is None:
            for group in outputs.by_appearance():
                yield _entry(outputs.lines(group), source.name, None)
            return
        asked = GroupedLines(requests, _key)
        yield from _joined(outputs, asked)
    finally:
        outputs.close()
        if asked is not None:
            asked.close()


def _joined(outputs: GroupedLines, requests: GroupedLines) -> Iterator[ListEntry]:
    """The entries of all requests, then those of outputs that nobody asked for."""
    answered: set[int] = set()
    for group in requests.by_appearance():
        lines = requests.lines(group)
        try:
            list_id, request = _request(lines, requests.name)
        except InputError as error:
            yield Entry(None, error, lines.first, lines.raw)
            continue
        output = outputs.find(_named(list_id))
        if output is None:
            missing = InputError(f"no output for {list_id!r:.80}", where=ID, fix=_FAILED)
            yield error_entry(missing, requests.name, lines.first, lines.raw, list_id)
            continue
        answered.add(output)
        lines_of_output = outputs.lines(output)
        entry = _entry(lines_of_output, outputs.name, request)
        yield Entry(entry.record, entry.error, entry.line, lines.raw + entry.raw, entry.id)
    for group in outputs.by_appearance():
        if group in answered:
            continue
        lines = outputs.lines(group)
        entry = _entry(lines, outputs.name, None)
        unasked = InputError("an output of no request", where=ID, fix="Is it the right file?")
        if entry.error is not None:
            yield entry
        else:
            yield error_entry(unasked, outputs.name, lines.first, lines.raw, entry.id)


def _key(number: int, line: bytes) -> str:
    """The id of a line; a name of its own for a line that has none, which is an error later."""
    try:
        value = value_at(parse_json(line), ID)
    except (InputError, RecursionError):
        value = None
    return _named(value) if isinstance(value, str) and value else f"line {number}"


def _named(list_id: str) -> str:
    """The key of an id, which no line has for its number."""
    return f"id {list_id}"


def _request(lines: ListLines, name: str) -> tuple[str, dict[str, Any]]:
    """The id of a request, and the keys of the list that it makes.

    Raises:
        InputError: it is none, or lines of one id ask different things.
    """
    keys: list[dict[str, Any]] = []
    list_id = ""
    for number, line in lines.lines:
        try:
            row = _row(line)
            list_id = row[ID]
            keys.append(_asked(row.get("body")))
            if keys[-1] != keys[0]:
                raise InputError("another question under the same id", where=ID)
        except InputError as error:
            raise placed(error, f"{name}:{number}") from None
    return list_id, keys[0]


def _asked(body: Any) -> dict[str, Any]:
    """The source and the messages of a request."""
    prompt, messages = value_at(body, "prompt"), value_at(body, "messages")
    if isinstance(prompt, str):
        return {"source": prompt}
    if not isinstance(messages, list):
        return {}
    asked: dict[str, Any] = {"messages": messages}
    questions = [value_at(m, "content") for m in messages if value_at(m, "role") == "user"]
    text = _text_in(questions[-1]) if questions else None
    return asked if text is None else {"source": text, **asked}


def _text_in(content: Any) -> str | None:
    """The text of a message, whose parts may stand one by one; None where there is none."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [value_at(part, "text") for part in parts]
    return "".join(text for text in texts if isinstance(text, str)) or None


def _entry(lines: ListLines, name: str, request: Mapping[str, Any] | None) -> ListEntry:
    """The list of the lines of one id, or the error in the first bad one."""
    candidates: list[Candidate] = []
    list_id: str | None = None
    for number, line in lines.lines:
        try:
            row = _row(line)
            list_id = row[ID]
            candidates += _candidates(row)
        except InputError as error:
            in_file = placed(error, f"{name}:{number}")
            return Entry(None, in_file, lines.first, lines.raw, list_id)
    try:
        record = read_list({"id": list_id, "candidates": candidates, **(request or NOTHING)})
    except InputError as error:
        return error_entry(error, name, lines.first, lines.raw, list_id)
    return list_entry(record, lines.first, lines.raw)


def _row(line: bytes) -> dict[str, Any]:
    """The object on a line, which has an id."""
    try:
        row = parse_json(line)
    except RecursionError:
        raise InputError("nested too deeply") from None
    value = value_at(row, ID)
    if not isinstance(value, str) or not value:
        raise InputError(f"found {excerpt(value)}, expected a text", where=ID)
    return dict(row)


def _candidates(row: Mapping[str, Any]) -> list[Candidate]:
    """The candidates in a line.

    Raises:
        InputError: the request failed, or a choice has no text.
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
        return [_output_candidate(output)]
    choices = value_at(body, "choices")
    if not isinstance(choices, list) or not choices:
        raise InputError(
            "no choices", where="response.body", fix="Is it a file of chat or completions?"
        )
    return [_candidate(choice, i) for i, choice in enumerate(_in_order(choices))]


def _in_order(choices: Sequence[Any]) -> list[Any]:
    """The choices by their index, where all have one."""
    indices = [value_at(choice, "index") for choice in choices]
    if not all(type(index) is int for index in indices):
        return list(choices)
    order = sorted(range(len(choices)), key=lambda i: indices[i])
    return [choices[i] for i in order]


def _candidate(choice: Any, number: int) -> Candidate:
    """The candidate of a choice."""
    text = text_of(choice, chat=value_at(choice, "message") is not None)
    if not isinstance(text, str):
        where = f"response.body.choices[{number}]"
        problem = f"found {excerpt(text)}, expected a text"
        raise InputError(problem, where=where, fix="What calls tools or refuses is no candidate")
    fields = {"unfinished": True} if is_unfinished(choice) else NOTHING
    return Candidate(text, total_logprob(choice), fields)


def _output_candidate(output: Sequence[Any]) -> Candidate:
    """The candidate of an answer of the responses endpoint, in messages of several parts."""
    messages = [item for item in output if value_at(item, "type") == "message"]
    parts = [part for item in messages for part in value_at(item, "content") or []]
    texts = [value_at(part, "text") for part in parts]
    written = [text for text in texts if isinstance(text, str)]
    if not written:
        raise InputError("no text", where="response.body.output", fix="Is it an answer in text?")
    return Candidate("".join(written))
