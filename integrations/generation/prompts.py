"""The inputs of a generator: JSON lines or plain text.

    {"id", "source", "document", "position", "references"}          only `id` and `source` are required
Other keys are passed on to the candidate list; those with a text are fields of templates too. Of plain text every line
is an input, and its number, from 0, its id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...metrics.errors import InputError, unknown
from ...metrics.text.line_source import LineSource, without_trailing_blanks
from ...rerank.lists import read_list
from ..files.entries import Order
from ..files.strict_json import parse_json
from ..formats.jsonl import identity
from .generator import Prompt

WRITTEN = (  # keys of generated lists that an input may not have
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


@dataclass(frozen=True, slots=True)
class PromptEntry:
    """An input, or the error that stands in its place; its fields are those of an `Entry`.

    The prompt of an input is its source until a template fills it.
    """

    record: Prompt | None
    error: InputError | None
    line: int
    raw: bytes
    id: str | None = None


def read_prompts(source: LineSource | str | Path, form: str = "jsonl") -> Iterator[PromptEntry]:
    """The entries of a file (``-`` is standard input), streamed; a line that is no input is an error entry.

    Raises:
        InputError: the format is unknown or the file cannot be opened; while iterating, if it must be refused whole.
    """
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    return _entries(source if isinstance(source, LineSource) else LineSource(source), form)


def _entries(source: LineSource, form: str) -> Iterator[PromptEntry]:
    order = Order("Give every input its own id")
    for index, (number, line) in enumerate(without_trailing_blanks(source)):
        raw, data = line + b"\n", None if form == "jsonl" else {"id": str(index)}
        try:
            if not line.strip():
                raise InputError("empty line", fix="Give one input per line")
            data = (
                parse_json(line) if form == "jsonl" else {"id": str(index), "source": line.decode()}
            )
            prompt = read_prompt(data)
            if fault := order.fault(prompt):
                raise fault
        except (InputError, RecursionError) as error:
            found = (
                error
                if isinstance(error, InputError)
                else InputError("nested too deeply", fix="An input is flat")
            )
            placed = InputError(
                found.problem, where=_place(source.name, number, found.where), fix=found.fix
            )
            yield PromptEntry(None, placed, number, raw, identity(data))
        else:
            yield PromptEntry(prompt, None, number, raw, prompt.id)


def _place(name: str, number: int, where: str) -> str:
    return f"{name}:{number}: {where}" if where else f"{name}:{number}"


def read_prompt(data: Any) -> Prompt:
    """An input from its JSON form.

    Raises:
        InputError: something is missing or of the wrong type; `where` names the place.
    """
    if isinstance(data, dict) and "candidates" in data:
        raise InputError(
            "there are candidates already",
            where="candidates",
            fix="Leave them out, or decode the file",
        )
    for key in WRITTEN:
        if isinstance(data, dict) and key in data:
            raise InputError(
                "is a key that generating writes",
                where=key,
                fix="Give the input's key another name",
            )
    record = read_list({**data, "candidates": [""]} if isinstance(data, dict) else data)
    if not isinstance(record.source, str):
        found = "nothing" if record.source is None else "an array"
        raise InputError(
            f"found {found}, expected a text", where="source", fix="Give one text per line"
        )
    return Prompt(
        record.id,
        record.source,
        record.source,
        record.document,
        record.position,
        record.references,
        record.extra,
    )
