"""The distinct items that a scorer has seen, each represented once, and how lists are grouped to be compared.

A store lives across waves of new items; a cache, where there is one, lives across runs.

Arrays of representations have room behind their rows, half as much again whenever they move, so that n rows that come
one by one are copied O(n) times together.

Freed memory stays with the process. glibc returns the end of its heap to the system whenever twice the largest array
freed so far is free there, up to an array of 32 MiB; comparing lists of hundreds of texts makes and frees such arrays
all the time, and up to a third of the time went to page faults. Nothing is written to the array, so it takes no
memory; other allocators do not mind it.

Batches of similar length under a budget, and half the work where memory runs out, on a GPU or here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import numpy as np

from ..errors import MetricError, is_out_of_memory
from ..representations import TRUNCATION_COLUMN, Array, Block, IntArray, Ragged, Reps, transposed
from ..scorer import Scorer
from ..text.texts import Comparison, Document, Item, Truncation
from .meter import Meter

if TYPE_CHECKING:
    from .cache import Cache


class GrowingReps:
    """Representations in arrays with room; `reps` has the rows so far.

    Args:
        reps: the first rows; their arrays are kept as they are.
    """

    def __init__(self, reps: Reps) -> None:
        self.reps = reps
        self._rooms = {name: Room(array) for name, array in reps.arrays()}

    @property
    def nbytes(self) -> int:
        """Bytes held, the room that is free among them."""
        return sum(room.array.nbytes for room in self._rooms.values())

    def add(self, more: Reps) -> None:
        """Adds rows of the same columns; all of them, or none where that fails."""
        columns: dict[str, Array | Ragged] = {}
        for name, column in self.reps.columns.items():
            new = more.columns[name]
            if isinstance(column, Ragged) and isinstance(new, Ragged):
                columns[name] = self._longer(name, column, new)
            else:
                columns[name] = self._rooms[name].extended(len(column), np.asarray(new))
        self.reps = Reps(columns)

    def _longer(self, name: str, column: Ragged, new: Ragged) -> Ragged:
        """A ragged column and the rows behind it."""
        num_values = len(column.values)
        ends = num_values + new.lengths.cumsum()
        values = self._rooms[f"{name}.values"].extended(num_values, new.values)
        offsets = self._rooms[f"{name}.offsets"].extended(len(column.offsets), ends)
        return Ragged(values, offsets)


class Room:
    """An array of which only the first rows may be in use."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def extended(self, used: int, new: Array) -> Array:
        """The rows in use and the new ones behind them, [used + new, ...]; errors as `np.concatenate`."""
        array, size = self.array, used + len(new)
        fits = (
            size <= len(array)
            and new.shape[1:] == array.shape[1:]
            and np.result_type(new.dtype, array.dtype) == array.dtype
        )
        if not fits:
            both = np.concatenate((array[:used], new))
            self.array = array = np.empty((size + size // 2, *both.shape[1:]), both.dtype)
            array[:size] = both
        elif len(new):
            array[used:size] = new
        return array[:size]


LARGEST = (32 << 20) - (64 << 10)  # bytes; a larger array teaches glibc nothing


@cache
def keep_freed_memory() -> None:
    """Has glibc keep up to 64 MiB of what is freed, from the first call on."""
    np.empty(LARGEST, np.uint8)


GROUP_LENGTH = 1 << 16  # summed lengths of the lists compared in one call
GROUP_CELLS = 1 << 20  # summed matrix cells of the lists compared in one call
ITEM_BYTES = 400  # an item, its text and its place in a store, beside the characters

# names in caches; none of a scorer's columns starts with #
_STORED_LENGTHS = "#lengths"
_STORED_TRUNCATION = "#cut"


class Fresh(NamedTuple):
    """Some items represented."""

    reps: Reps
    lengths: IntArray  # [items]
    truncation: IntArray  # [items], a `Truncation` each

    @classmethod
    def concat(cls, parts: Sequence[Fresh]) -> Fresh:
        """All items of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        reps, lengths, truncation = zip(*parts, strict=True)
        return cls(Reps.concat(reps), np.concatenate(lengths), np.concatenate(truncation))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.reps.nbytes + self.lengths.nbytes + self.truncation.nbytes

    def take(self, rows: IntArray) -> Fresh:
        """The given items, in that order."""
        return Fresh(self.reps.take(rows), self.lengths[rows], self.truncation[rows])

    def packed(self) -> Reps:
        """As one Reps, for the cache."""
        own = {_STORED_LENGTHS: self.lengths, _STORED_TRUNCATION: self.truncation}
        return Reps({**self.reps.columns, **own})

    @classmethod
    def unpacked(cls, reps: Reps) -> Fresh:
        """The inverse of `packed`."""
        columns = dict(reps.columns)
        lengths: Any = columns.pop(_STORED_LENGTHS)
        truncation: Any = columns.pop(_STORED_TRUNCATION)
        return cls(Reps(columns), lengths, truncation)


def _identity(item: Item) -> tuple[str, ...]:
    """The key of an item, as texts."""
    text = repr(item.text) if isinstance(item.text, Document) else item.text
    return (item.side, text, *item.context)


def _text_bytes(items: Iterable[Item]) -> int:
    """About the bytes of items that are keys of a store."""
    return sum(ITEM_BYTES + 2 * len(str(item.text)) for item in items)


class Store:
    """The distinct items seen so far and their representations; what that took is counted into the meter."""

    def __init__(
        self,
        scorer: Scorer,
        cache: Cache | None = None,
        meter: Meter | None = None,
    ) -> None:
        keep_freed_memory()
        self.scorer = scorer
        self.cache = cache
        self.meter = meter or Meter()
        self.row: dict[Item, int] = {}
        self.text_bytes = 0
        nothing = np.empty(0, np.int64)
        self._hold(Fresh(Reps({}), nothing, nothing))

    @classmethod
    def holding(cls, scorer: Scorer, row: dict[Item, int], fresh: Fresh, meter: Meter) -> Self:
        """A store of items that were represented elsewhere; `row` says which row of `fresh` an item has."""
        store = cls(scorer, meter=meter)
        store.row = row
        store._hold(fresh)
        return store

    @property
    def nbytes(self) -> int:
        """About the bytes held, including the items that are keys."""
        return self._held.nbytes + self.text_bytes

    def _hold(self, items: Fresh) -> None:
        """Holds these items alone."""
        self._held = GrowingReps(items.packed())
        self._see_held()

    def _see_held(self) -> None:
        """Makes what is held the store's representations, lengths [items] and truncations [items]."""
        self.reps, self.lengths, self.truncation = Fresh.unpacked(self._held.reps)

    def add(self, comparisons: Sequence[Comparison]) -> list[Block]:
        """Represents what is new; returns one block of rows per comparison, repeated rows where items repeat."""
        new: list[Item] = []
        blocks = []
        for comparison in comparisons:
            hypotheses = self._rows(comparison.hypotheses, new)
            square = comparison.references is comparison.hypotheses
            references = hypotheses if square else self._rows(comparison.references, new)
            source = -1
            if comparison.source is not None:
                source = int(self._rows((comparison.source,), new)[0])
            blocks.append(Block(hypotheses, references, source))
        if new:
            self._represent(new)
        return blocks

    def keep(self, comparisons: Sequence[Comparison]) -> None:
        """Lets go of all items but those of these comparisons."""
        kept: dict[Item, int] = {}
        for comparison in comparisons:
            for item in comparison.items:
                if item in self.row and item not in kept:
                    kept[item] = len(kept)
        rows = np.array([self.row[item] for item in kept], np.int64)
        self.row = kept
        self._hold(Fresh(self.reps, self.lengths, self.truncation).take(rows))
        self.text_bytes = _text_bytes(kept)

    def _rows(self, items: Sequence[Item], new: list[Item]) -> IntArray:
        """The row of every item, [items]; an item without one gets the next and is added to `new`."""
        row_of = self.row
        rows = []
        for item in items:
            next_row = len(row_of)
            row = row_of.setdefault(item, next_row)
            if row == next_row:
                new.append(item)
            rows.append(row)
        return np.array(rows, np.int64)

    def _represent(self, new: Sequence[Item]) -> None:
        """Represents items that have a row already, and keeps them; all of them or none."""
        try:
            fresh = self.fresh(new)
            if self.reps.columns:
                self._held.add(fresh.packed())
            else:
                self._hold(fresh)
        except BaseException:
            for item in new:
                del self.row[item]
            raise
        self._see_held()
        self.text_bytes += _text_bytes(new)

    def fresh(self, new: Sequence[Item]) -> Fresh:
        """Represents items, or finds them in the cache; the store does not keep them."""
        if self.cache and self.scorer.info.bucketed:
            return self._cached(self.cache, new)
        return self._computed(new)

    def _cached(self, shared: Cache, new: Sequence[Item]) -> Fresh:
        """Representations of items from the cache; the rest is computed and put into it."""
        from .cache import key as key_of

        keys = [key_of(self.scorer.identity, *_identity(item)) for item in new]
        num_damaged = len(shared.damage.keys)
        with self.meter.stage("cache"):
            entries = shared.get(keys)
        missing = [i for i, key in enumerate(keys) if key not in entries]
        self.meter.count(
            cached_texts=len(entries), damaged_entries=len(shared.damage.keys) - num_damaged
        )
        if missing:
            computed = self._computed([new[i] for i in missing])
            rows = enumerate(missing)
            added = {keys[i]: computed.take(np.array([row])).packed() for row, i in rows}
            with self.meter.stage("cache"):
                shared.put(added)
            entries |= added
        return Fresh.unpacked(Reps.concat([entries[key] for key in keys]))

    def _computed(self, new: Sequence[Item]) -> Fresh:
        with self.meter.stage("prepare"):
            prepared, lengths = self.scorer.prepare(new)
        with self.meter.stage("represent"):
            fresh = self._represented(new, prepared, lengths)
        self.meter.count(texts=len(new), tokens=int(lengths.sum()))
        return fresh

    def _represented(self, new: Sequence[Item], prepared: Reps, lengths: IntArray) -> Fresh:
        """Representations of prepared items, in batches where the scorer wants them; one row per item."""
        nothing = np.zeros(len(new), np.int64)
        truncation = prepared.columns.get(TRUNCATION_COLUMN, nothing)
        if self.scorer.info.bucketed:

            def represent(rows: IntArray) -> Reps:
                return self.scorer.represent(prepared.take(rows))

            parts, places = in_batches(lengths, self.scorer.batch_tokens, represent)
            reps = Reps.concat(parts).take(places)
        else:
            reps = self.scorer.represent(prepared)
        sizes = {len(lengths), len(truncation)}
        sizes.update(len(column) for column in reps.columns.values())
        if sizes != {len(new)}:
            raise MetricError(
                f"rows {sorted(sizes)} for {len(new)} items",
                where=type(self.scorer).__name__,
            )
        return Fresh(reps, lengths, np.asarray(truncation))

    def truncation_of(self, comparisons: Sequence[Comparison]) -> Truncation:
        """The truncation of the texts of these comparisons, alone and in pairs."""
        if not self.scorer.info.bucketed:
            return Truncation.NONE
        truncations = [0]
        for block in self.add(comparisons):
            sources = [block.source] if block.source >= 0 else []
            for rows in (block.hypotheses, block.references, sources):
                truncations.append(self.truncation[rows].max(initial=0))
            has_pairs = len(block.references) or not self.scorer.info.needs_references
            if len(block.hypotheses) and has_pairs:
                truncations.append(self.scorer.pair_truncation(self.reps, block))
        return Truncation(max(truncations))

    def groups(self, blocks: Sequence[Block]) -> Iterator[slice]:
        """Consecutive blocks of about GROUP_LENGTH and at most GROUP_CELLS together (one block may be larger).

        What pairs cost counts as length. A block and the same one transposed count as one.
        """
        start = length = cells = 0  # of the group so far
        is_transposed = transposed(blocks)
        for i, block in enumerate(blocks):
            added = int(self.lengths[block.hypotheses].sum())
            if not block.square:
                added += int(self.lengths[block.references].sum())
            added += self.scorer.pair_cost(self.reps, block)
            full = length + added > GROUP_LENGTH or cells + block.cells > GROUP_CELLS
            if full and i > start and not is_transposed[i]:
                yield slice(start, i)
                start, length, cells = i, 0, 0
            length += added
            cells += block.cells
        if blocks:
            yield slice(start, len(blocks))


A = TypeVar("A")
B = TypeVar("B")


def in_batches(
    lengths: IntArray,
    budget: int,
    run: Callable[[IntArray], B],
) -> tuple[list[B], IntArray]:
    """Results of `run` on batches of rows of at most `budget` summed length (one row may be longer), shortest first.

    Args:
        lengths: of the rows, [rows].
        budget: summed lengths of one batch.
        run: the work on some rows, given by their numbers.

    Returns:
        The results, and where each row stands in them, one result after the other, [rows].
    """

    def run_batch(rows: Sequence[int]) -> list[B]:
        return [run(np.asarray(rows))]

    order = np.argsort(lengths, kind="stable")
    ends = lengths[order].cumsum()  # summed length up to each row, in that order
    results: list[B] = []
    start = 0
    while start < len(order):
        before = int(ends[start] - lengths[order[start]])
        stop = max(start + 1, int(np.searchsorted(ends, before + budget, "right")))
        results += in_halves(run_batch, order[start:stop].tolist())
        start = stop
    return results, np.argsort(order, kind="stable")


def in_halves(run: Callable[[Sequence[A]], Sequence[B]], work: Sequence[A]) -> list[B]:
    """Results of `run` on the work: on all of it, or on its halves where memory runs out, down to single pieces."""
    try:
        return list(run(work))
    except (MemoryError, RuntimeError) as error:
        if len(work) < 2 or not is_out_of_memory(error):
            raise
    _release()
    middle = len(work) // 2
    return in_halves(run, work[:middle]) + in_halves(run, work[middle:])


def _release() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
