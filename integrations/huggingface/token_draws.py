"""Which token a uniform number stands for: by the cumulated probabilities of the vocabulary, and faster by blocks.

    p = softmax(logits),   kept = { i : the method lets i come },
    token = the first i of kept at which the sum of p over kept, in the order of ids, passes u times its whole
What is kept, in double precision of float32 logits:
    epsilon    p_i >= cutoff, or p_i is the highest (as transformers has it, in float32)
    nucleus    the tokens before it hold less than the cutoff; of equally probable ones lower ids come first
    typical    |log p_i + H| is no more than that of the token with which the cutoff is reached; H is the entropy
`drawn_plainly` does just that. What is faster sums float32 probabilities, and says where their rounding could decide.
"""

from __future__ import annotations

from typing import Any, Literal

from .block_weights import Scratch, weights_of

Method = Literal["epsilon", "nucleus", "typical", "ancestral", "beam"]
CELLS = 1 << 24  # tokens times vocabulary whose probabilities are cumulated together


def drawn_plainly(
    scores: Any, u: Any, method: Method = "ancestral", cutoff: float | None = None
) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0."""
    import torch

    tokens = []
    rows_at_once = max(1, CELLS // scores.shape[1])
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        logits = cut_plainly(logits.float(), method, cutoff)
        # cumulated probabilities [rows, vocabulary], and their sums [rows, 1]: 1 but for rounding
        cumulated = logits.double().softmax(dim=1).cumsum(dim=1)
        target = target_of(cumulated[:, -1:], chance)
        # the first token whose cumulated probability passes it
        tokens.append(torch.searchsorted(cumulated, target, right=True)[:, 0])
    return torch.cat(tokens)


def cut_plainly(logits: Any, method: Method, cutoff: float | None) -> Any:
    """Logits [rows, vocabulary] with -inf for what the method does not keep."""
    import torch
    from transformers import EpsilonLogitsWarper

    if cutoff is None:
        return logits
    if method == "epsilon":
        return EpsilonLogitsWarper(cutoff)(None, logits)
    probabilities = logits.double().softmax(dim=1)
    if method == "nucleus":
        order = logits.sort(dim=1, descending=True, stable=True).indices
        ordered = probabilities.gather(1, order)
        gone = torch.zeros_like(logits, dtype=torch.bool)
        gone.scatter_(1, order, ordered.cumsum(dim=1) - ordered >= cutoff)
    else:
        # |log p_i + H|, as the logarithm of their sum is part of both
        mean = (probabilities * logits).nansum(dim=1, keepdim=True)  # 0 * -inf is no number
        distance = (logits.double() - mean).abs()
        ordered_distance, order = distance.sort(dim=1, stable=True)
        before = (probabilities.gather(1, order).cumsum(dim=1) < cutoff).sum(dim=1, keepdim=True)
        gone = distance > ordered_distance.gather(1, before.clamp(max=logits.shape[1] - 1))
    return logits.masked_fill(gone, -torch.inf)


def drawn_by_blocks(logits: Any, u: Any, precise: bool, scratch: Scratch | None = None) -> Any:
    """The tokens [rows] drawn from logits [rows, vocabulary]; -1 where rounding might matter.

    The block of tokens comes by the sums of blocks, then the token in it: no sum goes over the whole vocabulary.
    """
    import torch

    weights = weights_of(logits, precise, scratch)
    block_size = weights.each.shape[2]
    blocks = weights.blocks.cumsum(dim=1)  # [rows, blocks]
    total = blocks[:, -1:]
    target = target_of(total, u)
    block = torch.searchsorted(blocks, target, right=True).clamp_(max=blocks.shape[1] - 1)
    rows = torch.arange(len(logits), device=logits.device)
    inside = weights.each[rows, block[:, 0]].double().cumsum(dim=1)  # [rows, block_size]
    before = blocks.gather(1, (block - 1).clamp_(min=0)).masked_fill_(block == 0, 0.0)
    tokens = sure_place(inside + before, before, target, weights.slack * total)
    return torch.where(tokens < 0, tokens, block[:, 0] * block_size + tokens)


def target_of(total: Any, chance: Any) -> Any:
    """Chance [rows] as a part of the sums [rows, 1], below them even where rounding would reach them."""
    import torch

    below_total = torch.nextafter(total, torch.zeros_like(total))
    return torch.minimum(chance[:, None] * total, below_total)


def sure_place(cumulated: Any, before: Any, target: Any, slack: Any) -> Any:
    """The place [rows] at which cumulated numbers [rows, n] pass the target [rows, 1]; -1 near a border.

    Args:
        cumulated: sums that rounding has moved by less than `slack` [rows, 1].
        before: what stands before the first of them [rows, 1].
        target: that part of the whole that chance is, moved by less than `slack`.
        slack: how far from a border is not near it, half of it.
    """
    import torch

    place = torch.searchsorted(cumulated, target, right=True)  # [rows, 1]
    inner = place.clamp(max=cumulated.shape[1] - 1)
    above = cumulated.gather(1, inner) - target
    below = cumulated.gather(1, (inner - 1).clamp(min=0))
    below = target - torch.where(inner == 0, before, below)
    # written so that NaN is unsure
    sure = (above > 2 * slack) & (below > 2 * slack) & (place == inner)
    return torch.where(sure, inner, -1)[:, 0]
