"""How texts and tables of them are shown where Python shows values: on one line, and in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

from ..metrics.text.texts import Text

SHOWN = 60  # characters of a text on one line
SHOWN_PLACES = 10  # rows of a table in a notebook


def short_text(text: Text, longest: int = SHOWN) -> str:
    r"""The start of a text as a Python string, with what a terminal would obey as escapes.

    >>> short_text("the cat sat on the mat", longest=12)
    "'the cat sat…'"
    >>> short_text("a\x1b[2Jb")
    "'a\\x1b[2Jb'"
    """
    plain = str(text)
    return repr(plain if len(plain) <= longest else plain[: longest - 1] + "…")


def short_number(value: float | None) -> str:
    """Four significant digits.

    >>> short_number(57.41043), short_number(None)
    ('57.41', 'None')
    """
    return "None" if value is None else f"{value:.4g}"


def html_table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML, everything escaped, without style or script; no cell turns the direction of others.

    >>> html_table("<a>", ["x"], [["1 & 2"]])
    '<table><caption>&lt;a&gt;</caption><tr><th dir="auto">x</th></tr><tr><td dir="auto">1 &amp; 2</td></tr></table>'
    """
    from html import escape

    lines = [_html_row("th", head), *(_html_row("td", row) for row in rows)]
    return f"<table><caption>{escape(caption)}</caption>{''.join(lines)}</table>"


def _html_row(tag: str, cells: Sequence[str]) -> str:
    from html import escape

    return "<tr>" + "".join(f'<{tag} dir="auto">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"
