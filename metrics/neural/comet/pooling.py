"""COMET's sentence vectors: a weighted mix of all layers, normalised as a whole, pooled over tokens.

    E = gamma sum_l p_l (h_l - mu_l) / sqrt(v_l + 1e-12),   p = softmax(w) or sparsemax(w)

mu_l and v_l are one mean and one variance over all tokens and dimensions of the sequence, context included. Mean
pooling and the mix are linear, so each layer is pooled first and the mix is made of vectors, not of sequences. In
context the mean is over the first token, the sentence itself and the last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...representations import IntArray

EPSILON = 1e-12


def sparsemax(scores: Any) -> Any:
    """The Euclidean projection of scores [n] onto the probability simplex (Martins and Astudillo 2016)."""
    import torch

    ordered = scores.sort(descending=True).values
    sums = ordered.cumsum(0) - 1
    support = ordered * torch.arange(1, len(scores) + 1, device=scores.device) > sums
    size = int(support.sum())
    return (scores - sums[size - 1] / size).clamp(min=0)


class Mixer:
    """Pools and mixes the layers of sequences of one length.

    Args:
        shares: p_l of every layer [L + 1]; None where one layer is taken as it is.
        gamma: the factor of the mix.
        normalised: whether layers are normalised before they are mixed.
        pool: avg, cls or max.
    """

    def __init__(self, shares: Any, gamma: Any, normalised: bool, pool: str) -> None:
        self.shares, self.gamma, self.normalised, self.pool = shares, gamma, normalised, pool
        self.used = (
            [] if shares is None else [i for i, share in enumerate(shares.tolist()) if share]
        )

    def vectors(self, states: Sequence[Any], starts: IntArray | None) -> Any:
        """Sentence vectors [n, d] from states [n, length, d] of every layer (or the one).

        starts: place of the sentence's first token [n], where there may be context before it.
        """
        if self.shares is None:
            return self._pooled(states[-1], starts)
        if self.pool == "max":
            return self._pooled(
                sum(self._scaled(x, p, x) for x, p in self._layers(states)) * self.gamma, starts
            )
        return (
            sum(self._scaled(x, p, self._pooled(x, starts)) for x, p in self._layers(states))
            * self.gamma
        )

    def _layers(self, states: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Layers with their shares; sparsemax leaves some without any."""
        return [(states[i], self.shares[i]) for i in self.used]

    def _scaled(self, x: Any, share: Any, values: Any) -> Any:
        """share (values - mu) / sigma; values: x [n, length, d] itself or pooled [n, d]."""
        if not self.normalised:
            return values * share
        size = x.shape[1] * x.shape[2]
        mean = x.sum(2).double().sum(1) / size  # [n]
        variance = ((x * x).sum(2).double().sum(1) / size - mean * mean).clamp(min=0)
        shape = (-1,) + (1,) * (values.dim() - 1)
        scale = (variance + EPSILON).rsqrt()
        return ((values - mean.view(shape)) * scale.view(shape)).float() * share

    def _pooled(self, x: Any, starts: IntArray | None) -> Any:
        import torch

        if self.pool == "cls":
            return x[:, 0]
        if self.pool == "max":
            return x.amax(1)
        if starts is None:
            return x.sum(1) / x.shape[1]
        place = torch.arange(x.shape[1], device=x.device)
        first = torch.from_numpy(starts).to(x.device)[:, None]
        kept = ((place == 0) | (place >= first)).to(x.dtype)  # [n, length]
        return (x * kept[..., None]).sum(1) / kept.sum(1, keepdim=True)
