"""Tables read in this process, for tests of many files: the lines are those that `table_process` writes."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from discorank.integrations.arrow import arrow_source
from discorank.integrations.arrow.arrow_source import ERROR
from discorank.integrations.arrow.columns import ColumnNames
from discorank.integrations.arrow.table_process import table_lines
from discorank.metrics.errors import InputError


class TableHere:
    """The part of the process that reads a table, played in this one."""

    def __init__(self, name: str, columns: Sequence[str], kind: Any) -> None:
        self.stdout = io.BytesIO(b"".join(_lines(name, columns, kind)))

    def poll(self) -> int:
        return 0

    def wait(self) -> int:
        return 0

    def kill(self) -> None:
        """Nothing runs."""


def _lines(name: str, columns: Sequence[str], kind: Any) -> Iterator[bytes]:
    try:
        yield from table_lines(name, ColumnNames.read(columns), kind)
    except InputError as error:
        yield ERROR + json.dumps([error.problem, error.where, error.fix]).encode() + b"\n"


def read_tables_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read in this process from now on."""
    monkeypatch.setattr(arrow_source, "_started", TableHere)
