"""Runs a scorer over comparisons: each distinct item is represented once, many lists are compared per call.

Nothing here depends on which metric runs, and no value depends on which lists share a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple, Self
from warnings import warn

import numpy as np

from ..errors import MetricError, TruncationWarning, excerpt
from ..representations import Block, FloatArray, IntArray, Reps
from ..scorer import Scorer, Scoring
from ..text.texts import Comparison
from .batches import in_halves, is_out_of_memory
from .by_sentence import columns_of, lift
from .store import Store

Columns = Sequence[Sequence[Comparison]]
LIST_CELLS = 1 << 22  # cells of one list above which it is compared some rows at a time


def matrices(
    metric: Scoring, comparisons: Sequence[Comparison], store: Store | None = None
) -> list[FloatArray]:
    """Values [H, R] of every comparison ([H, 1] when reference-free), in the paper's direction."""
    wanted = metric.info.needs_references
    empty = [not c.hypotheses or (wanted and not c.references) for c in comparisons]
    columns = [
        columns_of(metric, c) for c, none in zip(comparisons, empty, strict=True) if not none
    ]
    means = iter(of_columns(metric.scorer, columns, store or Store(metric.scorer)))
    return [
        np.zeros((len(c.hypotheses), len(c.references) if wanted else 1)) if none else next(means)
        for c, none in zip(comparisons, empty, strict=True)
    ]


def of_columns(scorer: Scorer, columns: Sequence[Columns], store: Store) -> list[FloatArray]:
    """The matrix of every list, given as `columns_of` gives it, in the paper's direction."""
    units = [unit for some in columns for unit in some]
    found = _matrices(scorer, [c for unit in units for c in unit], store)
    each = iter([_mean(found, unit) for unit in _consecutive(units)])
    return [
        np.concatenate([next(each) for _ in some], axis=1) if len(some) > 1 else next(each)
        for some in columns
    ]


def _matrices(scorer: Scorer, comparisons: Sequence[Comparison], store: Store) -> list[FloatArray]:
    folded = [Folded.of(block) for block in store.add(comparisons)]
    pieces = [_pieces(one.block) for one in folded]
    blocks = [piece for some in pieces for piece in some]
    found = iter(
        [u for part in store.groups(blocks) for u in _compared(scorer, store, blocks[part])]
    )
    return [
        one.spread(next(found) if len(some) == 1 else np.concatenate([next(found) for _ in some]))
        for one, some in zip(folded, pieces, strict=True)
    ]


