"""The page for Python: its blocks run, and print what is shown."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from .test_docs import blocks


def test_the_page_for_python_prints_what_is_shown() -> None:
    pytest.importorskip("pandas")
    codes, shown = blocks("docs/python.md", "python"), blocks("docs/python.md", "text")
    assert len(codes) == 5
    names: dict[str, Any] = {}
    for code, expected in zip(codes[:4], shown, strict=True):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code, names)
        assert out.getvalue() == expected
