"""A promise, how often it was tried and how often it was kept; and the table of all of them in a page.

The table stands between two markers. Rows of families that were not tried this time stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

BEGIN, END = "<!-- tried: begin -->", "<!-- tried: end -->"
HEAD = ("| `--only` | promise | command | tried | kept | |", "|---|---|---|---|---|---|")


class Tried(NamedTuple):
    """A row of the table.

    Args:
        family: what ``--only`` takes to try it again.
        promise: what is promised.
        command: what was disturbed.
        tried: how often.
        kept: how often the promise held.
        detail: what happened, counted.
    """

    family: str
    promise: str
    command: str
    tried: int
    kept: int
    detail: str = ""

    def line(self) -> str:
        """The row in Markdown; in bold where the promise was broken."""
        kept = str(self.kept) if self.kept == self.tried else f"**{self.kept}**"
        cells = (self.family, self.promise, f"`{self.command}`", str(self.tried), kept, self.detail)
        return f"| {' | '.join(cells)} |"


def table(lines: Sequence[str]) -> str:
    """The table of these rows."""
    return "\n".join((*HEAD, *lines))


def write_table(page: Path, rows: Sequence[Tried], families: Sequence[str]) -> None:
    """Writes rows between the markers of a page, in the order of all `families`.

    Raises:
        ValueError: the page has no markers.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page}: found no lines {BEGIN} and {END}")
    tried_now = {row.family for row in rows}
    lines = [line for line in old.splitlines() if family_of(line) in {*families} - tried_now]
    lines += [row.line() for row in rows]
    lines.sort(key=lambda line: families.index(family_of(line)))
    page.write_text(f"{before}{BEGIN}\n{table(lines)}\n{END}{after}", encoding="utf-8")


def family_of(line: str) -> str:
    """The family of a line of the table; empty for another line."""
    cells = line.split(" | ")
    return cells[0].removeprefix("| ") if len(cells) > 1 else ""
