"""Runs a scorer over comparisons: each distinct item is represented once, many lists are compared per call.

Nothing here depends on which metric runs, and no value depends on which lists share a call. Repeated rows and columns
of a block are compared once. numpy multiplies on one thread: the products of lists are small, and several threads cost
several times the CPU for them.

A segment metric reads whole documents by sentence where they have equally many, else as joined texts; a wrapper that
compares them unit by unit, aligned or in windows, says itself how (`unit_plan`).

A large matrix [H, R] need not be whole anywhere: its tiles, each some hypotheses against some references, are compared
one after the other, here or on several workers, and each can be reduced at once. So that sums of its rows do not depend
on tiles, columns are cut only where numpy's own pairwise summation halves a row: the sum of a range of columns is that
of its two halves, and so is added up again. Tiles beside the diagonal of a square matrix come with the same ones
transposed, which share some or all of the work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache, partial
from math import ceil, sqrt
from typing import Any, NamedTuple, Self
from warnings import warn

import numpy as np

from ..errors import InputError, MetricError, TruncationWarning, excerpt, is_out_of_memory
from ..metric_settings import MetricSettings
from ..optional_packages import failures_named
from ..reading_plan import MeanPiece, Plan, PlanOfMeans, comparisons_of, folded
from ..representations import Block, FloatArray, IntArray, Reps
from ..scorer import Reading, Scorer
from ..text.texts import Comparison, Document, Item, Truncation, preceding
from .store import Store, in_halves

COPIES = 3  # of a matrix that is kept: it is joined with those of a utility's other parts
# The most hypotheses and references of a tile of a large matrix: what is counted of them stays in the cache.
WIDEST = 720
UNCUT = 128  # so many numbers are summed up in one go
ROWS = 16  # a matrix that is not large is cut into multiples of this number of rows
Range = tuple[int, int]  # from, to
_PLAIN = frozenset({str})


def lift(
    metric: MetricSettings, comparison: Comparison, *, strict: bool = False
) -> list[Comparison]:
    """The comparisons whose mean is the value of this one: itself, or one per sentence of its documents.

    A segment metric reads documents sentence by sentence where all have equally many sentences, each in the context of
    its own document (if `strict` and the metric says so, hypotheses in that of the first reference). Where they have
    not, it reads their joined text, or raises if `strict`.

    Raises:
        InputError: sentence counts differ and `strict` is set.
    """
    if metric.info.unit == "document":
        return [comparison]
    counts = _sentence_counts(comparison)
    if not counts:
        return [comparison]
    smallest = min(counts)
    if len(counts) == 1 and smallest > 0:
        return [
            _aligned_sentence(metric.reads, comparison, at, lend=strict) for at in range(smallest)
        ]
    if strict:
        lengths = ["a plain text" if n < 0 else f"{n} sentences" for n in sorted(counts)]
        raise InputError(
            f"{metric.name} reads documents sentence by sentence, found {', '.join(lengths)}",
            where="documents",
            fix=f"Align the sentences, aligned({metric.name}), or join each document into one text",
        )
    return [_mapped(comparison, lambda item: item._replace(text=str(item.text)))]


def is_joined(metric: MetricSettings, comparison: Comparison) -> bool:
    """Whether documents of unequal sentence counts are compared as joined text."""
    by_sentence = metric.info.unit == "segment" and not metric.by_units
    return by_sentence and len(_sentence_counts(comparison)) > 1


def is_by_units(metric: MetricSettings, comparison: Comparison) -> bool:
    """Whether documents are compared unit by unit, whatever their sentence counts; plain texts are not."""
    return metric.by_units and bool(_sentence_counts(comparison))


def _sentence_counts(comparison: Comparison) -> set[int]:
    """The different sentence counts of the texts, -1 for a plain text; empty if all are plain."""
    items = comparison.hypotheses
    if comparison.references is not comparison.hypotheses:
        items += comparison.references
    if comparison.source is not None:
        items += (comparison.source,)
    if {type(item.text) for item in items} <= _PLAIN:
        return set()
    counts = {_sentence_count(item) for item in items}
    return set() if counts == {-1} else counts  # strings of numpy's are plain too


def _sentence_count(item: Item) -> int:
    return len(item.text.sentences) if isinstance(item.text, Document) else -1


def _mapped(comparison: Comparison, read: Callable[[Item], Item]) -> Comparison:
    """The comparison of what `read` makes of every item; a square one stays square."""
    rows = tuple(map(read, comparison.hypotheses))
    is_square = comparison.references is comparison.hypotheses
    columns = rows if is_square else tuple(map(read, comparison.references))
    source = None if comparison.source is None else read(comparison.source)
    return Comparison(rows, columns, source)


def _aligned_sentence(reads: Reading, comparison: Comparison, at: int, lend: bool) -> Comparison:
    """The comparison of one sentence of every text."""
    aligned = _mapped(comparison, partial(_sentence, at=at, k=reads.context))
    if not (lend and reads.context and reads.context_from == "reference" and aligned.references):
        return aligned
    lent = aligned.references[0].context
    hypotheses = tuple(item._replace(context=lent) for item in aligned.hypotheses)
    return replace(aligned, hypotheses=hypotheses)


def _sentence(item: Item, at: int, k: int) -> Item:
    """One sentence of an item, in the context of the k before it; those of a document follow its own context."""
    sentences = item.text.sentences if isinstance(item.text, Document) else (item.text,)
    context = preceding((*item.context, *sentences), len(item.context) + at, k)
    return Item(sentences[at], context, item.side)


def plan_of(metric: MetricSettings, comparison: Comparison) -> Plan:
    """How the matrix of a list is made: of one column of comparisons whose mean it is, or of units or windows.

    A metric that reads documents in every context has a column, and so H representations, for each reference.
    """
    if is_by_units(metric, comparison):
        return metric.unit_plan(comparison)
    everywhere = metric.reads.everywhere and comparison.references
    if not everywhere or len(_sentence_counts(comparison)) != 1:
        return PlanOfMeans([MeanPiece(lift(metric, comparison))])
    columns = [replace(comparison, references=(reference,)) for reference in comparison.references]
    return PlanOfMeans([MeanPiece(lift(metric, column, strict=True)) for column in columns])


def compared(metric: MetricSettings, segment: Comparison) -> list[Comparison]:
    """All that is compared for the score of a segment."""
    if is_by_units(metric, segment):
        return comparisons_of([metric.unit_plan(segment)])
    return lift(metric, segment, strict=True)


class Folded(NamedTuple):
    """A block without its repeated rows and columns, in order of first appearance, and where each of them went."""

    block: Block
    hypotheses: IntArray | None  # [H] index among the distinct hypotheses; None if nothing repeats
    references: IntArray | None

    @classmethod
    def of(cls, block: Block) -> Self:
        """The distinct rows of a block; the block itself if nothing repeats."""
        rows, row_indices = _distinct(block.hypotheses)
        columns, column_indices = (
            (rows, row_indices) if block.square else _distinct(block.references)
        )
        if row_indices is None and column_indices is None:
            return cls(block, None, None)
        return cls(Block(rows, columns, block.source), row_indices, column_indices)

    def spread(self, u: FloatArray) -> FloatArray:
        """The matrix of the whole block from that of the distinct one."""
        if self.hypotheses is not None:
            u = u[self.hypotheses]
        return u if self.references is None else u[:, self.references]


def _distinct(rows: IntArray) -> tuple[IntArray, IntArray | None]:
    """The distinct rows in order of first appearance; the index of each row among them, None if nothing repeats."""
    numbers = rows.tolist()
    if len(set(numbers)) == len(numbers):
        return rows, None
    number: dict[int, int] = {}
    indices = [number.setdefault(row, len(number)) for row in numbers]
    return np.array(list(number), np.int64), np.array(indices, np.int64)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """numpy multiplies on one thread inside, whatever the environment says."""
    controller = _controller()
    if controller is None:
        yield
        return
    with controller.limit(limits=1):
        yield


@cache
def _controller() -> Any:
    """The setter of the threads of numpy's library; None where it has one, as in the command, or is unknown."""
    if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
        return None
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:  # the values are the same without it
        return None
    return ThreadpoolController().select(user_api="blas")


def matrices(
    metric: MetricSettings,
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


def shape_of(metric: MetricSettings, comparison: Comparison) -> tuple[int, int]:
    """[H, R], or [H, 1] when reference-free."""
    num_references = len(comparison.references) if metric.info.needs_references else 1
    return len(comparison.hypotheses), num_references


def _by_tiles(
    metric: MetricSettings, comparison: Comparison, shape: tuple[int, int], store: Store
) -> FloatArray:
    """The whole matrix [H, R] of a large list; errors as `check_memory`."""
    check_memory(metric, shape)
    matrix = np.empty(shape)
    for tile, values in tile_values(metric, comparison, store):
        matrix[tile.top : tile.bottom, tile.left : tile.right] = values
    return matrix


def check_memory(metric: MetricSettings, shape: tuple[int, int]) -> None:
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
    """The memory of this machine; no bound where the system does not tell (Windows)."""
    if not hasattr(os, "sysconf"):
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def tile_values(
    metric: MetricSettings, comparison: Comparison, store: Store
) -> Iterator[tuple[Tile, FloatArray]]:
    """The values of a large list tile by tile, so that they need not be together in memory."""
    plan = plan_of(metric, comparison)
    # every text is represented before the first tile, in batches of like length
    store.add(comparisons_of([plan]))
    shape = shape_of(metric, comparison)
    for tiles in tiles_of(0, *shape, is_square(metric, comparison)):
        parts = [plan.part(tile.rows, tile.columns) for tile in tiles]
        values = matrices_of_plans(metric.scorer, parts, store)
        yield from zip(tiles, values, strict=True)


def is_square(metric: MetricSettings, comparison: Comparison) -> bool:
    """Whether hypotheses and references are the same texts, each read in one way only."""
    same_texts = comparison.references is comparison.hypotheses
    return same_texts and metric.info.needs_references and not metric.reads.everywhere


def matrices_of_plans(scorer: Scorer, plans: Sequence[Plan], store: Store) -> list[FloatArray]:
    """The matrix [H, R] of every list, in the paper's direction; a plan says what each is made of."""
    # 1. One block of rows per comparison, without repeated rows.
    spreads = [Folded.of(block) for block in store.add(comparisons_of(plans))]

    # 2. The values of all blocks, a group of lists at a time; each list is folded as soon as its blocks are there.
    values = compared_blocks(scorer, store, [spread.block for spread in spreads])
    matrices = (spread.spread(matrix) for spread, matrix in zip(spreads, values, strict=True))
    return [folded(plan, matrices) for plan in plans]


def compared_blocks(scorer: Scorer, store: Store, blocks: Sequence[Block]) -> Iterator[FloatArray]:
    """Values [H, R] of every block; many blocks are compared per call."""
    for part in store.groups(blocks):
        group = blocks[part]
        # models have threads of their own
        threads = nullcontext() if scorer.info.bucketed else one_blas_thread()
        with counted(scorer, store), store.meter.stage("compare"), threads:
            group_values = _in_memory(scorer, store.reps, group)
        store.meter.count(pairs=sum(block.cells for block in group))
        _check_shapes(scorer, group, group_values)
        yield from group_values


@contextmanager
def counted(scorer: Scorer, store: Store) -> Iterator[None]:
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


def warn_of_truncation(
    metric: MetricSettings, store: Store, comparisons: Sequence[Comparison]
) -> None:
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


class Tile(NamedTuple):
    """A part of a list's matrix: rows from `top` to `bottom`, columns from `left` to `right`."""

    place: int  # which of some lists
    top: int
    bottom: int
    left: int
    right: int

    @property
    def rows(self) -> range:
        """Its rows."""
        return range(self.top, self.bottom)

    @property
    def columns(self) -> range:
        """Its columns."""
        return range(self.left, self.right)

    def is_transposed(self, other: Tile) -> bool:
        """Whether this is another tile of the same list with rows as columns."""
        return self == (other.place, other.left, other.right, other.top, other.bottom)


def is_large(num_rows: int, num_columns: int) -> bool:
    """Whether a matrix is compared in tiles even by one process."""
    return num_rows * num_columns > WIDEST**2


def middle(left: int, right: int) -> int:
    """Where a range of more than `UNCUT` columns is halved, as in numpy's pairwise summation."""
    half = (right - left) // 2
    return left + half - half % 8


def halved(length: int, count: int = 1) -> list[Range]:
    """All columns in at least `count` ranges (if that is possible) of at most `WIDEST`, by halving the widest ones."""
    ranges = [(0, length)]
    while True:
        widths = [right - left for left, right in ranges]
        widest = max(widths)
        if widest <= UNCUT or (widest <= WIDEST and len(ranges) >= count):
            return ranges
        i = widths.index(widest)
        left, right = ranges[i]
        cut = middle(left, right)
        ranges[i : i + 1] = [(left, cut), (cut, right)]


def tiles_of(
    place: int, num_rows: int, num_columns: int, is_square: bool, count: int = 1
) -> Iterator[list[Tile]]:
    """All tiles of a list's matrix, in `count` steps or more as far as possible; a large one is cut in any case.

    Args:
        place: which list it is.
        num_rows: hypotheses.
        num_columns: references; one where there is none.
        is_square: whether hypotheses and references are the same.
        count: into how many steps to cut it.
    """
    large = is_large(num_rows, num_columns)
    if is_square:
        # n ranges give n (n + 1) / 2 steps; the smallest n with `count` of them or more
        num_ranges = ceil((sqrt(8 * count + 1) - 1) / 2)
        ranges = halved(num_rows, num_ranges) if large else _even(num_rows, num_ranges)
        if len(ranges) >= num_ranges or not large:
            yield from _triangle(place, ranges)
            return
    columns = halved(num_columns) if large else [(0, num_columns)]
    widest = max(right - left for left, right in columns)
    num_ranges = ceil(count / len(columns))
    if large:
        num_ranges = max(num_ranges, ceil(num_rows * widest / WIDEST**2))
    for rows in _even(num_rows, num_ranges):
        for column_range in columns:
            yield [Tile(place, *rows, *column_range)]


def _triangle(place: int, ranges: Sequence[Range]) -> Iterator[list[Tile]]:
    """A square matrix cut both ways, a tile beside the diagonal with the same one transposed."""
    for i, rows in enumerate(ranges):
        for columns in ranges[i + 1 :]:
            yield [Tile(place, *rows, *columns), Tile(place, *columns, *rows)]
    for rows in ranges:
        yield [Tile(place, *rows, *rows)]


def _even(num_rows: int, count: int) -> list[Range]:
    """At most `count` ranges of multiples of `ROWS` that cover all rows."""
    size = ceil(num_rows / count / ROWS) * ROWS
    return [(top, min(top + size, num_rows)) for top in range(0, num_rows, size)]


def with_their_transposed(tiles: Sequence[Tile]) -> Iterator[list[Tile]]:
    """The tiles in order, each with the one after it if that is the same one transposed."""
    i = 0
    while i < len(tiles):
        size = 2 if i + 1 < len(tiles) and tiles[i + 1].is_transposed(tiles[i]) else 1
        if tiles[i].top == tiles[i].left:  # on the diagonal
            size = 1
        yield list(tiles[i : i + size])
        i += size
