"""Drawing from the tokens that a method keeps, which are found among the probable ones: nothing sorts the vocabulary.

Probable tokens have their weights in double precision; of the others only sums count, in float32 as a rule. What these
sums leave open is uncertain: a set is known but for some tokens, which hold the weight `doubt`. The token that chance
draws is sure if it is none of these, and stands further from every border than they and rounding move it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .block_weights import BLOCK, DOUBLE_SLACK, Scratch, Weights, weights_of
from .token_draws import Method, sure_place, target_of

# More than the relative rounding of one probability in float32, also as transformers has it.
MARGIN = 1e-3
# The tokens among which a kept set is looked for: of at least this probability, ever more.
LEVELS = (1e-3, 2e-4, 3e-5, 5e-6, 1e-6)


class Probable(NamedTuple):
    """The tokens of at least some probability, in the order of ids; what is filled up has weight 0 and logit -inf.

    Args:
        tokens: ids [rows, n].
        logits: [rows, n], in double.
        weights: exp(logit - highest), [rows, n].
        others: the weight of all other tokens [rows, 1].
        slack: more than rounding has moved `others` and the whole, [rows, 1].
        lowest: a logit [rows, 1] that none of the others reaches.
        mean: the mean logit of the vocabulary [rows, 1], where weights have sums of logits.
        mean_slack: more than rounding has moved it, [rows, 1].
    """

    tokens: Any
    logits: Any
    weights: Any
    others: Any
    slack: Any
    lowest: Any
    mean: Any = None
    mean_slack: Any = None

    @property
    def whole(self) -> Any:
        """The weight of the vocabulary [rows, 1]."""
        return self.weights.sum(dim=1, keepdim=True) + self.others


class Kept(NamedTuple):
    """Which of the probable tokens are kept.

    Args:
        is_kept, is_uncertain: [rows, n].
        is_found: whether the set is among these tokens, [rows].
    """

    is_kept: Any
    is_uncertain: Any
    is_found: Any


def drawn_above(logits: Any, u: Any, epsilon: float, scratch: Scratch | None = None) -> Any:
    """The tokens [rows] drawn from those of at least the probability `epsilon`; -1 where rounding might matter."""
    import torch

    weights = weights_of(logits, False, scratch)
    rows = torch.arange(len(logits), device=logits.device)
    # if none reaches it, the most probable ones stay: of at least the weight of one in the heaviest block
    heaviest = weights.each[rows, weights.blocks.argmax(dim=1)]  # [rows, BLOCK]
    high = heaviest.amax(dim=1, keepdim=True).double()
    probable = _probable(weights, rows, high.clamp(max=epsilon) * (1 - MARGIN))
    shares = probable.weights / probable.whole
    is_kept = (shares >= epsilon) | (probable.weights == 1)
    is_doubtful = (shares / epsilon - 1).abs() <= MARGIN
    kept = Kept(is_kept, torch.zeros_like(is_kept), is_doubtful)
    return torch.where(is_doubtful.any(dim=1), -1, _drawn(probable, kept, u))


def drawn_among(
    logits: Any,
    u: Any,
    method: Method,
    cutoff: float,
    precise: bool,
    scratch: Scratch | None = None,
) -> Any:
    """The tokens [rows] drawn from a nucleus or the typical ones; -1 where rounding might matter."""
    import torch

    is_typical = method == "typical"
    weights = weights_of(logits, precise, scratch, with_logits=is_typical)
    tokens = torch.full_like(u, -1, dtype=torch.int64)
    left = torch.arange(len(u), device=u.device)  # rows whose set is not found yet
    for level in LEVELS:
        bar = torch.full_like(u[left, None], level)
        probable = _probable(weights, left, bar)
        kept = _typical(probable, cutoff) if is_typical else _nucleus(probable, cutoff)
        tokens[left] = torch.where(kept.is_found, _drawn(probable, kept, u[left]), -1)
        left = left[~kept.is_found]
        if not len(left):
            break
    return tokens


def _probable(weights: Weights, rows: Any, bar: Any) -> Probable:
    """The tokens of some rows that have at least the weight `bar` [rows, 1], in double."""
    import torch

    # no sum of a block is below its highest weight
    blocks = weights.blocks[rows]
    taken_row, block = (blocks >= bar).nonzero(as_tuple=True)
    taken = rows[taken_row] * blocks.shape[1] + block  # the blocks with such tokens, of all rows
    each = weights.each.flatten(0, 1).index_select(0, taken)  # [taken, BLOCK]
    in_taken, inside = (each >= bar.to(each.dtype)[taken_row]).nonzero(as_tuple=True)
    row = taken_row[in_taken]
    # places of tokens: of every row its first, its second ...
    count = row.bincount(minlength=len(rows))
    place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    shape = (len(rows), max(1, int(count.max())))
    tokens = torch.zeros(shape, dtype=torch.int64, device=row.device)
    tokens[row, place] = block[in_taken] * BLOCK + inside
    of_tokens = torch.zeros(shape, dtype=torch.float64, device=row.device)
    of_tokens[row, place] = each[in_taken, inside].double()
    logits = torch.full_like(of_tokens, -torch.inf)
    logits[row, place] = weights.logits.take(taken[in_taken] * BLOCK + inside).double()
    highest = logits.amax(dim=1, keepdim=True)
    of_highest = of_tokens.amax(dim=1, keepdim=True)  # the weight that is 1 now

    def of_others(of_blocks: Any, of_taken: Any, of_tokens: Any) -> Any:
        """The sum over the tokens below the bar [rows, 1]: of all blocks, summed anew where taken, less the tokens."""
        changes = of_taken.double().sum(dim=1) - of_blocks[taken_row, block]
        of_all = of_blocks.sum(dim=1).index_add(0, taken_row, changes)
        return (of_all - of_tokens.sum(dim=1))[:, None] / of_highest

    probable = Probable(
        tokens,
        logits,
        weights=(logits - highest).exp(),
        others=of_others(blocks, each, of_tokens),
        slack=None,
        lowest=highest + (bar * (1 + MARGIN) / of_highest).log(),
    )
    slack = weights.slack * probable.others + DOUBLE_SLACK * probable.whole
    probable = probable._replace(slack=slack)
    if weights.logit_sums is None:
        return probable
    products = each.mul_(weights.logits.flatten(0, 1).index_select(0, taken)).nan_to_num_(nan=0.0)
    of_tokens[row, place] = products[in_taken, inside].double()
    return _with_mean(
        probable,
        highest,
        of_others(weights.logit_sums[rows], products, of_tokens),
        weights.slack,
    )


def _with_mean(probable: Probable, highest: Any, of_others: Any, relative_slack: float) -> Probable:
    """With the mean logit; of_others: the other tokens' sum of weight times logit, [rows, 1]."""
    # how far the mean is below the highest logit: sums of weight times (highest - logit), all of them positive
    below = highest - probable.logits.masked_fill(probable.weights == 0, 0.0)
    of_probable = (probable.weights * below).sum(dim=1, keepdim=True)
    of_others = highest * probable.others - of_others
    whole = probable.whole
    depth = (of_probable + of_others) / whole
    # of the logits that were multiplied, no more than their distances and the highest
    sizes = of_others.abs() + 2 * highest.abs() * probable.others
    rounding = relative_slack * sizes + DOUBLE_SLACK * (highest.abs() + 16) * whole
    return probable._replace(
        mean=highest - depth,
        mean_slack=(rounding + depth.abs() * probable.slack) / whole,
    )


