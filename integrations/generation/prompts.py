"""The inputs of a generator: JSON lines or plain text.

    {"id", "source", "document", "position", "references"}          only `source` is required
Other keys are passed on to the candidate list; those with a text are fields of templates too. Of plain text every line
is an input, and its number, from 0, its id.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...metrics.errors import InputError, unknown
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import read_list
from ...rerank.runs.resumable import Entry
from ..files.entries import RecordOrder, placed
from ..formats.readers.jsonl import id_of
from .generator import Prompt

if TYPE_CHECKING:
    from ..arrow.open_rows import RowSource

# keys of generated lists that an input may not have
WRITTEN = (
    "pseudo_references",
    "context_only",
    "chosen",
    "truncated_input_tokens",
    "context_was_cut",
    "missing_candidates",
    "missing_pseudo_references",
    "missing_because",
)
FORMATS = {"jsonl": "JSON lines, one input per line", "text": "one input per line"}


PromptEntry = Entry[Prompt]  # the prompt of an input is its source until a template fills it


def read_prompts(source: RowSource | str | Path, form: str = "jsonl") -> Iterator[PromptEntry]:
    """The entries of a file (``-`` is standard input), streamed; a line that is no input is an error entry.

    Raises:
        InputError: the format is unknown or the file cannot be opened; while iterating, if it must be refused whole.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    lines = LineSource(source) if isinstance(source, str | Path) else source
    return _entries(lines, form)


def _entries(source: RowSource, form: str) -> Iterator[PromptEntry]:
    """An entry for each line; ids, documents and positions are checked in order."""
    order = RecordOrder("Give every input its own id")
    for index, (number, line) in enumerate(without_trailing_blanks(source)):
        raw = line + b"\n"
        place = f"{source.name}:{number}"
        if form == "jsonl" and index == 0:
            _refuse_text(line, place)
        data = {} if form == "jsonl" else {"id": str(index)}
        try:
            if not line.strip():
                raise InputError("empty line", fix="Give one input per line")
            data = parse_json(line) if form == "jsonl" else {**data, "source": line.decode()}
            prompt = read_prompt(data, number)
            if fault := order.fault(prompt):
                raise fault
        except InputError as error:
            yield Entry(None, placed(error, place), number, raw, id_of(data))
        else:
            yield Entry(prompt, None, number, raw, prompt.id)


def _refuse_text(first: bytes, place: str) -> None:
    """Raises InputError for the first line of a file of plain text, which is read with another format."""
    start = first.strip()
    if not start or start.startswith((b"{", b"[")):
        return
    shown = start[:40].decode(errors="ignore")
    problem = f"found plain text ({shown!r}), expected a JSON object on each line"
    raise InputError(problem, where=place, fix="Use --from text where every line is an input")


def read_prompt(data: Any, number: int | None = None) -> Prompt:
    """An input from its JSON form; its number is its id where it has none.

    Raises:
        InputError: something is missing or of the wrong type; `where` names the place.
    """
    if isinstance(data, dict):
        _check_keys(data)
        # an input is read as a list with one candidate, for the checks of the other keys
        data = {**data, "candidates": [""]}
    record = read_list(data, number)
    if not isinstance(record.source, str):
        kind = "nothing" if record.source is None else "an array"
        problem = f"found {kind}, expected a text"
        raise InputError(problem, where="source", fix="Give one text per line")
    return Prompt(
        id=record.id,
        text=record.source,
        source=record.source,
        document=record.document,
        position=record.position,
        references=record.references,
        extra=record.extra,
    )


def _check_keys(data: dict[str, Any]) -> None:
    """Raises InputError for keys of candidate lists that are still to be generated."""
    if "candidates" in data:
        fix = "Leave them out, or decode the file"
        raise InputError("there are candidates already", where="candidates", fix=fix)
    for key in WRITTEN:
        if key in data:
            fix = "Give the input's key another name"
            raise InputError("is a key that generating writes", where=key, fix=fix)
