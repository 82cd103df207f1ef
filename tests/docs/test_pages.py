"""How much there is to read and how it is written: `python -m benchmarks.structure.pages` prints the figures."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import mean

import pytest

from benchmarks.structure.pages import Page, page_of, pages_of, sentences

ROOT = Path(__file__).parents[2]
PAGES = pages_of(ROOT / "docs")
MAX_GUIDE_PAGES, MAX_GUIDE_WORDS = 22, 32_000
MAX_RESULTS, MAX_RESULT_WORDS = 12, 700
MAX_REFERENCE_WORDS, MAX_DESIGN_WORDS = 6_000, 2_000
MAX_MEAN, MAX_SENTENCE = 20, 40
MIN_PAGES_WITH_PICTURES = 15
README_LINES, COLUMNS = 60, 100
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.group}-{page.name}")


def words_in(group: str) -> int:
    return sum(page.words for page in PAGES if page.group == group)


def test_the_guide_is_short() -> None:
    assert sum(page.group == "guide" for page in PAGES) <= MAX_GUIDE_PAGES
    assert words_in("guide") <= MAX_GUIDE_WORDS
    assert words_in("reference") <= MAX_REFERENCE_WORDS
    assert words_in("design") <= MAX_DESIGN_WORDS


def test_results_are_a_page_per_study() -> None:
    results = [page for page in PAGES if page.group == "results"]
    assert len(results) <= MAX_RESULTS
    assert {page.name: page.words for page in results if page.words > MAX_RESULT_WORDS} == {}


@each_page
def test_sentences_are_short(page: Page) -> None:
    assert mean(page.lengths) <= MAX_MEAN
    assert [text for text in page.sentences if len(text.split()) > MAX_SENTENCE] == []


@each_page
def test_link_texts_are_words(page: Page) -> None:
    assert page.file_name_links == []


def test_pictures_are_on_many_pages() -> None:
    assert sum(page.pictures > 0 for page in PAGES) >= MIN_PAGES_WITH_PICTURES


def test_every_page_but_the_first_is_linked_from_another() -> None:
    linked = set()
    for path in (ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md")):
        for link in re.findall(r"\]\(([^)#\s]+\.md)", path.read_text(encoding="utf-8")):
            linked.add((path.parent / link).resolve())
    pages = {*ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md")} - {ROOT / "docs/index.md"}
    assert sorted(str(path) for path in pages - linked) == []


def test_the_readme_is_one_screen() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = 0
    for block in re.split(r"\n\n+", re.sub(r"^```.*\n", "", text, flags=re.MULTILINE)):
        is_prose = not re.match(r"\||[#-] |```|    ", block)
        plain = re.sub(r"\]\([^)]*\)", "]", block)
        lines += -(-len(plain) // COLUMNS) if is_prose else plain.count("\n") + 1
    assert lines <= README_LINES


def test_what_is_counted(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading. No sentence.\n\nOne [two](x.md), e.g. `a b. c`. Three\nfour!\n\n- An item:\n\n"
        "```sh\nNo. Sentence.\n```\n| No | sentence. |\n\n"
        "> **Limits.** See [runs.md](runs.md) ([b](y(z).md)).\n\n![Alt. Text](a.svg)\n"
    )
    counted = page_of(page, "guide")
    assert counted.sentences == [
        "One two, e.g `code`.",
        "Three four!",
        "An item:",
        "**Limits.",
        "See runs.md (b).",
    ]
    assert (counted.pictures, counted.links, counted.file_name_links) == (1, 3, ["runs.md"])
    assert counted.lengths == [4, 2, 2, 1, 3]
    assert list(sentences("By Zhao et al. 2023. No")) == ["By Zhao et al 2023.", "No"]
