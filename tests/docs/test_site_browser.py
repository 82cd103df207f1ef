"""The site in a real browser, opened from disk: search finds, nothing is asked for elsewhere, pages fit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ..support.browser import Browser, browser_path

ROOT = Path(__file__).parents[2]
PROGRAM = browser_path()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium found"),
    pytest.mark.skipif(find_spec("material") is None, reason="needs the extra docs"),
]
SEARCH = """(async () => {
  const field = document.querySelector("input.md-search__input")
  field.focus()
  field.value = "moses"
  field.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }))
  for (let i = 0; i < 200; i++) {
    const found = document.querySelectorAll(".md-search-result__item")
    if (found.length) return [...found].map(item => item.innerHTML).join()
    await new Promise(done => setTimeout(done, 100))
  }
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-d", str(folder)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(command, cwd=ROOT, env=surroundings, check=True)
    return folder


@pytest.fixture(params=[False, True], ids=["light", "dark"])
def browser(request: pytest.FixtureRequest) -> Iterator[tuple[Browser, bool]]:
    """A browser of its own for each scheme, as the site remembers what was chosen."""
    with Browser(str(PROGRAM)) as running:
        yield running, request.param


def test_pages_fit_and_load_nothing_from_elsewhere(
    site: Path, browser: tuple[Browser, bool]
) -> None:
    running, dark = browser
    for name in ("index", "api", "coming-from-other-tools"):
        for width in (390, 1280):
            with running.page(site / f"{name}.html", width, 900, dark) as page:
                assert page.run("document.documentElement.scrollWidth") <= width
                scheme = page.run("document.body.getAttribute('data-md-color-scheme')")
                assert scheme == ("slate" if dark else "default")
                asked = [
                    event["request"]["url"] for event in page.events("Network.requestWillBeSent")
                ]
                assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_search_finds_from_disk(site: Path, browser: tuple[Browser, bool]) -> None:
    running, dark = browser
    with running.page(site / "index.html", 1280, 900, dark) as page:
        assert "n-best-lists.html" in page.run(SEARCH)
