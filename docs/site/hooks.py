"""What mkdocs does beside mkdocs.yml: pages from outside docs/ and from the code, links, anchors, words of search."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from api_page import api_page
from commands_page import commands_page
from links import (
    OUTSIDE,
    ROOT,
    for_site,
    links,
    site_path,
    slug,
    source_pages,
    target_of,
)
from metric_pages import metric_names, metric_pages, navigation, room_of

SEARCH = "assets/javascripts/search_from_disk.js"
STYLE = "assets/stylesheets/site.css"


def on_config(config: Any) -> Any:
    """Anchors as code hosts make them; what lets search work from disk comes from here, not from elsewhere."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    config.extra["polyfills"] = [SEARCH]
    for part in config.nav:
        if "Metrics" in part:
            part["Metrics"] += navigation()
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds what does not stand in docs/."""
    pages = {site: (ROOT / page).read_text(encoding="utf-8") for page, site in OUTSIDE.items()}
    pages = {site: for_site(page, pages[site]) for page, site in OUTSIDE.items()}
    pages |= {"api.md": api_page(), "command-line.md": commands_page()}
    pages |= metric_pages()
    for site, text in pages.items():
        files.append(File.generated(config, site, content=text))
    for asset in (SEARCH, STYLE):
        source = Path(__file__).with_name(asset.rpartition("/")[2])
        files.append(File.generated(config, asset, abs_src_path=str(source)))
    for page in _linked_files():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / page)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Links of the pages in docs/ as they are in the site; what search finds a page by stands in mkdocs.yml."""
    keywords = config.extra["keywords"] | metric_names()
    page.meta["tags"] = list(keywords.get(page.file.src_uri, []))
    page.meta["search"] = {"boost": search_boost(page.file.src_uri)}
    if page.file.src_uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    source = f"docs/{page.file.src_uri}"
    is_written = (ROOT / source).exists() and page.file.generated_by is None
    return for_site(source, markdown) if is_written else markdown


def search_boost(page: str) -> float:
    """How much a page counts in search: the guide before the references, metrics without a model before others."""
    if page in ("api.md", "command-line.md", *OUTSIDE.values()):
        return 0.1
    folder, _, name = page.rpartition("/")
    if folder == "metrics" and room_of(name.removesuffix(".md")) == "lexical":
        return 0.9
    return 0.6 if folder or page == "design.md" else 1


def _linked_files() -> list[str]:
    """Files outside docs/ that pages link to and that are no pages."""
    found = set()
    for page in (*OUTSIDE, *source_pages()):
        for link, _anchor in links((ROOT / page).read_text(encoding="utf-8")):
            target = target_of(page, link)
            if not target.startswith("docs/") and not target.endswith(".md"):
                found.add(target)
    return sorted(target for target in found if site_path(target) == target)
