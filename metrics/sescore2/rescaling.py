"""Scores on the scale of the labels, 0 for the same text and -50 for a stranger (Xu et al. 2023, appendix H).

    rescaled = ((s - low) / (high - low) - 1) * 50

low: the mean score of random pairs; high: that of texts paired with themselves, encoded twice with dropout, or
without where the encoder was trained without it. Scoring goes without dropout, so that the same text may come out above
0. Affine and rising, so that no choice changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..representations import FloatArray, IntArray, Ragged
from .regression_network import batch_of, head_scores, pooled

Bounds = tuple[float, float] | tuple[None, None]
SPAN = 50.0
TEXTS = 512  # that the bounds are means over


def rescaled(scores: FloatArray, low: float, high: float) -> FloatArray:
    """Scores between -50 and 0 for most pairs."""
    return ((scores - low) / (high - low) - 1) * SPAN


def bounds(
    network: Any,
    ids: Ragged,
    rows: IntArray,
    padding: int,
    random: np.random.Generator,
    *,
    texts: int = TEXTS,
    views: bool = True,
) -> Bounds:
    """low and high of a network, over some of the given rows of `ids`; None where strangers score as high.

    Args:
        network: see `network.make_network`.
        ids: token ids.
        rows: which of them may serve.
        padding: the id of padding.
        random: where draws come from.
        texts: how many serve.
        views: whether the two sides of a text with itself are encoded with dropout.
    """
    import torch

    device = next(network.parameters()).device
    chosen = random.permutation(rows)[:texts]
    others = np.roll(chosen, 1)
    torch.manual_seed(int(random.integers(1 << 31)))
    network.train(False)
    low, high = [], []
    with torch.no_grad():
        for start in range(0, len(chosen), 32):
            one, other = (
                batch_of(ids, part[start : start + 32], padding, device)
                for part in (chosen, others)
            )
            network["encoder"].train(views)
            first, second = (pooled(network["encoder"], *one) for _ in range(2))
            high += head_scores(network["estimator"], first, second).tolist()
            network["encoder"].train(False)
            h, r = pooled(network["encoder"], *one), pooled(network["encoder"], *other)
            low += head_scores(network["estimator"], h, r).tolist()
    found = float(np.mean(low)), float(np.mean(high))
    return found if found[1] > found[0] else (None, None)
