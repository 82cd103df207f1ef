"""How decisions are written: a JSON row, a line of text, an error record."""

from __future__ import annotations

import json
import re
from typing import Any

from ...metrics.errors import DiscorankError, InputError
from ..choice import Ranking

_STRING_OR_NUMBER = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?Infinity|NaN')
_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_SPELT = {"NaN": "null", "Infinity": "1e999", "-Infinity": "-1e999"}


def json_row(ranking: Ranking) -> bytes:
    """One strict-JSON line: id, choice, places, what the list's reader should know, and the list's other keys."""
    return as_line(ranking.to_dict())


def text_row(ranking: Ranking) -> bytes:
    """The chosen text alone, one line.

    Raises:
        InputError: the text holds a line break.
    """
    text = str(ranking.text)
    if "\n" in text or "\r" in text:
        raise InputError(
            "the chosen text holds a line break", where="text", fix="Write --format jsonl"
        )
    return text.encode("utf-8") + b"\n"


def error_row(error: DiscorankError, file: str, line: int, identity: str | None) -> bytes:
    """An error record: where, which list, why, and what to do."""
    reason = {
        "where": error.where,
        "reason": error.problem,
        "fix": error.fix,
        "kind": type(error).__name__,
    }
    return as_line({"file": file, "line": line, "id": identity, **reason})


def as_line(row: dict[str, Any]) -> bytes:
    """A JSON object as one UTF-8 line.

    A lone surrogate is written as its escape; of the numbers for which JSON has no word, infinity as 1e999 and NaN as
    null.
    """
    try:
        text = _STRICT.encode(row)
    except ValueError:
        text = json.dumps(row, ensure_ascii=False)
        text = _STRING_OR_NUMBER.sub(lambda match: _SPELT.get(match[0], match[0]), text)
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace") + b"\n"
