"""Lexical metrics are tested as numpy computes them; `test_compiled` holds the kernels in C against that."""

from __future__ import annotations

import pytest

from discorank.metrics.lexical import compiled


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel in C, whether one was built or not."""
    monkeypatch.setattr(compiled, "kernels", None)
