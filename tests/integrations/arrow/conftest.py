"""Fixtures of the tests of tables."""

from __future__ import annotations

import pytest

from ...support.tables import read_tables_here


@pytest.fixture
def tables_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read in this process: a process each costs as much as 300 small tables."""
    read_tables_here(monkeypatch)
