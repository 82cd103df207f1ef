"""The site: every page is in it, every link leads somewhere, there and in a clone, and nothing comes from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

import discorank
from discorank.cli.main import SUBCOMMANDS

ROOT = Path(__file__).parents[2]
GENERATED = {"api.md", "command-line.md"}
needs_mkdocs = pytest.mark.skipif(find_spec("material") is None, reason="needs the extra docs")


@pytest.fixture(scope="module", autouse=True)
def site_modules() -> Iterator[None]:
    """What builds the site is no package."""
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    yield
    sys.path.remove(str(ROOT / "docs" / "site"))


def module(name: str) -> Any:
    return import_module(name)


def pages() -> list[str]:
    """Every page of the project that is one of the site."""
    outside = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
    return [*outside, *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def navigated(entry: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
        return
    for part in entry.values() if isinstance(entry, dict) else entry:
        yield from navigated(part)


def test_the_navigation_has_every_page_once() -> None:
    nav = list(navigated(yaml.safe_load(read("mkdocs.yml"))["nav"]))
    expected = {module("links").site_path(page) for page in pages()} | GENERATED
    assert sorted(nav) == sorted(expected)


@pytest.mark.parametrize("page", pages())
def test_links_lead_to_files_and_headings(page: str) -> None:
    links = module("links")
    for link, anchor in links.links(read(page)):
        target = links.target_of(page, link)
        assert (ROOT / target).is_file(), link
        if anchor:
            assert anchor in links.anchors(read(target)), f"{link}#{anchor}"


@pytest.mark.parametrize("page", pages())
def test_no_link_of_the_site_leaves_its_folder(page: str) -> None:
    links = module("links")
    moved = links.for_site(page, read(page))
    for link, _ in links.links(moved):
        assert not link.startswith(("..", "docs/")), link


def test_links_move_with_their_pages() -> None:
    for_site = module("links").for_site
    text = "[a](docs/runs.md#files) [b](docs/index.md) [c](CITATION.cff) [d](https://x.org/y.md)"
    assert (
        for_site("README.md", text)
        == "[a](runs.md#files) [b](contents.md) [c](CITATION.cff) [d](https://x.org/y.md)"
    )
    assert for_site("docs/runs.md", "[a](../CONTRIBUTING.md)") == "[a](contributing.md)"
    assert for_site("docs/runs.md", "<!-- a\nb -->\n- c") == "\n- c"


def test_anchors_are_those_of_code_hosts() -> None:
    links = module("links")
    text = "# One `list`, split\n```sh\n# no heading\n```\n## A [link](x.md) - 3.2x\n"
    assert links.anchors(text) == {"one-list-split", "a-link---32x"}


def test_the_python_reference_has_every_public_name_and_no_insides() -> None:
    page = module("api_page").api_page()
    titles = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(titles) == sorted(dir(discorank))
    assert not re.search(r"pydantic|Annotated\[|__\w+__|ForwardRef|<function", page)
    assert "    temperature: float = 1.0,\n" in page
    assert "| `temperature` | divides log-probabilities, and confidences. |" in page
    assert "#### MBRDecoder.decode" in page
    assert "`MBRDecoder.width`: How many preceding sentences" in page


def test_docstrings_become_markdown() -> None:
    def shown(a: int, *rest: int, b: str = "x|y", **more: int) -> int:
        """Says it.

            f(x) = 1

        Args:
            a: one thing
                and its end.
            b: this | that.

        Raises:
            ValueError: never.
        >>> 1 + 1
        2
        """
        return a

    api_page = module("api_page")
    assert api_page._signature("f", shown) == (
        "```python\nf(a: int, *rest: int, b: str = 'x|y', **more: int) -> int\n```\n"
    )
    assert api_page.documentation(shown) == (
        "Says it.\n\n    f(x) = 1\n\n\n| Args | |\n|---|---|\n| `a` | one thing and its end. |\n"
        "| `b` | this \\| that. |\n\n\n| Raises | |\n|---|---|\n| `ValueError` | never. |\n\n"
        "\n```pycon\n>>> 1 + 1\n2\n```\n"
    )


def test_the_command_line_reference_has_every_subcommand() -> None:
    page = module("commands_page").commands_page()
    titles = re.findall(r"^## discorank (.+)$", page, re.MULTILINE)
    assert [title for title in titles if " " not in title] == [*SUBCOMMANDS]
    assert "train prior" in titles
    assert page.count("usage: discorank") == len(titles)
    assert max(map(len, page.splitlines())) <= 120


def test_pictures_are_small_and_of_the_commands_that_their_page_shows() -> None:
    tutorials = {page: read(page) for page in pages() if "/tutorial-" in page}
    shown = set()
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.stat().st_size <= 150_000
        (text,) = (text for text in tutorials.values() if f"(pictures/{path.name})" in text)
        shown.add(text)
        for command in module("pictures").RECIPES[path.stem].commands:
            assert f"discorank {command}\n" in text
    assert len(shown) == len(tutorials) == 3


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; warnings are errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@needs_mkdocs
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(site: Path) -> None:
    built = {path.name for path in site.glob("*.html")}
    expected = {module("links").site_path(page).replace(".md", ".html") for page in pages()}
    assert expected | {"api.html", "command-line.html"} <= built
    loaded = re.compile(r"<(?:script|img|iframe|source|video|object)\b[^>]*?(?:https?:)?//[^>]*>")
    linked = re.compile(r"<link\b[^>]*?(?:https?:)?//[^>]*>")
    for path in site.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert loaded.findall(text) + linked.findall(text) == [], path.name
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\W*(?:https?:)?//", path.read_text()) == [], path.name


@needs_mkdocs
def test_search_has_what_it_needs_on_disk(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text().startswith("var __index")
    assert "assets/javascripts/search_from_disk.js" in (site / "runs.html").read_text()
    assert (site / "assets" / "javascripts" / "search_from_disk.js").exists()
