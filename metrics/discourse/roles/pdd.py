"""Metrics of the roles of sentences: positional discourse divergence (PDD), and its baseline role match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from ...errors import InputError
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, by_block, cell_rows
from ...scorer import Info
from ...spec.checked_settings import Field, settings
from .role_sources import RoleMetric, RoleScorer

TERMS = 1 << 20  # of sums over many pairs, at once
CACHED = 1 << 15  # cells of a matrix that is summed up at once
MAX_CELLS_PER_PAIR = 2  # a matrix with no more cells is computed whole
ROUNDING = 1e-13  # bound of the relative error of a sum


@lru_cache(maxsize=4096)
def bins_of(length: int, bins: int) -> IntArray:
    """The bin of every sentence of a document, [length].

    >>> bins_of(7, 2).tolist()
    [0, 0, 0, 1, 1, 1, 1]
    """
    if length == 1:
        return np.array([bins // 2])
    edges = np.arange(bins) * ((length - 1) / bins)
    edges_below = np.searchsorted(edges, np.arange(length), side="right")
    return edges_below.astype(np.int64) - 1


def counts(
    roles: Ragged,
    bins: int,
    size: int,
    owner: IntArray | None = None,
) -> FloatArray:
    """The number of sentences per bin and role, [documents, bins, size], or [sets, bins, size] over sets of documents.

    Args:
        roles: the roles of each document, numbers below `size`.
        bins: N.
        size: K, the number of roles.
        owner: the set of each document, [documents], numbers 0, 1, ... in ascending order.
    """
    if owner is None:
        owner = np.arange(len(roles))
    sets = int(owner[-1]) + 1 if len(owner) else 0
    # the bin of every sentence, document after document, [sentences]
    bins_per_document = [bins_of(length, bins) for length in roles.lengths.tolist() if length]
    sentence_bin = np.concatenate([*bins_per_document, np.empty(0, np.int64)])
    # the flat place of (set, bin, role) of every sentence
    sentence_owner = np.repeat(owner, roles.lengths)
    row = sentence_owner * bins + sentence_bin
    cell = row * size + roles.values.astype(np.int64)
    cell_counts = np.bincount(cell, minlength=sets * bins * size)
    return cell_counts.reshape(sets, bins, size).astype(float)


def in_parts(sizes: IntArray, budget: int) -> Iterator[slice]:
    """Slices of consecutive pieces of work with at most `budget` summed sizes [pieces] (one piece may be larger)."""
    ends = sizes.cumsum()
    start = 0
    while start < len(sizes):
        before = int(ends[start] - sizes[start])
        within_budget = int(np.searchsorted(ends, before + budget, "right"))
        stop = max(start + 1, within_budget)
        yield slice(start, stop)
        start = stop


class Densities(NamedTuple):
    """Role densities of some documents or sets in N bins."""

    bins: int
    p: FloatArray  # [documents, N K]
    log: FloatArray  # ln(p + eps)
    own: FloatArray  # s of each document, [documents]
    lost: FloatArray  # eps t of each document, [documents]
    filled: Ragged  # the cells of each document where p > 0

    @classmethod
    def of(cls, counted: FloatArray, eps: float) -> Self:
        """The densities of `counts` [documents, N, K]; an empty bin has the density 0 everywhere."""
        documents, bins, _ = counted.shape
        totals = counted.sum(axis=2, keepdims=True)
        p = (counted / np.maximum(totals, 1)).reshape(documents, -1)
        log = np.log(p + eps)
        # the terms of s and t, of the cells that are not 0
        row, cell = np.nonzero(p)
        filled_log = log[row, cell]
        empty_log = float(np.log(eps))
        filled_p = p[row, cell] + eps
        own = _sums(row, filled_p * filled_log - eps * empty_log, documents)
        lost = eps * _sums(row, empty_log - filled_log, documents)
        filled = Ragged.of_lengths(cell, np.bincount(row, minlength=documents))
        return cls(bins, p, log, own, lost, filled)

    def divergences(self, h: IntArray, r: IntArray) -> FloatArray:
        """D(h || r) of pairs of rows, [pairs] each."""
        rows = np.unique(h)
        columns = np.unique(r)
        if len(rows) * len(columns) <= MAX_CELLS_PER_PAIR * len(h):
            matrix = self._matrix(rows, columns)
            cross = matrix[np.searchsorted(rows, h), np.searchsorted(columns, r)]
        else:
            parts = in_parts(self.filled.lengths[r], TERMS)
            cross = np.concatenate([self._scattered(h[part], r[part]) for part in parts])
        return self._less(self.own[r] + self.lost[h], cross)

    def _matrix(self, rows: IntArray, columns: IntArray) -> FloatArray:
        """sum p_r ln A_h of all rows h and columns r, [rows, columns]."""
        sums = np.zeros((len(rows), len(columns)))
        # a cell that is 0 for all references adds nothing: only the others, one per line, contiguous
        p = self.p[columns].T
        used = np.flatnonzero(p.any(axis=1))
        p = np.ascontiguousarray(p[used])  # [used, columns]
        log = np.ascontiguousarray(self.log[rows].T[used])  # [used, rows]
        # cell after cell, in their order, over as many rows as stay in the cache
        for part in in_parts(np.full(len(rows), len(columns)), CACHED):
            part_sums = sums[part]  # a view: [part, columns]
            term = np.empty_like(part_sums)
            for p_cell, log_cell in zip(p, log[:, part, None], strict=True):
                part_sums += np.multiply(log_cell, p_cell, out=term)
        return sums

    def _scattered(self, h: IntArray, r: IntArray) -> FloatArray:
        """sum p_r ln A_h of pairs of rows, [pairs]."""
        cells = self.filled[r]
        width = self.p.shape[1]
        pair = np.repeat(np.arange(len(r)), cells.lengths)  # [terms]
        at_p = r[pair] * width + cells.values
        at_log = h[pair] * width + cells.values
        terms = self.p.ravel().take(at_p) * self.log.ravel().take(at_log)
        return _sums(pair, terms, len(r))

    def _less(self, own: FloatArray, cross: FloatArray) -> FloatArray:
        """(own - cross) / N, and 0 where nothing but rounding is left of it, so that equal densities are at 0."""
        rest = own - cross
        error = ROUNDING * (np.abs(own) + np.abs(cross) + self.bins)
        rest[np.abs(rest) <= error] = 0
        return np.asarray(np.maximum(rest, 0) / self.bins)

    def expected(self, h: IntArray, r: IntArray, weights: FloatArray) -> FloatArray:
        """sum_r w_r D(h || r) of rows h, [hypotheses], in time linear in both: D is linear in p_r and s_r.

        sum_r w_r D(h || r) = (sum_r w_r s_r + sum_r w_r eps t_h - ln A_h . sum_r w_r p_r) / N
        """
        mean_p = (weights[:, None] * self.p[r]).sum(axis=0)  # [N K]
        cross = (self.log[h] * mean_p).sum(axis=1)
        mean_own = (weights * self.own[r]).sum()
        own = mean_own + weights.sum() * self.lost[h]
        return self._less(own, cross)


def _sums(rows: IntArray, values: FloatArray, size: int) -> FloatArray:
    """The sum of the values of every row, [size], added up in their order."""
    return np.asarray(np.bincount(rows, values, size), np.float64)


@settings
class PDD(RoleMetric):
    """Positional discourse divergence (PDD; Liu et al. 2024): how role densities differ, bin by bin of the document.

        PDD(h || r) = 1/N sum_n sum_k (p_r[n,k] + eps) (ln(p_r[n,k] + eps) - ln(p_h[n,k] + eps))         (Eq. 1)

    p[n,k]: the share of role k among the sentences of bin n; N = min(bins, |h|, |r|). A distance from 0 (the same
    densities) to B = ln((1 + eps) / eps), not symmetric, natural logarithm. A text without any sentence that has a role
    is at the distance B from every other and from itself, so that as a utility it is never rewarded. Several references
    are pooled into one density, as whole sets are by `corpus`; N is then that of the longest member.

    Sentence i of L goes to the last of the N bins whose edge j (L - 1) / N, j = 0 .. N - 1, is not above i; a lone
    sentence goes to bin floor(N / 2). These are the edges of a numpy histogram over ``range(L)``, in the arithmetic of
    the authors' code. Most cells of a density are 0, and those of the reference count for little:

        N D = s_r + eps t_h - sum_(n, k) p_r ln A_h,     s_r = sum_(p_r > 0) (A_r ln A_r - eps ln eps),
        t_h = sum_(p_h > 0) (ln eps - ln A_h).

    The last sum is taken term by term in the order of the cells: over all of them for the pairs of a whole matrix at
    once, over those that are not 0 for scattered pairs. Either way a value is a function of its pair alone to the last
    bit, which a product of matrices would not promise.

    Args:
        bins: N, the number of positional bins.
        eps: added to every density, above 0; the paper gives none, its code has this.
        clamp: shorter texts have fewer bins, as in the authors' code; false makes a text of no more sentences than
            bins an error, as in the paper.
        scale: "paper" is Eq. 1; "renormalise" makes densities sum to 1 again after eps was added; "unit" divides by B,
            for values from 0 to 1.
    """

    bins: Annotated[int, Field(ge=1, le=1000)] = 8
    eps: Annotated[float, Field(gt=0)] = 1e-8
    clamp: bool = True
    scale: Literal["paper", "renormalise", "unit"] = "paper"
    name: ClassVar[str] = "pdd"
    info: ClassVar[Info] = Info(
        summary="divergence of discourse role densities by position",
        reasons=(
            "bins: parts of equal length that a text is cut into; role bins that differ: those, from 1, where the "
            "shares of a role, 0 to 1, are not the same in both texts"
        ),
        papers=("liu2024unlocking",),
        unit="document",
        higher_is_better=False,
        bounds=(0, float("inf")),
        multi_reference="custom",
        linear=True,
        bucketed=True,
        version=2,
    )

    def load(self) -> PDDScorer:
        """The scorer, with the classifier if there is one."""
        self.check_files()
        return PDDScorer(self)


class PDDScorer(RoleScorer):
    """Represents a text by the roles of its sentences."""

    def __init__(self, metric: PDD) -> None:
        super().__init__(metric)
        self.bins = metric.bins
        self.eps = metric.eps
        self.clamp = metric.clamp
        bound = log((1 + self.eps) / self.eps)
        factors = {
            "paper": 1.0,
            "renormalise": 1 / (1 + self.schema.kept * self.eps),
            "unit": 1 / bound,
        }
        self.factor = factors[metric.scale]
        self.worst = bound

    def represent(self, prepared: Reps) -> Reps:
        """The roles of every text.

        Raises:
            InputError: a text has no more sentences than there are bins, unless `clamp`.
        """
        reps = super().represent(prepared)
        shortest = int(reps["roles"].lengths.min(initial=self.bins + 1))
        if not self.clamp and shortest <= self.bins:
            problem = f"a text of {shortest} sentences for {self.bins} bins"
            fix = "With clamp=false a text has more sentences than bins: set fewer bins, or clamp=true"
            raise InputError(problem, where="pdd", fix=fix)
        return reps

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Distances [H, R] of every block."""
        h, r = cell_rows(blocks)
        # every reference is a group of its own
        rows, group = np.unique(r, return_inverse=True)
        groups = Ragged.of_lengths(rows, np.ones(len(rows), np.int64))
        return by_block(self._values(reps["roles"], h, groups, group), blocks)

    def compare_multi(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Distances [H] of every block, its references pooled."""
        sizes = [len(block.hypotheses) for block in blocks]
        h = np.concatenate([block.hypotheses for block in blocks])
        groups = Ragged.of_rows([block.references for block in blocks])
        group = np.repeat(np.arange(len(blocks)), sizes)
        values = self._values(reps["roles"], h, groups, group)
        return np.split(values, np.cumsum(sizes)[:-1])

    def _values(
        self,
        roles: Ragged,
        h: IntArray,
        groups: Ragged,
        group: IntArray,
    ) -> FloatArray:
        """Distances [pairs] of hypotheses from pooled references.

        Args:
            roles: of every text.
            h: the row of the hypothesis, [pairs].
            groups: the rows of the references of every group.
            group: the number of the group, [pairs].
        """
        longest = np.maximum.reduceat(roles.lengths[groups.values], groups.offsets[:-1])
        shorter = np.minimum(roles.lengths[h], longest[group])
        bins = np.minimum(self.bins, shorter)  # [pairs]
        values = np.full(len(h), self.worst)  # of pairs without bins
        roles, size = _compact(roles)
        for n in np.unique(bins[bins > 0]).tolist():
            # densities are made once per text and group, first those of the hypotheses
            pairs = np.flatnonzero(bins == n)
            rows, at_h = np.unique(h[pairs], return_inverse=True)
            used, at_r = np.unique(group[pairs], return_inverse=True)
            members = groups[used]
            owner = np.repeat(np.arange(len(used)), members.lengths)
            own = counts(roles[rows], n, size)
            pooled = counts(roles[members.values], n, size, owner)
            densities = Densities.of(np.concatenate((own, pooled)), self.eps)
            values[pairs] = densities.divergences(at_h, at_r + len(rows))
        return values * self.factor

    def _expected(self, roles: Ragged, block: Block, weights: FloatArray) -> FloatArray:
        """From the mean reference density."""
        roles, size = _compact(roles)
        total, used_weight = np.zeros((2, len(block.hypotheses)))
        for n, h, r in self._rectangles(roles.lengths, block):
            rows = np.concatenate((block.hypotheses[h], block.references[r]))
            densities = Densities.of(counts(roles[rows], n, size), self.eps)
            at_h, at_r = np.split(np.arange(len(rows)), [len(h)])
            total[h] += densities.expected(at_h, at_r, weights[r])
            used_weight[h] += weights[r].sum()
        # pairs with a text without roles are at the greatest distance
        without_roles = (weights.sum() - used_weight) * self.worst
        return np.asarray((total + without_roles) * self.factor)

    def _rectangles(
        self, lengths: IntArray, block: Block
    ) -> Iterator[tuple[int, IntArray, IntArray]]:
        """Every pair of texts that have sentences once: (N, hypotheses, references) of the pairs with N bins."""
        h = np.minimum(lengths[block.hypotheses], self.bins)
        r = np.minimum(lengths[block.references], self.bins)
        largest = min(h.max(), r.max())
        numbers = np.minimum(np.append(h, r), largest)
        for n in np.unique(numbers).tolist():
            # the smaller of both is n: the reference's, or else the hypothesis's
            rectangles = (
                (h >= n, r == n),
                (h == n, r > n),
            )
            for rows, columns in rectangles:
                if n and rows.any() and columns.any():
                    yield n, np.flatnonzero(rows), np.flatnonzero(columns)

    def statistics(self, reps: Reps, blocks: Sequence[Block]) -> FloatArray:
        """Per block: whether a text of either side has n sentences or more, and the counts of either side in n bins.

        Both for every n up to `bins`, so that sums of rows tell N and the pooled counts of any set of blocks.
        """
        roles = reps["roles"]
        hypotheses = Ragged.of_rows([block.hypotheses for block in blocks])
        references = Ragged.of_rows([block.references for block in blocks])
        sides = hypotheses, references
        columns: list[FloatArray] = []
        # [blocks, bins] per side: 1 where the longest text has n sentences
        for side in sides:
            longest = np.maximum.reduceat(roles.lengths[side.values], side.offsets[:-1])
            long_enough = longest[:, None] >= np.arange(1, self.bins + 1)
            columns.append(long_enough.astype(float))
        # [blocks, n * roles] per n and side: pooled counts
        for n in range(1, self.bins + 1):
            for side in sides:
                owner = np.repeat(np.arange(len(blocks)), side.lengths)
                pooled = counts(roles[side.values], n, self.schema.size, owner)
                columns.append(pooled.reshape(len(blocks), -1))
        return np.concatenate(columns, axis=1)

    def aggregate(self, statistics: FloatArray) -> float:
        """PDD of the set of hypotheses from the set of references: counts are pooled, then normalised."""
        sums = statistics.sum(axis=0, keepdims=True)
        return float(self.aggregate_sums(sums, np.ones(1))[0])

    def aggregate_sums(self, sums: FloatArray, rows: FloatArray) -> FloatArray:
        """PDD [b] of b sets of hypotheses from sets of references, from sums of `statistics` [b, columns]."""
        size = self.schema.size
        texts = sums[:, : 2 * self.bins].reshape(-1, 2, self.bins)
        long_enough = texts > 0  # [b, side, n - 1]
        bins = long_enough.all(axis=1).sum(axis=1)  # N of each pair of sets
        values = np.full(len(sums), self.worst)
        for n in np.unique(bins[bins > 0]).tolist():
            # where the counts of n bins stand: behind those of 1 to n - 1 bins of both sides
            start = 2 * self.bins + n * (n - 1) * size
            width = 2 * n * size
            sets = np.flatnonzero(bins == n)
            for part in in_parts(np.full(len(sets), width), TERMS):
                # [2 sets, n, size], the two sides of a set after each other
                pooled = sums[sets[part], start : start + width]
                pooled = pooled.reshape(-1, n, size)
                occurring = pooled.any(axis=(0, 1))
                densities = Densities.of(pooled[:, :, occurring], self.eps)
                h = np.arange(0, len(pooled), 2)
                values[sets[part]] = densities.divergences(h, h + 1)
        return values * self.factor

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The number of bins, and the role bins that differ, with the shares of the role in either text."""
        rows = np.array([block.hypotheses[hypothesis], block.references[reference]])
        roles = reps["roles"][rows]
        n = int(min(self.bins, *roles.lengths))
        role_counts = counts(roles, max(1, n), self.schema.size)
        totals = role_counts.sum(axis=2, keepdims=True)
        h, r = role_counts / np.maximum(totals, 1)  # [n, size] each
        differing = [
            {
                "bin": int(b) + 1,
                "role": self.schema.name(int(k)),
                "hypothesis": float(h[b, k]),
                "reference": float(r[b, k]),
            }
            for b, k in np.argwhere(h != r)
        ]
        return {"bins": n, "role bins that differ": differing}


def _compact(roles: Ragged) -> tuple[Ragged, int]:
    """Roles numbered anew without gaps, in the same order, and how many there are: others would change no value."""
    kinds, number = np.unique(roles.values, return_inverse=True)
    return Ragged(number, roles.offsets), len(kinds)


@settings
class RoleMatch(RoleMetric):
    """Role match: the share of the reference's sentences whose role the hypothesis has at the same place.

        match(h, r) = #{i < min(|h|, |r|): h_i = r_i} / |r|

    The baseline "exact match" of the PDD paper (Liu et al. 2024), as its code computes it: further sentences of the
    hypothesis cost nothing. 0 to 1, higher is better, not symmetric; 0 if either text has no sentence with a role. Of
    several references the best counts.
    """

    name: ClassVar[str] = "role-match"
    info: ClassVar[Info] = Info(
        summary="discourse roles that agree sentence by sentence",
        reasons=("places that differ: sentences, counted from 1, whose roles are not the same"),
        papers=("liu2024unlocking",),
        unit="document",
        bounds=(0, 1),
        linear=True,
        bucketed=True,
        version=2,
    )

    def load(self) -> RoleMatchScorer:
        """The scorer, with the classifier if there is one."""
        self.check_files()
        return RoleMatchScorer(self)


class RoleMatchScorer(RoleScorer):
    """Represents a text by the roles of its sentences."""

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """Matches [H, R] of every block."""
        roles: Ragged = reps["roles"]
        h, r = cell_rows(blocks)
        shorter = np.minimum(roles.lengths[h], roles.lengths[r])  # [pairs], places to look at
        matches = np.empty(len(h), np.int64)
        for part in in_parts(shorter, TERMS):
            pair, place = _places(shorter[part])
            h_start = roles.offsets[h[part]]
            r_start = roles.offsets[r[part]]
            h_roles = roles.values[h_start[pair] + place]
            r_roles = roles.values[r_start[pair] + place]
            matching_pair = pair[h_roles == r_roles]
            matches[part] = np.bincount(matching_pair, minlength=len(h_start))
        lengths = np.maximum(roles.lengths[r], 1)
        return by_block(matches / lengths, blocks)

    def _expected(self, roles: Ragged, block: Block, weights: FloatArray) -> FloatArray:
        """From the weight of every role at every place."""
        own = roles[block.hypotheses]
        references = roles[block.references]
        size = self.schema.size
        depth = int(max(own.lengths.max(), references.lengths.max()))
        # the weight of every role at every place, over all references: [depth * size]
        reference, place = _places(references.lengths)
        share = weights / np.maximum(references.lengths, 1)
        cell = place * size + references.values
        table = np.bincount(cell, share[reference], depth * size)
        # each hypothesis collects the weights of its roles
        hypothesis, place = _places(own.lengths)
        collected = table[place * size + own.values]
        return np.asarray(np.bincount(hypothesis, collected, len(own)), np.float64)

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """The places whose roles differ, counted from 1, as far as the reference goes."""
        h = self._names(reps, block.hypotheses[[hypothesis]])
        r = self._names(reps, block.references[[reference]])
        differing = []
        for i, role in enumerate(r):
            own = h[i] if i < len(h) else None
            if own != role:
                differing.append({"sentence": i + 1, "hypothesis": own, "reference": role})
        return {"places that differ": differing}

    def _names(self, reps: Reps, row: IntArray) -> list[str]:
        """The names of the roles of one text, given as an array [1] of its row."""
        return [self.schema.name(int(number)) for number in reps["roles"][row].values]


def _places(lengths: IntArray) -> tuple[IntArray, IntArray]:
    """The row and the place in it of every entry of rows of these lengths, [total] each."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    first = np.repeat(lengths.cumsum() - lengths, lengths)
    return row, np.arange(len(row)) - first
