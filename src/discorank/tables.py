"""Tables: rows of values and what is shown of them, printed as text, Markdown, LaTeX, CSV, JSON, or by a template.

A table is declared once. Its rows hold values by name, which JSON and CSV write as they are; its columns say what
people see of a row. A table without a name is only shown, one without columns only written.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from .metrics.registry import as_typed
from .printable import printable, spreadsheet_cell
from .rerank.runs.resumable import as_line

Row = Mapping[str, Any]
Format = Literal["table", "markdown", "latex", "csv", "json"]
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


def number(value: float | None) -> str:
    """Four significant digits; a dash where there is no number.

    >>> number(61.23456), number(None), number(float("nan"))
    ('61.23', '-', '-')
    """
    return "-" if value is None or value != value else f"{value:.4g}"


def between(low: float | None, high: float | None) -> str:
    """An interval; a dash where there is none.

    >>> between(1.0, 2.5), between(None, None)
    ('1 to 2.5', '-')
    """
    return "-" if low is None and high is None else f"{number(low)} to {number(high)}"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        head: over the column.
        names: of the values that it shows; a row that lacks one has an empty cell.
        show: these values as text.
        is_words: whether words stand here, on the left; numbers stand on the right.
    """

    head: str
    names: tuple[str, ...]
    show: Callable[..., str] = number
    is_words: bool = False

    def cell(self, row: Row) -> str:
        """The column's text of a row."""
        if any(name not in row for name in self.names):
            return ""
        return self.show(*(row[name] for name in self.names))


def words(head: str, name: str) -> Column:
    """A column of words."""
    return Column(head, (name,), str, is_words=True)


def metric_names(head: str, name: str) -> Column:
    """A column of metrics, whose signatures are shown by the names that people type."""
    return Column(head, (name,), as_typed, is_words=True)


def whole(head: str, name: str) -> Column:
    """A column of whole numbers, or of numbers that are text already."""
    return Column(head, (name,), str)


def decimals(head: str, name: str, places: int = 4) -> Column:
    """A column of numbers with so many decimals; a dash where there is none."""
    return Column(head, (name,), lambda value: "-" if value is None else f"{value:.{places}f}")


def numbers(heads: Mapping[str, str]) -> list[Column]:
    """Columns of numbers, from the name of each value to its head."""
    return [Column(head, (name,)) for name, head in heads.items()]


@dataclass(frozen=True)
class Table:
    """Rows, and what is shown of them.

    Args:
        title: over the table.
        columns: what is shown; none if the table is only written.
        rows: values by name.
        name: in JSON and CSV; empty if the table is only shown.
        keys: the values that say what a row is of, in JSON and CSV; all others are statistics.
    """

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    name: str = ""
    keys: tuple[str, ...] = ()

    @property
    def head(self) -> list[str]:
        """The heads of the columns."""
        return [column.head for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """The rows as they are shown."""
        return [[column.cell(row) for column in self.columns] for row in self.rows]


def text_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table that is only shown, of cells that are text: words first, then numbers."""
    names = [str(i) for i in range(len(head))]
    columns = [
        Column(text, (name,), str, is_words=name == "0")
        for text, name in zip(head, names, strict=True)
    ]
    return Table(title, columns, [dict(zip(names, row, strict=True)) for row in rows])


def of_set(name: str, tables: Iterable[Table]) -> list[Table]:
    """The tables of one of several sets: it stands in their titles, and in their rows under ``set``."""
    named = []
    for table in tables:
        rows = [{"set": name, **row} for row in table.rows]
        title, keys = f"{name}: {table.title}", ("set", *table.keys)
        named.append(replace(table, title=title, rows=rows, keys=keys))
    return named


def printed(tables: Sequence[Table], format: Format) -> str:
    """The tables as they are shown, or as they are written."""
    if format == "json":
        return as_line(as_data(tables)).decode()
    return long_csv(tables) if format == "csv" else shown(tables, format)


def printed_rows(tables: Sequence[Table], format: Literal["text", "json"]) -> str:
    """The tables as text, or a line of JSON for every row."""
    if format == "text":
        return shown(tables, "table")
    return "".join(as_line(dict(row)).decode() for table in tables for row in table.rows)


def shown(tables: Iterable[Table], format: Literal["table", "markdown", "latex"]) -> str:
    """The tables that have columns."""
    print_table = {"table": _text, "markdown": _markdown, "latex": _latex}[format]
    return "\n".join(print_table(table) for table in tables if table.columns)


def _text(table: Table) -> str:
    """Aligned columns, under a title if there is one."""
    title = f"{printable(table.title)}\n" if table.title else ""
    return f"{title}{columns_of_text(table)}\n"


def columns_of_text(table: Table) -> str:
    """Head and rows in aligned columns."""
    return aligned([table.head, *table.cells], [column.is_words for column in table.columns])


def aligned(rows: Sequence[Sequence[str]], is_words: Sequence[bool] | None = None) -> str:
    """Rows as text in aligned columns; the first row is the head.

    Args:
        rows: of as many cells each.
        is_words: which columns stand on the left, all if not given.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lefts = [True] * len(widths) if is_words is None else is_words
    lines = []
    for row in rows:
        cells = []
        for cell, width, left in zip(row, widths, lefts, strict=True):
            cells.append(cell.ljust(width) if left else cell.rjust(width))
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _markdown(table: Table) -> str:
    """A GitHub table under a heading."""
    head, *rows = ([_plain(cell) for cell in row] for row in (table.head, *table.cells))
    rule = ["---" if column.is_words else "---:" for column in table.columns]
    lines = ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]
    return f"### {_plain(table.title)}\n\n" + "\n".join(lines) + "\n"


def _plain(cell: str) -> str:
    """A cell without the marks of Markdown and HTML."""
    escaped = re.sub(r"([\\|`*_\[\]])", r"\\\1", printable(cell.replace("\n", " ")))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _latex(table: Table) -> str:
    """A table environment for the package booktabs."""
    head, *rows = (" & ".join(map(escaped, cells)) + r" \\" for cells in (table.head, *table.cells))
    columns = "".join("l" if column.is_words else "r" for column in table.columns)
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


def as_data(tables: Iterable[Table]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables that have a name, for JSON; tables of one name follow each other."""
    data: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        if table.name:
            data.setdefault(table.name, []).extend(dict(row) for row in table.rows)
    return data


def long_csv(tables: Iterable[Table]) -> str:
    """A line for every statistic of every row, with a column for each key that any of the tables has."""
    named = [table for table in tables if table.name]
    keys = list(dict.fromkeys(key for table in named for key in table.keys))
    lines: list[list[object]] = []
    for table in named:
        for row in table.rows:
            of_row = [table.name, *(row[key] if key in table.keys else "" for key in keys)]
            for statistic, value in row.items():
                if statistic not in table.keys:
                    lines.append([*of_row, statistic, value])
    return comma_separated(["table", *keys, "statistic", "value"], lines)


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
