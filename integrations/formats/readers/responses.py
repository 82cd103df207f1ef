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

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import gcd
from operator import itemgetter
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....metrics.errors import InputError, excerpt
from ....metrics.storage.checksums import DIGEST_BYTES
from ....metrics.storage.json_and_yaml import parse_json
from ....metrics.storage.line_source import LineSource, without_trailing_blanks
from ....rerank.lists import NOTHING, Candidate, read_list, with_digits
from ....rerank.messages import user_text, value_at
from ....rerank.runs.resumable import Entry
from ...files.entries import ListEntry, ListLines, error_entry, json_object, list_entry, placed
from ...files.reply_choices import candidate_of
from ..format_table import Format, ListOptions, OpenedFiles, one_file
from .jsonl import recognise

SPOOL_BYTES = 64 << 20
KeyOf = Callable[[int, bytes], str]  # the key of a line, of its number and its bytes


class GroupedLines:
    """The lines of a file in groups, those of a group in their order.

    Args:
        source: the file, read to its end at once.
        key_of: the key of a line.

    Raises:
        InputError: the first line that is not empty is no JSON object.
    """

    def __init__(self, source: LineSource, key_of: KeyOf) -> None:
        self.name = source.name
        digests = bytearray()
        self._numbers, self._offsets, self._sizes = array("q"), array("q"), array("q")
        self._file = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115  closed by `close`
        try:
            is_recognised = False
            for number, line in without_trailing_blanks(source):
                if line.strip() and not is_recognised:
                    recognise(source, number, line)
                    is_recognised = True
                digests += _digest(key_of(number, line))
                self._numbers.append(number)
                self._offsets.append(self._file.tell())
                self._sizes.append(len(line))
                self._file.write(line)
        except BaseException:
            self.close()
            raise
        keys = np.frombuffer(bytes(digests), dtype=f"S{DIGEST_BYTES}")
        # lines by group, and where each group begins
        self._order: NDArray[np.int64] = np.argsort(keys, kind="stable")
        self._keys, self._starts = np.unique(keys[self._order], return_index=True)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self._keys)

    def close(self) -> None:
        """Removes the temporary file."""
        self._file.close()

    def by_appearance(self) -> Iterator[int]:
        """The groups in the order of their first lines."""
        first_lines = self._order[self._starts]
        yield from np.argsort(first_lines, kind="stable").tolist()

    def find(self, key: str) -> int | None:
        """The group of a key; None if there is none."""
        digest = np.frombuffer(_digest(key), dtype=f"S{DIGEST_BYTES}")
        group = int(np.searchsorted(self._keys, digest)[0])
        return group if group < len(self) and self._keys[group] == digest[0] else None

    def lines(self, group: int) -> ListLines:
        """The lines of a group.

        Raises:
            InputError: more than a list may have.
        """
        end = self._starts[group + 1] if group + 1 < len(self) else len(self._order)
        lines = ListLines(self.name)
        for i in self._order[self._starts[group] : end].tolist():
            self._file.seek(self._offsets[i])
            lines.add((self._numbers[i], self._file.read(self._sizes[i])))
        return lines


def _digest(key: str) -> bytes:
    return blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def key_by(id_of: Callable[[Any], str]) -> KeyOf:
    """The key of a line by its id; a name of its own for a line that has none, which is an error later."""

    def key(number: int, line: bytes) -> str:
        try:
            return f"id {id_of(parse_json(line))}"
        except InputError:
            return f"line {number}"

    return key


ID = "custom_id"
_FAILED = "Ask again, or leave the line out"


def read_batch(source: LineSource, requests: LineSource | None = None) -> Iterator[ListEntry]:
    """One entry per `custom_id`; an error entry for a request without an output, and for an output of no request.

    Raises:
        InputError: the first line of a file is no JSON object.
    """
    outputs = GroupedLines(source, key_by(_batch_id))
    asked: GroupedLines | None = None
    try:
        if requests is None:
            for group in outputs.by_appearance():
                yield _batch_entry(outputs.lines(group), source.name, None)
            return
        asked = GroupedLines(requests, key_by(_batch_id))
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
        output = outputs.find(f"id {list_id}")
        if output is None:
            missing = InputError(f"no output for {list_id!r:.80}", where=ID, fix=_FAILED)
            yield error_entry(missing, requests.name, lines.first, lines.raw, list_id)
            continue
        answered.add(output)
        lines_of_output = outputs.lines(output)
        entry = _batch_entry(lines_of_output, outputs.name, request)
        yield Entry(entry.record, entry.error, entry.line, lines.raw + entry.raw, entry.id)
    for group in outputs.by_appearance():
        if group in answered:
            continue
        lines = outputs.lines(group)
        entry = _batch_entry(lines, outputs.name, None)
        unasked = InputError("an output of no request", where=ID, fix="Is it the right file?")
        if entry.error is not None:
            yield entry
        else:
            yield error_entry(unasked, outputs.name, lines.first, lines.raw, entry.id)


def _batch_id(row: Any) -> str:
    """The id of a line; raises InputError where it has none."""
    value = value_at(row, ID)
    if not isinstance(value, str) or not value:
        raise InputError(f"found {excerpt(value)}, expected a text", where=ID)
    return value


