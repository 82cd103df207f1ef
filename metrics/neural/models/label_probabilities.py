"""Log-probabilities of labels under a softmax over a large vocabulary, without an array of all logits.

    log p(y | h) = w_y . h + b_y - log sum_v exp(w_v . h + b_v)

A slice of the vocabulary is multiplied at a time, for all states together, and its logits are added to a sum that is
kept relative to the greatest logit so far: a slice stays in the processor's cache, and the head's weights are read once
for all states. The slices are the same whatever states there are, so a value depends on its own state alone.
"""

from __future__ import annotations

from typing import Any

# Words of the vocabulary in a slice.
SLICE = 4096


def label_log_probabilities(
    states: Any,
    weight: Any,
    bias: Any,
    labels: Any,
) -> Any:
    """Of the label of every state, float64 [n], at most 0.

    Args:
        states: [n, d], n a multiple of 16.
        weight: of the head, [vocabulary, d].
        bias: [vocabulary].
        labels: [n].
    """
    import torch

    from .linear_products import linear

    lowest = torch.finfo(torch.float32).min
    greatest = states.new_full((len(states),), lowest, dtype=torch.float32)  # [n]
    total = torch.zeros_like(greatest, dtype=torch.float64)  # [n], relative to the greatest
    own = torch.empty_like(greatest)  # [n] logit of the label
    for start in range(0, len(weight), SLICE):
        part = slice(start, start + SLICE)
        logits = linear(states, weight[part], bias[part]).float()  # [n, slice]

        # The labels that are in this slice.
        place = labels - start
        is_here = (place >= 0) & (place < logits.shape[1])
        here = logits.gather(1, place.clamp(0, logits.shape[1] - 1)[:, None])[:, 0]
        own = torch.where(is_here, here, own)

        # The sum so far and this slice's, both relative to the greatest logit so far.
        now = torch.maximum(greatest, logits.amax(dim=1))
        total *= (greatest - now).double().exp()
        total += logits.sub_(now[:, None]).exp_().sum(dim=1)
        greatest = now
    log_probabilities = own.double() - greatest.double() - total.log()
    # Rounding may leave a probability above 1.
    return log_probabilities.clamp(max=0)
