"""COMET's own layers: sentence vectors from an encoder's layers, and the regression head over all pairs of many lists.

Sentence vectors are a weighted mix of all layers, normalised as a whole, pooled over tokens:

    E = gamma sum_l p_l (h_l - mu_l) / sqrt(v_l + 1e-12),   p = softmax(w) or sparsemax(w)

mu_l and v_l are one mean and one variance over all tokens and dimensions of the sequence, context included. Mean
pooling and the mix are linear, so each layer is pooled first and the mix is made of vectors, not of sequences. In
context the mean is over the first token, the sentence itself and the last token.

The head, also of SEScore2, has its first layer split by columns:

    ff([h, r, h*r, |h-r|, h*s, |h-s|]);   first layer:  A(h, s) + B(r) + C(h, r)
    A = W_h h + W_hs (h*s) + W_ds |h-s| + bias,   B = W_r r,   C = W_hr (h*r) + W_d |h-r|

SEScore2 reads no source: its head has neither W_hs nor W_ds. In COMET-poly r is a candidate c beside h, and the head is
ff([h, s, h*s, |h-s|, c, c*s, |c-s|, c*h, |c-h|]): A(h, s) + B(c, s) + C(h, c). A and B are computed once per text; C,
which is symmetric, once per unordered pair of a square block, and of a block that is followed by the same one
transposed. Without references the head is ff([h, s, h*s, |h-s|]), once per text. Every product has a multiple of 16
rows and columns: then a row's bytes do not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ...representations import Block, FloatArray, IntArray, by_block, hypothesis_rows, transposed
from ..models.attention import ROWS, Packing
from ..models.encoder import States

EPSILON = 1e-12


def sparsemax(scores: Any) -> Any:
    """The Euclidean projection of scores [n] onto the probability simplex (Martins and Astudillo 2016)."""
    import torch

    ordered = scores.sort(descending=True).values  # [n]
    sums = ordered.cumsum(0) - 1  # [n]
    # The support is the longest run of the greatest scores k whose k-th one exceeds the threshold sums_k / k.
    numbers = torch.arange(1, len(scores) + 1, device=scores.device)  # [n]
    size = int((ordered * numbers > sums).sum())
    threshold = sums[size - 1] / size
    return (scores - threshold).clamp(min=0)


class Mixer:
    """Pools and mixes the layers of a batch of sequences.

    Args:
        shares: p_l of every layer [L + 1]; None where one layer is taken as it is.
        gamma: the factor of the mix [1]; None where there is no mix.
        normalised: whether layers are normalised before they are mixed.
        pool: avg, cls or max.
    """

    def __init__(self, shares: Any, gamma: Any, normalised: bool, pool: str) -> None:
        self.shares = shares
        self.gamma = gamma
        self.normalised = normalised
        self.pool = pool
        # Sparsemax leaves some layers without a share.
        plain = [] if shares is None else shares.tolist()
        self.used = [layer for layer, share in enumerate(plain) if share]

    def vectors(self, states: States, starts: IntArray | None) -> Any:
        """Sentence vectors [n, d] from the states of every layer (or the one).

        starts: place of the sentence's first token [n], where there may be context before it.
        """
        packing = states.packing
        if self.shares is None:
            return self._pooled(packing, states.last, starts)
        layers = [(states.layers[layer].float(), self.shares[layer]) for layer in self.used]
        if self.pool == "max":
            # The maximum is not linear: the mix comes first.
            scaled = (self._scaled(packing, x, share, x) for x, share in layers)
            return packing.reduced(sum(scaled) * self.gamma, "max")
        scaled = (
            self._scaled(packing, x, share, self._pooled(packing, x, starts)) for x, share in layers
        )
        return sum(scaled) * self.gamma

    def _scaled(self, packing: Packing, x: Any, share: Any, values: Any) -> Any:
        """share (values - mu) / sigma; values: x [tokens, d] itself or pooled [n, d]."""
        if not self.normalised:
            return values * share
        size = packing.counts * x.shape[1]  # [n]
        # Sums over dimensions first, then over tokens in double precision.
        mean = packing.sums(x.sum(1).double()) / size  # [n]
        mean_square = packing.sums((x * x).sum(1).double()) / size  # [n]
        variance = (mean_square - mean * mean).clamp(min=0)  # [n]
        scale = (variance + EPSILON).rsqrt()  # [n]
        if values is x:
            mean, scale = packing.spread(mean), packing.spread(scale)  # [tokens]
            values = x[: len(mean)]
        return ((values - mean[:, None]) * scale[:, None]).float() * share

    def _pooled(self, packing: Packing, x: Any, starts: IntArray | None) -> Any:
        """One vector per text, [n, d], of its token vectors x [tokens, d]; starts: [n]."""
        if self.pool == "cls":
            return packing.firsts(x)
        if self.pool == "max":
            return packing.reduced(x, "max")
        if starts is None:
            return packing.means(x)
        # In context the mean is over the first token, the sentence and the last token.
        counts = packing.begun(starts).to(x.dtype)  # [tokens]
        total = packing.sums(x[: len(counts)] * counts[:, None])  # [n, d]
        return total / packing.sums(counts)[:, None]


# Pairs of one product.
CPU_PAIRS, GPU_PAIRS = 1024, 1 << 15


class Head:
    """Linear layers with activations between them, and perhaps one at the end.

    Args:
        layers: (weight [out, in], bias [out]) of every layer.
        activation: between layers, in place or not.
        final: after the last, if anything.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Any, Any]],
        activation: Callable[[Any], Any],
        final: Callable[[Any], Any] | None,
    ) -> None:
        self.layers = list(_widened(layers))
        self.activation, self.final = activation, final

    def whole(self, features: Any) -> FloatArray:
        """Values [n] of features [n, in]."""
        weight, bias = self.layers[0]
        x = product(features, weight, bias)  # [n, hidden]
        return self.rest(x)

    def rest(self, x: Any) -> FloatArray:
        """Values [n] from the first layer's output [n, hidden] before its activation, which is used up."""
        for weight, bias in self.layers[1:]:
            x = product(self.activation(x), weight, bias)  # [n, out]
        # The first output of the last layer is its only one, the others are padding.
        x = x[:, 0]  # [n]
        if self.final is not None:
            x = self.final(x)
        return x.double().cpu().numpy()  # type: ignore[no-any-return]


