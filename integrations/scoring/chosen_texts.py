"""What ``discorank decode`` or ``rerank`` chose earlier, by the id of the list."""

from __future__ import annotations

from typing import Any

from ...metrics.errors import InputError
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import LineSource, without_trailing_blanks
from ...metrics.text.texts import Document, Text
from ...rerank.runs.output_checks import check_beside
from ...rerank.runs.run_file import lines_of_run
from ..formats.jsonl import id_of


def read_chosen_texts(path: str) -> dict[str, Text]:
    """The chosen text of every list.

    Raises:
        InputError: the file cannot be read, is not what its run file says, or a line is no choice.
    """
    check_beside(path)
    source = LineSource(lines_of_run(path))
    chosen: dict[str, Text] = {}
    try:
        for number, line in without_trailing_blanks(source):
            try:
                list_id, text = _choice(parse_json(line))
                if list_id in chosen:
                    raise InputError(f"{list_id!r:.80} was there before", where="id")
            except RecursionError:
                raise source.refusal(number, "nested too deeply") from None
            except InputError as error:
                raise error.inside(f"{source.name}:{number}") from None
            chosen[list_id] = text
    finally:
        source.close()
    return chosen


def _choice(row: Any) -> tuple[str, Text]:
    """The id and the text of a line."""
    list_id = id_of(row)
    if list_id is None:
        fix = "Give the rows that decode or rerank wrote"
        raise InputError("found no id, expected an object with id and text", where="id", fix=fix)
    text = row.get("text")
    if isinstance(text, str):
        return list_id, text
    if isinstance(text, list) and all(isinstance(sentence, str) for sentence in text):
        return list_id, Document(tuple(text))
    fix = "Give the rows that decode or rerank wrote"
    raise InputError("found no text", where="text", fix=fix)
