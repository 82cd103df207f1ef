"""Bounds on the length of pages and of their sentences; `python -m benchmarks.structure.pages` prints the figures."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from benchmarks.structure.pages import pages_of

PAGES = pages_of(Path(__file__).parents[2] / "docs")
MAX_GUIDE_PAGES, MAX_RESULTS, MAX_RESULT_WORDS = 22, 13, 700
MAX_WORDS = {"guide": 32_000, "reference": 6_000, "design": 2_000}
MAX_MEAN, MAX_SENTENCE = 20, 40


def test_pages_are_few_and_short() -> None:
    groups = [page.group for page in PAGES]
    assert groups.count("guide") <= MAX_GUIDE_PAGES
    assert groups.count("results") <= MAX_RESULTS
    results = {page.name: page.words for page in PAGES if page.group == "results"}
    assert {name: words for name, words in results.items() if words > MAX_RESULT_WORDS} == {}
    for group, bound in MAX_WORDS.items():
        assert sum(page.words for page in PAGES if page.group == group) <= bound, group


def test_sentences_are_short() -> None:
    for page in PAGES:
        assert mean(page.lengths) <= MAX_MEAN, page.name
        long = [text for text in page.sentences if len(text.split()) > MAX_SENTENCE]
        assert long == [], page.name
