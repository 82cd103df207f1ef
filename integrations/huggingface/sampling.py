"""Drawing candidates from a model: methods and their cutoffs, and chance that depends on nothing but the input.

    p = softmax(logits / temperature),   kept = { i : the method lets i come },   u uniform in [0, 1)
    token = the first i of kept at which the sum of p over kept, in the order of ids, passes u times its whole
The numbers u are a function of the seed, the tokens of the input, the pool and the number of the candidate. So the
candidates of an input depend neither on its batch nor on what was drawn before, and 16 candidates are the first of 64.
torch's own random state is not touched. What is kept, in double precision of float32 logits:
    epsilon    p_i >= cutoff, or p_i is the highest (as transformers has it, in float32)
    nucleus    the tokens before it hold less than the cutoff; of equally probable ones lower ids come first
    typical    |log p_i + H| is no more than that of the token with which the cutoff is reached; H is the entropy

`drawn` is this definition. A nucleus or typical tokens need an order of the vocabulary: first that of the `top` tokens
of the highest logits, and only where they do not surely hold all that is kept, that of all tokens. Either way sums run
over the same numbers in the same order, so that on a CPU the tokens are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Literal

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray

Method = Literal["epsilon", "nucleus", "typical", "ancestral", "beam"]
CELLS = 1 << 24  # tokens times vocabulary in one piece of memory
# logits on a processor that are drawn from together: more do not stay in its cache
CACHED_CELLS = 1 << 19
TOP = 128  # tokens of the highest logits, which are ordered first
CUTOFFS: dict[str, float | None] = {
    # the least probability of a token (Hewitt et al. 2022; Freitag et al. 2023 for MBR)
    "epsilon": 0.02,
    # the probability that the most probable tokens hold together (Holtzman et al. 2020)
    "nucleus": 0.9,
    # the probability that the most typical tokens hold together (Meister et al. 2023)
    "typical": 0.9,
    # every token
    "ancestral": None,
    "beam": None,
}
# of the methods that are drawn from otherwise than by an earlier version of the same number
DRAWING_VERSIONS: dict[str, int] = {"nucleus": 2, "typical": 2}


def cutoff_of(method: Method, cutoff: float | None, where: str) -> float | None:
    """The cutoff in force; raises InputError for one that the method does not have."""
    default = CUTOFFS[method]
    if cutoff is None:
        return default
    if default is None:
        problem = f"{method} has no cutoff, found {cutoff}"
        raise InputError(problem, where=where, fix="Leave it out")
    return cutoff


def uniforms(
    seed: int,
    pool: str,
    ids: Sequence[int],
    number: int,
    steps: int,
) -> FloatArray:
    """The chance of one candidate: uniform numbers in [0, 1), one per token, [steps]; fewer are the first of more."""
    tokens = " ".join(map(str, ids))
    digest = blake2b(f"{seed}|{pool}|{tokens}".encode(), digest_size=16).digest()
    # a stream for each input (the key), and a far place in it for each candidate (the counter's highest word)
    key = np.frombuffer(digest, "<u8")  # [2]
    counter = np.array([0, 0, 0, number], np.uint64)
    stream = np.random.Philox(key=key, counter=counter)
    return np.random.Generator(stream).random(steps)


def drawing(chance: FloatArray, method: Method, cutoff: float | None, temperature: float) -> Any:
    """A processor that makes greedy search draw: it leaves one token in each row.

    Args:
        chance: the uniform numbers [rows, steps].
        method: which tokens may come.
        cutoff: the method's.
        temperature: divides the logits first.
    """
    import torch
    from transformers import LogitsProcessor

    class DrawingProcessor(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        step = 0
        one_hot: Any = None  # what was returned
        last: Any = None  # the tokens in it

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """Logits [rows, vocabulary]: 0 at the token drawn, -inf elsewhere; overwrites those it returned before."""
            if temperature != 1:
                scores = scores / temperature
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = drawn(scores, u, method, cutoff)[:, None]
            if self.one_hot is None:
                self.one_hot = torch.full_like(scores, -torch.inf)
            else:
                self.one_hot.scatter_(1, self.last, -torch.inf)
            self.last = tokens
            return self.one_hot.scatter_(1, tokens, 0.0)

    return DrawingProcessor()


def drawn(
    scores: Any, u: Any, method: Method = "ancestral", cutoff: float | None = None, top: int = TOP
) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0."""
    import torch

    cells = CACHED_CELLS if scores.device.type == "cpu" else CELLS
    rows_at_once = max(1, cells // scores.shape[1])
    tokens = []
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        logits = logits.float()
        highest = logits.amax(dim=1, keepdim=True)
        weights = logits.double().sub_(highest).exp_()  # [rows, vocabulary]
        if cutoff is None:
            own = _token(weights, chance)
        elif method == "epsilon":
            is_kept = (logits.softmax(dim=1) >= cutoff).logical_or_(logits == highest)
            own = _token(weights.mul_(is_kept), chance)
        else:
            own, is_sure = _ordered(logits, weights, chance, method, cutoff, top)
            left = (~is_sure).nonzero()[:, 0]
            if len(left):
                every = logits[left], weights[left], chance[left]
                own[left], _ = _ordered(*every, method, cutoff, logits.shape[1])
        tokens.append(own)
    return torch.cat(tokens)


def _ordered(
    logits: Any, weights: Any, u: Any, method: Method, cutoff: float, top: int
) -> tuple[Any, Any]:
    """The tokens [rows] of a nucleus or typical ones among the `top` highest logits, and whether these are enough."""
    whole = weights.sum(dim=1, keepdim=True)  # [rows, 1]
    border, is_all = cutoff * whole, whole.isfinite()
    size = min(top, logits.shape[1])
    ids = logits.topk(size, dim=1, sorted=False).indices.sort(dim=1).values
    own, own_weights = logits.gather(1, ids), weights.gather(1, ids)  # [rows, size]
    lowest = own.amin(dim=1, keepdim=True)
    if method == "nucleus":
        is_kept = _nucleus(own, own_weights, border)
    else:
        # the mean logit; one of weight 0 may be -inf
        mean = weights.mul(logits).nansum(dim=1, keepdim=True) / whole
        is_kept = _typical(own.double() - mean, own_weights, border)
        is_all = is_all & (lowest < mean)
    # lower logits are not kept either where the lowest of these is not
    is_sure = is_all[:, 0] & ~(is_kept & (own == lowest)).any(dim=1)
    place = _token(own_weights.masked_fill(~is_kept, 0.0), u).clamp(max=size - 1)
    return ids.gather(1, place[:, None])[:, 0], is_sure


def _nucleus(logits: Any, weights: Any, border: Any) -> Any:
    """Whether each token [rows, n] is kept: the weight before it, from the highest on, is below `border` [rows, 1]."""
    order = logits.sort(dim=1, descending=True, stable=True).indices
    ordered = weights.gather(1, order)
    before = ordered.cumsum(dim=1) - ordered
    return (logits != logits).scatter(1, order, before < border)


def _typical(deviations: Any, weights: Any, border: Any) -> Any:
    """Whether each token [rows, n] is kept: it is no further from the mean than that with which `border` is reached."""
    distance = deviations.abs()
    ordered, order = distance.sort(dim=1, stable=True)
    before = (weights.gather(1, order).cumsum(dim=1) < border).sum(dim=1, keepdim=True)
    return distance <= ordered.gather(1, before.clamp(max=distance.shape[1] - 1))


def _token(weights: Any, u: Any) -> Any:
    """The first of weights [rows, n] at which their sum passes chance [rows] times its whole."""
    import torch

    cumulated = weights.cumsum(dim=1)
    total = cumulated[:, -1:]
    # below the total even where rounding would reach it
    below_total = torch.nextafter(total, torch.zeros_like(total))
    target = torch.minimum(u[:, None] * total, below_total)
    return torch.searchsorted(cumulated, target, right=True)[:, 0]
