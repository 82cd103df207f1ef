"""The answer of a comparison in lines of text: which system is best and how sure that is, a table, what was computed.

The words are those of the page of `discorank report`.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

from ..printable import printable
from ..rerank.selection.kept_comparison import KeptComparison
from ..tables import CORRECTED, Table, aligned
from .baseline_table import baseline_tables
from .summary_text import summary
from .system_ranking import ranking_tables
from .words import short_names

WIDTH = 100


def answer_lines(comparison: KeptComparison) -> Iterator[str]:
    """The headline, what supports it, what to be careful with, the table, the signatures."""
    said = summary(comparison)
    yield _wrapped(said.headline)
    for sentence in said.sentences:
        yield _wrapped(sentence)
    for warning in said.warnings:
        yield _wrapped(f"Careful: {warning}")
    for table in [*ranking_tables(comparison, WIDTH), *baseline_tables(comparison, WIDTH)]:
        yield ""
        yield printable(table.title)
        yield _right_aligned(table)
    yield ""
    yield from _computed(comparison)


def _computed(comparison: KeptComparison) -> Iterator[str]:
    """The signatures of the metrics, how tests were made, and where more is told."""
    names = short_names([metric.name for metric in comparison.metrics])
    for metric in comparison.metrics:
        name = names[metric.name]
        yield printable(metric.name if name == metric.name else f"{name}: {metric.name}")
    settings = comparison.settings
    units = " or ".join(dict.fromkeys(f"{m.units} {m.unit}s" for m in comparison.metrics))
    how = f"{settings['draws']} draws of {units}, seed {settings['seed']}"
    corrected = CORRECTED[settings["correction"]]
    yield f"{how}{corrected}; discorank {comparison.versions['discorank']}"


def _wrapped(sentence: str) -> str:
    return fill(printable(sentence), WIDTH, subsequent_indent="  ", break_long_words=False)


def _right_aligned(table: Table) -> str:
    """The table with its numbers on the right of their columns."""
    rows = [table.head, *table.rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shifted = [
        [row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        for row in rows
    ]
    return aligned(shifted)
