"""The site: every page is in it, every link leads somewhere, there and in a clone, and nothing comes from elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
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
    folder = Path("site") / Path(links.site_path(page)).parent
    for link, _ in links.links(moved):
        assert Path(os.path.normpath(folder / link)).parts[0] == "site", link


def test_links_move_with_their_pages() -> None:
    for_site = module("links").for_site
    text = "[a](docs/runs.md#files) [b](README.md) [c](CITATION.cff) [d](https://x.org/y.md)"
    assert (
        for_site("CONTRIBUTING.md", text)
        == "[a](runs.md#files) [b](index.md) [c](CITATION.cff) [d](https://x.org/y.md)"
    )
    assert for_site("docs/runs.md", "[a](../CONTRIBUTING.md)") == "[a](contributing.md)"
    assert (
        for_site("docs/results/speed.md", "[a](../runs.md) [b](ray.md)")
        == "[a](../runs.md) [b](ray.md)"
    )
    assert for_site("docs/runs.md", "<!-- a\nb -->\n- c") == "\n- c"


def test_metrics_in_tables_lead_to_their_pages() -> None:
    for_site = module("links").for_site
    row = "| `chrf++` | `a` or [`bleu`](x.md) |"
    assert (
        for_site("docs/runs.md", row) == "| [`chrf++`](metrics/chrf.md) | `a` or [`bleu`](x.md) |"
    )
    assert (
        for_site("docs/results/speed.md", "| `doc-comet` |")
        == "| [`doc-comet`](../metrics/comet.md) |"
    )
    assert for_site("docs/runs.md", "`chrf`") == "`chrf`"


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


def test_pictures_are_small_and_shown() -> None:
    text = "".join(map(read, pages()))
    for path in (ROOT / "docs" / "pictures").iterdir():
        assert path.stat().st_size <= 150_000
        assert path.suffix == ".tsv" or f"pictures/{path.name})" in text, path.name
        if path.suffix == ".svg":
            svg = path.read_text(encoding="utf-8")
            assert path.stat().st_size <= 20_000
            assert 'viewBox="0 0 ' in svg
            assert "prefers-color-scheme:dark" in svg
            assert 'aria-label="' in svg
            assert not re.search(r"<script|<foreignObject|<image|(?:href|src)=", svg)


def test_screens_are_of_commands_that_pages_show() -> None:
    text = "".join(map(read, pages()))
    for recipe in module("pictures").RECIPES.values():
        assert f"discorank {re.split(' -o | --save ', recipe.commands[0])[0]}" in text
    for recording in module("terminals").RECORDINGS.values():
        assert recording.commands[0].split(" -")[0] in text


def test_plots_are_those_of_their_tables() -> None:
    plot = module("plot").plot
    for path in (ROOT / "docs" / "pictures").glob("*.tsv"):
        drawn = plot(path.read_text(encoding="utf-8"))
        assert path.with_suffix(".svg").read_text(encoding="utf-8") == drawn, path.name


@pytest.mark.parametrize("name", ["demo", "explain", "compare"])
def test_recordings_show_what_is_printed(name: str) -> None:
    terminals = module("terminals")
    recording = terminals.RECORDINGS[name]
    svg = (ROOT / "docs" / "pictures" / f"terminal-{name}.svg").read_text(encoding="utf-8")
    assert svg == terminals.drawn(recording, terminals.printed(recording)), (
        "run docs/site/terminals.py"
    )


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


@needs_mkdocs
def test_search_has_what_it_needs_on_disk(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text().startswith("var __index")
    assert "assets/javascripts/search_from_disk.js" in (site / "runs.html").read_text()
    assert (site / "assets" / "javascripts" / "search_from_disk.js").exists()


# what newcomers type, and the page that they should see first
QUESTIONS = {
    "best of n": "voting",
    "what is MBR": "what-is-mbr",
    "which metric for German": "choosing-a-metric",
    "use without internet": "learned-metrics",
    "GPU": "learned-metrics",
    "resume a run": "runs",
    "compare systems": "comparing-systems",
    "moses n-best list": "n-best-lists",
    "self-consistency": "voting",
    "reward model": "voting",
    "install": "quick-start",
    "openai": "serve",
    "vllm": "servers",
    "context": "documents",
    "summaries": "summaries",
    "write my own metric": "writing-a-metric",
    "preference pairs": "training",
    "how fast": "results/speed",
    "chrf": "metrics/chrf",
    "bleu": "metrics/bleu",
    "comet": "metrics/comet",
    "input format": "file-formats",
}


@needs_mkdocs
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_search_finds_the_right_page_first(site: Path) -> None:
    script = Path(__file__).with_name("search_site.js")
    command = ["node", str(script), str(site), *QUESTIONS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first = {query: pages[0] for query, pages in json.loads(done.stdout).items()}
    assert first == {query: f"{page}.html" for query, page in QUESTIONS.items()}