def _request(lines: ListLines, name: str) -> tuple[str, dict[str, Any]]:
    """The id of a request, and the keys of the list that it makes.

    Raises:
        InputError: it is none, or lines of one id ask different things.
    """
    keys: list[dict[str, Any]] = []
    list_id = ""
    for number, line in lines.lines:
        try:
            row = parse_json(line)
            list_id = _batch_id(row)
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
    text = user_text(messages)
    return {**({} if text is None else {"source": text}), "messages": messages}


def _batch_entry(lines: ListLines, name: str, request: Mapping[str, Any] | None) -> ListEntry:
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
    missing = missing_keys([fault for fault, _ in faults])
    keys = {"id": list_id, "candidates": candidates, **missing}
    try:
        record = read_list({**keys, **(request or NOTHING)})
    except InputError as error:
        return error_entry(error, name, lines.first, lines.raw, list_id)
    return list_entry(record, lines.first, lines.raw)


def missing_keys(faults: Sequence[InputError]) -> dict[str, Any]:
    """The keys of a list that say how many candidates are missing, and why the first is; none where none is."""
    if not faults:
        return {}
    return {"missing_candidates": len(faults), "missing_because": str(faults[0])}


def _choices(row: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The choices in a line, and where each is.

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
        raise InputError(
            "no choices", where="response.body", fix="Is it a file of chat or completions?"
        )
    ordered = _in_order(choices)
    return [(f"response.body.choices[{i}]", choice) for i, choice in enumerate(ordered)]


def _in_order(choices: list[Any]) -> list[Any]:
    """The choices by their index, where all have one."""
    has_indices = all(type(value_at(choice, "index")) is int for choice in choices)
    return sorted(choices, key=itemgetter("index")) if has_indices else choices


_FIX = "Give the samples of a task that generates text"


def read_harness(source: LineSource) -> Iterator[ListEntry]:
    """One entry per `doc_id`, in the order of their first lines.

    Raises:
        InputError: the first line is no JSON object.
    """
    groups = GroupedLines(source, key_by(_sample_id))
    try:
        for group in groups.by_appearance():
            yield _sample_entry(groups.lines(group), source.name)
    finally:
        groups.close()


def _sample_id(row: Any) -> str:
    value = value_at(row, "doc_id")
    if isinstance(value, bool) or not isinstance(value, int | str) or value == "":
        problem = f"found {excerpt(value)}, expected a number or a text"
        raise InputError(problem, where="doc_id", fix=_FIX)
    return str(value)


def _sample_entry(lines: ListLines, name: str) -> ListEntry:
    """The list of the lines of one document, or the error in the first bad one."""
    rows: list[dict[str, Any]] = []
    responses: dict[str, list[list[str | None]]] = {}  # of every line, by filter
    list_id: str | None = None
    for number, line in lines.lines:
        try:
            row = json_object(line, _FIX)
            list_id = _sample_id(row)
            responses.setdefault(str(row.get("filter", "none")), []).append(_responses(row))
            rows.append(row)
        except InputError as error:
            in_file = placed(error, f"{name}:{number}")
            return Entry(None, in_file, lines.first, lines.raw, list_id)
    try:
        every = _one(responses)
        texts = [text for text in every if text is not None]
        null = InputError("found no text", where="resps[0]")
        missing = missing_keys([null] * (len(every) - len(texts)))
        record = read_list({**_keys(rows), "id": list_id, "candidates": texts, **missing})
    except InputError as error:
        return error_entry(error, name, lines.first, lines.raw, list_id)
    return list_entry(record, lines.first, lines.raw)


def _responses(row: Mapping[str, Any]) -> list[str | None]:
    """The responses to the one request of a document; None for one without a text."""
    requests = row.get("resps")
    if not isinstance(requests, list) or len(requests) != 1:
        problem = f"found {excerpt(requests)}, expected the responses to one request"
        raise InputError(problem, where="resps", fix=_FIX)
    given = requests[0] if isinstance(requests[0], list) else []
    if not all(isinstance(text, str | None) for text in given) or not any(given):
        raise InputError(
            f"found {excerpt(requests[0])}, expected texts", where="resps[0]", fix=_FIX
        )
    return given


def _one(responses: Mapping[str, list[list[str | None]]]) -> list[str | None]:
    """The responses, which are the same under every filter."""
    by_filter = {name: _once(lines) for name, lines in responses.items()}
    first, *others = by_filter
    for other in others:
        if by_filter[other] != by_filter[first]:
            problem = f"other responses under the filter {other!r:.40} than under {first!r:.40}"
            raise InputError(problem, where="resps", fix="Keep the lines of one filter")
    return by_filter[first]


def _once(lines: Sequence[list[str | None]]) -> list[str | None]:
    """The responses of lines under one name: those before lm-eval 0.4.7 repeat all of them for every filter."""
    counts = Counter(map(tuple, lines))
    num_filters = gcd(*counts.values())
    return [text for texts, count in counts.items() for text in texts * (count // num_filters)]


def _keys(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of a list beside its candidates, which all its lines say alike.

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
    targets = list(map(with_digits, target if isinstance(target, list) else [target]))
    if targets and all(isinstance(text, str) for text in targets):
        keys["references"] = targets
    if "doc" in row:
        keys["doc"] = row["doc"]
    return keys


def _prompt(arguments: Any) -> str | None:
    """The prompt of the model, in any of the forms of the harness; None where it is no text."""
    for key in ("gen_args_0", "arg_0"):
        if isinstance(arguments, dict):
            arguments = arguments.get(key)
    while isinstance(arguments, list) and arguments:
        arguments = arguments[0]
    return arguments if isinstance(arguments, str) else None


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
