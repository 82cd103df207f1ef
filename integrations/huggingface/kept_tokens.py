"""Drawing from the tokens that a method keeps, which are found among the probable ones, without sorting the vocabulary.

What float32 cannot decide is uncertain: a set is known but for some tokens, which hold the weight `doubt`. The token
that chance draws is sure if it is none of these, and stands further from every border than they and rounding move it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .token_draws import (
    BLOCK,
    DOUBLE_SLACK,
    Method,
    Weights,
    in_blocks,
    sure_place,
    target_of,
    weights_of,
)

# More than the relative rounding of one probability in float32, also as transformers has it.
MARGIN = 1e-3
# The tokens among which a kept set is looked for: of at least this probability, ever more.
LEVELS = (1e-3, 1e-4, 1e-5, 1e-6)


class Probable(NamedTuple):
    """The tokens of at least some probability, in the order of ids; what is filled up has weight 0 and logit -inf.

    Args:
        tokens: ids [rows, n].
        logits: [rows, n].
        weights: exp(logit - highest), [rows, n].
        whole: the weight of the vocabulary [rows, 1]; rounding has moved it by less than `slack` [rows, 1].
        slack: see there.
        lowest: a logit [rows, 1] that no other token of the vocabulary exceeds.
    """

    tokens: Any
    logits: Any
    weights: Any
    whole: Any
    slack: Any
    lowest: Any


class Kept(NamedTuple):
    """Which of the probable tokens are kept.

    Args:
        is_kept, is_uncertain: [rows, n].
        is_found: whether the set is among these tokens, [rows].
    """

    is_kept: Any
    is_uncertain: Any
    is_found: Any


def drawn_above(logits: Any, u: Any, epsilon: float) -> Any:
    """The tokens [rows] drawn from those of at least the probability `epsilon`; -1 where rounding might matter."""
    import torch

    weights = weights_of(logits, precise=False)
    rows = torch.arange(len(logits), device=logits.device)
    # if none reaches it, the most probable ones stay
    highest = weights.each.amax(dim=1, keepdim=True).double()
    probable = _probable(logits, weights, rows, highest.clamp(max=epsilon) * (1 - MARGIN))
    shares = probable.weights / probable.whole
    is_kept = (shares >= epsilon) | (probable.weights == 1)
    is_doubtful = (shares / epsilon - 1).abs() <= MARGIN
    kept = Kept(is_kept, torch.zeros_like(is_kept), is_doubtful)
    return torch.where(is_doubtful.any(dim=1), -1, _drawn(probable, kept, u))


def drawn_among(logits: Any, u: Any, method: Method, cutoff: float, precise: bool) -> Any:
    """The tokens [rows] drawn from a nucleus or the typical ones; -1 where rounding might matter."""
    import torch

    weights = weights_of(logits, precise)
    mean = _mean(logits, weights) if method == "typical" else None
    tokens = torch.full_like(u, -1, dtype=torch.int64)
    left = torch.arange(len(u), device=u.device)  # rows whose set is not found yet
    for level in LEVELS:
        bar = torch.full_like(u[left, None], level)
        probable = _probable(logits, weights, left, bar)
        if mean is None:
            kept = _nucleus(probable, cutoff)
        else:
            kept = _typical(probable, cutoff, mean[left], weights.slack)
        tokens[left] = torch.where(kept.is_found, _drawn(probable, kept, u[left]), -1)
        left = left[~kept.is_found]
        if not len(left):
            break
    return tokens


def _probable(logits: Any, weights: Weights, rows: Any, bar: Any) -> Probable:
    """The tokens of some rows that have at least the weight `bar` [rows, 1], in double."""
    import torch

    # no sum of a block is below its highest weight
    blocks = in_blocks(weights.each)
    block_row, block = (weights.blocks[rows] >= bar).nonzero(as_tuple=True)
    reaches = blocks[rows[block_row], block] >= bar[block_row]  # [blocks, BLOCK]
    of_block, inside = reaches.nonzero(as_tuple=True)
    row, token = block_row[of_block], block[of_block] * BLOCK + inside
    count = row.bincount(minlength=len(rows))  # tokens of every row
    place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    shape = (len(rows), max(1, int(count.max())))
    tokens = torch.zeros(shape, dtype=torch.int64, device=logits.device)
    tokens[row, place] = token
    own = torch.full(shape, -torch.inf, dtype=torch.float64, device=logits.device)
    own[row, place] = logits[rows[row], token].double()
    of_token = torch.zeros_like(own)
    of_token[row, place] = weights.each[rows[row], token].double()
    # rounding may leave out a token at the bar, but none that is clearly above it
    is_clear = of_token >= bar * (1 + MARGIN)
    lowest = own.masked_fill(~is_clear, torch.inf).amin(dim=1, keepdim=True)
    highest = own.amax(dim=1, keepdim=True)
    whole = weights.total[rows] / of_token.amax(dim=1, keepdim=True)
    relative = (own - highest).exp()
    return Probable(tokens, own, relative, whole, weights.slack * whole, lowest)


def _mean(logits: Any, weights: Weights) -> Any:
    """The mean logit [rows, 1] by the weights."""
    import torch

    def mean(terms: Any) -> Any:
        return in_blocks(terms).sum(dim=2).double().sum(dim=1, keepdim=True) / weights.total

    means = mean(weights.each * logits)
    if bool(means.isnan().any()):  # 0 * -inf, of tokens that cannot come
        means = mean((weights.each * logits).masked_fill(logits == -torch.inf, 0.0))
    return means


def _nucleus(probable: Probable, cutoff: float) -> Kept:
    """The tokens before which, from the most probable on, there is less than the cutoff."""
    import torch

    order = probable.logits.sort(dim=1, descending=True, stable=True).indices
    ordered = probable.weights.gather(1, order)
    before = torch.empty_like(ordered)
    before.scatter_(1, order, ordered.cumsum(dim=1) - ordered)
    border, slack = cutoff * probable.whole, probable.slack
    is_uncertain = (before - border).abs() <= 2 * slack
    of_others = probable.weights.masked_fill(probable.logits < probable.lowest, 0.0)
    is_found = of_others.sum(dim=1) > (border + 2 * slack)[:, 0]
    return Kept(before < border, is_uncertain, is_found)


def _typical(probable: Probable, cutoff: float, mean: Any, relative_slack: float) -> Kept:
    """The tokens whose logits are no further from the mean than that with which the cutoff is reached."""
    import torch

    distance = (probable.logits - mean).abs()  # inf for what is filled up
    ordered_distance, order = distance.sort(dim=1, stable=True)
    cumulated = probable.weights.gather(1, order).cumsum(dim=1)
    last = distance.shape[1] - 1

    def distance_at(weight: Any) -> Any:
        """How far the token stands from the mean with which so much is reached, [rows, 1]."""
        place = (cumulated < weight).sum(dim=1, keepdim=True)
        return ordered_distance.gather(1, place.clamp(max=last))

    border, slack = cutoff * probable.whole, 2 * probable.slack
    highest = probable.logits.amax(dim=1, keepdim=True)
    # more than the rounding of the mean: the mean of the sizes of logits is below this, as p * (highest - logit) sums
    # up to no more than the logarithm of the vocabulary
    margin = relative_slack * (highest.abs() + 16)
    least = distance_at(border - slack) - 2 * margin
    most = distance_at(border + slack) + 2 * margin
    is_uncertain = (distance > least) & (distance < most)
    # where all of these have one logit, the border is there, and they are kept
    one = probable.logits.masked_fill(~is_uncertain, -torch.inf).amax(dim=1, keepdim=True)
    are_equal = ((probable.logits == one) | ~is_uncertain).all(dim=1, keepdim=True)
    is_reached = cumulated[:, -1:] > border + slack
    is_found = (is_reached & (mean - probable.lowest > most))[:, 0]
    return Kept(distance < most, is_uncertain & ~are_equal, is_found)


def _drawn(probable: Probable, kept: Kept, u: Any) -> Any:
    """The tokens [rows] that chance [rows] draws from those that are kept; -1 where rounding might matter."""
    import torch

    doubt = probable.weights.masked_fill(~kept.is_uncertain, 0.0).sum(dim=1, keepdim=True)
    cumulated = probable.weights.masked_fill(~kept.is_kept, 0.0).cumsum(dim=1)  # [rows, n]
    total = cumulated[:, -1:]
    # the uncertain tokens move a sum, less that part of the whole that chance is, by no more than they weigh
    slack = DOUBLE_SLACK * total + doubt / 2
    place = sure_place(cumulated, torch.zeros_like(total), target_of(total, u), slack)
    inner = place.clamp(min=0)[:, None]
    sure = (place >= 0) & ~kept.is_uncertain.gather(1, inner)[:, 0]
    return torch.where(sure, probable.tokens.gather(1, inner)[:, 0], -1)
