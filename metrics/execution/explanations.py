"""Why a hypothesis got its values, as the data that a metric's scorer gives of its pairs."""

from __future__ import annotations

from typing import Any

from ..metric_settings import MetricSettings
from ..reading_plan import Link, comparisons_of
from ..text.texts import Comparison
from .by_sentence import is_by_units, lift
from .evaluate import Folded, compared_blocks
from .failures import failures_named
from .store import Store


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
