"""``discorank metrics [NAME]``: what metrics there are, and the settings of one.

``discorank docs [TOPIC]``: the pages of documentation that come with the package.
"""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import MISSING, fields
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

from ...functions import metrics as known_metrics
from ...metrics.errors import unknown
from ...metrics.registry import metric_class, names, registered_name
from ...metrics.spec.checked_settings import settings
from ...metrics.storage.bundled_files import pages
from ...tables import aligned
from ..options import command, field_helps


@settings
class MetricsOptions:
    """What to show.

    Args:
        metric_name: a metric, to see its equation and settings; all if not given.
    """

    metric_name: str | None = None


@command(
    "List the metrics, or show one.",
    positional={"metric_name": "?"},
    first=["metric_name"],
    examples=[
        "metrics",
        "metrics chrf",
        "metrics discoscore",
    ],
)
def metrics(options: MetricsOptions) -> None:
    """Lists the metrics."""
    name = options.metric_name
    sys.stdout.write((_metric(name) if name else repr(known_metrics())) + "\n")


def _metric(name: str) -> str:
    """The module's docstring (equation, range, direction), then the settings."""
    name = registered_name(name)
    cls = metric_class(name)
    rows = setting_rows(name)
    doc = inspect.getdoc(inspect.getmodule(cls)) or ""
    about = (inspect.getdoc(cls) or "").partition("Args:")[0].strip()
    table = aligned([["setting", "default", "what it does"], *rows]) if rows else ""
    return "\n\n".join(filter(None, (name, doc, about, table)))


def setting_rows(name: str) -> list[list[str]]:
    """Every setting of a registered metric: its name, its default as JSON, and what it does."""
    cls: Any = metric_class(name)
    fixed = names()[name].settings if name in names() else {}
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        helps |= field_helps(base)
    rows = []
    for field in fields(cls):
        if field.default is MISSING:  # not a setting
            continue
        value = fixed.get(field.name, field.default)
        rows.append([field.name, json.dumps(value), helps.get(field.name, str(field.type))])
    return rows


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
