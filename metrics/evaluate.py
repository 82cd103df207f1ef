"""Runs a scorer over comparisons: each distinct item is represented once, many lists are compared per call.

`Store` owns "once per distinct text", length buckets and grouping; it lives across waves of new items. Nothing here
depends on which metric runs, and no value depends on which lists share a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self
from warnings import warn

import numpy as np

from . import cache
from .batches import in_batches, in_halves, is_out_of_memory
from .errors import InputError, MetricError, TruncationWarning, excerpt
from .reps import Block, FloatArray, IntArray, Reps
from .texts import Comparison, Document, Item

if TYPE_CHECKING:
    from .base import Metric, Reading, Scorer

GROUP_LENGTH = 1 << 16  # summed lengths of the lists compared in one call
GROUP_CELLS = 1 << 20  # summed matrix cells of the lists compared in one call
LIST_CELLS = 1 << 22  # cells of one list above which it is compared some rows at a time
ITEM_BYTES = 400  # an item, its text and its place in a store, beside the characters


class _Fresh(NamedTuple):
    """Some items represented."""

    reps: Reps
    lengths: IntArray
    cut: IntArray  # see `Scorer.prepare`

    def take(self, rows: IntArray) -> _Fresh:
        return _Fresh(self.reps.take(rows), self.lengths[rows], self.cut[rows])

    def packed(self) -> Reps:
        """As one Reps, for the cache."""
        return Reps({**self.reps.columns, "#lengths": self.lengths, "#cut": self.cut})

    @classmethod
    def unpacked(cls, reps: Reps) -> _Fresh:
        """The inverse of `packed`."""
        columns = dict(reps.columns)
        lengths, cut = columns.pop("#lengths"), columns.pop("#cut")
        return cls(Reps(columns), lengths, cut)  # type: ignore[arg-type]


def _parts(item: Item) -> Iterator[str]:
    """What tells an item from others, as texts."""
    yield from (item.side, repr(item.text) if isinstance(item.text, Document) else item.text, *item.context)


class Store:
    """The distinct items seen so far and their representations."""

    def __init__(self, scorer: Scorer, cache: cache.Cache | None = None) -> None:
        self.scorer, self.cache = scorer, cache
        self.row: dict[Item, int] = {}
        self.lengths: IntArray = np.empty(0, np.int64)
        self.cut: IntArray = np.empty(0, np.int64)
        self.reps = Reps({})
        self.text_bytes = 0

    @property
    def nbytes(self) -> int:
        """About the bytes held, the items that are keys included."""
        return self.reps.nbytes + self.text_bytes

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
            fresh = self._known(new) if self.cache and self.scorer.info.bucketed else self._made(new)
            reps = Reps.concat([self.reps, fresh.reps]) if self.reps.columns else fresh.reps
            joined = np.concatenate((self.lengths, fresh.lengths)), reps, np.concatenate((self.cut, fresh.cut))
        except BaseException:
            for item in new:  # an item that could not be represented is unknown again
                del self.row[item]
            raise
        self.lengths, self.reps, self.cut = joined
        self.text_bytes += sum(ITEM_BYTES + 2 * len(str(item.text)) for item in new)

    def _known(self, new: Sequence[Item]) -> _Fresh:
        """What the cache has of these items, and the rest made and given to it."""
        assert self.cache is not None  # noqa: S101
        keys = [cache.key(self.scorer.identity, *_parts(item)) for item in new]
        found = self.cache.get(keys)
        missing = [i for i, key in enumerate(keys) if key not in found]
        if missing:
            made = self._made([new[i] for i in missing])
            added = {keys[i]: made.take(np.array([n])).packed() for n, i in enumerate(missing)}
            self.cache.put(added)
            found |= added
        return _Fresh.unpacked(Reps.concat([found[key] for key in keys]))

    def _made(self, new: Sequence[Item]) -> _Fresh:
        prepared, lengths = self.scorer.prepare(new)
        cut = prepared.columns.get("cut", np.zeros(len(new), np.int64))
        if self.scorer.info.bucketed:
            parts, places = in_batches(
                lengths, self.scorer.batch_tokens, lambda rows: self.scorer.represent(prepared.take(rows))
            )
            reps = Reps.concat(parts).take(places)
        else:
            reps = self.scorer.represent(prepared)
        sizes = {len(lengths), len(cut), *(len(column) for column in reps.columns.values())}
        if sizes != {len(new)}:
            raise MetricError(f"rows {sorted(sizes)} for {len(new)} items", where=type(self.scorer).__name__)
        return _Fresh(reps, lengths, np.asarray(cut))

    def cut_of(self, comparisons: Sequence[Comparison]) -> int:
        """The most that was left out of any text of these comparisons; see `Scorer.prepare`."""
        if not self.cut.any():
            return 0
        items = {i for c in comparisons for i in (*c.hypotheses, *c.references, *([c.source] if c.source else []))}
        return max((int(self.cut[self.row[item]]) for item in items if item in self.row), default=0)

    def groups(self, blocks: Sequence[Block]) -> Iterator[slice]:
        """Consecutive blocks of about GROUP_LENGTH and at most GROUP_CELLS together (one block may be larger).

        What pairs cost counts as length.
        """
        start, length, cells = 0, 0, 0
        for i, block in enumerate(blocks):
            more = int(self.lengths[block.hypotheses].sum())
            more += 0 if block.square else int(self.lengths[block.references].sum())
            more += self.scorer.pair_cost(self.reps, block)
            if i > start and (length + more > GROUP_LENGTH or cells + block.cells > GROUP_CELLS):
                yield slice(start, i)
                start, length, cells = i, 0, 0
            length, cells = length + more, cells + block.cells
        if blocks:
            yield slice(start, len(blocks))


def matrices(metric: Metric, comparisons: Sequence[Comparison], store: Store | None = None) -> list[FloatArray]:
    """Values [H, R] of every comparison ([H, 1] when reference-free), in the paper's direction."""
    if metric.reads.everywhere and any(map(_sentence_counts, comparisons)):
        return [_in_every_context(metric, comparison, store) for comparison in comparisons]
    wanted = metric.info.needs_references
    empty = [not c.hypotheses or (wanted and not c.references) for c in comparisons]
    units = [lift(metric, c) for c, none in zip(comparisons, empty, strict=True) if not none]
    found = _matrices(metric.scorer, [c for unit in units for c in unit], store or Store(metric.scorer))
    means = (_mean(found, unit) for unit in _consecutive(units))
    return [
        np.zeros((len(c.hypotheses), len(c.references) if wanted else 1)) if none else next(means)
        for c, none in zip(comparisons, empty, strict=True)
    ]


