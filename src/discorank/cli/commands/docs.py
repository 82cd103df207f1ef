"""``discorank docs [TOPIC]``: the pages of documentation that come with the package."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from ...metrics.errors import unknown
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.bundled_files import pages
from ...tables import aligned
from ..options import command

URL_NAME = (
    "Documentation"  # of the address in the package's metadata, where one was configured at build
)


@settings
class DocsOptions:
    """Which page.

    Args:
        topic: a page to print; all topics if not given.
    """

    topic: str | None = None


@command(
    "List the pages of documentation, or print one, as Markdown.",
    positional={"topic": "?"},
    first=["topic"],
    examples=["docs", "docs quick-start", "docs hugging-face"],
)
def docs(options: DocsOptions) -> None:
    """Prints a page, or the topics."""
    known = pages()
    if options.topic is None:
        rows = [[f"  {name}", _title(path)] for name, path in known.items()]
        where = f"\n\nThe same as a site: {url}" if (url := documentation_url()) else ""
        sys.stdout.write(f"topics of discorank docs\n{aligned(rows)}{where}\n")
        return
    name = options.topic.removeprefix("docs/").removesuffix(".md")
    if name not in known:
        raise unknown("topic", options.topic, known)
    sys.stdout.write(known[name].read_text(encoding="utf-8"))


def _title(path: Path) -> str:
    """The first heading of a page."""
    with open(path, encoding="utf-8") as lines:
        headings = (line[2:].strip() for line in lines if line.startswith("# "))
        return next(headings, path.stem)


def documentation_url() -> str | None:
    """The address of the documentation that the package was built with; None without one."""
    try:
        urls = metadata("discorank").get_all("Project-URL") or []
    except PackageNotFoundError:  # a checkout that is not installed
        return None
    named = dict(url.split(", ", 1) for url in urls if ", " in url)
    return named.get(URL_NAME)
