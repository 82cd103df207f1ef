"""TER (Snover et al. 2006): translation edit rate, 0 upwards, lower is better.

    TER = 100 edits / |r|,   edits = shifts + insertions + deletions + substitutions
Shifts move a block of words of the hypothesis to where the reference has it; each counts one, and they are taken
greedily while they pay. Not symmetric. An empty hypothesis costs |r| edits; against an empty reference the rate is 100,
or 0 if both are empty. Of several references the fewest edits count, over the average reference length. Equal to
sacrebleu's TER, with Tercom's limits: blocks of 10 words, shifts over 50, 1000 shifts tried, a beam of 25.

Pairs that the words alone decide are never aligned: edits >= max(|h|, |r|) - clipped word matches, a bound no shift
changes, and one that pairs without a common word attain. Only pairs above it go through the search, many at a time,
with the beam's part of a table's row in one integer; where the reference is very long, and the beam wide, cell by cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ..base import Metric
from ..representations import Array, Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ..scorer import Info, Scorer
from ..spec.checked_settings import settings
from ..text.texts import Item
from . import compiled
from .compiled.pairs_of_rows import by_reference, word_arguments
from .ngrams import matches
from .word_columns import equal_texts, numbered, owners, packed, ranges, word_columns

CELLS = 1 << 22  # of the squares of words that are searched together
MAX_RATIO = (
    16  # a reference so many times longer than its hypothesis moves the kernel's window too fast
)


@settings
class TER(Metric):
    """Sentence TER with sacrebleu's settings.

    Args:
        normalized: whether punctuation is split off as in Tercom.
        no_punct: whether punctuation is removed.
        asian_support: whether `normalized` and `no_punct` treat Asian characters.
        case_sensitive: whether case counts.
    """

    normalized: bool = False
    no_punct: bool = False
    asian_support: bool = False
    case_sensitive: bool = False
    name: ClassVar[str] = "ter"
    info: ClassVar[Info] = Info(
        summary="edits with block shifts per reference word (sacrebleu)",
        papers=("snover2006ter", "post2018call"),
        higher_is_better=False,
        bounds=(0, inf),
        multi_reference="custom",
        costly_pairs=True,
    )

    def load(self) -> TERScorer:
        """The scorer with its tokenizer."""
        return TERScorer(self)


class TERScorer(Scorer):
    """Represents a text by its words; edits are counted for all pairs of a call together."""

    def __init__(self, metric: TER) -> None:
        from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

        self.info = metric.info
        self.tokenizer: Any = TercomTokenizer(
            normalized=metric.normalized,
            no_punct=metric.no_punct,
            asian_support=metric.asian_support,
            case_sensitive=metric.case_sensitive,
        )

    def prepare(self, items: Sequence[Item]) -> tuple[Reps, IntArray]:
        """Words as the tokenizer splits them, and their number."""
        texts = (str(item.text).rstrip() for item in items)
        columns, counts = packed([self.tokenizer(text).split() for text in texts])
        return Reps(columns), counts

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """TER [H, R] of every block."""
        matrices = []
        for edits, lengths in _edits(reps, blocks):
            matrices.append(_rate(edits, lengths[None, :]))
        return matrices

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """TER [H] of every block: the fewest edits over the average reference length."""
        values = []
        for edits, lengths in _edits(reps, blocks):
            fewest = edits.min(axis=1)
            values.append(_rate(fewest, _mean(lengths)))
        return values

    def values_and_statistics(
        self, reps: Reps, blocks: Sequence[Block]
    ) -> tuple[FloatArray, FloatArray]:
        """TER [n] of one-hypothesis blocks; fewest edits and average reference length, [n, 2]."""
        statistics = self.statistics(reps, blocks)
        return _rate(statistics[:, 0], statistics[:, 1]), statistics

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Fewest edits and average reference length, [n, 2]."""
        rows = []
        for edits, lengths in _edits(reps, blocks):
            rows.append((edits.min(), _mean(lengths)))
        return np.array(rows)

    def aggregate(self, statistics: FloatArray) -> float:
        """TER of the summed statistics."""
        edits, length = statistics.sum(axis=0)
        return float(_rate(edits, length))

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """TER [b] of b summed statistics."""
        return _rate(sums[:, 0], sums[:, 1])


def _mean(lengths: FloatArray) -> FloatArray:
    return lengths.sum() / len(lengths)  # type: ignore[no-any-return]


