"""Scores of texts, one for each with all its references together, and what corpus scores are added up from.

Why a hypothesis got its values, as the data that a metric's scorer gives of its pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain, compress
from typing import Any

import numpy as np

from ..errors import InputError, MetricError
from ..metric_settings import MetricSettings
from ..optional_packages import failures_named
from ..reading_plan import Link, comparisons_of
from ..representations import Block, FloatArray
from ..scorer import Scorer
from ..text.texts import Comparison
from .evaluate import Folded, compared_blocks, counted, is_by_units, lift, matrices
from .store import Store, in_halves


def scores(
    metric: MetricSettings,
    segments: Sequence[Comparison],
    store: Store | None = None,
) -> FloatArray:
    """One value per one-hypothesis comparison, all its references together, [n]."""
    store = store or Store(metric.scorer)
    aligned = [is_by_units(metric, segment) for segment in segments]
    values = np.empty(len(segments))
    values[aligned] = _scores_of_aligned(metric, list(compress(segments, aligned)), store)
    others = np.logical_not(aligned)
    units = [lift(metric, segment, strict=True) for segment in compress(segments, others)]
    with failures_named(metric.signature()):
        blocks = store.add(list(chain.from_iterable(units)))
        values[others] = _means(_values(metric.scorer, store, blocks), units)
    return values


def _scores_of_aligned(
    metric: MetricSettings, segments: Sequence[Comparison], store: Store
) -> list[float]:
    """The value of every document: the mean over its references or the best, as several references of a text count."""
    values = []
    for matrix in matrices(metric, segments, store):
        is_mean = metric.info.multi_reference == "mean"
        best = np.max if metric.info.higher_is_better else np.min
        values.append(float(matrix.mean() if is_mean else best(matrix)))
    return values


def scores_and_statistics(
    metric: MetricSettings,
    segments: Sequence[Comparison],
    store: Store | None = None,
) -> tuple[FloatArray, FloatArray]:
    """`scores` [n], and statistics [rows, columns] for `Scorer.aggregate`.

    A document has a row for each sentence. One that is aligned has one for each bead with its best reference, or, where
    corpus scores are means, one of its value; these rows come last.

    Raises:
        InputError: documents are read in windows, and the metric's corpus score is no mean.
    """
    scorer = metric.scorer
    store = store or Store(scorer)
    aligned = np.array([is_by_units(metric, segment) for segment in segments], bool)
    documents = list(compress(segments, aligned))
    values = np.empty(len(segments))
    values[aligned] = _scores_of_aligned(metric, documents, store)
    is_mean = type(scorer).statistics is Scorer.statistics
    units = [lift(metric, segment, strict=True) for segment in compress(segments, ~aligned)]
    beads = [] if is_mean else [beads_of(metric, document, store) for document in documents]
    with failures_named(metric.signature()):
        blocks = store.add(list(chain.from_iterable(chain(units, beads))))
        of_units, statistics = _values_and_statistics(scorer, store, blocks)
    values[~aligned] = _means(of_units, units)
    if is_mean and documents:
        rows = values[aligned][:, None]
        statistics = np.concatenate([statistics, rows]) if units else rows
    return values, statistics


def beads_of(metric: MetricSettings, document: Comparison, store: Store) -> list[Comparison]:
    """The beads of a hypothesis with the reference it is nearest to.

    Raises:
        InputError: documents are read in windows.
    """
    if not metric.unit_plan(document).counts_once:
        raise InputError(
            "its corpus score adds up counts, and windows have sentences several times",
            where=metric.signature(),
            fix="Align the sentences themselves: aligned(METRIC), without windows",
        )
    (matrix,) = matrices(metric, [document], store)
    best = int((matrix if metric.info.higher_is_better else -matrix)[0].argmax())
    return [link.comparison for link in links_of_pair(metric, document.part([0], [best]), store)]


def check_scores(
    signature: str, values: FloatArray, places: Sequence[str], may_lack: bool = False
) -> None:
    """Refuses scores or statistics [n] or [n, columns] that are no numbers.

    Args:
        signature: of the metric whose they are.
        values: the scores.
        places: where each text stands, [n].
        may_lack: whether nan says that a text has no score.

    Raises:
        MetricError: one is not finite; names the first, and how many there are.
    """
    rows = values.reshape(len(values), -1)
    is_finite = (np.isfinite(rows) | (may_lack & np.isnan(rows))).all(axis=1)
    if is_finite.all():
        return
    bad = np.flatnonzero(~is_finite)
    first = int(bad[0])
    shown = ", ".join(map(str, np.atleast_1d(values[first]).tolist()[:3]))
    raise MetricError(
        f"a score of {shown}, expected a finite number ({len(bad)} of {len(values)} texts here have none)",
        where=f"{places[first]}: {signature}",
        fix="Look at the text and at the metric's model, or leave one of them out",
    )


def _values(scorer: Scorer, store: Store, blocks: Sequence[Block]) -> FloatArray:
    """One value per one-hypothesis block, [blocks]."""
    compare = scorer.compare_multi if scorer.info.needs_references else scorer.compare
    values: list[float] = []
    for group in store.groups(blocks):
        with counted(scorer, store):
            group_values = in_halves(partial(compare, store.reps), blocks[group])
        values += [value.item() for value in group_values]
    return np.array(values, np.float64)


def _values_and_statistics(
    scorer: Scorer, store: Store, blocks: Sequence[Block]
) -> tuple[FloatArray, FloatArray]:
    """Values [blocks] and the scorer's statistics [blocks, columns] of one-hypothesis blocks."""

    def pairs_of(part: Sequence[Block]) -> list[tuple[float, FloatArray]]:
        return list(zip(*scorer.values_and_statistics(store.reps, part), strict=True))

    pairs: list[tuple[float, FloatArray]] = []
    for group in store.groups(blocks):
        with counted(scorer, store):
            pairs += in_halves(pairs_of, blocks[group])
    values = np.array([value for value, _ in pairs], np.float64)
    return values, np.array([row for _, row in pairs])


