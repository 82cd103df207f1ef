"""Runs a scorer over comparisons: each distinct item is represented once, many lists are compared per call.

Nothing here depends on which metric runs, and no value depends on which lists share a call.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import chain, compress
from typing import NamedTuple, Self
from warnings import warn

import numpy as np

from ..errors import InputError, MetricError, TruncationWarning, excerpt
from ..representations import Block, FloatArray, IntArray, Reps
from ..scorer import Scorer, Scoring
from ..text.texts import Comparison, Truncation
from .batches import in_halves, is_out_of_memory
from .blas_threads import one_blas_thread
from .by_sentence import is_aligned, lift, plan_of
from .failures import failures_named
from .reading_plan import Plan, comparisons_of, folded
from .store import Store
from .tiles import Tile, is_large, tiles_of

COPIES = 3  # of a matrix that is kept: it is joined with those of a utility's other parts


def matrices(
    metric: Scoring,
    comparisons: Sequence[Comparison],
    store: Store | None = None,
) -> list[FloatArray]:
    """Values [H, R] of every comparison ([H, 1] when reference-free), in the paper's direction."""
    store = store or Store(metric.scorer)
    shapes = [shape_of(metric, comparison) for comparison in comparisons]
    at_once = []
    for comparison, shape in zip(comparisons, shapes, strict=True):
        if 0 not in shape and not is_large(*shape):
            at_once.append(plan_of(metric, comparison))
    results = []
    with failures_named(metric.signature()):
        values = iter(matrices_of_plans(metric.scorer, at_once, store))
        for comparison, shape in zip(comparisons, shapes, strict=True):
            if 0 in shape:
                results.append(np.zeros(shape))
            elif is_large(*shape):
                results.append(_by_tiles(metric, comparison, shape, store))
            else:
                results.append(next(values))
    return results


def shape_of(metric: Scoring, comparison: Comparison) -> tuple[int, int]:
    """[H, R], or [H, 1] when reference-free."""
    num_references = len(comparison.references) if metric.info.needs_references else 1
    return len(comparison.hypotheses), num_references


def _by_tiles(
    metric: Scoring, comparison: Comparison, shape: tuple[int, int], store: Store
) -> FloatArray:
    """The whole matrix [H, R] of a large list; errors as `check_memory`."""
    check_memory(metric, shape)
    matrix = np.empty(shape)
    for tile, values in tile_values(metric, comparison, store):
        matrix[tile.top : tile.bottom, tile.left : tile.right] = values
    return matrix


def check_memory(metric: Scoring, shape: tuple[int, int]) -> None:
    """Raises MetricError if this machine has no memory for a matrix that is kept."""
    num_bytes = COPIES * 8 * shape[0] * shape[1]
    if num_bytes > memory_bytes():
        raise MetricError(
            f"{shape[0]} x {shape[1]} utilities take {num_bytes / 1e9:.1f} GB to keep, "
            f"this machine has {memory_bytes() / 1e9:.1f} GB",
            where=metric.name,
            fix="Leave out what keeps them (--save-utilities, keep_matrix), or shorten the list",
        )


def memory_bytes() -> int:
    """The memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def tile_values(
    metric: Scoring, comparison: Comparison, store: Store
) -> Iterator[tuple[Tile, FloatArray]]:
    """The values of a large list tile by tile, so that they need not be together in memory."""
    plan = plan_of(metric, comparison)
    # every text is represented before the first tile, in batches of like length
    store.add(comparisons_of([plan]))
    shape = shape_of(metric, comparison)
    for tiles in tiles_of(0, *shape, is_square(metric, comparison)):
        parts = [plan.part(tile) for tile in tiles]
        values = matrices_of_plans(metric.scorer, parts, store)
        yield from zip(tiles, values, strict=True)


def is_square(metric: Scoring, comparison: Comparison) -> bool:
    """Whether hypotheses and references are the same texts, each read in one way only."""
    same_texts = comparison.references is comparison.hypotheses
    return same_texts and metric.info.needs_references and not metric.reads.everywhere


def matrices_of_plans(scorer: Scorer, plans: Sequence[Plan], store: Store) -> list[FloatArray]:
    """The matrix [H, R] of every list, in the paper's direction; a plan says what each is made of."""
    # 1. One block of rows per comparison, without repeated rows.
    spreads = [Folded.of(block) for block in store.add(comparisons_of(plans))]

    # 2. The values of all blocks, a group of lists at a time; each list is folded as soon as its blocks are there.
    values = _compared(scorer, store, [spread.block for spread in spreads])
    matrices = (spread.spread(matrix) for spread, matrix in zip(spreads, values, strict=True))
    return [folded(plan, matrices) for plan in plans]