def _pieces(block: Block) -> list[Block]:
    """The block, or some rows of it at a time if it is very large."""
    if block.cells <= LIST_CELLS:
        return [block]
    step = max(1, LIST_CELLS // max(1, len(block.references)))
    rows, columns = block.hypotheses, block.references.copy()  # no longer square
    return [Block(rows[i : i + step], columns, block.source) for i in range(0, len(rows), step)]


def _compared(scorer: Scorer, store: Store, blocks: Sequence[Block]) -> list[FloatArray]:
    """What the scorer returns for some blocks, which must be of their shapes."""
    with store.meter.stage("compare"):
        found = _in_memory(scorer, store.reps, blocks)
    store.meter.count(pairs=sum(block.cells for block in blocks))
    wanted = [
        (len(b.hypotheses), len(b.references) if scorer.info.needs_references else 1)
        for b in blocks
    ]
    shapes = [np.shape(u) for u in found]
    if shapes != wanted:
        raise MetricError(
            f"compare returned shapes {excerpt(shapes)}, expected {excerpt(wanted)}",
            where=type(scorer).__name__,
        )
    return found


def _in_memory(scorer: Scorer, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
    """What the scorer returns for all blocks, for some, or for some rows of one, as the memory allows."""
    try:
        return in_halves(partial(scorer.compare, reps), blocks)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return [_by_rows(scorer, reps, block) for block in blocks]


def _by_rows(scorer: Scorer, reps: Reps, block: Block) -> FloatArray:
    """A list that is too large at once, some of its rows at a time."""

    def compare(rows: Sequence[int]) -> Sequence[FloatArray]:
        part = Block(np.asarray(rows), block.references.copy(), block.source)
        return list(scorer.compare(reps, [part])[0])

    return np.array(in_halves(compare, block.hypotheses.tolist()))


def scores(
    metric: Scoring, segments: Sequence[Comparison], store: Store | None = None
) -> FloatArray:
    """One value per one-hypothesis comparison, all its references together, [n]."""
    units = [lift(metric, segment, strict=True) for segment in segments]
    store = store or Store(metric.scorer)
    found = _values(metric.scorer, store, store.add([c for unit in units for c in unit]))
    return np.array(
        [found[unit.start : unit.stop].mean() for unit in _consecutive(units)], np.float64
    )


def scores_and_statistics(
    metric: Scoring, segments: Sequence[Comparison], store: Store | None = None
) -> tuple[FloatArray, FloatArray]:
    """`scores` [n], and statistics [rows, columns] for `Scorer.aggregate`; a document has a row for each sentence."""
    scorer, store = metric.scorer, store or Store(metric.scorer)
    own = (
        scores(metric, segments, store)
        if type(scorer).statistics is not Scorer.statistics
        else None
    )
    units = [lift(metric, segment, strict=True) for segment in segments]
    blocks = store.add([c for unit in units for c in unit])
    if own is not None:

        def rows(some: Sequence[Block]) -> list[FloatArray]:
            return list(scorer.statistics(store.reps, some))

        return own, np.array(
            [row for part in store.groups(blocks) for row in in_halves(rows, blocks[part])]
        )
    found = _values(scorer, store, blocks)
    return np.array(
        [found[u.start : u.stop].mean() for u in _consecutive(units)], np.float64
    ), found[:, None]


def _values(scorer: Scorer, store: Store, blocks: Sequence[Block]) -> FloatArray:
    """One value per one-hypothesis block, [n]."""
    run = partial(
        scorer.compare_multi if scorer.info.needs_references else scorer.compare, store.reps
    )
    return np.array(
        [v.item() for part in store.groups(blocks) for v in in_halves(run, blocks[part])],
        np.float64,
    )


def warn_of_cuts(metric: Scoring, store: Store, comparisons: Sequence[Comparison]) -> None:
    """Warns with a TruncationWarning if texts were too long, alone or together."""
    cuts = (
        [store.cut_of([comparison]) for comparison in comparisons] if metric.info.bucketed else []
    )
    if any(cuts):
        found = f"{metric.name}: of {len(cuts)} comparisons, {cuts.count(2)} lost text and {cuts.count(1)} some context"
        warn(found, TruncationWarning, stacklevel=3)


def _consecutive(units: Sequence[Sequence[Comparison]]) -> Iterator[range]:
    start = 0
    for unit in units:
        yield range(start, start + len(unit))
        start += len(unit)


def _mean(found: Sequence[FloatArray], unit: range) -> FloatArray:
    if len(unit) == 1:
        return found[unit.start]
    return sum((found[i] for i in unit[1:]), found[unit[0]]) / len(unit)


class Folded(NamedTuple):
    """A block without its repeated rows and columns, in order of first appearance, and where each of them went."""

    block: Block
    hypotheses: IntArray | None  # [H] place among the distinct hypotheses; None if nothing repeats
    references: IntArray | None

    @classmethod
    def of(cls, block: Block) -> Self:
        """The distinct rows of a block; the block itself if nothing repeats."""
        rows, row_places = _distinct(block.hypotheses)
        columns, column_places = (rows, row_places) if block.square else _distinct(block.references)
        if row_places is None and column_places is None:
            return cls(block, None, None)
        return cls(Block(rows, columns, block.source), row_places, column_places)

    def spread(self, u: FloatArray) -> FloatArray:
        """The matrix of the whole block from that of the distinct one."""
        if self.hypotheses is not None:
            u = u[self.hypotheses]
        return u if self.references is None else u[:, self.references]


def _distinct(rows: IntArray) -> tuple[IntArray, IntArray | None]:
    number: dict[int, int] = {}
    places = [number.setdefault(row, len(number)) for row in rows.tolist()]
    if len(number) == len(rows):
        return rows, None
    return np.array(list(number), np.int64), np.array(places, np.int64)
