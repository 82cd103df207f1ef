"""Writes the tables of metrics and of limits in README.md and docs/ from what each declares: ``make docs``.

A table stands between ``<!-- NAME: make docs writes this list -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from discorank.cli.commands.cite import papers
from discorank.cli.options import field_helps
from discorank.metrics.registry import BUILT_IN, metric_class, papers_of
from discorank.metrics.storage.limits import Limits

ROOT = Path(__file__).parents[1]
HEAD = ("name", "what it is", "unit", "range", "better", "reads", "papers")


def room_of(name: str) -> str:
    """The folder of metrics/ that a metric stands in, or the one beside it."""
    target = BUILT_IN[name].target
    return target.lstrip(".").partition(".")[0].partition(":")[0]


def names_by_room() -> str:
    """A line per folder of metrics/, with the names that stand in it."""
    rooms = defaultdict(list)
    for name in BUILT_IN:
        rooms[room_of(name)].append(f"`{name}`")
    lines = [f"- {room}: {', '.join(sorted(names))}" for room, names in rooms.items()]
    return "\n".join(lines)


def table_of_metrics() -> str:
    """A Markdown table with a row per metric."""
    rows = [HEAD, tuple("---" for _ in HEAD)]
    rows += [row_of(name) for name in BUILT_IN]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def row_of(name: str) -> tuple[str, ...]:
    """What a metric declares of itself."""
    info = metric_class(name).info
    low, high = info.bounds
    reads = ["hypothesis"]
    if info.needs_references:
        reads.append("reference")
    if info.needs_source:
        reads.append("source")
    if info.takes_source:
        reads.append("source (if given)")
    papers = "; ".join(citation(paper) for paper in papers_of(name, {}) or ())
    papers = papers or "of the model"
    return (
        f"`{name}`",
        info.summary,
        info.unit,
        f"{low:g} to {high:g}",
        "higher" if info.higher_is_better else "lower",
        ", ".join(reads),
        papers,
    )


def table_of_limits() -> str:
    """A Markdown table with a row per bound on what is read."""
    helps = field_helps(Limits)
    rows = ["| limit | default | what it bounds |", "|---|---|---|"]
    for name, value in asdict(Limits()).items():
        bound = in_units(value, name.endswith("_bytes"))
        rows.append(f"| `{name}` | {bound} | {helps[name].rstrip('.')} |")
    return "\n".join(rows)


def in_units(value: int, is_bytes: bool) -> str:
    """A number as people read it: bytes in MiB or KiB where they are whole ones.

    >>> in_units(1 << 25, True), in_units(1 << 16, True), in_units(32768, False)
    ('32 MiB', '64 KiB', '32,768')
    """
    if is_bytes and value % (1 << 20) == 0:
        return f"{value >> 20} MiB"
    if is_bytes and value % (1 << 10) == 0:
        return f"{value >> 10} KiB"
    return f"{value:,}"


def citation(key: str) -> str:
    """Surnames of one or two authors, or of the first of more, and the year."""
    fields = papers()[key].fields
    surnames = [author.partition(",")[0] for author in fields["author"].split(" and ")]
    authors = " and ".join(surnames) if len(surnames) <= 2 else f"{surnames[0]} et al."
    for latex, letter in ((r"{\'c}", "ć"), (r"{\'a}", "á")):
        authors = authors.replace(latex, letter)
    return f"{authors} {fields['year']}"


def with_tables(text: str) -> str:
    """A page with its tables made anew."""
    makers = {
        "metrics": names_by_room,
        "table of metrics": table_of_metrics,
        "table of limits": table_of_limits,
    }
    for name, make in makers.items():
        begin = f"<!-- {name}: make docs writes this list -->"
        pattern = re.compile(f"{re.escape(begin)}\n.*?<!-- end -->", re.DOTALL)
        block = f"{begin}\n{make()}\n<!-- end -->"
        text = pattern.sub(lambda _, block=block: block, text)  # type: ignore[misc]
    return text


PAGES = (ROOT / "README.md", ROOT / "docs" / "metrics.md", ROOT / "docs" / "security.md")


def main() -> None:
    """Writes the pages."""
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