def _compared(scorer: Scorer, store: Store, blocks: Sequence[Block]) -> Iterator[FloatArray]:
    """Values [H, R] of every block; many blocks are compared per call."""
    for part in store.groups(blocks):
        group = blocks[part]
        # models have threads of their own
        threads = nullcontext() if scorer.info.bucketed else one_blas_thread()
        with _counted(scorer, store), store.meter.stage("compare"), threads:
            group_values = _in_memory(scorer, store.reps, group)
        store.meter.count(pairs=sum(block.cells for block in group))
        _check_shapes(scorer, group, group_values)
        yield from group_values


@contextmanager
def _counted(scorer: Scorer, store: Store) -> Iterator[None]:
    """Counts what the scorer spends in a block of code, whatever ends it."""
    try:
        yield
    finally:
        store.meter.count(**scorer.spent())


def _check_shapes(scorer: Scorer, blocks: Sequence[Block], values: Sequence[FloatArray]) -> None:
    """Raises MetricError unless the values of every block are of its shape."""
    expected = []
    for block in blocks:
        num_references = len(block.references) if scorer.info.needs_references else 1
        expected.append((len(block.hypotheses), num_references))
    shapes = [np.shape(u) for u in values]
    if shapes != expected:
        raise MetricError(
            f"compare returned shapes {excerpt(shapes)}, expected {excerpt(expected)}",
            where=type(scorer).__name__,
        )


