"""How candidates are drawn from a model: which tokens may come, and chance that depends on nothing but the input.

    next = the token at which the cumulated probability passes u,    u uniform in [0, 1)
The model's logits are divided by the temperature, the method cuts off the improbable tokens, the rest is drawn from
exactly. The numbers u are a function of the seed, the tokens of the input, the pool and the number of the candidate. So
the candidates of an input depend neither on its batch nor on what was drawn before, and 16 candidates are the first of
64. torch's own random state is not touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from math import log
from typing import Any, Literal

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray

Method = Literal["epsilon", "nucleus", "typical", "ancestral", "beam"]
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
CELLS = 1 << 24  # tokens times vocabulary whose probabilities are cumulated together
FAST_CELLS = 1 << 20  # of which the fast ways keep everything in the processor's cache
BLOCK = 512  # tokens whose probabilities are summed first
# More than the rounding of sums over a vocabulary of 2^22, in double: those are below 2^22 * 2^-53 = 5e-10.
SLACK = 1e-9
# More than the rounding of a logit and of the logarithm of their sum, in float32.
MARGIN = 1e-3


def cutoff_of(method: Method, cutoff: float | None, where: str) -> float | None:
    """The cutoff in force; raises InputError for one that the method does not have."""
    default = CUTOFFS[method]
    if cutoff is None:
        return default
    if default is None:
        raise InputError(
            f"{method} has no cutoff, found {cutoff}",
            where=where,
            fix="Leave it out",
        )
    return cutoff


def warpers(method: Method, cutoff: float | None, temperature: float) -> list[Any]:
    """The processors of transformers that make logits into those that are drawn from; temperature comes first."""
    from transformers.generation import logits_process as processors

    kinds = {
        "epsilon": processors.EpsilonLogitsWarper,
        "nucleus": processors.TopPLogitsWarper,
        "typical": processors.TypicalLogitsWarper,
    }
    chain: list[Any] = []
    if temperature != 1:
        chain.append(processors.TemperatureLogitsWarper(temperature))
    if cutoff is not None:
        chain.append(kinds[method](cutoff))
    return chain


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


def drawing(chance: FloatArray, cuts: Sequence[Any]) -> Any:
    """A processor that makes greedy search draw: it leaves one token in each row.

    Args:
        chance: the uniform numbers [rows, steps].
        cuts: the processors that come before, as `warpers` gives them.
    """
    import torch
    from transformers import EpsilonLogitsWarper, LogitsProcessor

    epsilon: float | None = None
    if cuts and isinstance(cuts[-1], EpsilonLogitsWarper):
        *cuts, last = cuts
        epsilon = last.epsilon

    class DrawingProcessor(LogitsProcessor):  # type: ignore[misc, unused-ignore]
        step = 0
        one_hot: Any = None  # what was returned
        last: Any = None  # the tokens in it

        def __call__(self, input_ids: Any, scores: Any) -> Any:
            """Logits [rows, vocabulary]: 0 at the token drawn, -inf elsewhere; overwrites those it returned before."""
            for cut in cuts:
                scores = cut(input_ids, scores)
            u = torch.from_numpy(chance[:, self.step].copy()).to(scores.device)
            self.step += 1
            tokens = drawn(scores, u, epsilon)[:, None]
            if self.one_hot is None:
                self.one_hot = torch.full_like(scores, -torch.inf)
            else:
                self.one_hot.scatter_(1, self.last, -torch.inf)
            self.last = tokens
            return self.one_hot.scatter_(1, tokens, 0.0)

    return DrawingProcessor()


def drawn(scores: Any, u: Any, epsilon: float | None = None) -> Any:
    """The tokens [rows] that chance `u` [rows] draws from logits [rows, vocabulary]; never one of probability 0.

    epsilon: the least probability of a token, if less probable ones are cut off; the most probable one is not.
    They are those of `drawn_plainly`: what is faster here draws where rounding cannot matter, the plain way elsewhere.
    """
    import torch

    tokens = []
    rows_at_once = max(1, FAST_CELLS // scores.shape[1])
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        if epsilon is None:
            sure_tokens = drawn_by_blocks(logits, chance)
        else:
            sure_tokens = drawn_above(logits, chance, epsilon)
        unsure = (sure_tokens < 0).nonzero()[:, 0]
        if len(unsure):
            sure_tokens[unsure] = drawn_plainly(logits[unsure], chance[unsure], epsilon)
        tokens.append(sure_tokens)
    return torch.cat(tokens)


def drawn_plainly(scores: Any, u: Any, epsilon: float | None = None) -> Any:
    """As `drawn`, by the cumulated probabilities of the whole vocabulary."""
    import torch
    from transformers import EpsilonLogitsWarper

    tokens = []
    rows_at_once = max(1, CELLS // scores.shape[1])
    for logits, chance in zip(scores.split(rows_at_once), u.split(rows_at_once), strict=True):
        if epsilon is not None:
            logits = EpsilonLogitsWarper(epsilon)(None, logits)
        # cumulated probabilities [rows, vocabulary], and their sums [rows, 1]: 1 but for rounding
        cumulated = logits.double().softmax(dim=1).cumsum(dim=1)
        target = _target(cumulated[:, -1:], chance)
        # the first token whose cumulated probability passes it
        tokens.append(torch.searchsorted(cumulated, target, right=True)[:, 0])
    return torch.cat(tokens)


def drawn_by_blocks(logits: Any, u: Any) -> Any:
    """The tokens [rows] drawn from logits [rows, vocabulary]; -1 where rounding might matter.

    The block of tokens comes by the sums of blocks, then the token in it: no sum goes over the whole vocabulary.
    """
    import torch

    highest = logits.amax(dim=1, keepdim=True)  # [rows, 1]
    spare = -logits.shape[1] % BLOCK
    if spare:
        logits = torch.nn.functional.pad(logits, (0, spare), value=-torch.inf)
    # in proportion to the probabilities, [rows, blocks, BLOCK]
    weights = logits.double().sub_(highest).exp_().view(len(logits), -1, BLOCK)
    blocks = weights.sum(dim=2).cumsum(dim=1)  # [rows, blocks]
    total = blocks[:, -1:]
    target = _target(total, u)
    block = torch.searchsorted(blocks, target, right=True).clamp_(max=blocks.shape[1] - 1)
    rows = torch.arange(len(logits), device=logits.device)
    inside = weights[rows, block[:, 0]].cumsum(dim=1)  # [rows, BLOCK]
    before = blocks.gather(1, (block - 1).clamp_(min=0)).masked_fill_(block == 0, 0.0)
    tokens = _sure_place(inside + before, before, target, total)
    return torch.where(tokens < 0, tokens, block[:, 0] * BLOCK + tokens)


def drawn_above(logits: Any, u: Any, epsilon: float) -> Any:
    """As `drawn_by_blocks`, from the tokens [rows] of at least the probability `epsilon` alone, which are few."""
    import torch

    size = logits.shape[1] - logits.shape[1] % BLOCK
    maxima = logits[:, :size].view(len(logits), -1, BLOCK).amax(dim=2)  # [rows, blocks]
    highest = torch.cat([maxima, logits[:, size:]], dim=1).amax(dim=1, keepdim=True)  # [rows, 1]
    # the logit of a token of this probability, [rows, 1]; if none reaches it, the most probable ones stay
    level = (logits - highest).exp_().sum(dim=1, keepdim=True).log_() + highest + log(epsilon)
    bar = torch.minimum(level - MARGIN, highest)
    row, token = _at_least(logits, bar, maxima)
    count = row.bincount(minlength=len(logits))  # kept tokens of every row
    place = torch.arange(len(row), device=row.device) - (count.cumsum(0) - count)[row]
    shape = (len(logits), int(count.max()) if len(row) else 1)
    weights = torch.zeros(shape, dtype=torch.float64, device=logits.device)
    kept = logits[row, token]
    weights[row, place] = (kept.double() - highest[row, 0]).exp_()
    cumulated = weights.cumsum(dim=1)  # [rows, kept]
    total = cumulated[:, -1:]
    kept_place = _sure_place(cumulated, torch.zeros_like(total), _target(total, u), total)
    tokens = torch.full(shape, -1, dtype=torch.int64, device=logits.device)
    tokens[row, place] = token
    tokens = tokens.gather(1, kept_place.clamp(min=0)[:, None])[:, 0]
    # those that stand at the level, for all that float32 can say
    doubtful = (kept - level[row, 0]).abs() <= MARGIN
    doubtful |= (level - highest).abs()[row, 0] <= MARGIN
    kept_place[row[doubtful]] = -1
    return torch.where(kept_place < 0, kept_place, tokens)


def _at_least(logits: Any, bar: Any, maxima: Any) -> tuple[Any, Any]:
    """Row and token, in this order, of the logits [rows, vocabulary] that reach the bar of their row [rows, 1].

    maxima: the highest of every whole block [rows, blocks].
    """
    import torch

    size = maxima.shape[1] * BLOCK
    whole = logits[:, :size].view(len(logits), -1, BLOCK)  # [rows, blocks, BLOCK]
    row, block = (maxima >= bar).nonzero(as_tuple=True)
    of_block, inside = (whole[row, block] >= bar[row]).nonzero(as_tuple=True)
    rows, tokens = row[of_block], block[of_block] * BLOCK + inside
    rest_row, rest = (logits[:, size:] >= bar).nonzero(as_tuple=True)
    rows, tokens = torch.cat([rows, rest_row]), torch.cat([tokens, rest + size])
    order = rows.argsort(stable=True)
    return rows[order], tokens[order]


def _target(total: Any, chance: Any) -> Any:
    """Chance [rows] as a part of the sums [rows, 1], below them even where rounding would reach them."""
    import torch

    below_total = torch.nextafter(total, torch.zeros_like(total))
    return torch.minimum(chance[:, None] * total, below_total)


def _sure_place(
    cumulated: Any,
    before: Any,
    target: Any,
    total: Any,
) -> Any:
    """The place [rows] at which cumulated numbers [rows, n] pass the target [rows, 1]; -1 near a border."""
    import torch

    place = torch.searchsorted(cumulated, target, right=True)  # [rows, 1]
    inner = place.clamp(max=cumulated.shape[1] - 1)
    above = cumulated.gather(1, inner) - target
    below = cumulated.gather(1, (inner - 1).clamp(min=0))
    below = target - torch.where(inner == 0, before, below)
    # a sum in another order differs by less; written so that NaN is unsure
    sure = (above > SLACK * total) & (below > SLACK * total) & (place == inner)
    return torch.where(sure, inner, -1)[:, 0]
