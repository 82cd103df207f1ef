"""The token that a uniform number stands for: by the cumulated probabilities of the vocabulary, and faster by blocks.

    p = softmax(logits),   kept = { i : the method lets i come },
    token = the first i of kept at which the sum of p over kept, in the order of ids, passes u times its whole
What is kept, in double precision of float32 logits:
    epsilon    p_i >= cutoff, or p_i is the highest (as transformers has it, in float32)
    nucleus    the tokens before it hold less than the cutoff; of equally probable ones lower ids come first
    typical    |log p_i + H| is no more than that of the token with which the cutoff is reached; H is the entropy

`drawn_plainly` is this definition. `drawn` gives the same tokens for less: the most probable tokens have their weights
exp(logit - highest) in double; of all others only sums count, in float32. So sums of weights are known but for `slack`.
Where that could decide, or where others are kept, there are more such tokens, and at last the plain way.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

Method = Literal["epsilon", "nucleus", "typical", "ancestral", "beam"]
CELLS = 1 << 24  # tokens times vocabulary whose probabilities are cumulated together
# Logits on a processor that are drawn from together: fresh memory for more costs more than the sums.
CACHED_CELLS = 1 << 22
BLOCK = 128  # tokens whose weights are summed first
# The tokens that have weights in double: of at least this probability, ever more.
LEVELS: tuple[float, ...] = (1e-3, 3e-5, 1e-6)
# More than the rounding of any part of the sum, relative to the whole, over a vocabulary of up to 2^22. In double it is
# below 2^22 * 2^-53 = 5e-10. In float32: of exp 20 units in the last place (torch's softmax), 2.4e-6; of its argument
# d = highest - logit, d * 2^-24, below 7e-6 where exp is not 0; of sums of 128 numbers 128 * 2^-24 = 7.6e-6.
DOUBLE_SLACK, FLOAT_SLACK = 1e-9, 2e-5
MARGIN = 1e-3  # more than the relative rounding of one probability in float32, also as transformers has it


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
        target = _target(cumulated[:, -1:], chance)
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


def drawn(scores: Any, u: Any, method: Method = "ancestral", cutoff: float | None = None) -> Any:
    """The tokens of `drawn_plainly` [rows], for chance `u` [rows] and logits [rows, vocabulary]."""
    import torch

    cells = CACHED_CELLS if scores.device.type == "cpu" else CELLS
    rows_at_once = max(1, cells // scores.shape[1])
    tokens = []
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        own = drawn_surely(logits, chance, method, cutoff)
        unsure = (own < 0).nonzero()[:, 0]
        if len(unsure):
            own[unsure] = drawn_plainly(logits[unsure], chance[unsure], method, cutoff)
        tokens.append(own)
    return torch.cat(tokens)


def drawn_surely(logits: Any, u: Any, method: Method, cutoff: float | None) -> Any:
    """The tokens [rows] drawn from logits [rows, vocabulary], -1 where it is unsure which."""
    import torch

    blocks = _blocks(logits.float(), with_depths=method == "typical")
    tokens = torch.full_like(u, -1, dtype=torch.int64)
    left = torch.arange(len(u), device=u.device)  # rows that are unsure
    levels = LEVELS
    if cutoff is None:
        levels = LEVELS[:1]
    elif method == "epsilon":
        # the second is for rows in which no token has the probability of the first
        levels = (cutoff * (1 - 2 * MARGIN), LEVELS[0])
    for bar in levels:
        high = _high(blocks, left, bar)
        if cutoff is None:
            tokens[left] = _among_all(blocks, left, high, u[left])
        else:
            kept = _kept(high, method, cutoff)
            tokens[left] = _among(high, kept, u[left])
        left = left[tokens[left] < 0]
        if not len(left):
            break
    return tokens


class _Blocks(NamedTuple):
    """A vocabulary in blocks, in float32.

    Args:
        logits: [rows, blocks, BLOCK]; -inf where no token is left for the last block.
        shares: probabilities [rows, blocks, BLOCK].
        sums: of shares over blocks, [rows, blocks].
        depths: share times (highest logit - logit), [rows, blocks, BLOCK], where asked for.
        depth_sums: of depths over blocks, [rows, blocks].
    """

    logits: Any
    shares: Any
    sums: Any
    depths: Any = None
    depth_sums: Any = None


def _blocks(logits: Any, with_depths: bool) -> _Blocks:
    """The blocks of float32 logits [rows, vocabulary]."""
    import torch

    missing = -logits.shape[1] % BLOCK
    if missing:
        logits = torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
    shares = logits.softmax(dim=1).view(len(logits), -1, BLOCK)
    logits, sums = logits.reshape(shares.shape), shares.sum(dim=2)
    if not with_depths:
        return _Blocks(logits, shares, sums)
    # from 200 on a share is 0, and 0 * inf would be no number
    depths = (logits.amax(dim=(1, 2), keepdim=True) - logits).clamp_(max=200.0).mul_(shares)
    return _Blocks(logits, shares, sums, depths, depths.sum(dim=2))


class _High(NamedTuple):
    """The tokens of the highest probabilities of some rows, in the order of ids, in double.

    Args:
        tokens: ids [rows, n]; a row that has fewer is filled up with logits of -inf.
        logits, weights: [rows, n].
        highest: the highest logit [rows, 1].
        rest: sums of the weights of all other tokens over blocks, out of float32, [rows, blocks].
        whole: the weight of the vocabulary [rows, 1].
        slack: more than rounding moves any sum of weights, [rows, 1].
        lowest: a logit [rows, 1] that no other token reaches.
        depth: sum of the other tokens' weight times (highest - logit), [rows, 1], where asked for.
    """

    tokens: Any
    logits: Any
    weights: Any
    highest: Any
    rest: Any
    whole: Any
    slack: Any
    lowest: Any
    depth: Any


def _high(blocks: _Blocks, left: Any, bar: float) -> _High:
    """The tokens of some rows that have at least the probability `bar`; NaN where a row has none."""
    import torch

    # no sum of a block is below its highest share
    sums = blocks.sums[left]
    row, block = (sums >= bar).nonzero(as_tuple=True)
    taken = left[row] * sums.shape[1] + block  # the blocks with such tokens, of all rows
    shares = blocks.shares.flatten(0, 1).index_select(0, taken)  # [taken, BLOCK]
    high = (shares >= bar).nonzero(as_tuple=True)
    in_taken, inside = high
    # places of tokens: of every row its first, its second ...
    token_row = row[in_taken]
    count = token_row.bincount(minlength=len(left))
    place = torch.arange(len(token_row), device=row.device) - (count.cumsum(0) - count)[token_row]
    shape = (len(left), max(1, int(count.max())))
    tokens = torch.zeros(shape, dtype=torch.int64, device=row.device)
    tokens[token_row, place] = block[in_taken] * BLOCK + inside
    logits = torch.full(shape, -torch.inf, dtype=torch.float64, device=row.device)
    logits[token_row, place] = blocks.logits.take(taken[in_taken] * BLOCK + inside).double()
    highest = logits.amax(dim=1, keepdim=True)
    share_of_highest = torch.zeros_like(logits)
    share_of_highest[token_row, place] = shares[high].double()
    share_of_highest = share_of_highest.amax(dim=1, keepdim=True)
    weights = (logits - highest).exp()

    def rest_of(values: Any, of_blocks: Any) -> Any:
        """Sums over blocks without these tokens, of `values` [taken, BLOCK], as weights [rows, blocks]."""
        anew = values.index_put(high, values.new_zeros(())).sum(dim=1)
        return of_blocks.index_put((row, block), anew).double() / share_of_highest

    rest = rest_of(shares, sums)
    others = rest.sum(dim=1, keepdim=True)
    whole = others + weights.sum(dim=1, keepdim=True)
    depth = None
    if blocks.depths is not None:
        depths = blocks.depths.flatten(0, 1).index_select(0, taken)
        depth = rest_of(depths, blocks.depth_sums[left]).sum(dim=1, keepdim=True)
    return _High(
        tokens,
        logits,
        weights,
        highest,
        rest,
        whole,
        slack=FLOAT_SLACK * others + DOUBLE_SLACK * whole,
        lowest=highest + (bar * (1 + MARGIN) / share_of_highest).log(),
        depth=depth,
    )


def _among_all(blocks: _Blocks, left: Any, high: _High, u: Any) -> Any:
    """The tokens [rows] drawn from the vocabulary, the block by sums and then the token in it; -1 where unsure."""
    import torch

    sums = high.rest.scatter_add(1, high.tokens // BLOCK, high.weights)
    cumulated = sums.cumsum(dim=1)  # [rows, blocks]
    target = _target(cumulated[:, -1:], u)
    block = torch.searchsorted(cumulated, target, right=True).clamp_(max=cumulated.shape[1] - 1)
    before = cumulated.gather(1, (block - 1).clamp_(min=0)).masked_fill_(block == 0, 0.0)
    logits = blocks.logits[left, block[:, 0]].double()  # [rows, BLOCK]
    inside = (logits - high.highest).exp().cumsum(dim=1)
    tokens = _sure_place(inside + before, before, target, high.slack)
    return torch.where(tokens < 0, tokens, block[:, 0] * BLOCK + tokens)


class _Kept(NamedTuple):
    """Which of the high tokens are kept [rows, n], and whether it is sure that these are, and no others, [rows]."""

    is_kept: Any
    is_sure: Any


def _kept(high: _High, method: Method, cutoff: float) -> _Kept:
    """The tokens that a method keeps."""
    if method == "epsilon":
        return _above(high, cutoff)
    if method == "nucleus":
        return _nucleus(high, cutoff)
    return _typical(high, cutoff)


def _among(high: _High, kept: _Kept, u: Any) -> Any:
    """The tokens [rows] drawn from those that are kept, -1 where unsure."""
    import torch

    cumulated = high.weights.masked_fill(~kept.is_kept, 0.0).cumsum(dim=1)  # [rows, n]
    total = cumulated[:, -1:]
    place = _sure_place(cumulated, 0 * total, _target(total, u), DOUBLE_SLACK * total)
    token = high.tokens.gather(1, place.clamp(min=0)[:, None])[:, 0]
    return torch.where((place >= 0) & kept.is_sure, token, -1)


def _above(high: _High, epsilon: float) -> _Kept:
    """The tokens of at least the probability `epsilon`, and the most probable ones."""
    shares = high.weights / high.whole
    is_kept = (shares >= epsilon) | (high.logits == high.highest)
    is_doubtful = (shares / epsilon - 1).abs() <= MARGIN
    share_of_lowest = (high.lowest - high.highest).exp() / high.whole
    is_found = share_of_lowest < epsilon * (1 - MARGIN / 2)
    return _Kept(is_kept, is_found[:, 0] & ~is_doubtful.any(dim=1))


def _nucleus(high: _High, cutoff: float) -> _Kept:
    """The tokens before which, from the most probable on, there is less than the cutoff."""
    import torch

    order = high.logits.sort(dim=1, descending=True, stable=True).indices
    ordered = high.weights.gather(1, order)
    before = torch.empty_like(ordered)
    before.scatter_(1, order, ordered.cumsum(dim=1) - ordered)
    border, slack = cutoff * high.whole, 2 * high.slack
    # the first token is kept whatever the cutoff
    is_doubtful = ((before - border).abs() <= slack) & (before > 0)
    above_others = high.weights.masked_fill(high.logits <= high.lowest, 0.0)
    is_found = above_others.sum(dim=1) > (border + slack)[:, 0]
    return _Kept(before < border, is_found & ~is_doubtful.any(dim=1))


def _typical(high: _High, cutoff: float) -> _Kept:
    """The tokens whose logits are no further from the mean than that with which the cutoff is reached."""
    depths = (high.highest - high.logits).clamp(max=800.0) * high.weights
    depth = (high.depth + depths.sum(dim=1, keepdim=True)) / high.whole
    mean = high.highest - depth
    rounding = (FLOAT_SLACK * high.depth + depth * high.slack) / high.whole
    # more than rounding moves two distances apart
    margin = 4 * (rounding + DOUBLE_SLACK * (high.highest.abs() + 16))
    distance = (high.logits - mean).abs()
    order = distance.sort(dim=1, stable=True).indices
    cumulated = high.weights.gather(1, order).cumsum(dim=1)
    border = cutoff * high.whole

    def token_at(weight: Any) -> Any:
        """The place of the token with which so much is reached, [rows, 1]."""
        place = (cumulated < weight).sum(dim=1, keepdim=True)
        return order.gather(1, place.clamp(max=order.shape[1] - 1))

    first, last = token_at(border - 2 * high.slack), token_at(border + 2 * high.slack)
    at_border = high.logits.gather(1, first)
    farthest = distance.gather(1, first)
    # tokens of one logit are equally far, whatever the mean is
    is_near = ((distance - farthest).abs() <= margin) & (high.logits != at_border)
    is_found = cumulated[:, -1:] > border + 2 * high.slack
    is_found &= high.logits.gather(1, last) == at_border
    is_found &= mean - high.lowest > farthest + margin
    return _Kept(distance <= farthest, is_found[:, 0] & ~is_near.any(dim=1))


def _target(total: Any, chance: Any) -> Any:
    """Chance [rows] as a part of the sums [rows, 1], below them even where rounding would reach them."""
    import torch

    below_total = torch.nextafter(total, torch.zeros_like(total))
    return torch.minimum(chance[:, None] * total, below_total)


def _sure_place(cumulated: Any, before: Any, target: Any, slack: Any) -> Any:
    """The place [rows] at which cumulated numbers [rows, n] pass the target [rows, 1]; -1 near a border.

    Args:
        cumulated: sums that rounding has moved by less than `slack` [rows, 1].
        before: the sum before the first of them [rows, 1].
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
