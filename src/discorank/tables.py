"""Tables as text, Markdown, LaTeX, and one long CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .printable import printable, spreadsheet_cell

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}
CORRECTED = {
    "none": "",
    "holm": "; p corrected (Holm)",
    "fdr": "; p corrected (Benjamini and Hochberg)",
}


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows as text in aligned columns; the first row is the head."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


class Table(NamedTuple):
    """A title, a head and rows of as many cells."""

    title: str
    head: list[str]
    rows: list[list[str]]


def number(value: float | None) -> str:
    """Four significant digits; a dash where there is no number.

    >>> number(61.23456), number(None), number(float("nan"))
    ('61.23', '-', '-')
    """
    return "-" if value is None or value != value else f"{value:.4g}"


def text(tables: Iterable[Table]) -> str:
    """Aligned columns under titles."""
    parts = []
    for table in tables:
        rows = aligned([table.head, *table.rows])
        parts.append(f"{printable(table.title)}\n{rows}\n")
    return "\n".join(parts)


def markdown(tables: Iterable[Table]) -> str:
    """GitHub tables under headings."""
    parts = [f"### {_plain(table.title)}\n\n{_markdown(table)}\n" for table in tables]
    return "\n".join(parts)


def _markdown(table: Table) -> str:
    """The head, a rule that sets all columns but the first on the right, the rows."""
    head, *rows = ([_plain(cell) for cell in row] for row in (table.head, *table.rows))
    rule = ["---"] + ["---:"] * (len(head) - 1)
    lines = ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]
    return "\n".join(lines)


def _plain(cell: str) -> str:
    """A cell without the marks of Markdown and HTML."""
    escaped = re.sub(r"([\\|`*_\[\]])", r"\\\1", printable(cell.replace("\n", " ")))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def latex(tables: Iterable[Table]) -> str:
    """Tables for the package booktabs."""
    return "\n".join(map(_latex, tables))


def _latex(table: Table) -> str:
    """One table environment."""
    head, *rows = (" & ".join(map(escaped, cells)) + r" \\" for cells in (table.head, *table.rows))
    columns = "l" + "r" * (len(table.head) - 1)
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped(table.title)}}}",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def escaped(cell: str) -> str:
    """A cell in LaTeX.

    >>> escaped("a_b & 50%")
    'a\\\\_b \\\\& 50\\\\%'
    """
    marked = "".join(_LATEX.get(letter, letter) for letter in printable(cell))
    return re.sub(r"([<>])", r"$\1$", marked)


def comma_separated(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """RFC 4180 rows with a head."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    for row in rows:
        # nothing where there is no number; NaN alone differs from itself
        cells = ["" if cell is None or cell != cell else cell for cell in row]
        writer.writerow([spreadsheet_cell(cell) for cell in cells])
    return out.getvalue()
