"""What `train` prints of judgements that were made one score: how strict raters are, and what dimensions weigh."""

from __future__ import annotations

from ....rerank.chooser.raters_and_preferences import Raters
from ....rerank.chooser.weighted_dimensions import Weighted
from ....tables import aligned
from ...options.judgements import JudgedDocuments


def tables_of(judged: JudgedDocuments) -> list[str]:
    """A table of raters, of dimensions, or none."""
    tables = []
    if judged.raters is not None:
        tables.append(_raters(judged.raters))
    if judged.weighted is not None:
        tables.append(_dimensions(judged.weighted))
    return tables


def _raters(raters: Raters) -> str:
    """How strict they are."""
    what = "times the mean rater's scores" if raters.are_factors else "added to scores"
    effects = [[name, f"{effect:.3f}"] for name, effect in raters.effects.items()]
    return aligned([["rater", what], *effects])


def _dimensions(weighted: Weighted) -> str:
    """Their weights, how far scores lie apart, and the texts that do not count."""
    rows = [["dimension", "better", "weight", "standard deviation within a segment"]]
    for own, deviation in zip(weighted.dimensions, weighted.deviations, strict=True):
        better = "lower" if own.lower else "higher"
        rows.append([own.name, better, f"{own.weight:g}", f"{deviation:.3f}"])
    lines = [aligned(rows)]
    if weighted.partly:
        judged = f"{weighted.texts} texts were judged in every dimension"
        lines.append(f"{judged}; {weighted.partly} only in some, and count as not judged")
    return "\n".join(lines)
