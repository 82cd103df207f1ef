"""Links of the documentation, which lead somewhere in a clone, on a code host and in the site.

The site has the pages of docs/ as they stand there, and two from outside; a link to README.md leads to its first page,
and any other file of the project that a page links to is copied.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from metric_pages import page_of

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "DECISIONS.md": "decisions.md",
}
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
COMMENT = re.compile(r"^<!--.*?-->$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
METRIC_NAME = re.compile(r"(?<!\[)`([a-z][\w+-]*)`(?!\])")
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def site_path(page: str) -> str:
    """Where a file of the project stands in the site: ``docs/runs.md`` as ``runs.md``."""
    return {**OUTSIDE, "README.md": "index.md"}.get(page, page.removeprefix("docs/"))


def source_pages() -> list[str]:
    """The pages of docs/, from the top of the project."""
    docs = ROOT / "docs"
    found = (*docs.glob("*.md"), *docs.glob("results/*.md"))
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def target_of(page: str, link: str) -> str:
    """The file of the project that a link of a page leads to, as a path from its top; the page itself for ``""``."""
    return str(((ROOT / page).parent / link).resolve().relative_to(ROOT)) if link else page


def for_site(page: str, text: str) -> str:
    """A page with links as they are in the site, metrics in tables linked to their pages, and without comments.

    A comment would swallow a list behind it.
    """
    folder = os.path.dirname(site_path(page))

    def moved(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        if not link or "://" in link or not ((ROOT / page).parent / link).is_file():
            return match[0]
        return f"]({os.path.relpath(site_path(target_of(page, link)), folder or '.')}{anchor})"

    def linked(match: re.Match[str]) -> str:
        target = page_of(match[1])
        return f"[{match[0]}]({os.path.relpath(target, folder or '.')})" if target else match[0]

    moved_links = COMMENT.sub("", LINK.sub(moved, text))
    return TABLE_ROW.sub(lambda row: METRIC_NAME.sub(linked, row[0]), moved_links)


def links(text: str) -> list[tuple[str, str]]:
    """(file, anchor) of every link of a page within the project; one of them may be empty."""
    found = LINK.findall(CODE.sub("", text))
    return [(link, anchor[1:]) for link, anchor in found if "://" not in link]


def slug(title: str, separator: str = "-") -> str:
    """The anchor of a heading as code hosts make it.

    >>> slug("One `list`, split: 3.2x")
    'one-list-split-32x'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def anchors(text: str) -> set[str]:
    """The anchors of a page."""
    titles = HEADING.findall(CODE.sub("", text))
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles)
    return {slug(title) for title in plain}
