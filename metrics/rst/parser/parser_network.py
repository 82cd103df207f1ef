"""The parser's networks at run time, in numpy: an ensemble of two-layer bidirectional GRUs, and a bag of features.

Encoder: tables -> GRU -> tag logits -> [states, softmax of them] -> GRU -> boundary logit; the mean over its members.
GRU (Cho et al. 2014, in torch's form), per direction:
    r, z = sigmoid(x W + b + h U + c)     n = tanh(x W_n + b_n + r (h U_n + c_n))     h' = (1 - z) n + z h
Splits: logits = relu(sum of the features' rows + b) W + c. Every sentence is computed alone, so that its tree is the
same in any company.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...representations import IntArray, Ragged

Weights = NDArray[np.float32]


class GRULayer(NamedTuple):
    """One layer of all members in both directions; M members, D inputs, H units."""

    w: Weights  # [M, 2, D, 3H]
    b: Weights  # [M, 2, 1, 3H]
    u: Weights  # [M, 2, H, 3H]
    c: Weights  # [M, 2, 1, 3H]

    def states(self, x: Weights) -> Weights:
        """States [M, T, 2H] from inputs [M, T, D]."""
        units = self.u.shape[2]
        news = 2 * units  # where the columns of n begin
        # what the inputs give to r, z and n, for all words at once; backwards for the second direction
        both_ways = np.stack([x, x[:, ::-1]], axis=1)  # [M, 2, T, D]
        from_inputs = np.matmul(both_ways, self.w) + self.b  # [M, 2, T, 3H]: r, z, n
        h = np.zeros((*self.u.shape[:2], 1, units), np.float32)  # [M, 2, 1, H]
        states = np.empty((*from_inputs.shape[:3], units), np.float32)  # [M, 2, T, H]
        for t in range(x.shape[1]):
            from_input = from_inputs[:, :, t : t + 1]  # [M, 2, 1, 3H]
            from_state = np.matmul(h, self.u) + self.c  # [M, 2, 1, 3H]
            # the gates r and z, side by side in the first 2H columns
            gates = _sigmoid(from_input[..., :news] + from_state[..., :news])
            r = gates[..., :units]
            z = gates[..., units:]
            # the new content
            n = np.tanh(from_input[..., news:] + r * from_state[..., news:])
            # (1 - z) n + z h
            h = n + z * (h - n)
            states[:, :, t] = h[:, :, 0]
        # the states of the second direction in the order of the words again
        forward = states[:, 0]
        backward = states[:, 1, ::-1]
        return np.concatenate([forward, backward], axis=2)


class WordEncoder(NamedTuple):
    """Tagger and segmenter of all members."""

    tables: tuple[Weights, ...]  # each [M, rows, width]
    lower: GRULayer
    tag_w: Weights  # [M, 2H, tags]
    tag_b: Weights  # [M, 1, tags]
    upper: GRULayer
    cut_w: Weights  # [M, 2H, 1]
    cut_b: Weights  # [M, 1, 1]

    def read(self, numbers: IntArray) -> tuple[IntArray, Weights]:
        """The tag of every word, [T], and the logit that an EDU begins there, [T], from [tables, T]."""
        columns = [table[:, rows] for table, rows in zip(self.tables, numbers, strict=True)]
        states = self.lower.states(np.concatenate(columns, axis=2))  # [M, T, 2H]
        tags = np.matmul(states, self.tag_w) + self.tag_b  # [M, T, tags]
        # softmax over the tags
        shares = np.exp(tags - tags.max(axis=2, keepdims=True))
        shares /= shares.sum(axis=2, keepdims=True)
        above = self.upper.states(np.concatenate([states, shares], axis=2))  # [M, T, 2H]
        cuts = np.matmul(above, self.cut_w) + self.cut_b  # [M, T, 1]
        # the mean over the members
        mean_tags = tags.mean(axis=0)  # [T, tags]
        mean_cuts = cuts.mean(axis=0)  # [T, 1]
        return mean_tags.argmax(axis=1), mean_cuts[:, 0]


class Splitter(NamedTuple):
    """Scores of splits: all members side by side, so that one product averages them."""

    table: Weights  # [rows, M D]
    b: Weights  # [M D]
    w: Weights  # [M D, 1 + labels]
    c: Weights  # [1 + labels]

    def scores(self, rows: Ragged) -> Weights:
        """Logit of every split and of its labels, [splits, 1 + labels]."""
        features = self.table[rows.values]  # [features of all splits, M D]
        summed = np.add.reduceat(features, rows.offsets[:-1], axis=0)  # [splits, M D]
        hidden = np.maximum(summed + self.b, 0)  # [splits, M D]
        return np.asarray(hidden @ self.w + self.c)


def _sigmoid(x: Weights) -> Weights:
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)
