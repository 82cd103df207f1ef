"""Where a benchmark's tables go."""

from __future__ import annotations

from pathlib import Path


def write_or_print(markdown: str, output: Path | None) -> None:
    """Writes tables to a file, or prints them where none is given."""
    if output:
        output.write_text(markdown, encoding="utf-8")
    else:
        print(markdown)
