"""The package that Parquet and Arrow files need, imported on first use, and the endings of these files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ..errors import ModelLoadError

TABLE_ENDINGS = frozenset({".parquet", ".arrow", ".arrows", ".feather"})


def is_table(path: str | Path) -> bool:
    """Whether a file is one of rows and columns, by its ending.

    >>> is_table("lists.parquet"), is_table("lists.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() in TABLE_ENDINGS


def require_arrow(where: str) -> None:
    """Raises ModelLoadError unless pyarrow is installed."""
    if find_spec("pyarrow") is None:
        problem = "Parquet and Arrow files need pyarrow"
        raise ModelLoadError(problem, where=where, fix='pip install "discorank[arrow]"')