def _rate(edits: FloatArray, length: FloatArray) -> FloatArray:
    """100 edits / length, elementwise; without a length 100 if there are edits, else 0."""
    divisor = np.where(length > 0, length, 1)
    return 100 * np.where(length > 0, edits / divisor, edits > 0)


def _edits(reps: Reps, blocks: Sequence[Block]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Edits [H, R] and reference lengths [R] of every block; equal pairs of texts are compared once per call."""
    words, local = numbered(reps, blocks)
    common = next(matches(words, local, 1)).astype(np.int64)  # word matches [cells]

    # Find the different pairs of texts.
    text = equal_texts(words)
    h, r = cell_rows(local)
    key = text[h] * len(text) + text[r]
    _, first, pair_of_cell = np.unique(key, return_index=True, return_inverse=True)
    h = h[first]
    r = r[first]
    common = common[first]

    # Start from the lower bound; search the pairs that it does not decide.
    differ = text[h] != text[r]
    longer = np.maximum(words.lengths[h], words.lengths[r])
    edits = np.where(differ, longer - common, 0)  # [pairs]
    undecided = np.flatnonzero(differ & (common > 0))
    if compiled.kernels is not None:
        narrow = words.lengths[r[undecided]] <= MAX_RATIO * words.lengths[h[undecided]]
        pairs, undecided = undecided[narrow], undecided[~narrow]
        edits[pairs] = _compiled(words, h[pairs], r[pairs], edits[pairs])
    edits[undecided] = _plain(words, h[undecided], r[undecided], edits[undecided])

    matrices = by_block(edits[pair_of_cell].astype(float), local)
    for block, matrix in zip(local, matrices, strict=True):
        yield matrix, words.lengths[block.references].astype(float)


def _plain(words: Ragged, h: IntArray, r: IntArray, floor: IntArray) -> IntArray:
    """The fewest edits of rows `h` and `r`, [pairs]; `floor` is lower bounds."""
    edits = floor.copy()
    for pairs in _tiles(words.lengths[h], words.lengths[r]):
        edits[pairs] = fewest_edits(TextPairs.of(words, h[pairs], r[pairs]), floor[pairs])
    return edits


def _compiled(words: Ragged, h: IntArray, r: IntArray, floor: IntArray) -> IntArray:
    """As `_plain`, by the kernel in C; references at most `MAX_RATIO` times as long."""
    fill = partial(compiled.kernels.shift_edits, *word_arguments(words))
    return by_reference(fill, h, r, floor)


def _tiles(n: IntArray, m: IntArray) -> Iterator[IntArray]:
    """All pairs, those of long hypotheses first, in tiles of about `CELLS`; `n` and `m` are lengths, [pairs]."""
    order = np.lexsort((m, n))[::-1]
    longest = np.maximum(n, m)[order]
    start = 0
    while start < len(order):
        step = max(1, CELLS // int(longest[start]) ** 2)
        stop = start + step
        yield order[start:stop]
        start = stop


SHIFT_WORDS, SHIFT_DISTANCE, TRIED_SHIFTS = 10, 50, 1000  # Tercom's limits
BEAM = 25  # Tercom's, in words
NEVER = -100  # score of a cell outside the beam; within it no score is negative
ROW_CELLS = 1 << 16  # cells of one antidiagonal of the swaps measured together


def fewest_edits(pairs: TextPairs, floor: IntArray) -> IntArray:
    """Edits after all shifts that pay, [pairs].

    Args:
        pairs: the pairs.
        floor: a lower bound of the edits of every pair: where the distance is down to this, no shift can pay, [pairs].
    """
    edits = pairs.distances()
    active = np.flatnonzero(edits > floor)  # the pairs still searched
    pairs = pairs.take(active)
    distance = edits[active]
    tried = np.zeros(len(active), np.int64)
    while len(active):
        # Each makes its best shift, which costs one edit.
        gain, words = _best_shift(pairs, distance, tried)
        edits[active] -= np.where(gain > 0, gain - 1, 0)
        distance = distance - gain
        # Those that gained, and still may, go on with the words in their new order.
        going = np.flatnonzero((gain > 0) & (distance > floor[active]))
        active = active[going]
        distance = distance[going]
        tried = tried[going]
        pairs = pairs.reordered(words).take(going)
    return edits


def _best_shift(pairs: TextPairs, distance: IntArray, tried: IntArray) -> tuple[IntArray, Array]:
    """Gains of the best shift of every pair [pairs], and the words after it [N, pairs].

    Of equal gains the longest block, then its earliest start, then its earliest target wins. A pair that has tried
    TRIED_SHIFTS gains nothing.

    Args:
        pairs: the pairs.
        distance: edits before the shift, [pairs].
        tried: shifts tried so far, which counts on, [pairs].
    """
    table = pairs.table()
    alignment = table.alignment()
    # Leave out shifts that move nothing, and those of pairs that have tried enough.
    shifts = _shifts(table.movable_blocks(alignment), alignment, tried)
    swaps = shifts.swaps(pairs.n)
    moves = (swaps.a < swaps.b) & (swaps.b < swaps.c)
    moving = moves & (tried[shifts.pair] < TRIED_SHIFTS)
    shifts = shifts.where(moving)
    swaps = swaps.where(moving)

    # Shifts that exchange the same blocks are measured once: (pair, a, b, c) as one number.
    side = len(pairs.h) + 1
    key = swaps.pair
    for bound in (swaps.a, swaps.b, swaps.c):
        key = key * side + bound
    _, first, same_as = np.unique(key, return_index=True, return_inverse=True)
    shifted_distance = table.distances(swaps.where(first))[same_as]
    gains = distance[shifts.pair] - shifted_distance

    # Of every pair's shifts that gain most, the first in the order of Tercom wins.
    gain = np.zeros(len(distance), np.int64)
    np.maximum.at(gain, shifts.pair, gains)
    best = np.flatnonzero((gains == gain[shifts.pair]) & (gains > 0))
    of_best = shifts.where(best)
    order = np.lexsort((of_best.target, of_best.start, -of_best.length, of_best.pair))
    _, first = np.unique(of_best.pair[order], return_index=True)
    made = swaps.where(best[order[first]])
    words = pairs.h.copy()
    words[:, made.pair] = made.moved(pairs.h)
    return gain, words


def _shifts(blocks: Blocks, alignment: EditAlignment, tried: IntArray) -> Shifts:
    """The shifts Tercom tries: blocks that stand in the reference too, with an edit on either side, elsewhere.

    `tried` [pairs] counts them; a pair that would have tried TRIED_SHIFTS gets none.
    """
    before = alignment.before
    # A pair with so many blocks has tried enough: each block gives one target or more.
    blocks_of_pair = np.bincount(blocks.pair, minlength=len(tried))
    enough = tried + blocks_of_pair >= TRIED_SHIFTS
    tried[enough] = TRIED_SHIFTS

    # It moves behind the word aligned with the reference word before the block, or with any of the block's.
    num_offsets = np.where(enough[blocks.pair], 0, blocks.length + 1)
    offset = ranges(np.zeros_like(num_offsets), num_offsets)
    block = owners(num_offsets)
    pair = blocks.pair[block]
    r = blocks.r[block] + offset
    target = before[r, pair]
    last_target = before[r - 1, pair]
    new = (offset == 0) | (target != last_target)
    pair = pair[new]
    block = block[new]
    tried += np.bincount(pair, minlength=len(tried))
    return Shifts(pair, blocks.h[block], blocks.length[block], target[new])


class EditAlignment(NamedTuple):
    """How the words of some pairs stand to each other in their cheapest edit."""

    before: IntArray  # [M + 1, pairs] hypothesis words up to the one aligned with reference word j - 1; 0 for j = 0
    wrong_h: IntArray  # [N + 1, pairs] edited words among the first i of the hypothesis
    wrong_r: IntArray  # [M + 1, pairs] edited words among the first j of the reference


class Blocks(NamedTuple):
    """Blocks of words that both texts of a pair have, [blocks] each."""

    pair: IntArray
    h: IntArray  # start in the hypothesis
    r: IntArray  # start in the reference
    length: IntArray

    def where(self, kept: Array) -> Blocks:
        """The blocks at a mask."""
        return Blocks(*(column[kept] for column in self))

    def beginnings(self) -> Blocks:
        """All beginnings of every block."""
        block = owners(self.length)
        lengths = ranges(np.ones_like(self.length), self.length)
        return Blocks(self.pair[block], self.h[block], self.r[block], lengths)

    def edited(self, alignment: EditAlignment) -> Array:
        """Whether every block has an edited word in both texts, [blocks]."""
        _, wrong_h, wrong_r = alignment
        pair, h, r, length = self
        edited_h: Array = wrong_h[h + length, pair] > wrong_h[h, pair]
        edited_r: Array = wrong_r[r + length, pair] > wrong_r[r, pair]
        return edited_h & edited_r

    def aligned_elsewhere(self, alignment: EditAlignment) -> Array:
        """Whether the word aligned with every block's first reference word is outside the block, [blocks]."""
        aligned = alignment.before[self.r + 1, self.pair]
        elsewhere: Array = (aligned <= self.h) | (aligned > self.h + self.length)
        return elsewhere


class Shifts(NamedTuple):
    """The words start..start + length of a pair's hypothesis move before the word `target`, [shifts] each."""

    pair: IntArray
    start: IntArray
    length: IntArray
    target: IntArray

    def where(self, kept: Array) -> Shifts:
        """The shifts at a mask or at positions."""
        return Shifts(*(column[kept] for column in self))

    def swaps(self, n: IntArray) -> BlockSwaps:
        """Every shift as an exchange of neighbouring blocks; `n` is the hypothesis lengths of the pairs, [pairs]."""
        _, start, length, target = self
        end = start + length
        # To the left the words between target and start give way; to the right those after the block,
        left = target < start
        # up to the target, or if that is within the block by as many words as it has.
        right = np.where(target > end, target, target + length)
        right = np.minimum(right, n[self.pair])
        a = np.where(left, target, start)
        b = np.where(left, start, end)
        c = np.where(left, end, right)
        return BlockSwaps(self.pair, a, b, c)


class BlockSwaps(NamedTuple):
    """In a pair's hypothesis the words a..b and b..c change places, [swaps] each."""

    pair: IntArray
    a: IntArray
    b: IntArray
    c: IntArray

    def where(self, kept: Array) -> BlockSwaps:
        """The swaps at a mask or at positions."""
        return BlockSwaps(*(column[kept] for column in self))

    def moved(self, h: Array) -> Array:
        """The words of the hypothesis after every swap, [N, swaps]; `h` is [N, pairs]."""
        a, b, c = (bound.astype(np.int32) for bound in self[1:])
        place = np.arange(len(h), dtype=np.int32)[:, None]
        # The words now in a..a + c - b were in b..c, the rest of a..c in a..b.
        moved_left = place < a + c - b
        move = np.where(moved_left, b - a, b - c)
        move *= (place >= a) & (place < c)
        words: Array = h[place + move, self.pair]
        return words


class TextPairs(NamedTuple):
    """Pairs of texts side by side: words as numbers, a column per pair."""

    h: Array  # [N, pairs] hypothesis words
    r: Array  # [M, pairs] reference words, last first, so that an antidiagonal of pairs of words is two plain slices
    n: IntArray  # [pairs] hypothesis lengths, at least 1
    m: IntArray  # [pairs] reference lengths, at least 1
    low: Array  # [N + 1, pairs] first antidiagonal i + j of row i within the beam
    high: Array  # the same, after the last

    @classmethod
    def of(cls, words: Ragged, h: IntArray, r: IntArray) -> Self:
        """The pairs of rows `h` and `r` of `words`."""
        columns_h = word_columns(words, h, -1)
        columns_r = word_columns(words, r, -2)[::-1]
        n = words.lengths[h]
        m = words.lengths[r]
        return cls(columns_h, columns_r, n, m, *_beam(n, m))

    def take(self, pairs: IntArray) -> Self:
        """Some of the pairs."""
        return type(self)(
            self.h[:, pairs],
            self.r[:, pairs],
            self.n[pairs],
            self.m[pairs],
            self.low[:, pairs],
            self.high[:, pairs],
        )

    def reordered(self, h: Array) -> Self:
        """The pairs with the words of their hypotheses in another order, [N, pairs]."""
        return self._replace(h=h)

    def distances(self) -> IntArray:
        """Insertions, deletions and substitutions between the texts of every pair, [pairs]."""
        return _distances_and_table(self, keep=False)[0]

    def table(self) -> EditTable:
        """The cheapest edits."""
        return EditTable(self, _distances_and_table(self, keep=True)[1])


class EditTable(NamedTuple):
    """The cheapest edits of some pairs.

    Every pair makes the block shift that lowers its edit distance most, until none lowers it. One dynamic programme
    goes through all cells of all pairs, antidiagonal by antidiagonal, within Tercom's beam. This is the definition, of
    any width of the beam; the kernel in C (`compiled/shift_edits.c`) finds the same edits many times faster.
    """

    pairs: TextPairs
    scores: Array  # as `_distances_and_table` returns them, [N + M + 1, N + 1, pairs]

    def alignment(self) -> EditAlignment:
        """How the words stand to each other; of equal costs a substitution is first, then a deletion."""
        return _alignment(self.pairs, self.scores)

    def movable_blocks(self, alignment: EditAlignment) -> Blocks:
        """All common blocks with an edit on either side that are not aligned with themselves."""
        # Where the longest block lacks an edit, so do all its beginnings.
        longest = _common_blocks(self.pairs)
        longest = longest.where(longest.edited(alignment))
        blocks = longest.beginnings()
        return blocks.where(blocks.edited(alignment) & blocks.aligned_elsewhere(alignment))

    def distances(self, swaps: BlockSwaps) -> IntArray:
        """The edit distance after every swap, [swaps]."""
        distances = np.empty(len(swaps.pair), np.int64)
        step = max(1, ROW_CELLS // len(self.pairs.h))
        for start in range(0, len(distances), step):
            stop = min(start + step, len(distances))
            tile = swaps.where(np.arange(start, stop))
            after = self.pairs.take(tile.pair).reordered(tile.moved(self.pairs.h))
            distances[start:stop] = after.distances()
        return distances


def _beam(n: IntArray, m: IntArray) -> tuple[Array, Array]:
    """First antidiagonal i + j within the beam of every row i, and the one after the last, [N + 1, pairs] each.

    Row i reaches BEAM words around i |m| / |n|, further where m is very long.
    """
    i = np.arange(int(n.max()) + 1)[:, None]
    ratio = m / n
    wide = np.ceil(ratio / 2 + BEAM)
    width = np.where(ratio / 2 > BEAM, wide, BEAM)
    middle = np.floor(i * ratio)
    # Columns j of every row, from low up to before high; the last row reaches the end.
    low = np.maximum(0, middle - width)
    high = np.minimum(m + 1, middle + width)
    high = np.where(i == n, m + 1, high)
    high[0] = high[1]  # row 0 is all within, but no more of it is ever used
    return (low + i).astype(np.int32), (high + i).astype(np.int32)


def _common_blocks(pairs: TextPairs) -> Blocks:
    """From every pair of equal words on the longest block, up to SHIFT_WORDS, no farther apart than SHIFT_DISTANCE."""
    max_n, num_pairs = pairs.h.shape
    max_m = len(pairs.r)
    # run[i, j]: words in common from i and j on, which is one more than from i + 1 and j + 1 on if they are equal.
    run = np.zeros((max_n + 1, max_m + 1, num_pairs), np.int8)
    for i in range(max_n - 1, -1, -1):
        longer = run[i + 1, 1:] + 1
        np.minimum(longer, SHIFT_WORDS, out=run[i, :-1])
        run[i, :-1] *= pairs.h[i] == pairs.r[::-1]
    h, r, pair = np.nonzero(run)
    near = np.abs(h - r) <= SHIFT_DISTANCE
    h = h[near]
    r = r[near]
    pair = pair[near]
    length = run[h, r, pair].astype(np.int64)
    return Blocks(pair, h, r, length)


def _distances_and_table(pairs: TextPairs, keep: bool) -> tuple[IntArray, Array]:
    """Edit distances, and their table: all of it if `keep`, else its last three antidiagonals.

    Cell [d, i] holds S = d - distance of the first i words to the first d - i: S(i, j) = max(S(i-1, j), S(i, j-1),
    S(i-1, j-1) + 1 + [h_i = r_j]). All cells of an antidiagonal d of all pairs are made at once.
    """
    max_n, num_pairs = pairs.h.shape
    max_m = len(pairs.r)
    ends = pairs.n + pairs.m  # antidiagonal of every pair's last cell
    last_end = int(ends.max())
    planes = last_end + 1 if keep else 3
    dtype = _score_type(2 * min(max_n, max_m))
    table = np.full((planes, max_n + 1, num_pairs), NEVER, dtype)
    table[0, 0] = 0

    score = np.zeros(num_pairs, np.int64)
    by_end = np.argsort(ends)
    ended_before = np.searchsorted(ends[by_end], np.arange(last_end + 2)).tolist()
    windows = _windows(pairs, last_end)
    for d in range(1, last_end + 1):
        now = table[d % planes]
        before = table[(d - 1) % planes]
        twice = table[(d - 2) % planes]
        # Inner rows a to b, 1 <= i < d: one step on the diagonal, and one more if the words are equal,
        first, last = windows[d]
        a = max(first, 1)
        b = min(last, d - 1)
        here = slice(a, b + 1)
        above = slice(a - 1, b)
        same = pairs.h[above] == pairs.r[max_m - d + a : max_m - d + b + 1]
        across = same.view(np.int8).astype(dtype, copy=False)
        across += twice[above]
        across += dtype(1)
        # or a word more on either side.
        np.maximum(across, before[above], out=across)
        np.maximum(across, before[here], out=now[here])
        # At the edges one text is still empty; the row before the window must not be chosen later.
        if first:
            now[first - 1] = NEVER
        else:
            now[0] = 0
        if last == d:
            now[d] = 0
        window = slice(first, last + 1)
        outside = (pairs.low[window] > d) | (pairs.high[window] <= d)
        now[window][outside] = NEVER
        # Read the scores of the pairs that end here.
        ended = by_end[ended_before[d] : ended_before[d + 1]]
        if len(ended):
            score[ended] = now[pairs.n[ended], ended]
    return ends - score, table


def _score_type(best: int) -> type[np.int8] | type[np.int16] | type[np.int32]:
    """The smallest type for scores up to `best`."""
    if best < 125:
        return np.int8
    return np.int16 if best < 32000 else np.int32


def _windows(pairs: TextPairs, last_end: int) -> list[tuple[int, int]]:
    """First and last row of every antidiagonal 0..last_end that some pair needs."""
    d = np.arange(last_end + 1)
    highest = pairs.high.max(axis=1)
    lowest = pairs.low.min(axis=1)
    first = np.maximum(d - len(pairs.r), np.searchsorted(highest, d, "right"))
    last = np.minimum(len(pairs.h), np.searchsorted(lowest, d, "right") - 1)
    last = np.minimum(last, d)
    return list(zip(first.tolist(), last.tolist(), strict=True))


def _alignment(pairs: TextPairs, table: Array) -> EditAlignment:
    """Walks every pair's table back from its end; of equal costs a substitution is first, then a deletion.

    Args:
        pairs: the pairs.
        table: as `_distances_and_table` returns it, [N + M + 1, N + 1, pairs].
    """
    max_n, num_pairs = pairs.h.shape
    max_m = len(pairs.r)
    before = np.zeros((max_m + 1, num_pairs), np.int64)
    wrong_h = np.zeros((max_n + 1, num_pairs), np.int64)
    wrong_r = np.zeros((max_m + 1, num_pairs), np.int64)

    # Pairs p stand at cells (i, j), all still on their way to (0, 0).
    i = pairs.n.copy()
    j = pairs.m.copy()
    p = np.arange(num_pairs)
    while len(p):
        d = i + j
        score = table[d, i, p]
        # Across: a word of either text, equal or substituted.
        inner = (i > 0) & (j > 0)
        word_h = pairs.h[i - 1, p]
        word_r = pairs.r[max_m - np.maximum(j, 1), p]
        same = word_h == word_r
        score_across = table[d - 2, i - 1, p] + 1 + same
        across = inner & (score_across == score)
        # Down: a word of the hypothesis is deleted; otherwise one of the reference is inserted.
        score_down = table[d - 1, i - 1, p]
        down = ~across & (i > 0) & ((j == 0) | (score_down == score))
        # Note the edit at its words, and how far the hypothesis is for the reference word.
        wrong = ~(across & same)
        uses_h = across | down
        wrong_h[i, p] |= wrong & uses_h
        wrong_r[j, p] |= wrong & ~down
        before[j, p] = np.where(down, before[j, p], i)
        # Step back, and leave out the pairs that arrived.
        i = i - uses_h
        j = j - ~down
        left = (i > 0) | (j > 0)
        i, j, p = i[left], j[left], p[left]
    return EditAlignment(before, wrong_h.cumsum(axis=0), wrong_r.cumsum(axis=0))