def _in_memory(scorer: Scorer, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
    """The values of all blocks at once, of some of them, or of some rows of one, as the memory allows."""
    try:
        return in_halves(partial(scorer.compare, reps), blocks)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return [_by_rows(scorer, reps, block) for block in blocks]


def _by_rows(scorer: Scorer, reps: Reps, block: Block) -> FloatArray:
    """The values of a list that is too large at once, some of its rows at a time."""

    def compare(rows: Sequence[int]) -> Sequence[FloatArray]:
        part = Block(np.asarray(rows), block.references.copy(), block.source)
        return list(scorer.compare(reps, [part])[0])

    return np.array(in_halves(compare, block.hypotheses.tolist()))


def scores(
    metric: Scoring,
    segments: Sequence[Comparison],
    store: Store | None = None,
) -> FloatArray:
    """One value per one-hypothesis comparison, all its references together, [n]."""
    store = store or Store(metric.scorer)
    aligned = [is_aligned(metric, segment) for segment in segments]
    values = np.empty(len(segments))
    values[aligned] = _scores_of_aligned(metric, list(compress(segments, aligned)), store)
    others = np.logical_not(aligned)
    units = [lift(metric, segment, strict=True) for segment in compress(segments, others)]
    with failures_named(metric.signature()):
        blocks = store.add(list(chain.from_iterable(units)))
        values[others] = _means(_values(metric.scorer, store, blocks), units)
    return values


def _scores_of_aligned(
    metric: Scoring, segments: Sequence[Comparison], store: Store
) -> list[float]:
    """The value of every document: the mean over its references or the best, as several references of a text count."""
    values = []
    for matrix in matrices(metric, segments, store):
        is_mean = metric.info.multi_reference == "mean"
        best = np.max if metric.info.higher_is_better else np.min
        values.append(float(matrix.mean() if is_mean else best(matrix)))
    return values


def scores_and_statistics(
    metric: Scoring,
    segments: Sequence[Comparison],
    store: Store | None = None,
) -> tuple[FloatArray, FloatArray]:
    """`scores` [n], and statistics [rows, columns] for `Scorer.aggregate`.

    A document has a row for each sentence. One that is aligned has one for each bead with its best reference, or, where
    corpus scores are means, one of its value; these rows come last.

    Raises:
        InputError: documents are transported, and the metric's corpus score is no mean.
    """
    scorer = metric.scorer
    store = store or Store(scorer)
    aligned = np.array([is_aligned(metric, segment) for segment in segments], bool)
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


def beads_of(metric: Scoring, document: Comparison, store: Store) -> list[Comparison]:
    """The beads of a hypothesis with the reference it is nearest to.

    Raises:
        InputError: documents are transported, or read in windows.
    """
    reading = metric.documents
    if reading.align != "monotone" or reading.windows is not None:
        setting = "windows" if reading.windows is not None else f'align="{reading.align}"'
        raise InputError(
            f"its corpus score adds up counts, which {setting} has none of",
            where=metric.signature(),
            fix='Set align="monotone", without windows',
        )
    (matrix,) = matrices(metric, [document], store)
    best = int((matrix if metric.info.higher_is_better else -matrix)[0].argmax())
    return [link.comparison for link in links_of_pair(metric, document.part([0], [best]), store)]


class Link(NamedTuple):
    """Two units that belong together, and their share of the value of their documents."""

    comparison: Comparison
    share: float


def links_of_pair(metric: Scoring, pair: Comparison, store: Store) -> list[Link]:
    """What is compared with what in one document and one reference or its source; of aligned ones, or of windows."""
    from .aligned_plan import AlignedPlan, OwnMeans
    from .window_plan import WindowPiece, WindowPlan

    is_windowed = metric.documents.windows is not None
    plan = WindowPlan(metric, pair).of_pair if is_windowed else AlignedPlan(metric, pair)
    (piece,) = plan.pieces
    if isinstance(piece, OwnMeans):
        return []
    if isinstance(piece, WindowPiece):
        return list(map(Link, piece.comparisons, piece.weights))
    with failures_named(metric.signature()):
        spreads = [Folded.of(block) for block in store.add(piece.comparisons)]
        compared = _compared(metric.scorer, store, [spread.block for spread in spreads])
        of_units = [spread.spread(u) for spread, u in zip(spreads, compared, strict=True)]
        links = piece.links(of_units)
    result = []
    for row, column, share in zip(links.row_unit, links.column_unit, links.share, strict=True):
        comparison = piece.sides.comparison(np.array([row]), np.array([column]))
        result.append(Link(comparison, float(share)))
    return result


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
        with _counted(scorer, store):
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
        with _counted(scorer, store):
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


def warn_of_truncation(metric: Scoring, store: Store, comparisons: Sequence[Comparison]) -> None:
    """Warns with a TruncationWarning if texts were too long, alone or together."""
    if not metric.info.bucketed:
        return
    truncations = [store.truncation_of([comparison]) for comparison in comparisons]
    if any(truncations):
        lost_text = truncations.count(Truncation.TEXT)
        lost_context = truncations.count(Truncation.CONTEXT)
        losses = f"{lost_text} lost text and {lost_context} some context"
        message = f"{metric.name}: of {len(truncations)} comparisons, {losses}"
        warn(message, TruncationWarning, stacklevel=3)


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
    """The distinct rows in order of first appearance; the place of each row among them, None if nothing repeats."""
    number: dict[int, int] = {}
    places = [number.setdefault(row, len(number)) for row in rows.tolist()]
    if len(number) == len(rows):
        return rows, None
    return np.array(list(number), np.int64), np.array(places, np.int64)
