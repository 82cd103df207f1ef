"""The files of ``--segment-scores`` and ``--document-scores``: a row per segment or document and system."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ....metrics.representations import FloatArray
from ....rerank.runs.rows import as_line
from ....rerank.selection.comparison import MetaEvaluation, SystemComparison, clean
from ....tables import comma_separated
from ...row_files import complete_rows
from .compared_sets import ComparedSet

Row = dict[str, Any]


def write_scores(
    path: str | None,
    rows_of: Callable[[SystemComparison], Iterator[Row]],
    sets: Sequence[ComparedSet],
) -> None:
    """Writes the rows of all sets, with the set's name where there are several; CSV if the path ends so."""
    if path is None:
        return
    with complete_rows(path) as file:
        file.writelines(score_lines(_rows_of_sets(sets, rows_of), path.endswith(".csv")))


def _rows_of_sets(
    sets: Sequence[ComparedSet], rows_of: Callable[[SystemComparison], Iterator[Row]]
) -> Iterator[Row]:
    for compared in sets:
        if compared.systems is not None:
            for row in rows_of(compared.systems):
                yield {"set": compared.name, **row} if len(sets) > 1 else row


def segment_rows(comparison: SystemComparison) -> Iterator[Row]:
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


def document_rows(comparison: SystemComparison) -> Iterator[Row]:
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


def score_lines(rows: Iterator[Row], as_csv: bool) -> Iterator[bytes]:
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
