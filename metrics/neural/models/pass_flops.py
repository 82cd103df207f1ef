"""Floating point operations of forward passes, from the sizes in a model's configuration.

A multiplication with its addition counts as two operations. Of a token, a layer of width d multiplies with the four
matrices of attention (d times the width i of all heads) and the two or, gated, three of the feed-forward part (d times
f), and compares it with each of the T tokens of its sequence:

    FLOP = 2 layers sum over sequences of T (4 d i + products d f + 2 i T)
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ...representations import IntArray


class Stack(NamedTuple):
    """Sizes of a stack of layers: how many, their width, that of all heads together, that of the feed-forward part."""

    layers: int
    width: int
    heads_width: int
    feed_forward: int
    feed_forward_products: int = 2

    @classmethod
    def of_encoder(cls, config: Any, layers: int) -> Self:
        """That of an encoder's configuration, as transformers names its sizes; of DistilBERT and its kin too."""
        width = config.hidden_size
        feed_forward = getattr(config, "intermediate_size", None) or getattr(
            config, "hidden_dim", 0
        )
        return cls(layers, width, width, feed_forward or 4 * width)

    @property
    def products(self) -> int:
        """Multiplications of one token with the matrices of one layer."""
        attention = 4 * self.width * self.heads_width
        return attention + self.feed_forward_products * self.width * self.feed_forward

    def flops(self, lengths: IntArray) -> float:
        """Of sequences of these lengths [n], each attending to itself."""
        tokens = lengths.astype(np.float64)
        of_tokens = self.products * tokens.sum() + 2 * self.heads_width * np.square(tokens).sum()
        return float(2 * self.layers * of_tokens)
