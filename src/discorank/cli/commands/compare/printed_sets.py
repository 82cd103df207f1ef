"""The tables that ``compare`` prints of one systems file or several, and the files of scores that it writes.

The answer, in the words of the page of ``discorank report``; the tables that say all, as text, Markdown, LaTeX, CSV or
JSON; a row per segment or document for ``--segment-scores`` and ``--document-scores``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....metrics.representations import FloatArray
from ....printable import printable
from ....report.compared_texts import answer_lines
from ....report.comparison_tables import agreement_table, comparison_tables
from ....rerank.runs.row_forms import as_line
from ....rerank.selection.comparison import (
    MetaEvaluation,
    SystemComparison,
    clean,
    mean_agreements,
    mean_choices,
)
from ....rerank.selection.significance import Correction
from ....tables import (
    Column,
    Format,
    Table,
    comma_separated,
    numbers,
    of_set,
    printed,
    shown,
    whole,
    words,
)
from ...running import complete_rows
from .chooser_comparison import choosers_tables, percent
from .compared_sets import ComparedSet

_MEAN_GAINS = {
    "regret": "regret",
    "gain_over_best": "gain over the best system",
    "gain_over_random": "gain over a random system",
}
MORE = "--details prints the tests of every pair and agreement with people by all measures"


def answered(sets: Sequence[ComparedSet], level: float, correction: Correction) -> str:
    """The answer for every set, and the means over several.

    Args:
        sets: what was compared.
        level: of significance.
        correction: of p-values.
    """
    parts = []
    for compared in sets:
        lines = [] if len(sets) == 1 else [printable(compared.name), ""]
        if compared.kept is not None:
            lines += [*answer_lines(compared.kept), MORE]
        if compared.choosers is not None:
            tables = choosers_tables(compared.choosers, level, correction)
            choices = shown([table for table in tables if table.name == "choosers"], "table")
            lines += ["", choices] if lines else [choices]
        parts.append("\n".join(lines).rstrip("\n") + "\n")
    if len(sets) > 1:
        parts.append(shown(mean_tables(sets), "table"))
    return "\n".join(part for part in parts if part)


def printed_sets(
    sets: Sequence[ComparedSet], format: Format, level: float, correction: Correction
) -> str:
    """All tables of the sets, and the means over several."""
    tables: list[Table] = []
    for compared in sets:
        of_this = _set_tables(compared, level, correction)
        tables += of_this if len(sets) == 1 else of_set(compared.name, of_this)
    return printed(tables if len(sets) == 1 else [*tables, *mean_tables(sets)], format)


def _set_tables(compared: ComparedSet, level: float, correction: Correction) -> list[Table]:
    """How a set was compared, its systems, then its choosers."""
    tables = [Table("", (), [compared.settings], "settings")]
    if compared.kept is not None:
        tables += comparison_tables(compared.kept)
    if compared.choosers is not None:
        tables += choosers_tables(compared.choosers, level, correction)
    return tables


def mean_tables(sets: Sequence[ComparedSet]) -> list[Table]:
    """The means that there are, of metrics and of choosers."""
    by_system, by_segment = [], []
    systems = [compared.systems for compared in sets if compared.systems is not None]
    for mean in mean_agreements(systems):
        key = {"metric": mean.metric, "human": mean.human, "sets": mean.sets}
        by_system.append({**key, "by": "system", **mean.systems._asdict()})
        by_segment.append({**key, "by": "segment", **mean.segments._asdict()})
    tables = []
    if by_system:
        about = "Metrics against people"
        tables = [
            agreement_table(f"{about}: means over sets", by_system, means=True),
            agreement_table(
                f"{about}, segments or documents: means over sets", by_segment, means=True
            ),
        ]
    choosers = [compared.choosers for compared in sets if compared.choosers is not None]
    if choices := [mean._asdict() for mean in mean_choices(choosers)]:
        columns = [
            words("chooser", "chooser"),
            words("human scores", "human"),
            whole("sets", "sets"),
            *numbers(_MEAN_GAINS),
            Column("oracle reached", ("oracle_reached",), percent),
        ]
        keys = ("human", "chooser")
        title = "Choosers: means over sets"
        tables.append(Table(title, columns, choices, "chooser_means", keys))
    return tables


def write_scores(
    path: str | None,
    rows_of: Callable[[SystemComparison], Iterator[dict[str, Any]]],
    sets: Sequence[ComparedSet],
) -> None:
    """Writes the rows of all sets, with the set's name where there are several; CSV if the path ends so."""
    if path is None:
        return
    with complete_rows(path) as file:
        file.writelines(score_lines(_rows_of_sets(sets, rows_of), path.endswith(".csv")))


def _rows_of_sets(
    sets: Sequence[ComparedSet], rows_of: Callable[[SystemComparison], Iterator[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    for compared in sets:
        if compared.systems is not None:
            for row in rows_of(compared.systems):
                yield {"set": compared.name, **row} if len(sets) > 1 else row


def segment_rows(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per segment and system: what each metric of segments gives, and the human scores there are."""
    column = 0  # of the segment among those of all documents
    for document in comparison.documents:
        for i in range(document.segments):
            for s, system in enumerate(comparison.systems):
                yield {
                    "document": document.id,
                    "segment": i,
                    "system": system,
                    "scores": {
                        scored.name: clean(scored.segments[s, column])
                        for scored in comparison.scored
                        if scored.segments is not None
                    },
                    "human": {
                        meta.human.name: _human_score(meta, meta.human.segments, system, column)
                        for meta in comparison.meta
                    },
                }
            column += 1


def document_rows(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per document and system: each metric's corpus score of the document, and the human scores there are."""
    names = [scored.name for scored in comparison.scored]
    scores = [scored.document_scores() for scored in comparison.scored]
    human_scores = [meta.human.document_scores() for meta in comparison.meta]
    for d, document in enumerate(comparison.documents):
        for s, system in enumerate(comparison.systems):
            own_scores = [clean(values[s, d]) for values in scores]
            yield {
                "document": document.id,
                "system": system,
                "scores": dict(zip(names, own_scores, strict=True)),
                "human": {
                    meta.human.name: _human_score(meta, values, system, d)
                    for meta, values in zip(comparison.meta, human_scores, strict=True)
                },
            }


def _human_score(
    meta: MetaEvaluation,
    scores: FloatArray | None,  # [judged systems, segments or documents]
    system: str,
    column: int,
) -> float | None:
    """The score of a system that people judged, None of another or where there are no scores."""
    names = meta.human.systems
    if scores is None or system not in names:
        return None
    return clean(scores[names.index(system), column])


def score_lines(rows: Iterator[dict[str, Any]], as_csv: bool) -> Iterator[bytes]:
    """Rows of scores, whose keys may differ between sets, as JSON lines or as CSV (human scores as ``human:NAME``)."""
    if not as_csv:
        yield from map(as_line, rows)
        return
    flat_rows = []
    for row in rows:
        scores, human = row.pop("scores"), row.pop("human")
        columns_of_people = {f"human:{name}": value for name, value in human.items()}
        flat_rows.append({**row, **scores, **columns_of_people})
    head = list(dict.fromkeys(key for row in flat_rows for key in row))
    cells = [[row.get(key) for key in head] for row in flat_rows]
    yield comma_separated(head, cells).encode()
