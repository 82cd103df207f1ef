"""Text from files as it may be shown: nothing in it moves a terminal's cursor, turns lines round or is a formula."""

from __future__ import annotations

import re

# control characters; separators of lines and paragraphs; marks that override the direction of what follows;
# halves of characters, which stand for bytes that are no text
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|-|[+-]?(inf|nan)")


def printable(text: str, keep: str = "") -> str:
    r"""The text with unsafe characters as their escapes, but for those to `keep`.

    >>> printable("a\x1b[2Jb\n"), printable("a\nb", keep="\n")
    ('a\\x1b[2Jb\\n', 'a\nb')
    """
    if not _UNSAFE.search(text):
        return text
    return _UNSAFE.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def spreadsheet_cell(cell: object) -> object:
    """A cell of a CSV file; a text that a spreadsheet would take for a formula begins with an apostrophe.

    >>> spreadsheet_cell("=1+1"), spreadsheet_cell("-0.5"), spreadsheet_cell(-0.5)
    ("'=1+1", '-0.5', -0.5)
    """
    if isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell
