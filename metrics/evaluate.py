"""Runs a scorer over comparisons: each distinct item is represented once, many lists are compared per call.

`Store` owns "once per distinct text", length buckets and grouping; it lives across waves of new items. Nothing here
depends on which metric runs, and no value depends on which lists share a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .errors import InputError
from .reps import Block, FloatArray, IntArray, Reps
from .texts import Comparison, Document, Item

if TYPE_CHECKING:
    from .base import Metric, Scorer

BUCKET = 16  # lengths are padded to multiples of this
BATCH_LENGTH = 4096  # summed padded lengths of one represent batch
GROUP_LENGTH = 1 << 16  # summed lengths of the lists compared in one call
GROUP_CELLS = 1 << 20  # summed matrix cells of the lists compared in one call


class Store:
    """The distinct items seen so far and their representations."""

    def __init__(self, scorer: Scorer) -> None:
        self.scorer = scorer
        self.row: dict[Item, int] = {}
        self.lengths: IntArray = np.empty(0, np.int64)
        self.reps = Reps({})

    def add(self, comparisons: Sequence[Comparison]) -> list[Block]:
        """Represents what is new; returns one block of rows per comparison, repeated rows where items repeat."""
        new: list[Item] = []
        blocks = []
        for comparison in comparisons:
            hypotheses = self._rows(comparison.hypotheses, new)
            square = comparison.references is comparison.hypotheses
            references = hypotheses if square else self._rows(comparison.references, new)
            source = -1 if comparison.source is None else int(self._rows((comparison.source,), new)[0])
            blocks.append(Block(hypotheses, references, source))
        if new:
            self._represent(new)
        return blocks

    def _rows(self, items: Sequence[Item], new: list[Item]) -> IntArray:
        rows = self.row
        found = np.empty(len(items), np.int64)
        for i, item in enumerate(items):
            row = rows.get(item)
            if row is None:
                row = rows[item] = len(rows)
                new.append(item)
            found[i] = row
        return found

    def _represent(self, new: Sequence[Item]) -> None:
        try:
            prepared, lengths = self.scorer.prepare(new)
            fresh = (
                self._in_buckets(prepared, lengths) if self.scorer.info.bucketed else self.scorer.represent(prepared)
            )
        except BaseException:
            for item in new:  # an item that could not be represented is unknown again
                del self.row[item]
            raise
        self.lengths = np.concatenate((self.lengths, lengths))
        self.reps = Reps.concat([self.reps, fresh]) if self.reps.columns else fresh

    def _in_buckets(self, prepared: Reps, lengths: IntArray) -> Reps:
        bucket = -(-lengths // BUCKET)
        order = np.argsort(bucket, kind="stable")
        ordered = bucket[order]
        parts, start = [], 0
        while start < len(order):
            width = int(ordered[start])
            limit = start + max(1, BATCH_LENGTH // max(BUCKET, width * BUCKET))
            stop = min(limit, int(np.searchsorted(ordered, width, "right")))
            parts.append(self.scorer.represent(prepared.take(order[start:stop])))
            start = stop
        return Reps.concat(parts).take(np.argsort(order, kind="stable"))

    def groups(self, blocks: Sequence[Block]) -> Iterator[slice]:
        """Consecutive blocks of about GROUP_LENGTH and at most GROUP_CELLS together (one block may be larger)."""
        start, length, cells = 0, 0, 0
        for i, block in enumerate(blocks):
            more = int(self.lengths[block.hypotheses].sum())
            more += 0 if block.square else int(self.lengths[block.references].sum())
            if i > start and (length + more > GROUP_LENGTH or cells + block.cells > GROUP_CELLS):
                yield slice(start, i)
                start, length, cells = i, 0, 0
            length, cells = length + more, cells + block.cells
        if blocks:
            yield slice(start, len(blocks))


def matrices(metric: Metric, comparisons: Sequence[Comparison], store: Store | None = None) -> list[FloatArray]:
    """Values [H, R] of every comparison ([H, 1] when reference-free), in the paper's direction."""
    units = [lift(metric, comparison) for comparison in comparisons]
    found = _matrices(metric.scorer, [c for unit in units for c in unit], store or Store(metric.scorer))
    return [_mean(found, unit) for unit in _consecutive(units)]


def _matrices(scorer: Scorer, comparisons: Sequence[Comparison], store: Store) -> list[FloatArray]:
    blocks = store.add(comparisons)
    distinct = [distinct_block(block) for block in blocks]
    found = [u for part in store.groups(distinct) for u in scorer.compare(store.reps, distinct[part])]
    return [_spread(u, small, block) for u, small, block in zip(found, distinct, blocks, strict=True)]


def scores(metric: Metric, segments: Sequence[Comparison]) -> FloatArray:
    """One value per one-hypothesis comparison, all its references together, [n]."""
    if not metric.info.needs_references:
        return np.array([u[0, 0] for u in matrices(metric, segments)])
    units = [lift(metric, segment, strict=True) for segment in segments]
    store = Store(metric.scorer)
    blocks = store.add([c for unit in units for c in unit])
    found = [v for part in store.groups(blocks) for v in metric.scorer.compare_multi(store.reps, blocks[part])]
    return np.array([_mean(found, unit)[0] for unit in _consecutive(units)])


def statistics(metric: Metric, segments: Sequence[Comparison]) -> FloatArray:
    """Statistics [n, columns] for `Scorer.aggregate`; a document contributes one row per sentence."""
    store = Store(metric.scorer)
    blocks = store.add([c for segment in segments for c in lift(metric, segment, strict=True)])
    return np.concatenate([metric.scorer.statistics(store.reps, blocks[part]) for part in store.groups(blocks)])


def lift(metric: Metric, comparison: Comparison, *, strict: bool = False) -> list[Comparison]:
    """The comparisons whose mean is the value of this one: itself, or one per sentence of its documents.

    A segment metric reads documents sentence by sentence where all have equally many sentences. Where they do not, it
    reads their joined text, or raises if `strict`.

    Raises:
        InputError: sentence counts differ and `strict` is set.
    """
    if metric.info.unit == "document" or not (counts := _sentence_counts(comparison)):
        return [comparison]
    if len(counts) == 1 and (n := min(counts)) > 0:
        k = metric.reads.context
        return [_mapped(comparison, partial(_sentence, at=at, k=k)) for at in range(n)]
    if strict:
        found = ", ".join("a plain text" if n < 0 else f"{n} sentences" for n in sorted(counts))
        raise InputError(
            f"{metric.name} reads documents sentence by sentence, found {found}",
            where="documents",
            fix="Align the sentences, or join each document into one text",
        )
    return [_mapped(comparison, lambda item: item._replace(text=str(item.text)))]


def is_joined(metric: Metric, comparison: Comparison) -> bool:
    """Whether documents of unequal sentence counts are compared as joined text."""
    return metric.info.unit == "segment" and len(_sentence_counts(comparison)) > 1


def _sentence_counts(comparison: Comparison) -> set[int]:
    """The different sentence counts of the texts, -1 for a plain text; empty if all are plain."""
    items = comparison.hypotheses
    if comparison.references is not comparison.hypotheses:
        items += comparison.references
    if comparison.source is not None:
        items += (comparison.source,)
    if all(type(item.text) is str for item in items):
        return set()
    return {len(item.text.sentences) if isinstance(item.text, Document) else -1 for item in items}


def _mapped(comparison: Comparison, read: Callable[[Item], Item]) -> Comparison:
    rows = tuple(map(read, comparison.hypotheses))
    square = comparison.references is comparison.hypotheses
    columns = rows if square else tuple(map(read, comparison.references))
    return Comparison(rows, columns, None if comparison.source is None else read(comparison.source))


def _sentence(item: Item, at: int, k: int) -> Item:
    sentences = item.text.sentences if isinstance(item.text, Document) else (item.text,)
    before = (*item.context, *sentences[:at])
    return Item(sentences[at], before[-k:] if k else (), item.side)


def _consecutive(units: Sequence[Sequence[Comparison]]) -> Iterator[range]:
    start = 0
    for unit in units:
        yield range(start, start + len(unit))
        start += len(unit)


def _mean(found: Sequence[FloatArray], unit: range) -> FloatArray:
    if len(unit) == 1:
        return found[unit.start]
    return sum((found[i] for i in unit[1:]), found[unit[0]]) / len(unit)


def distinct_block(block: Block) -> Block:
    """The block without repeated rows and columns, in row order; itself where nothing repeats."""
    sides = (block.hypotheses,) if block.square else (block.hypotheses, block.references)
    if all(len(set(rows.tolist())) == len(rows) for rows in sides):
        return block
    rows = np.unique(block.hypotheses)
    columns = rows if block.square else np.unique(block.references)
    return type(block)(rows, columns, block.source)


def _spread(u: FloatArray, small: Block, block: Block) -> FloatArray:
    """The matrix of `block` from that of its distinct rows and columns."""
    if small is block:
        return u
    u = u[np.searchsorted(small.hypotheses, block.hypotheses)]
    return u[:, np.searchsorted(small.references, block.references)] if len(block.references) else u
