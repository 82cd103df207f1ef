"""What ``compare`` says first: which system is best and how sure that is, one table, and what was computed.

The words are those of the page of `discorank report`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....printable import printable
from ....report.compared_texts import answer_lines
from ....rerank.selection.kept_comparison import KeptComparison
from ....rerank.selection.significance import Correction
from ....tables import text
from .chooser_comparison import choosers_tables
from .compared_sets import ComparedSet
from .printed_sets import mean_tables

MORE = "--details prints the tests of every pair and agreement with people by all measures"


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
            lines += [*answer_lines(comparison), MORE]
        if compared.choosers is not None:
            tables = choosers_tables(compared.choosers, level, correction)
            lines += ["", text(tables)] if lines else [text(tables)]
        parts.append("\n".join(lines).rstrip("\n") + "\n")
    if len(sets) > 1:
        parts.append(text(mean_tables(sets)))
    return "\n".join(part for part in parts if part)