def _in_every_context(metric: Metric, comparison: Comparison, store: Store | None) -> FloatArray:
    """Values [H, R] with every hypothesis read in the context of every reference: H x R representations."""
    store = store or Store(metric.scorer)
    columns = [replace(comparison, references=(reference,)) for reference in comparison.references]
    units = [lift(metric, column, strict=metric.info.unit == "segment") for column in columns]
    found = _matrices(metric.scorer, [c for unit in units for c in unit], store)
    shape = len(comparison.hypotheses), len(columns)
    return np.concatenate([np.zeros((shape[0], 0)), *(_mean(found, unit) for unit in _consecutive(units))], axis=1)


def _matrices(scorer: Scorer, comparisons: Sequence[Comparison], store: Store) -> list[FloatArray]:
    folded = [Folded.of(block) for block in store.add(comparisons)]
    pieces = [_pieces(one.block) for one in folded]
    blocks = [piece for some in pieces for piece in some]
    found = iter([u for part in store.groups(blocks) for u in _compared(scorer, store.reps, blocks[part])])
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


def _compared(scorer: Scorer, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
    """What the scorer returns for some blocks, which must be of their shapes."""
    try:
        found = in_halves(partial(scorer.compare, reps), blocks)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        found = [_by_rows(scorer, reps, block) for block in blocks]
    wanted = [(len(b.hypotheses), len(b.references) if scorer.info.needs_references else 1) for b in blocks]
    shapes = [np.shape(u) for u in found]
    if shapes != wanted:
        raise MetricError(
            f"compare returned shapes {excerpt(shapes)}, expected {excerpt(wanted)}", where=type(scorer).__name__
        )
    return found


def _by_rows(scorer: Scorer, reps: Reps, block: Block) -> FloatArray:
    """A list that is too large at once, some of its rows at a time."""

    def compare(rows: Sequence[int]) -> Sequence[FloatArray]:
        part = Block(np.asarray(rows), block.references.copy(), block.source)
        return list(scorer.compare(reps, [part])[0])

    return np.array(in_halves(compare, block.hypotheses.tolist()))


def scores(metric: Metric, segments: Sequence[Comparison], store: Store | None = None) -> FloatArray:
    """One value per one-hypothesis comparison, all its references together, [n]."""
    units = [lift(metric, segment, strict=True) for segment in segments]
    scorer = metric.scorer
    store = store or Store(scorer)
    blocks = store.add([c for unit in units for c in unit])
    value = scorer.compare_multi if metric.info.needs_references else scorer.compare
    found = [v.ravel() for part in store.groups(blocks) for v in value(store.reps, blocks[part])]
    return np.array([_mean(found, unit)[0] for unit in _consecutive(units)], np.float64)


def statistics(metric: Metric, segments: Sequence[Comparison], store: Store | None = None) -> FloatArray:
    """Statistics [n, columns] for `Scorer.aggregate`; a document contributes one row per sentence."""
    store = store or Store(metric.scorer)
    blocks = store.add([c for segment in segments for c in lift(metric, segment, strict=True)])
    return np.concatenate([metric.scorer.statistics(store.reps, blocks[part]) for part in store.groups(blocks)])


def warn_of_cuts(store: Store, name: str) -> None:
    """Warns with a TruncationWarning if texts of a store were too long."""
    if store.cut.any():
        text = int((store.cut == 2).sum())
        warn(
            f"{name}: of {len(store.cut)} texts, {text} were cut and {int((store.cut == 1).sum())} lost some context",
            TruncationWarning,
            stacklevel=3,
        )


def lift(metric: Metric, comparison: Comparison, *, strict: bool = False) -> list[Comparison]:
    """The comparisons whose mean is the value of this one: itself, or one per sentence of its documents.

    A segment metric reads documents sentence by sentence where all have equally many sentences, each in the context of
    its own document (if `strict` and the metric says so, hypotheses in that of the first reference). Where they have
    not, it reads their joined text, or raises if `strict`.

    Raises:
        InputError: sentence counts differ and `strict` is set.
    """
    if metric.info.unit == "document" or not (counts := _sentence_counts(comparison)):
        return [comparison]
    if len(counts) == 1 and (n := min(counts)) > 0:
        return [_aligned_sentence(metric.reads, comparison, at, lend=strict) for at in range(n)]
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


def _aligned_sentence(reads: Reading, comparison: Comparison, at: int, lend: bool) -> Comparison:
    """The comparison of one sentence of every text."""
    found = _mapped(comparison, partial(_sentence, at=at, k=reads.context))
    if not (lend and reads.context and reads.context_from == "reference" and found.references):
        return found
    lent = found.references[0].context
    return replace(found, hypotheses=tuple(item._replace(context=lent) for item in found.hypotheses))


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
