"""What a metric reads before a sentence: nothing, or the k sentences before it of one side or another.

A reading is written ``alone``, ``chosen-2``, ``reference-2`` or ``hypothesis-2``: the sentences before are those that
were chosen, those of the human reference, or those of the very system whose text is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.support.judged_segments import JudgedSegments, contexts_of
from benchmarks.support.kept_arrays import KeptArrays
from discorank import load_metric
from discorank.metrics.base import Metric
from discorank.metrics.execution.evaluate import matrices
from discorank.metrics.execution.store import Store
from discorank.metrics.representations import FloatArray
from discorank.metrics.text.texts import Comparison, Context, Item
from discorank.rerank.lists import CandidateList

ALONE = "alone"


class Reading(NamedTuple):
    """Whose sentences, and how many."""

    whose: str
    width: int

    @classmethod
    def of(cls, name: str) -> Reading:
        """From its name.

        >>> Reading.of("reference-2"), Reading.of("alone")
        (Reading(whose='reference', width=2), Reading(whose='alone', width=0))
        """
        whose, _, width = name.partition("-")
        return cls(whose, int(width or 0))


def own_contexts(records: Sequence[CandidateList], width: int) -> list[list[Context]]:
    """What stands before every candidate of every list: the sentences of the same system."""
    num_systems = len(records[0].candidates)
    columns = [contexts_of(records, [s] * len(records), width) for s in range(num_systems)]
    return [list(row) for row in zip(*columns, strict=True)]


def contexts(data: JudgedSegments, reading: Reading) -> Iterator[list[Context]]:
    """What stands before every candidate of the segments that count."""
    if reading.whose == "hypothesis":
        of_candidates = own_contexts(data.records, reading.width)
        yield from (of_candidates[i] for i in data.rated)
        return
    shared = data.contexts("alone" if not reading.width else f"{reading.whose}-{reading.width}")
    for i in data.rated:
        yield [shared[i]] * len(data.records[i].candidates)


def first_context(before: Sequence[Context]) -> Context | None:
    """The context that all candidates share, None where they do not."""
    return before[0] if all(own == before[0] for own in before) else None


def candidate_items(data: JudgedSegments, reading: Reading) -> Iterator[tuple[Item, ...]]:
    """The candidates of the segments that count, each behind its sentences before."""
    for i, before in zip(data.rated, contexts(data, reading), strict=True):
        pairs = zip(data.records[i].candidates, before, strict=True)
        yield tuple(Item(candidate.text, tuple(own.target)) for candidate, own in pairs)


def comparisons(data: JudgedSegments, reading: Reading) -> Iterator[Comparison]:
    """The candidates of a segment against each other and, last, the human reference behind its own sentences."""
    references = data.references
    behind = data.contexts(f"reference-{reading.width}")
    for i, items in zip(data.rated, candidate_items(data, reading), strict=True):
        reference = Item(references[i], tuple(behind[i].target))
        yield Comparison(items, (*items, reference))


def utilities(metric: Metric, data: JudgedSegments, reading: Reading) -> FloatArray:
    """Utilities of all systems against all and the reference, [segments, systems, systems + 1]."""
    store = Store(metric.scorer)
    rows = matrices(metric, list(comparisons(data, reading)), store)
    return metric.utility_sign * np.array(rows)


class KeptUtilities:
    """Utilities under metrics of an encoder, kept in a folder.

    Args:
        work: the folder.
        only: what is not there yet is not computed.
        model: an English encoder.
    """

    def __init__(self, work: Path, only: bool = False, model: str = "minilm") -> None:
        self.arrays, self.model = KeptArrays(work, only), model

    def metric(self, name: str, width: int) -> Metric:
        """The metric that reads so many sentences before."""
        metric: Any = load_metric(name, model=self.model, context=width)
        return metric  # type: ignore[no-any-return]

    def of(self, data: JudgedSegments, name: str, reading: Reading) -> FloatArray | None:
        """As `utilities`; None where only kept ones are wanted and they are not there."""
        metric = self.metric(name, reading.width)
        key = f"{data.key} {metric.signature()} {metric.info.version} {reading}"
        what = f"{data.name}.{name}.{reading.whose}-{reading.width}"
        return self.arrays.array(what, key, lambda: utilities(metric, data, reading))
