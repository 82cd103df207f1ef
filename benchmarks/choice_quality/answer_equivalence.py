"""Public tables of answers that are equal or not, and the share that ``vote`` reads right, by plain rules and by math.

    python -m benchmarks.choice_quality.answer_equivalence PATH... [--show]

PATH is an unpacked source distribution of math-verify (``pip download --no-deps --no-binary :all: math-verify``), or
math_equivalence_test.py of hendrycks/math. Their tables are read from the sources, which are not run: of pytest the
rows of right answer, reply, and whether they are equal; of unittest the two texts of each assertion. A reply is read as
a reply, a right answer as a label. --show prints the rows that are read wrong.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from discorank.metrics.lexical.answers import Agreement, math_version
from discorank.metrics.lexical.vote import Vote


class Row(NamedTuple):
    """A right answer, a reply, and whether the reply is right."""

    right: str
    reply: str
    is_equal: bool


def rows_of(source: str) -> Iterator[Row]:
    """The rows of the tables in a module of tests."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef):
            continue
        for call in node.decorator_list:
            if isinstance(call, ast.Call) and len(call.args) == 2:
                yield from _of_table(call.args[1])
        assigned = {
            target.id: statement.value.value
            for statement in node.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
        if {"test_in", "test_out"} <= assigned.keys():
            is_equal = "assertTrue" in ast.unparse(node.body[-1])
            yield Row(str(assigned["test_in"]), str(assigned["test_out"]), is_equal)


def _of_table(table: ast.expr) -> Iterator[Row]:
    """The rows of right answer, reply and expectation among those of a table."""
    for row in getattr(table, "elts", ()):
        values: Any = [getattr(value, "value", None) for value in getattr(row, "elts", ())]
        are_texts = len(values) == 3 and all(isinstance(value, str) for value in values[:2])
        if are_texts and values[2] in (0, 1):
            yield Row(values[0], values[1], bool(values[2]))


def tables_in(path: Path) -> Iterator[tuple[str, list[Row]]]:
    """The tables of a file, or of all files of tests in a folder, by name."""
    for file in [path] if path.is_file() else sorted(path.rglob("test_*.py")):
        if rows := list(rows_of(file.read_text("utf-8"))):
            yield file.stem, rows


def is_right(row: Row, agree: Agreement) -> bool:
    """Whether vote finds the two equal where they are, and different where they are not."""
    return Vote(agree=agree).is_right(row.reply, [row.right]) == row.is_equal


def report(tables: Mapping[str, list[Row]], agree: Agreement, is_shown: bool) -> Iterator[str]:
    """A line for each table, and one for all."""
    num_right = 0
    for name, rows in tables.items():
        wrong = [row for row in rows if not is_right(row, agree)]
        num_right += len(rows) - len(wrong)
        yield f"    {name}: {len(rows) - len(wrong)} of {len(rows)}"
        if is_shown:
            for row in wrong:
                yield f"        {row.is_equal}: {row.right!r:.90} {Vote().answer_of(row.reply)!r:.90}"
    total = sum(map(len, tables.values()))
    yield f"    all: {num_right} of {total} ({num_right / total:.1%})"


if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[1:] if argument != "--show"]
    found = {name: rows for path in paths for name, rows in tables_in(path)}
    rules: dict[Agreement, str] = {"value": "plain rules"}
    if math_version():
        rules["math"] = f"math-verify {math_version()}"
    for agreement, title in rules.items():
        print(title)
        for line in report(found, agreement, "--show" in sys.argv):
            print(line)
