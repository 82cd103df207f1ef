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


@pytest.fixture(scope="module", autouse=True)
def site_modules() -> Iterator[None]:
    """What builds the site is no package."""
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    yield
    sys.path.remove(str(ROOT / "docs" / "site"))


def module(name: str) -> Any:
    return import_module(name)


def pages() -> list[str]:
    """Every page of the project: those of the site, and README."""
    outside = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "DECISIONS.md")
    docs = (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/results/*.md"))
    return [*outside, *sorted(path.relative_to(ROOT).as_posix() for path in docs)]


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


def test_links_lead_to_files_and_headings() -> None:
    links = module("links")
    for page in pages():
        for link, anchor in links.links(read(page)):
            target = links.target_of(page, link)
            assert (ROOT / target).is_file(), (page, link)
            if anchor:
                assert anchor in links.anchors(read(target)), f"{page}: {link}#{anchor}"


def test_no_link_of_the_site_leaves_its_folder() -> None:
    links = module("links")
    for page in pages():
        moved = links.for_site(page, read(page))
        folder = Path("site") / Path(links.site_path(page)).parent
        for link, _ in links.links(moved):
            assert Path(os.path.normpath(folder / link)).parts[0] == "site", (page, link)


def test_the_python_reference_has_every_public_name_and_no_insides() -> None:
    page = module("api_page").api_page()
    titles = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(titles) == sorted(dir(discorank))
    assert not re.search(r"pydantic|Annotated\[|__\w+__|ForwardRef|<function", page)


def test_the_command_line_reference_has_every_subcommand() -> None:
    page = module("commands_page").commands_page()
    titles = re.findall(r"^## discorank (.+)$", page, re.MULTILINE)
    assert [title for title in titles if " " not in title] == [*SUBCOMMANDS]
    assert "train prior" in titles


def test_plots_are_those_of_their_tables() -> None:
    plot = module("plot").plot
    for path in (ROOT / "docs" / "pictures").glob("*.tsv"):
        drawn = plot(path.read_text(encoding="utf-8"))
        assert path.with_suffix(".svg").read_text(encoding="utf-8") == drawn, path.name


def test_a_recording_shows_what_is_printed() -> None:
    terminals = module("terminals")
    recording = terminals.RECORDINGS["explain"]
    svg = (ROOT / "docs" / "pictures" / "terminal-explain.svg").read_text(encoding="utf-8")
    assert svg == terminals.drawn(recording, terminals.printed(recording)), (
        "run docs/site/terminals.py"
    )


def built_site(folder: Path) -> Path:
    """Build the site; warnings are errors."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    surroundings = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        command, cwd=ROOT, env=surroundings, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    return folder


@pytest.mark.slow
@pytest.mark.skipif(find_spec("material") is None, reason="needs the extra docs")
def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    site = built_site(tmp_path)
    built = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    made = {
        *map(module("links").site_path, pages()),
        *GENERATED,
        *module("metric_pages").metric_pages(),
    }
    assert {page.replace(".md", ".html") for page in made} <= built
    loaded = re.compile(r"<(?:script|img|iframe|source|video|object)\b[^>]*?(?:https?:)?//[^>]*>")
    linked = re.compile(r"<link\b[^>]*?(?:https?:)?//[^>]*>")
    for path in site.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert loaded.findall(text) + linked.findall(text) == [], path.name
    for path in site.rglob("*.css"):
        assert re.findall(r"(?:@import|url\()\W*(?:https?:)?//", path.read_text()) == [], path.name
