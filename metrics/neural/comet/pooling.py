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

    ordered = scores.sort(descending=True).values  # [n]
    sums = ordered.cumsum(0) - 1  # [n]
    # The support is the longest run of the greatest scores k whose k-th one exceeds the threshold sums_k / k.
    numbers = torch.arange(1, len(scores) + 1, device=scores.device)  # [n]
    size = int((ordered * numbers > sums).sum())
    threshold = sums[size - 1] / size
    return (scores - threshold).clamp(min=0)


class Mixer:
    """Pools and mixes the layers of sequences of one length.

    Args:
        shares: p_l of every layer [L + 1]; None where one layer is taken as it is.
        gamma: the factor of the mix [1]; None where there is no mix.
        normalised: whether layers are normalised before they are mixed.
        pool: avg, cls or max.
    """

    def __init__(
        self,
        shares: Any,
        gamma: Any,
        normalised: bool,
        pool: str,
    ) -> None:
        self.shares = shares
        self.gamma = gamma
        self.normalised = normalised
        self.pool = pool
        # Sparsemax leaves some layers without a share.
        plain = [] if shares is None else shares.tolist()
        self.used = [layer for layer, share in enumerate(plain) if share]

    def vectors(self, states: Sequence[Any], starts: IntArray | None) -> Any:
        """Sentence vectors [n, d] from states [n, length, d] of every layer (or the one).

        starts: place of the sentence's first token [n], where there may be context before it.
        """
        if self.shares is None:
            return self._pooled(states[-1], starts)
        layers = [(states[layer], self.shares[layer]) for layer in self.used]
        if self.pool == "max":
            # The maximum is not linear: the mix comes first.
            scaled = (self._scaled(x, share, x) for x, share in layers)
            return self._pooled(sum(scaled) * self.gamma, starts)
        scaled = (self._scaled(x, share, self._pooled(x, starts)) for x, share in layers)
        return sum(scaled) * self.gamma

    def _scaled(
        self,
        x: Any,
        share: Any,
        values: Any,
    ) -> Any:
        """share (values - mu) / sigma; values: x [n, length, d] itself or pooled [n, d]."""
        if not self.normalised:
            return values * share
        size = x.shape[1] * x.shape[2]
        # Sums over dimensions first, then over tokens in double precision.
        mean = x.sum(2).double().sum(1) / size  # [n]
        mean_square = (x * x).sum(2).double().sum(1) / size  # [n]
        variance = (mean_square - mean * mean).clamp(min=0)  # [n]
        scale = (variance + EPSILON).rsqrt()  # [n]
        # One mean and one scale for all values of a text, [n, 1] or [n, 1, 1].
        by_text = (-1,) + (1,) * (values.dim() - 1)
        mean, scale = mean.view(by_text), scale.view(by_text)
        return ((values - mean) * scale).float() * share

    def _pooled(self, x: Any, starts: IntArray | None) -> Any:
        """One vector per text, [n, d], of its token vectors x [n, length, d]; starts: [n]."""
        import torch

        if self.pool == "cls":
            return x[:, 0]
        if self.pool == "max":
            return x.amax(1)
        if starts is None:
            return x.sum(1) / x.shape[1]
        # In context the mean is over the first token, the sentence and the last token.
        place = torch.arange(x.shape[1], device=x.device)  # [length]
        first = torch.from_numpy(starts).to(x.device)[:, None]  # [n, 1]
        counts = ((place == 0) | (place >= first)).to(x.dtype)  # [n, length]
        total = (x * counts[..., None]).sum(1)  # [n, d]
        return total / counts.sum(1, keepdim=True)
