"""Pages without drawn figures, which are most of their cost; test_page_figures.py draws them."""

from __future__ import annotations

import pytest

from discorank.report import page


@pytest.fixture(autouse=True)
def figures_are_blank(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an empty image in the place of every figure."""
    monkeypatch.setattr(page, "image", lambda figure: "data:,")
