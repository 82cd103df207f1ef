"""The report in a real browser: it shows, asks for nothing, runs nothing from outside, and works with keys alone.

``DISCORANK_BROWSER`` names the browser; without it Chromium or Chrome is looked for, and without any the tests are
skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest

from discorank.cli.main import main
from discorank.report.page import rendered
from discorank.rerank.selection.comparison import SystemComparison
from discorank.rerank.selection.saved_comparison import save

from ..support.browser import Browser, Page, browser_path
from ..support.comparisons import EVIL, LISTS, comparison, run_of

PROGRAM = browser_path()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium found"),
]
CHANGE = """(() => {
  const menu = document.getElementById('document-%s');
  menu.value = %s;
  menu.dispatchEvent(new Event('change'));
})()"""
VISIBLE = """[...document.querySelectorAll('%s')].map((element) => {
  const box = element.getBoundingClientRect();
  return [box.left, box.right, box.width, box.height];
})"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(PROGRAM or "") as running:
        yield running


@pytest.fixture(scope="module")
def small() -> SystemComparison:
    return comparison(("System-A", "System-B", "a-system-with-a-very-long-name-" * 3), 5)


@pytest.fixture(scope="module")
def both(small: SystemComparison, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page on compared systems and on choices."""
    folder = tmp_path_factory.mktemp("both")
    save(small, folder / "run")
    lists = [*LISTS, {"id": "broken", "candidates": []}]
    run = run_of(folder, lists, "-u", "chrf", "--max-errors", "1")
    assert (
        main(["report", str(folder / "run"), str(run), "-o", str(folder / "page.html"), "--quiet"])
        == 0
    )
    return folder / "page.html"


def text(page: Page, selector: str) -> str:
    return str(page.run(f"document.querySelector({json.dumps(selector)}).textContent"))


@pytest.mark.parametrize(("width", "dark"), [(360, False), (1280, True), (1920, False)])
def test_it_shows_without_complaint_and_fits(
    browser: Browser, both: Path, width: int, dark: bool
) -> None:
    with browser.page(both, width, 900, dark) as page:
        assert page.complaints() == []
        assert page.requests() == [both.as_uri()]
        assert page.run("document.documentElement.scrollWidth") <= width
        page.run("for (const part of document.querySelectorAll('details')) part.open = true")
        assert page.run("document.documentElement.scrollWidth") <= width
        boxes = page.run(VISIBLE % "figure img")
        assert len(boxes) == 1 + 2 + 3 + 2
        assert all(
            left >= 0 and right <= width and across > 200 and high > 50
            for left, right, across, high in boxes
        )
        assert text(page, ".headline").startswith("System-A comes first by people's mqm")
        assert text(page, "#document-status") == "Document 1 of 5: d0"
        assert text(page, "#list-status") == "List 1 of 3: one"
        assert "broken" in text(page, "#errors")


def test_markup_from_outside_does_not_run(browser: Browser, tmp_path: Path) -> None:
    systems = (EVIL, "<b>B</b>", "javascript:alert(1)")
    made = comparison(systems, 3, names=EVIL)
    documents = tuple(
        replace(one, systems={**one.systems, EVIL: (EVIL, "<b id=bold>x</b>")})
        for one in made.documents
    )
    changed = replace(made, documents=documents)
    out = tmp_path / "page.html"
    out.write_text(rendered(changed, None), encoding="utf-8")
    with browser.page(out) as page:
        assert page.complaints() == []
        assert page.requests() == [out.as_uri()]
        assert page.run("typeof window.ran") == "undefined"
        assert page.run("document.querySelectorAll('main :not(figure) > img, #bold').length") == 0
        shown = page.run(
            "[...document.querySelectorAll('#document-view .cell h5')].map((one) => one.textContent)"
        )
        assert EVIL in shown
        pieces = "[...document.querySelector(`#document-view .cell[data-system]`).querySelectorAll('p > ins')]"
        assert "img" in page.run(pieces + ".map((one) => one.textContent).join(' ')")
    lists = [
        {
            "id": EVIL,
            "source": EVIL,
            "candidates": [EVIL, {"text": "<i>x</i>", "system": EVIL}],
            "note": EVIL,
        }
    ]
    run = run_of(tmp_path, lists, "-u", "chrf")
    assert main(["report", str(run), "-o", str(out), "--quiet"]) == 0
    with browser.page(out) as page:
        assert page.complaints() == []
        assert page.run("typeof window.ran") == "undefined"
        assert page.run("document.querySelectorAll('main :not(figure) > img, i').length") == 0
        assert EVIL in text(page, "#list-view tbody")


def test_a_script_of_others_is_refused(
    browser: Browser, small: SystemComparison, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    added = "<script>window.ran = 1</script><img src='https://example.invalid/x.png' onerror='window.ran = 2'></body>"
    out.write_text(rendered(small, None).replace("</body>", added), encoding="utf-8")
    with browser.page(out) as page:
        assert page.run("typeof window.ran") == "undefined"
        assert len([line for line in page.complaints() if "Content Security Policy" in line]) >= 2


def test_documents_change_by_keys_and_controls(browser: Browser, both: Path) -> None:
    with browser.page(both) as page:
        page.run("document.getElementById('document-view').focus()")
        page.press("ArrowRight")
        page.press("ArrowRight")
        assert text(page, "#document-status") == "Document 3 of 5: d2"
        assert text(page, "#document-view h3") == "d2"
        page.press("ArrowLeft")
        assert page.run("document.getElementById('document-choice').value") == "1"
        page.run("document.getElementById('document-order').focus()")
        page.press("ArrowLeft")  # belongs to the menu
        assert text(page, "#document-status") == "Document 2 of 5: d1"
        cells = "[...document.querySelectorAll('#document-view .cell h5')].map((one) => one.textContent)"
        assert page.run(cells)[:4] == ["source", "refA (reference)", "System-A", "System-B"]
        page.run("document.querySelectorAll('#document-systems input')[1].click()")
        assert page.run(cells)[:4] == ["source", "refA (reference)", "System-A", "source"]
        page.run("document.querySelectorAll('#document-given input')[0].click()")
        assert page.run(cells)[:3] == ["refA (reference)", "System-A", "refA (reference)"]
        assert page.run("document.querySelectorAll('#document-view ins').length") > 0
        page.run(
            CHANGE % ("base", json.dumps(json.dumps(["system", "System-A"], separators=(",", ":"))))
        )
        assert (
            page.run("document.querySelectorAll('#document-view ins, #document-view del').length")
            == 0
        )
        page.run("document.querySelectorAll('#document-systems input')[1].click()")
        page.run(CHANGE % ("score", '"1"'))
        page.run(CHANGE % ("order", '"apart"'))
        rows = "[...document.querySelectorAll('#document-view tbody tr')]"
        scores = rows + ".map((row) => Number(row.cells[2].textContent))"
        apart = []
        for _ in range(5):
            values = page.run(scores)
            apart.append(max(values) - min(values))
            page.run("document.getElementById('document-after').click()")
        assert apart == sorted(apart, reverse=True)
        assert page.run("document.getElementById('document-after').disabled")


def test_everything_is_reached_with_the_tab_key(browser: Browser, both: Path) -> None:
    here = "(document.activeElement.id || document.activeElement.textContent.slice(0, 24))"
    with browser.page(both) as page:
        page.press("Tab")
        assert page.run(here) == "Skip to the report"
        assert page.run("document.activeElement.getBoundingClientRect().left") >= 0
        page.press("Enter")
        assert page.run(here) == "main"
        reached = []
        for _ in range(60):
            page.press("Tab")
            reached.append(page.run(here))
            if page.run(
                "document.activeElement.matches('a, button, select, [tabindex=\"0\"], summary')"
            ):
                assert (
                    page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                ), reached[-1]
        wanted = [
            "document-choice",
            "document-order",
            "document-view",
            "list-choice",
            "list-view",
            "chrf",
            "ter",
        ]
        places = ("chrf", "document-choice", "document-view", "list-choice", "list-view")
        order = [reached.index(name) for name in places]
        assert set(wanted) <= set(reached)
        assert order == sorted(order)


TEXTS = [
    ("the cat sat on the mat", "the dog sat on a mat today"),
    ("a b c d e f", "c d a b e g f"),
    ("", "x"),
    ("same", "same"),
    ("It's 3.5 km – really!", "It is 3.5 km, really?"),
    ("Ça va très bien", "Ça allait bien\n très"),
    ("我们今天去公园", "今天我们去大公园"),
    ("a a a a b", "b a a a"),
    ("x y z x y z x y", "y z x x y y z"),
]


def test_differences_are_those_of_difflib(browser: Browser, both: Path) -> None:
    with browser.page(both) as page:
        for first, second in TEXTS:
            a, b = (
                page.run(f"wordsOf({json.dumps(one)}).map((one) => one.word)")
                for one in (first, second)
            )
            blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()[:-1]
            runs = page.run(f"equalRuns({json.dumps(a)}, {json.dumps(b)})")
            merged: list[tuple[int, int, int]] = []
            for run in runs:  # difflib joins runs that touch in both
                if merged and (merged[-1][0] + merged[-1][2], merged[-1][1] + merged[-1][2]) == (
                    run["a"],
                    run["b"],
                ):
                    last = merged.pop()
                    merged.append((last[0], last[1], last[2] + run["length"]))
                else:
                    merged.append((run["a"], run["b"], run["length"]))
            assert merged == [tuple(block) for block in blocks]
            pieces = page.run(f"differences({json.dumps(first)}, {json.dumps(second)})")
            kept = "".join(piece["text"] for piece in pieces if piece["kind"] != "first")
            assert "".join(kept.split()) == "".join(second.split())
            left = "".join(piece["text"] for piece in pieces if piece["kind"] != "second")
            assert "".join(left.split()) == "".join(first.split())


def test_marked_errors_are_underlined_where_they_are(browser: Browser, tmp_path: Path) -> None:
    models = Path(__file__).parents[1] / "golden" / "xcomet" / "models"
    metric = f'model="{models}/tiny-xcomet",encoder_path="{models}/tiny-xlmr-xl",decode="clean"'
    lists = [
        {"id": "x", "source": "s", "candidates": ["🎉🎉 the <b>cat</b> sat", "a cat sat there"]}
    ]
    run = run_of(tmp_path, lists, "-u", f"xcomet-qe({metric}) + xcomet({metric})")
    out = tmp_path / "page.html"
    assert main(["report", str(run), "-o", str(out), "--quiet"]) == 0
    marks = (
        "[...document.querySelectorAll('#list-view u')].map((u) => [u.className, u.textContent])"
    )
    lines = "[...document.querySelectorAll('.hint u')].map((u) => getComputedStyle(u).textDecorationStyle)"
    for dark in (False, True):
        with browser.page(out, dark=dark) as page:
            assert page.complaints() == []
            assert page.run("document.querySelectorAll('b').length") == 0
            expected = [
                [severity, text]
                for place in page.run("dataOf('lists-data').lists[0].ranking")
                for pieces in place["marked"].values()
                for text, severity in pieces
                if severity
            ]
            assert page.run(marks) == expected != []
            assert page.run(lines) == ["dotted", "solid", "double"]


def test_errors_that_annotators_marked_stand_in_the_text(browser: Browser, tmp_path: Path) -> None:
    said = [
        {"rater": "anna", "score": 60, "spans": [{"start": 2, "end": 5, "severity": "major"}]},
        {"rater": "ben", "score": 80, "spans": [{"start": 4, "end": 9, "severity": "minor"}]},
    ]
    # a letter that takes two places in JavaScript stands before the marks
    row: dict[str, Any] = {"id": "d", "references": {"r": ["a cat sat"]}}
    row |= {"systems": {"A": ["😀 cat sat"], "B": ["a cat sat"]}}
    row |= {"ratings": {"esa": {"A": [said], "B": [[said[0]]]}}}
    path, folder, page_path = tmp_path / "x.jsonl", tmp_path / "saved", tmp_path / "page.html"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    compare = ["compare", str(path), "-m", "chrf", "--draws", "50", "--save", str(folder)]
    assert main([*compare, "--raters", "--quiet"]) == 0
    assert main(["report", str(folder), "-o", str(page_path), "--quiet"]) == 0
    marks = """[...document.querySelectorAll('[data-system="A"] mark')].map((mark) =>
      [mark.textContent, mark.className, mark.title])"""
    with browser.page(page_path) as page:
        assert page.run(marks) == [
            ["ca", "major", "anna: major"],
            ["t", "major several", "anna: major\nben: minor"],
            [" sat", "minor", "ben: minor"],
        ]
        page.run(CHANGE % ("base", json.dumps('["rater","ben"]')))
        assert page.run(marks) == [["t sat", "minor", "ben: minor"]]
        assert "not annotated" in text(page, '[data-system="B"]')
