"""What is seen on the page: text that can be read, figures that fit, the answer first, numbers with their meaning."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from discorank import Metric, load_metric
from discorank.cli.main import main
from discorank.report.choices import read_run
from discorank.report.comparison_tables import ranking_tables
from discorank.report.explanation import ON_A_PAGE, meanings
from discorank.report.page import rendered
from discorank.report.plots import bars, histogram
from discorank.report.summary_text import summary
from discorank.rerank.selection.kept_comparison import KeptComparison

from ..support.comparisons import comparison, large, run_of


@pytest.fixture(scope="module")
def small() -> KeptComparison:
    return comparison()


@pytest.fixture(scope="module")
def page(small: KeptComparison) -> str:
    return rendered(small, None, "A title")


PHONE, SIDES = 390, 32  # pixels: of the page, and left free beside its text
MIN_PIXELS = 11


def figures_of(text: str) -> list[Any]:
    """The SVG elements of a page."""
    found = re.findall(r"<svg .*?</svg>", text, re.DOTALL)
    return [ElementTree.fromstring(one.replace("xlink:", "")) for one in found]


def least_font_pixels(svg: Any, page_pixels: int) -> float:
    """The smallest text of a figure as wide as the page's text, or as wide as it says itself."""
    _, _, width, _ = map(float, svg.attrib["viewBox"].split())
    scale = float(svg.attrib.get("width", page_pixels)) / width
    sizes = re.findall(r"font-size=\"([\d.]+)", ElementTree.tostring(svg, encoding="unicode"))
    assert sizes
    return scale * min(map(float, sizes))


def test_text_in_figures_can_be_read_on_a_telephone(page: str) -> None:
    many = rendered(large(30, 4, 1, 1), None, "t")
    figures = [*figures_of(page), *figures_of(many)]
    assert len(figures) > 12
    for svg in figures:
        assert least_font_pixels(svg, PHONE - SIDES) >= MIN_PIXELS
        assert "height" not in svg.attrib


def test_wide_figures_scroll_alone_and_others_have_the_width_of_their_place(page: str) -> None:
    assert not [svg for svg in figures_of(page) if "width" in svg.attrib]
    wide = [s for s in figures_of(rendered(large(30, 4, 1, 1), None, "t")) if "width" in s.attrib]
    assert wide, "thirty systems have no room in a narrow figure"
    style = re.search("<style>(.*?)</style>", page, re.DOTALL)
    assert style
    assert "figure { overflow-x: auto; }" in style[1]
    assert "figure svg:not([width]) { width: 100%; }" in style[1]
    rules = re.findall(r"[{;]\s*(?:min-)?width:\s*([\d.]+)(px|rem|em)", style[1])
    assert not [size for size, unit in rules if float(size) > (PHONE if unit == "px" else 24)]


def test_the_first_picture_stands_beside_the_answer(page: str, small: KeptComparison) -> None:
    start, end = page.index('class="answer"'), page.index('id="systems"')
    assert page[start:end].count("<svg ") == 1
    assert small.human[0].scores.name in page[start:end]


def test_the_page_has_the_table_of_the_terminal(small: KeptComparison) -> None:
    page = rendered(small, None, "t")
    (table,) = ranking_tables(small, 100)
    cells = [cell for row in (table.head, *table.cells) for cell in row]
    shown = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", page[page.index('id="systems"') :])
    assert shown[: len(cells)] == cells


def test_nobody_is_asked_to_judge_where_nobody_judges(small: KeptComparison) -> None:
    metric = small.metrics[0]
    unsure = replace(metric, pairs=tuple(replace(pair, p=0.9) for pair in metric.pairs))
    said = summary(replace(small, human=(), metrics=(unsure, *small.metrics[1:]))).headline
    assert said.endswith("choose among them by other needs, or compare more documents.")


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


def test_chosen_places_are_counted_in_whole_numbers() -> None:
    svg = ElementTree.fromstring(histogram([0.0, 0.0, 0.0], "place", "t", whole=True))
    texts = [element.text for element in svg.iter("text")]
    assert "0" in texts
    assert not [text for text in texts if text and "." in text]


def test_lines_between_ranks_are_named_where_they_are_drawn(small: KeptComparison) -> None:
    metric = small.metrics[0]
    for clusters in ((1, 1, 1), (1, 1, 2), (1, 2, 3)):
        kept = replace(metric, clusters=clusters)
        text = rendered(replace(small, human=(), metrics=(kept,)), None, "A title")
        num_lines = bars(kept, 0.05, "bars").count("stroke-dasharray")
        assert (num_lines > 0) == ("dashed lines part the ranks" in text) == (len({*clusters}) > 1)


def test_the_first_sentence_on_choices_has_no_settings(tmp_path: Path) -> None:
    lists = [{"id": "a", "candidates": ["the cat sat", "a cat sat", "the dog"]}]
    out = run_of(tmp_path, lists, "-u", 'bleu(tokenize="char") + 0.5*chrf(beta=3)')
    text = rendered(None, read_run(out), "A title")
    assert "1 list was decided by bleu + 0.5*chrf." in text
    assert "chrf(beta=3.0)" in text.partition("1 list was decided by")[2]
