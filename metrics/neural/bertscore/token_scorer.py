"""BERTScore of all pairs of a list: a text is unit vectors of tokens with weights, a pair their best matches.
matches.

    P(h, r) = sum_i a_i max_j h_i.r_j / sum_i a_i,   R(h, r) = P(r, h)

The tokens of many texts stand one after the other, so that the products of all their pairs are one matrix product, some
rows at a time; of a square block about half is computed. Every product has a multiple of 16 rows and columns: then no
number's bytes depend on its neighbours.

Weights are 1, or say in how few texts a token is:

    idf(t) = log((n + 1) / (n_t + 1))

n is the number of texts and n_t how many of them have the token t, special tokens included. At least 0; 0 for a token
that every text has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...errors import InputError
from ...representations import Block, FloatArray, IntArray, Ragged, Reps, transposed
from ...text.texts import Item
from ..models.attention import ROWS, Slab, slabs_of
from ..models.context_tokens import Reader
from ..models.encoder import Encoder
from ..models.settings import ContextModelMetric, EncoderScorer

# Tokens of the texts that are rows, and of those that are columns, of one product.
CPU_TILE, GPU_TILE = (512, 4096), (8192, 16384)

# Under this key, which is no token, the number of texts is counted.
TEXTS = -1


class BERTScorer(EncoderScorer):
    """Represents a text by the unit vectors of its tokens and their weights.

    Args:
        metric: the settings that all metrics with a model share.
        reader: makes ids of texts.
        encoder: makes vectors of ids; its last layer is the one that is matched.
        measure: which of these values is the score.
        sentence_only: only the tokens of the sentence are matched, not those of its context or special ones.
        frequencies: document frequencies of tokens; None where all weigh the same.
        binary_idf: of the inverse document frequency, only whether it is 0 counts.
        baseline: P, R and F of unrelated texts [3], by which scores are rescaled; None where they are not.
    """

    def __init__(
        self,
        metric: ContextModelMetric,
        reader: Reader,
        encoder: Encoder,
        *,
        measure: Literal["P", "R", "F"],
        sentence_only: bool,
        frequencies: Counter[int] | None,
        binary_idf: bool,
        baseline: FloatArray | None,
    ) -> None:
        super().__init__(metric, encoder, reader)
        self.measure = measure
        self.sentence_only = sentence_only
        self.frequencies = frequencies
        self.binary_idf = binary_idf
        self.baseline = baseline

    def represent(self, prepared: Reps) -> Reps:
        """Ragged "vectors" [tokens, d] and "weights" [tokens] of what may be matched."""
        ids, starts = prepared["ids"], prepared["start"]
        normalize = self.encoder.torch.nn.functional.normalize
        vectors: list[Any] = [None] * len(ids)
        for rows, (states,) in self.encoder.states(ids):
            units = normalize(states, dim=-1).cpu().numpy()  # [rows, length, d]
            for row, unit in zip(rows.tolist(), units, strict=True):
                vectors[row] = unit[self._matched(starts[row], len(unit))]

        all_weights = self._weights(ids, starts)  # [tokens]
        bounds = zip(ids.offsets[:-1], ids.offsets[1:], starts, strict=True)
        weights = [
            all_weights[first:end][self._matched(start, end - first)]
            for first, end, start in bounds
        ]
        return Reps(
            {
                "vectors": Ragged.of_rows(vectors),
                "weights": Ragged.of_rows(weights),
                "empty": prepared["own"] == 0,
            }
        )

    def _matched(self, start: int, length: int) -> slice:
        """The tokens that may be matched, of a text of this length whose sentence begins at `start`."""
        return slice(start, length - 1) if self.sentence_only else slice(0, length)

    def _weights(self, ids: Ragged, starts: IntArray) -> Any:
        """Weight of every token, float32 [tokens]: none for context and special tokens; starts: [rows]."""
        lengths = ids.lengths
        first = np.repeat(ids.offsets[:-1], lengths)  # [tokens]
        place = np.arange(len(ids.values)) - first  # [tokens]
        begun = place >= np.repeat(starts, lengths)  # [tokens]
        ended = place >= np.repeat(lengths - 1, lengths)  # [tokens]
        own = begun & ~ended
        if self.frequencies is None:
            return own.astype(np.float32)
        idf = inverse(self.frequencies, ids.values)
        if self.binary_idf:
            idf = (idf != 0).astype(np.float32)
        return idf * own

    def compare(self, reps: Reps, blocks: Sequence[Block]) -> list[FloatArray]:
        """The chosen one of P, R and F of every pair, [H, R]."""
        matrices: list[FloatArray] = []
        p = r = np.empty((0, 0))
        for block, is_transposed in zip(blocks, transposed(blocks), strict=True):
            # What is precision of a pair is recall of the same one the other way round.
            if is_transposed:
                p, r = r.T, p.T
            else:
                p, r = self._matches(reps, block)
            matrices.append(self._values(reps, block, p, r)[self.measure])
        return matrices

    def _matches(self, reps: Reps, block: Block) -> tuple[FloatArray, FloatArray]:
        """P and R of every pair, [H, R] each, neither rescaled nor set to 0 for empty texts."""
        return best_matches(self.encoder.device, reps["vectors"], reps["weights"], block)

    def _values(
        self, reps: Reps, block: Block, p: FloatArray, r: FloatArray
    ) -> dict[str, FloatArray]:
        """P, R and F of every pair, [H, R] each, from unscaled P and R [H, R], which this sets to 0 for empty texts."""
        empty = reps["empty"]
        no_hypothesis = empty[block.hypotheses][:, None]  # [H, 1]
        no_reference = empty[block.references][None, :]  # [1, R]
        nothing = no_hypothesis | no_reference  # [H, R]
        p[nothing] = r[nothing] = 0
        total = p + r
        f = np.zeros_like(total)
        np.divide(2 * p * r, total, out=f, where=total != 0)
        baseline = np.zeros(3) if self.baseline is None else self.baseline
        values = zip("PRF", (p, r, f), baseline, strict=True)
        return {name: (value - base) / (1 - base) for name, value, base in values}

    def describe(self, reps: Reps, block: Block, hypothesis: int, reference: int) -> dict[str, Any]:
        """P, R and F of a pair."""
        pair = Block(block.hypotheses[[hypothesis]], block.references[[reference]])
        values = self._values(reps, pair, *self._matches(reps, pair))
        return {name: float(value[0, 0]) for name, value in values.items()}


def best_matches(
    device: Any, vectors: Ragged, weights: Ragged, block: Block
) -> tuple[FloatArray, FloatArray]:
    """P and R of every pair, [H, R] each; vectors: [tokens, d] per text, weights: [tokens] per text."""
    shape = len(block.hypotheses), len(block.references)
    p, r = np.zeros(shape), np.zeros(shape)
    rows = _SortedTexts.of(device, vectors, weights, block.hypotheses)
    columns = rows
    if not block.square:
        columns = _SortedTexts.of(device, vectors, weights, block.references)
    row_tokens, column_tokens = CPU_TILE if device.type == "cpu" else GPU_TILE
    for start, a in rows.parts(row_tokens):
        # Of a square block, what is left of the diagonal has been computed as its mirror image.
        for _, b in columns.parts(column_tokens, start if block.square else 0):
            of_a, of_b = _match(a, b)  # [n_a, n_b] each
            where = np.ix_(a.places, b.places)
            p[where], r[where] = of_a, of_b
            if block.square:
                mirrored = where[::-1]  # indexed as [column, row]
                p[mirrored], r[mirrored] = of_b, of_a
    return p, r


class _SortedTexts(NamedTuple):
    """Texts one after the other, the shortest first."""

    places: IntArray  # [n] in the block
    lengths: IntArray  # [n]
    vectors: Any  # [tokens and spare rows, to a multiple of 16, d]
    shares: Any  # [tokens]; they sum to 1 in each text that has any weight

    @classmethod
    def of(cls, device: Any, vectors: Ragged, weights: Ragged, rows: IntArray) -> Self:
        """The texts in these rows [n] that have tokens; vectors: [tokens, d] per text, weights: [tokens] per text."""
        import torch

        # Empty texts are the shortest; they are left out.
        lengths = vectors.lengths[rows]  # [all texts]
        num_empty = np.count_nonzero(lengths == 0)
        places = np.argsort(lengths, kind="stable")[num_empty:]
        lengths, texts = lengths[places], rows[places]

        # At least 16 spare rows of vectors: the shortest text, again and again.
        shortest = max(1, lengths[:1].sum())
        repeats = -(-ROWS // shortest)
        spare = texts[:1].repeat(repeats)
        tokens = vectors[np.append(texts, spare)].values  # [tokens and spare rows, d]

        # The share of a token in the weight of its text.
        weight = weights[texts].values  # [tokens]
        text = np.repeat(np.arange(len(texts)), lengths)  # [tokens]
        totals = np.bincount(text, weight, len(texts))  # [n], added in order
        total = totals[text]  # [tokens]
        share = np.zeros(len(total))
        np.divide(weight, total, out=share, where=total > 0)
        return cls(
            places=places,
            lengths=lengths,
            vectors=torch.from_numpy(tokens).to(device),
            shares=torch.from_numpy(share).to(device),
        )

    def parts(self, tokens: int, start: int = 0) -> Iterator[tuple[int, Self]]:
        """First text, and texts of at most so many tokens together (one may be longer), from text `start` on."""
        ends = self.lengths.cumsum()
        while start < len(ends):
            first = int(ends[start] - self.lengths[start])
            within_budget = int(np.searchsorted(ends, first + tokens, "right"))
            stop = max(start + 1, within_budget)
            last = int(ends[stop - 1])
            # Rows of the next texts, or the spare ones, fill up to a multiple of 16.
            end = last + (first - last) % ROWS
            part = type(self)(
                places=self.places[start:stop],
                lengths=self.lengths[start:stop],
                vectors=self.vectors[first:end],
                shares=self.shares[first:last],
            )
            yield start, part
            start = stop


def _match(a: _SortedTexts, b: _SortedTexts) -> tuple[FloatArray, FloatArray]:
    """Weighted means of the best matches of the tokens of `a` in `b`, and of those of `b` in `a`, [n_a, n_b] each."""
    cosines = a.vectors @ b.vectors.T  # [tokens of a, tokens of b], spare ones included
    slabs_a = slabs_of(a.lengths.tolist())
    slabs_b = slabs_of(b.lengths.tolist())
    of_a = _mean(_best(cosines.T, slabs_b), a.shares, slabs_a)  # [n_b, n_a]
    of_b = _mean(_best(cosines, slabs_a), b.shares, slabs_b)  # [n_a, n_b]
    return of_a.T, of_b


def _best(cosines: Any, slabs: list[Slab]) -> Any:
    """The largest number in each text, [texts, other tokens], of [tokens, other tokens]."""
    import torch

    return torch.cat([slab.rows(cosines).amax(1) for slab in slabs])


def _mean(best: Any, shares: Any, slabs: list[Slab]) -> FloatArray:
    """Weighted means over the tokens of each text, [other texts, texts].

    best: the largest numbers, [other texts, tokens and spare ones]. shares: of the tokens in their texts, [tokens].
    """
    import torch

    weighted = best[:, : len(shares)].double() * shares  # [other texts, tokens]
    by_text = [slab.rows(weighted.T).sum(1) for slab in slabs]  # [texts of the slab, other texts]
    return torch.cat(by_text).T.cpu().numpy()


def document_frequencies(reader: Reader, texts: Iterable[str]) -> Counter[int]:
    """In how many texts each token is; the number of texts under -1."""
    items = [Item(text) for text in texts]
    if not items:
        fix = "Give the sentences to count tokens in, one per line"
        raise InputError("no texts", where="idf", fix=fix)
    ids = reader.read(items)["ids"]
    bounds = zip(ids.offsets[:-1], ids.offsets[1:], strict=True)
    distinct = [set(ids.values[start:end].tolist()) for start, end in bounds]
    frequencies = Counter(token for tokens in distinct for token in tokens)
    return frequencies + Counter({TEXTS: len(distinct)})


def inverse(frequencies: Counter[int], tokens: IntArray) -> NDArray[np.float32]:
    """Inverse document frequency of tokens [tokens], float32 [tokens]."""
    texts = frequencies[TEXTS]
    values = []
    for token in tokens.tolist():
        ratio = (texts + 1) / (frequencies[token] + 1)
        values.append(log(ratio))
    return np.array(values, np.float32)
