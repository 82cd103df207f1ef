"""Which token a uniform number stands for: by the cumulated probabilities of the vocabulary, and faster by blocks.

    p = softmax(logits),   kept = { i : the method lets i come },
    token = the first i of kept at which the sum of p over kept, in the order of ids, passes u times its whole
What is kept, in double precision:
    epsilon    p_i >= cutoff, or p_i is the highest (as transformers has it, in float32)
    nucleus    the tokens before it hold less than the cutoff; of equally probable ones lower ids come first
    typical    |log p_i + H| is no more than that of the token with which the cutoff is reached; H is the entropy
`drawn_plainly` does just that. What is faster sums float32 probabilities, and says where their rounding could decide.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Method = Literal["epsilon", "nucleus", "typical", "ancestral", "beam"]
CELLS = 1 << 24  # tokens times vocabulary whose probabilities are cumulated together
BLOCK = 128  # tokens whose probabilities are summed first
# More than the rounding of any part of the sum, relative to the whole, over a vocabulary of up to 2^22. In double it is
# below 2^22 * 2^-53 = 5e-10. In float32: of exp 20 units in the last place (torch's softmax), 2.4e-6; of its argument
# d = highest - logit, d * 2^-24, by the mean over p no more than ln(2^22) * 2^-24 = 0.9e-6; of sums of 128 numbers
# 128 * 2^-24 = 7.6e-6.
DOUBLE_SLACK, FLOAT_SLACK = 1e-9, 2e-5


class Weights(NamedTuple):
    """What the tokens of some rows weigh, in proportion to their probabilities.

    Args:
        each: of every token [rows, vocabulary], the highest of about 1 at most.
        blocks: sums of blocks of tokens [rows, blocks], in double.
        slack: more than the rounding of any part of the sum, relative to the whole.
    """

    each: Any
    blocks: Any
    slack: float

    @property
    def total(self) -> Any:
        """The sums [rows, 1]."""
        return self.blocks.sum(dim=1, keepdim=True)


def drawn_plainly(
    scores: Any, u: Any, method: Method = "ancestral", cutoff: float | None = None
) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0."""
    import torch

    tokens = []
    rows_at_once = max(1, CELLS // scores.shape[1])
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        logits = cut_plainly(logits, method, cutoff)
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


def drawn_by_blocks(logits: Any, u: Any, precise: bool) -> Any:
    """The tokens [rows] drawn from logits [rows, vocabulary]; -1 where rounding might matter.

    The block of tokens comes by the sums of blocks, then the token in it: no sum goes over the whole vocabulary.
    """
    import torch

    weights = weights_of(logits, precise)
    blocks = weights.blocks.cumsum(dim=1)  # [rows, blocks]
    total = blocks[:, -1:]
    target = target_of(total, u)
    block = torch.searchsorted(blocks, target, right=True).clamp_(max=blocks.shape[1] - 1)
    rows = torch.arange(len(logits), device=logits.device)
    inside = in_blocks(weights.each)[rows, block[:, 0]].double().cumsum(dim=1)  # [rows, BLOCK]
    before = blocks.gather(1, (block - 1).clamp_(min=0)).masked_fill_(block == 0, 0.0)
    tokens = sure_place(inside + before, before, target, weights.slack * total)
    return torch.where(tokens < 0, tokens, block[:, 0] * BLOCK + tokens)


def weights_of(logits: Any, precise: bool) -> Weights:
    """The weights of logits [rows, vocabulary], in double or in float32."""
    each = (logits.double() if precise else logits.float()).softmax(dim=1)
    blocks = in_blocks(each).sum(dim=2).double()
    return Weights(each, blocks, DOUBLE_SLACK if precise else FLOAT_SLACK)


def in_blocks(values: Any) -> Any:
    """Numbers [rows, vocabulary] in blocks of tokens [rows, blocks, BLOCK], filled up with zeros."""
    import torch

    spare = -values.shape[1] % BLOCK
    if spare:
        values = torch.nn.functional.pad(values, (0, spare))
    return values.view(len(values), -1, BLOCK)


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
