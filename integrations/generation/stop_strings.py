"""Strings that end a candidate: the text before the first of them is the candidate, and it is finished.

On the command line they are written with the escapes that a shell passes on as they are: ``\\n``, ``\\t``, ``\\r`` and
``\\\\`` for a backslash. In Python they are what they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...metrics.errors import InputError

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}
FIX = "Give a text that is not empty, such as '\\n'"


def check_stops(stops: Sequence[str]) -> None:
    """Raises InputError for a stop string without a character."""
    if any(not isinstance(stop, str) or not stop for stop in stops):
        raise InputError("an empty stop string ends every candidate", where="stop", fix=FIX)


def unescaped(text: str) -> str:
    """A stop string as it was typed.

    >>> unescaped(r"\\n\\nEnglish")
    '\\n\\nEnglish'

    Raises:
        InputError: a backslash before anything else.
    """

    def character(match: re.Match[str]) -> str:
        if match[1] not in ESCAPES:
            raise InputError(
                f"found {match[0]!r}, expected one of \\n \\t \\r \\\\",
                where="--stop",
                fix="Write \\\\ for a backslash",
            )
        return ESCAPES[match[1]]

    return re.sub(r"\\(.?)", character, text, flags=re.DOTALL)


def before_stop(text: str, stops: Sequence[str]) -> str | None:
    """The text before the first stop string in it; None if there is none.

    >>> before_stop("Hallo.\\nEnglish: B", ["\\n"])
    'Hallo.'
    """
    places = [place for stop in stops if (place := text.find(stop)) >= 0]
    return text[: min(places)] if places else None
