"""Links of the documentation, which lead somewhere in a clone, on a code host and in the site.

In the site README.md is the first page and docs/index.md the page of contents; a page outside docs/ stands beside the
others, and any other file of the project is copied with it.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "docs/index.md": "contents.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
COMMENT = re.compile(r"^<!--.*?-->$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def site_path(page: str) -> str:
    """Where a file of the project stands in the site: ``docs/runs.md`` as ``runs.md``."""
    return OUTSIDE.get(page, page.removeprefix("docs/"))


def target_of(page: str, link: str) -> str:
    """The file of the project that a link of a page leads to, as a path from its top; the page itself for ``""``."""
    return str(((ROOT / page).parent / link).resolve().relative_to(ROOT)) if link else page


def for_site(page: str, text: str) -> str:
    """A page with links as they are in the site, without comments, which would swallow a list behind them."""

    def moved(match: re.Match[str]) -> str:
        link, anchor = match[1], match[2] or ""
        if not link or "://" in link or not ((ROOT / page).parent / link).is_file():
            return match[0]
        return f"]({site_path(target_of(page, link))}{anchor})"

    return COMMENT.sub("", LINK.sub(moved, text))


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
