"""What is seen on the page: text that can be read, figures that fit, the answer first, numbers with their meaning."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from discorank import Metric, load_metric
from discorank.cli.main import main
from discorank.report.explanation import ON_A_PAGE, meanings
from discorank.report.page import rendered
from discorank.rerank.selection.comparison import SystemComparison

from ..support.comparisons import comparison, large, run_of


@pytest.fixture(autouse=True)
def figures_are_blank() -> None:
    """Figures are drawn here."""


@pytest.fixture(scope="module")
def small() -> SystemComparison:
    return comparison()


@pytest.fixture(scope="module")
def page(small: SystemComparison) -> str:
    return rendered(small, None)


PHONE, SIDES = 390, 32  # pixels: of the page, and left free beside its text
MIN_PIXELS = 11


def figures_of(text: str) -> list[Any]:
    """The SVG elements of a page."""
    found = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]*)"', text)
    return [ElementTree.fromstring(b64decode(data)) for data in found]


def least_font_pixels(svg: Any, page_pixels: float) -> float:
    """The smallest text of a figure of some width."""
    _, _, width, _ = map(float, svg.attrib["viewBox"].split())
    text = ElementTree.tostring(svg, encoding="unicode")
    sizes = re.findall(r"font(?:-size)?: ([\d.]+)px", text)
    assert sizes
    return page_pixels / width * min(map(float, sizes))


@pytest.mark.slow
def test_text_in_figures_can_be_read_on_a_telephone(page: str) -> None:
    figures = figures_of(page + rendered(large(30, 4, 1, 1), None))
    assert len(figures) > 6
    for svg in figures:
        assert least_font_pixels(svg, PHONE - SIDES) >= MIN_PIXELS


def test_the_numbers_of_choices_are_explained(tmp_path: Path) -> None:
    lists = [{"id": "a", "candidates": ["the cat sat", "a cat sat", "the dog"]}]
    out = run_of(tmp_path, lists, "-u", "chrf + -0.5*bleu + ter")
    page = tmp_path / "page.html"
    assert main(["report", str(out), "-o", str(page), "--quiet"]) == 0
    text = page.read_text(encoding="utf-8")
    assert "1 list was decided by chrf - 0.5*bleu + ter." in text
    part = text[text.index('id="meanings"') :]
    metrics = [metric for metric in map(load_metric, ("chrf", "ter")) if isinstance(metric, Metric)]
    for sentences in meanings(metrics, about_numbers=ON_A_PAGE).values():
        assert all(sentence in part for sentence in sentences)
    assert "0 to 100, higher is better" in part
    assert "lower is better, so its utility is its negative" in part
