"""The package that Parquet and Arrow files need, imported on first use, and the endings of these files."""

from __future__ import annotations

from pathlib import Path

from ..optional_packages import require

TABLE_ENDINGS = frozenset({".parquet", ".arrow", ".arrows", ".feather"})


def is_table(path: str | Path) -> bool:
    """Whether a file is one of rows and columns, by its ending.

    >>> is_table("lists.parquet"), is_table("lists.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() in TABLE_ENDINGS


def lines_of_run(out: str | Path) -> Path:
    """Where the rows of a run stand as lines: beside a Parquet or Arrow file, which is made of them.

    >>> str(lines_of_run("chosen.parquet")), str(lines_of_run("chosen.jsonl"))
    ('chosen.parquet.rows.jsonl', 'chosen.jsonl')
    """
    return Path(f"{out}.rows.jsonl") if is_table(out) else Path(out)


def require_arrow(where: str) -> None:
    """Raises ModelLoadError unless pyarrow is installed."""
    require(where, "pyarrow")
