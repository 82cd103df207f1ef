"""The distinct items that a scorer has seen, each represented once, and how lists are grouped to be compared.

A store lives across waves of new items; a cache, where there is one, lives across runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np

from ..errors import MetricError
from ..representations import Block, IntArray, Reps, turned
from ..scorer import Scorer
from ..text.texts import Comparison, Document, Item
from . import cache
from .batches import in_batches
from .meter import Meter

GROUP_LENGTH = 1 << 16  # summed lengths of the lists compared in one call
GROUP_CELLS = 1 << 20  # summed matrix cells of the lists compared in one call
ITEM_BYTES = 400  # an item, its text and its place in a store, beside the characters


class Fresh(NamedTuple):
    """Some items represented."""

    reps: Reps
    lengths: IntArray
    cut: IntArray  # see `Scorer.prepare`

    @classmethod
    def concat(cls, parts: Sequence[Fresh]) -> Fresh:
        """All items of all parts, in order."""
        if len(parts) == 1:
            return parts[0]
        reps, lengths, cut = zip(*parts, strict=True)
        return cls(Reps.concat(reps), np.concatenate(lengths), np.concatenate(cut))

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.reps.nbytes + self.lengths.nbytes + self.cut.nbytes

    def take(self, rows: IntArray) -> Fresh:
        """The given items, in that order."""
        return Fresh(self.reps.take(rows), self.lengths[rows], self.cut[rows])

    def packed(self) -> Reps:
        """As one Reps, for the cache."""
        return Reps({**self.reps.columns, "#lengths": self.lengths, "#cut": self.cut})

    @classmethod
    def unpacked(cls, reps: Reps) -> Fresh:
        """The inverse of `packed`."""
        columns = dict(reps.columns)
        lengths, cut = columns.pop("#lengths"), columns.pop("#cut")
        return cls(Reps(columns), lengths, cut)  # type: ignore[arg-type]


def _parts(item: Item) -> Iterator[str]:
    """What tells an item from others, as texts."""
    yield from (
        item.side,
        repr(item.text) if isinstance(item.text, Document) else item.text,
        *item.context,
    )


class Store:
    """The distinct items seen so far and their representations; what that took is counted into the meter."""

    def __init__(
        self, scorer: Scorer, cache: cache.Cache | None = None, meter: Meter | None = None
    ) -> None:
        self.scorer, self.cache, self.meter = scorer, cache, meter or Meter()
        self.row: dict[Item, int] = {}
        self.lengths: IntArray = np.empty(0, np.int64)
        self.cut: IntArray = np.empty(0, np.int64)
        self.reps = Reps({})
        self.text_bytes = 0

    @classmethod
    def holding(cls, scorer: Scorer, row: dict[Item, int], fresh: Fresh, meter: Meter) -> Self:
        """A store of items that were represented elsewhere; `row` says which row of `fresh` an item has."""
        store = cls(scorer, meter=meter)
        store.row, (store.reps, store.lengths, store.cut) = row, fresh
        return store

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
            source = (
                -1 if comparison.source is None else int(self._rows((comparison.source,), new)[0])
            )
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
            fresh = self.fresh(new)
            reps = Reps.concat([self.reps, fresh.reps]) if self.reps.columns else fresh.reps
            joined = (
                np.concatenate((self.lengths, fresh.lengths)),
                reps,
                np.concatenate((self.cut, fresh.cut)),
            )
        except BaseException:
            for item in new:  # an item that could not be represented is unknown again
                del self.row[item]
            raise
        self.lengths, self.reps, self.cut = joined
        self.text_bytes += sum(ITEM_BYTES + 2 * len(str(item.text)) for item in new)

    def fresh(self, new: Sequence[Item]) -> Fresh:
        """Represents items, or finds them in the cache; the store does not keep them."""
        return (
            self._known(self.cache, new)
            if self.cache and self.scorer.info.bucketed
            else self._made(new)
        )

    def _known(self, kept: cache.Cache, new: Sequence[Item]) -> Fresh:
        """What the cache has of these items, and the rest made and given to it."""
        keys = [cache.key(self.scorer.identity, *_parts(item)) for item in new]
        with self.meter.stage("cache"):
            found = {
                key: reps
                for key, reps in kept.get(keys).items()
                if {"#lengths", "#cut"} <= reps.columns.keys()
            }
        missing = [i for i, key in enumerate(keys) if key not in found]
        if missing:
            made = self._made([new[i] for i in missing])
            added = {keys[i]: made.take(np.array([n])).packed() for n, i in enumerate(missing)}
            with self.meter.stage("cache"):
                kept.put(added)
            found |= added
        self.meter.count(cached_texts=len(new) - len(missing))
        return Fresh.unpacked(Reps.concat([found[key] for key in keys]))

    def _made(self, new: Sequence[Item]) -> Fresh:
        with self.meter.stage("prepare"):
            prepared, lengths = self.scorer.prepare(new)
        with self.meter.stage("represent"):
            fresh = self._represented(new, prepared, lengths)
        self.meter.count(texts=len(new), tokens=int(lengths.sum()))
        return fresh

    def _represented(self, new: Sequence[Item], prepared: Reps, lengths: IntArray) -> Fresh:
        cut = prepared.columns.get("cut", np.zeros(len(new), np.int64))
        if self.scorer.info.bucketed:
            parts, places = in_batches(
                lengths,
                self.scorer.batch_tokens,
                lambda rows: self.scorer.represent(prepared.take(rows)),
            )
            reps = Reps.concat(parts).take(places)
        else:
            reps = self.scorer.represent(prepared)
        sizes = {len(lengths), len(cut), *(len(column) for column in reps.columns.values())}
        if sizes != {len(new)}:
            raise MetricError(
                f"rows {sorted(sizes)} for {len(new)} items", where=type(self.scorer).__name__
            )
        return Fresh(reps, lengths, np.asarray(cut))

    def cut_of(self, comparisons: Sequence[Comparison]) -> int:
        """The most that was left out of any text of these comparisons; see `Scorer.prepare` and `Scorer.pair_cut`."""
        if not self.scorer.info.bucketed:
            return 0
        blocks = self.add(comparisons)
        rows = np.concatenate(
            [np.append(b.hypotheses, b.references) for b in blocks] or [np.empty(0, np.int64)]
        )
        sources = np.array([b.source for b in blocks if b.source >= 0], np.int64)
        texts = int(self.cut[np.append(rows, sources)].max(initial=0))
        return max(texts, *(self.scorer.pair_cut(self.reps, block) for block in blocks), 0)

    def groups(self, blocks: Sequence[Block]) -> Iterator[slice]:
        """Consecutive blocks of about GROUP_LENGTH and at most GROUP_CELLS together (one block may be larger).

        What pairs cost counts as length. A block and the same one turned count as one.
        """
        start, length, cells = 0, 0, 0
        again = turned(blocks)
        for i, block in enumerate(blocks):
            more = int(self.lengths[block.hypotheses].sum())
            more += 0 if block.square else int(self.lengths[block.references].sum())
            more += self.scorer.pair_cost(self.reps, block)
            full = length + more > GROUP_LENGTH or cells + block.cells > GROUP_CELLS
            if i > start and full and not again[i]:
                yield slice(start, i)
                start, length, cells = i, 0, 0
            length, cells = length + more, cells + block.cells
        if blocks:
            yield slice(start, len(blocks))