def _widened(layers: Sequence[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """Weights [out, in] and biases [out] with outputs that are always 0 before the activation, to a multiple of 16.

    layers: (weight [out, in], bias [out]) of every layer.
    """
    from torch.nn.functional import pad

    width = layers[0][0].shape[1]
    for weight, bias in layers:
        out, into = weight.shape
        spare_out = -out % ROWS
        spare_into = width - into
        padded_weight = pad(weight, (0, spare_into, 0, spare_out))
        padded_bias = pad(bias, (0, spare_out))
        yield padded_weight.contiguous(), padded_bias
        width = out + spare_out


PairInputs = Literal["source", "plain", "candidate"]


class PairHead:
    """The head of metrics that read pairs of texts: products of what belongs to either text are shared by its pairs.

    Args:
        head: the head.
        inputs: what it reads of a hypothesis, another text and the source: the 6 d features of COMET (source), the four
            of them without a source (plain), or the 9 d of COMET-poly, whose other text is a candidate (candidate).
    """

    def __init__(self, head: Head, inputs: PairInputs = "source") -> None:
        import torch

        self.head = head
        self.inputs = inputs
        weight, self.bias = head.layers[0]  # [hidden, 6 d], [hidden]
        # The weight of each feature, [hidden, d].
        if inputs == "candidate":
            chunks = weight.chunk(9, dim=1)
            of_h, of_r, of_pair = chunks[:4], chunks[4:7], chunks[7:]
        else:
            # The two with the source come last.
            w_h, w_r, w_hr, w_d, *of_source = weight.chunk(6 if inputs == "source" else 4, dim=1)
            of_h, of_r, of_pair = (w_h, *of_source), (w_r,), (w_hr, w_d)
        self.w_h = torch.cat(of_h, 1)  # A: [hidden, d], [hidden, 3 d] or [hidden, 4 d]
        self.w_r = torch.cat(of_r, 1)  # B: [hidden, d] or [hidden, 3 d]
        self.w_pair = torch.cat(of_pair, 1)  # C: [hidden, 2 d]

    def compare(self, e: Any, blocks: Sequence[Block]) -> list[FloatArray]:
        """Values [H, R] of every block; e: vectors [rows, d]."""
        import torch

        def on_device(rows: IntArray) -> Any:
            return torch.from_numpy(rows).to(e.device)

        hypotheses, sources = hypothesis_rows(blocks)
        references = np.concatenate([block.references for block in blocks])
        h = e[on_device(hypotheses)]  # [hypotheses, d]
        r = e[on_device(references)]  # [references, d]
        # A and B, once for each hypothesis and each reference of all blocks.
        of_h = product(self._own(h, e, on_device(sources)), self.w_h, self.bias)
        of_source = np.repeat([b.source for b in blocks], [len(b.references) for b in blocks])
        of_r = product(self._other(r, e, on_device(of_source)), self.w_r)  # [references, hidden]

        values = np.empty(sum(block.cells for block in blocks))
        size = CPU_PAIRS if e.device.type == "cpu" else GPU_PAIRS
        for pairs in _PairPlan.of(blocks).parts(size):
            i, j = on_device(pairs.h), on_device(pairs.r)
            # C, which is the same whichever text is the hypothesis.
            of_pairs = self._of_pairs(h[i], r[j])  # [pairs, hidden]
            # The pairs that are needed the other way round as well are the first ones.
            num_transposed = len(pairs.transposed_cell)
            if num_transposed:
                transposed_i = on_device(pairs.transposed_h)
                transposed_j = on_device(pairs.transposed_r)
                x = of_pairs[:num_transposed] + of_h[transposed_i]  # [transposed, hidden]
                values[pairs.transposed_cell] = self.head.rest(x.add_(of_r[transposed_j]))
            # The sum takes the place of C, so it comes last.
            x = of_pairs.add_(of_h[i]).add_(of_r[j])  # [pairs, hidden]
            values[pairs.cell] = self.head.rest(x)
        return by_block(values, blocks)

    def _own(self, h: Any, e: Any, sources: Any) -> Any:
        """The features of hypotheses [n, d] with their sources, the rows [n] of `e`."""
        import torch

        if self.inputs == "plain":
            return h
        s = e[sources]  # [n, d]
        if self.inputs == "candidate":
            return source_features(h, s)  # [n, 4 d]
        return torch.cat((h, h * s, (h - s).abs_()), 1)  # [n, 3 d]

    def _other(self, r: Any, e: Any, sources: Any) -> Any:
        """The features of references [n, d], or of candidates with their sources, the rows [n] of `e`."""
        import torch

        if self.inputs != "candidate":
            return r
        s = e[sources]  # [n, d]
        return torch.cat((r, r * s, (r - s).abs_()), 1)  # [n, 3 d]

    def _of_pairs(self, a: Any, b: Any) -> Any:
        """C, [pairs, hidden], of vectors [pairs, d] of either text, of which `a` is used up."""
        import torch

        features = torch.cat((a * b, a.sub_(b).abs_()), 1)  # [pairs, 2 d]
        return product(features, self.w_pair)


class _PairPlan(NamedTuple):
    """Pairs to compute, of a square block only those of one half, of a block and the transposed one, and their offsets.

    Pairs that are needed the other way round as well come first, so that the last three columns are shorter.
    """

    h: IntArray  # [pairs] place among the hypotheses of all blocks
    r: IntArray  # [pairs] place among the references of all blocks
    cell: IntArray  # [pairs] place among the values of all blocks
    transposed_h: IntArray  # [transposed] the same pair the other way round
    transposed_r: IntArray  # [transposed]
    transposed_cell: IntArray  # [transposed]

    @classmethod
    def of(cls, blocks: Sequence[Block]) -> _PairPlan:
        """The plan of blocks that are computed together."""
        twice: list[Any] = [np.empty((6, 0), np.int64)]
        once: list[Any] = [np.empty((3, 0), np.int64)]
        sizes = [(len(b.hypotheses), len(b.references), b.cells) for b in blocks]
        starts = np.cumsum(
            [(0, 0, 0), *sizes], axis=0
        )  # of every block among all hypotheses, references and cells

        def pairs_of(k: int, i: IntArray, j: IntArray) -> list[IntArray]:
            """Hypothesis, reference and cell of the pairs (i, j) of block k, [pairs] each."""
            of_h, of_r, of_cells = starts[k]
            return [of_h + i, of_r + j, of_cells + i * sizes[k][1] + j]

        is_transposed = [*transposed(blocks), False]
        for k, block in enumerate(blocks):
            shape = sizes[k][:2]
            if is_transposed[k]:
                continue  # its values come from the block before it
            if is_transposed[k + 1]:
                # Cell (i, j) of this block is cell (j, i) of the next one.
                i, j = np.indices(shape).reshape(2, -1)
                twice.append([*pairs_of(k, i, j), *pairs_of(k + 1, j, i)])
            elif block.square:
                # Above the diagonal in both directions, on the diagonal once.
                i, j = np.triu_indices(shape[0], 1)
                twice.append([*pairs_of(k, i, j), *pairs_of(k, j, i)])
                diagonal = np.arange(shape[0])
                once.append(pairs_of(k, diagonal, diagonal))
            else:
                i, j = np.indices(shape).reshape(2, -1)
                once.append(pairs_of(k, i, j))
        both_ways = np.concatenate(twice, axis=1)  # [6, transposed]
        one_way = np.concatenate(once, axis=1)  # [3, pairs - transposed]
        pairs = np.concatenate((both_ways[:3], one_way), axis=1)  # [3, pairs]
        return cls(*pairs, *both_ways[3:])

    def parts(self, size: int) -> Iterator[_PairPlan]:
        """At most `size` pairs at a time."""
        for start in range(0, len(self.cell), size):
            part = slice(start, start + size)
            yield _PairPlan(*(column[part] for column in self))


def source_features(h: Any, s: Any) -> Any:
    """[h, s, h*s, |h-s|], [n, 4 d] of h and s [n, d]: what the head of a metric without references reads."""
    import torch

    difference = (h - s).abs()  # [n, d]
    return torch.cat((h, s, h * s, difference), 1)


def product(x: Any, weight: Any, bias: Any = None) -> Any:
    """x W^T + b, [n, out], its rows padded to a multiple of 16; x: [n, in], weight: [out, in], bias: [out]."""
    from torch.nn.functional import pad

    from ..models.linear_products import linear

    spare = -len(x) % ROWS
    if not spare:
        return linear(x, weight, bias)
    padded = pad(x, (0, 0, 0, spare))  # [n and spare rows, in]
    return linear(padded, weight, bias)[: len(x)]
