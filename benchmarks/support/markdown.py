"""Tables of a benchmark in Markdown, and where they go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, without the end of its last line."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def write_or_print(markdown: str, output: Path | None) -> None:
    """Writes tables to a file, or prints them where none is given."""
    if output:
        output.write_text(markdown, encoding="utf-8")
    else:
        print(markdown)
