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
    """low and high of a network, over a sample of rows of `ids`; None where strangers score as high.

    Args:
        network: see `regression_network.make_network`.
        ids: token ids.
        rows: which of them may serve.
        padding: the id of padding.
        random: where draws come from.
        texts: the size of the sample.
        views: whether the two sides of a text with itself are encoded with dropout.
    """
    import torch

    device = next(network.parameters()).device
    chosen = random.permutation(rows)[:texts]
    others = np.roll(chosen, 1)
    torch.manual_seed(int(random.integers(1 << 31)))
    network.train(False)
    encoder = network["encoder"]
    estimator = network["estimator"]
    low = []
    high = []
    with torch.no_grad():
        for start in range(0, len(chosen), 32):
            part = slice(start, start + 32)
            text = batch_of(ids, chosen[part], padding, device)
            stranger = batch_of(ids, others[part], padding, device)
            # a text with itself: two views of it, by dropout
            encoder.train(views)
            first = pooled(encoder, *text)
            second = pooled(encoder, *text)
            high += head_scores(estimator, first, second).tolist()
            # a text with another
            encoder.train(False)
            h = pooled(encoder, *text)
            r = pooled(encoder, *stranger)
            low += head_scores(estimator, h, r).tolist()
    mean_low = float(np.mean(low))
    mean_high = float(np.mean(high))
    if mean_high > mean_low:
        return mean_low, mean_high
    return None, None
