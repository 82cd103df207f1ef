"""Writes the tables of metrics and of limits in docs/ from what each declares: ``make docs``.

A table stands between ``<!-- NAME: make docs writes this list -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from discorank.cli.options import field_helps
from discorank.metrics.registry import BUILT_IN, metric_class
from discorank.metrics.storage.limits import Limits

sys.path.insert(0, str(Path(__file__).parent / "site"))

from metric_pages import facts, facts_of, inputs_of, room_of

ROOT = Path(__file__).parents[1]
HEAD = ("name", "what it is", "reads beside the text", "better", "languages")


def table_of_metrics() -> str:
    """A Markdown table of the metrics of each room, under its title."""
    rooms = defaultdict(list)
    for name in BUILT_IN:
        rooms[room_of(name)].append(name)
    parts = []
    for room, names in rooms.items():
        rows = [row_of(name) for name in names]
        table = "\n".join(f"| {' | '.join(row)} |" for row in (HEAD, ("---",) * len(HEAD), *rows))
        parts.append(f"## {facts()['rooms'][room]['title']}\n\n{table}\n")
    return "\n".join(parts).rstrip()


def row_of(name: str) -> tuple[str, ...]:
    """What there is to know of a metric before one takes it."""
    info = metric_class(name).info
    better = "higher" if info.higher_is_better else "lower"
    reads = ", ".join(inputs_of(info)[1:]) or "the text alone"
    return (f"`{name}`", info.summary, reads, better, facts_of(name)["languages"])


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


def with_tables(text: str) -> str:
    """A page with its tables made anew."""
    makers = {
        "table of metrics": table_of_metrics,
        "table of limits": table_of_limits,
    }
    for name, make in makers.items():
        begin = f"<!-- {name}: make docs writes this list -->"
        pattern = re.compile(f"{re.escape(begin)}\n.*?<!-- end -->", re.DOTALL)
        block = f"{begin}\n{make()}\n<!-- end -->"
        text = pattern.sub(lambda _, block=block: block, text)  # type: ignore[misc]
    return text


PAGES = sorted((ROOT / "docs").glob("*.md"))


def main() -> None:
    """Writes the pages."""
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