def _nucleus(probable: Probable, cutoff: float) -> Kept:
    """The tokens before which, from the most probable on, there is less than the cutoff."""
    import torch

    order = probable.logits.sort(dim=1, descending=True, stable=True).indices
    ordered = probable.weights.gather(1, order)
    before = torch.empty_like(ordered)
    before.scatter_(1, order, ordered.cumsum(dim=1) - ordered)
    border, slack = cutoff * probable.whole, probable.slack
    # the first token is kept whatever the cutoff
    is_uncertain = ((before - border).abs() <= 2 * slack) & (before > 0)
    of_others = probable.weights.masked_fill(probable.logits < probable.lowest, 0.0)
    is_found = of_others.sum(dim=1) > (border + 2 * slack)[:, 0]
    return Kept(before < border, is_uncertain, is_found)


def _typical(probable: Probable, cutoff: float) -> Kept:
    """The tokens whose logits are no further from the mean than that with which the cutoff is reached."""
    import torch

    distance = (probable.logits - probable.mean).abs()  # inf for what is filled up
    ordered_distance, order = distance.sort(dim=1, stable=True)
    cumulated = probable.weights.gather(1, order).cumsum(dim=1)
    last = distance.shape[1] - 1

    def distance_at(weight: Any) -> Any:
        """How far the token stands from the mean with which so much is reached, [rows, 1]."""
        place = (cumulated < weight).sum(dim=1, keepdim=True)
        return ordered_distance.gather(1, place.clamp(max=last))

    border, slack, margin = cutoff * probable.whole, 2 * probable.slack, probable.mean_slack
    least = distance_at(border - slack) - 2 * margin
    most = distance_at(border + slack) + 2 * margin
    is_uncertain = (distance > least) & (distance < most)
    # where all of these have one logit, the border is there, and they are kept
    one = probable.logits.masked_fill(~is_uncertain, -torch.inf).amax(dim=1, keepdim=True)
    are_equal = ((probable.logits == one) | ~is_uncertain).all(dim=1, keepdim=True)
    is_reached = cumulated[:, -1:] > border + slack
    is_found = (is_reached & (probable.mean - probable.lowest > most))[:, 0]
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
