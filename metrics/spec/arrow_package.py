"""The package that Parquet and Arrow files need, and the endings by which these are known; it is imported on first use."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from ..errors import ModelLoadError

TABLE_ENDINGS = frozenset({".parquet", ".arrow", ".arrows", ".feather"})


def is_table(path: str | Path) -> bool:
    """Whether a file is one of rows and columns, by its ending.

    >>> is_table("lists.parquet"), is_table("lists.jsonl")
    (True, False)
    """
    return Path(path).suffix.lower() in TABLE_ENDINGS


def require_arrow(where: str) -> ModuleType:
    """The package pyarrow; raises ModelLoadError where it is not installed."""
    try:
        import pyarrow
    except ImportError as error:
        problem = "Parquet and Arrow files need pyarrow"
        raise ModelLoadError(problem, where=where, fix='pip install "discorank[arrow]"') from error
    return pyarrow