def _means(values: FloatArray, units: Sequence[Sequence[Comparison]]) -> FloatArray:
    """The mean of the values of every unit, [units]; `values` stand one unit after the other."""
    means = []
    start = 0
    for unit in units:
        with np.errstate(over="ignore", invalid="ignore"):
            means.append(values[start : start + len(unit)].mean())
        start += len(unit)
    return np.array(means, np.float64)


def explanations_of(metric: MetricSettings, comparison: Comparison) -> list[dict[str, Any]]:
    """JSON data of the one hypothesis with every reference, or once where the metric reads none.

    A segment metric that reads documents gives the data of their sentences one after the other, or, where it compares
    units, what belongs together with its share of the value.
    """
    store = Store(metric.scorer)
    num_references = len(comparison.references) if metric.info.needs_references else 1
    if is_by_units(metric, comparison):
        pairs = [comparison.part([0], [j]) for j in range(num_references)]
        return [_explained_pair(metric, pair, store) for pair in pairs]
    explanations: list[dict[str, Any]] = []
    with failures_named(metric.signature()):
        blocks = store.add(lift(metric, comparison))
        for j in range(num_references):
            parts = [metric.scorer.describe(store.reps, block, 0, j) for block in blocks]
            explanations.append(parts[0] if len(parts) == 1 else {"sentences": parts})
    return explanations


def links_of_pair(metric: MetricSettings, pair: Comparison, store: Store) -> list[Link]:
    """The units that belong together in one document and one reference or its source."""
    plan = metric.unit_plan(pair)
    with failures_named(metric.signature()):
        spreads = [Folded.of(block) for block in store.add(comparisons_of([plan]))]
        compared = compared_blocks(metric.scorer, store, [spread.block for spread in spreads])
        of_units = [spread.spread(u) for spread, u in zip(spreads, compared, strict=True)]
    return plan.links(of_units)


def _explained_pair(metric: MetricSettings, pair: Comparison, store: Store) -> dict[str, Any]:
    """The alignment of a document with its reference, or its source."""
    explanations = []
    for unit, share, value in links_of_pair(metric, pair, store):
        (block,) = store.add([unit])
        counterpart = unit.references[0] if unit.references else unit.source
        explanations.append(
            {
                "hypothesis": str(unit.hypotheses[0].text),
                "counterpart": None if counterpart is None else str(counterpart.text),
                "share": share,
                "value": value,
                **metric.scorer.describe(store.reps, block, 0, 0),
            }
        )
    return {"aligned": explanations}
