"""What ``compare`` says first: which system is best and how sure that is, one table, and what was computed.

The words are those of the page of `discorank report`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from ....printable import printable
from ....report.baseline_table import baseline_tables
from ....report.summary_text import summary
from ....report.system_ranking import ranking_tables, short_names
from ....rerank.selection.kept_comparison import KeptComparison
from ....rerank.selection.significance import Correction
from ....tables import CORRECTED, Table, aligned, text
from .chooser_tables import choosers_tables
from .printed_sets import mean_tables
from .set_runs import ComparedSet

WIDTH = 100


def answered(
    comparisons: Sequence[KeptComparison | None],
    sets: Sequence[ComparedSet],
    level: float,
    correction: Correction,
) -> str:
    """The answer for every set, and the means over several.

    Args:
        comparisons: of systems, one per set; None where choosers alone were compared.
        sets: what was compared.
        level: of significance.
        correction: of p-values.
    """
    parts = []
    for comparison, compared in zip(comparisons, sets, strict=True):
        lines = [] if len(sets) == 1 else [printable(compared.name), ""]
        if comparison is not None:
            lines += _about_systems(comparison)
        if compared.choosers is not None:
            tables = choosers_tables(compared.choosers, level, correction)
            lines += ["", text(tables)] if lines else [text(tables)]
        parts.append("\n".join(lines).rstrip("\n") + "\n")
    if len(sets) > 1:
        parts.append(text(mean_tables(sets)))
    return "\n".join(part for part in parts if part)


def _about_systems(comparison: KeptComparison) -> Iterator[str]:
    """The headline, what supports it, what to be careful with, the tables, the signatures."""
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
    yield "--details prints the tests of every pair and agreement with people by all measures"


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
