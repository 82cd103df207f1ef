"""The chance that another answer has the most votes when all draws are made: exact, under a Dirichlet model of answers.

Of N draws n have been made; c_j of them are of answer j, of which D have been seen, and i has the votes now. The draws
are those of one of K answers whose shares are p ~ Dirichlet(a, ..., a), of which K and a are not known: each pair of a
grid is a model, as likely beforehand as any other (`models`). What has been seen weighs them,

    P(m | c) ~ K! / (K - D)!  G(K a) / G(K a + n)  prod_j G(c_j + a) / G(a)           G: the gamma function

and in each of them x_j more draws of answer j come with the chance

    P(x) = prod_j nb(x_j; c_j + a) / nb(N - n; n + K a),   nb(x; r) = G(r + x) / (G(r) x!) q^x (1 - q)^r

over the D answers seen and the K - D not seen (c = 0); q cancels. So an answer that was seen once may come again, and
one that was not seen may come. The votes stay with i where w_j (c_j + x_j) is less than w_i (c_i + x_i) for every other
j, or the same where j came later, w the weight of a vote. For every x_i the chance of that is a coefficient of a
product of polynomials, one for each j, cut off where j would win: O((D + log K) k^2 log k) for k draws that are left.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import lgamma, log
from typing import NamedTuple

import numpy as np

from ..metrics.representations import FloatArray, IntArray
from .choice import TIE

CONCENTRATIONS = (
    0.1,
    0.3,
    1.0,
)  # a: from one answer that has nearly all to shares that are anything
FEW, MANY = (
    (2, 3, 4, 6, 8),
    1 << 16,
)  # K; between them twice as many each time; of many none comes again
LIKELY = 1e-4  # models below this chance are left out
MAX_LEFT = 512  # draws that are left; of more, so many are looked at
REMEMBERED = 1 << 12


class Model(NamedTuple):
    """A model of how answers come: how many there are, and the concentration of their shares."""

    kinds: int
    concentration: float

    def log_evidence(self, counts: tuple[int, ...]) -> float:
        """The logarithm of the chance of these counts, up to what all models share; -inf where it has fewer kinds."""
        k, a, drawn, seen = self.kinds, self.concentration, sum(counts), len(counts)
        if k < seen:
            return -np.inf
        value = lgamma(k + 1) - lgamma(k - seen + 1) + lgamma(k * a) - lgamma(k * a + drawn)
        return value + sum(lgamma(count + a) - lgamma(a) for count in counts)


class Rival(NamedTuple):
    """Another answer: its draws so far, the weight of a draw, whether it wins a tie, and whether it can win at all."""

    drawn: int
    weight: float
    is_earlier: bool
    can_win: bool = True


def models(counts: tuple[int, ...], cap: int) -> list[tuple[float, Model]]:
    """The models that are likely after these draws, each with its chance, which sum to 1."""
    kinds = list(FEW)
    while kinds[-1] < 2 * max(cap, len(counts)):
        kinds.append(2 * kinds[-1])
    kinds.append(max(MANY, 2 * kinds[-1]))
    grid = [Model(k, a) for k in kinds for a in CONCENTRATIONS]
    evidence = np.array([model.log_evidence(counts) for model in grid])
    chances = np.exp(evidence - evidence.max())
    chances /= chances.sum()
    likely = [(float(p), model) for p, model in zip(chances, grid, strict=True) if p > LIKELY]
    total = sum(p for p, _ in likely)
    return [(p / total, model) for p, model in likely]


@lru_cache(REMEMBERED)
def overtaking(leader: tuple[int, float], rivals: tuple[Rival, ...], cap: int) -> float:
    """The chance that the votes are another's when the cap is met.

    Args:
        leader: the draws of the answer that has the votes now, and the weight of one; 0 of texts without an answer.
        rivals: the other answers seen.
        cap: N.
    """
    count, weight = leader
    counts = (count, *(rival.drawn for rival in rivals))
    drawn = sum(counts)
    left = min(cap - drawn, MAX_LEFT)
    weights = [w for w in (weight, *(rival.weight for rival in rivals)) if w > 0] or [1.0]
    new = Rival(0, float(np.mean(weights)), is_earlier=False)
    if left <= 0 or not any(_may_win(rival, leader, left) for rival in (*rivals, new)):
        return 0.0
    stays = [p * _stays(leader, rivals, new, left, model) for p, model in models(counts, cap)]
    return float(min(1.0, max(0.0, 1.0 - sum(stays))))


def _may_win(rival: Rival, leader: tuple[int, float], left: int) -> bool:
    """Whether a rival wins if all draws that are left are its own."""
    return rival.can_win and _limit(rival, np.array([leader[0] * leader[1]]))[0] < left


def _limit(rival: Rival, votes: FloatArray) -> FloatArray:
    """How many further draws of a rival leave these votes of the leader the most, [n]."""
    if rival.weight <= 0 or not rival.can_win:
        return np.full(len(votes), np.inf)
    most = votes / rival.weight - rival.drawn
    # of equal votes the earlier answer wins; equal are those within rounding
    rounding = TIE * np.maximum(1.0, votes / rival.weight)
    return np.asarray(
        np.ceil(most - rounding) - 1 if rival.is_earlier else np.floor(most + rounding)
    )


def _stays(
    leader: tuple[int, float], rivals: tuple[Rival, ...], new: Rival, left: int, model: Model
) -> float:
    """The chance that the votes stay with the leader, under a model."""
    count, weight = leader
    a, drawn = model.concentration, count + sum(rival.drawn for rival in rivals)
    total = drawn + model.kinds * a
    q = left / (total + left)
    draws = np.arange(left + 1)
    votes = weight * (count + draws.astype(np.float64))  # of the leader, for each x_i
    # [x_i, number of other draws]: the chance that these are so many, and none of them wins
    others = np.zeros((left + 1, left + 1))
    others[:, 0] = 1.0
    groups = Counter(rivals)
    groups[new] += model.kinds - len(rivals) - 1
    for rival, times in groups.items():
        chance = _negative_binomial(rival.drawn + a, draws, q)
        allowed = draws[None, :] <= _limit(rival, votes)[:, None]
        others = _power(np.where(allowed, chance, 0.0), times, others)
    own = _negative_binomial(count + a, draws, q)
    together = own @ others[draws, left - draws]
    return float(together / _negative_binomial(total, np.array([left]), q)[0])


def _negative_binomial(r: float, x: IntArray, q: float) -> FloatArray:
    """nb(x; r), [n]."""
    logs = [lgamma(r + n) - lgamma(r) - lgamma(n + 1) for n in x.tolist()]
    return np.asarray(np.exp(np.array(logs) + x * log(q) + r * log(1 - q)))


def _power(factor: FloatArray, times: int, product: FloatArray) -> FloatArray:
    """A product of polynomials [rows, coefficients] times so many of a factor, cut off at as many coefficients."""
    while times:
        if times & 1:
            product = _product(product, factor)
        times >>= 1
        if times:
            factor = _product(factor, factor)
    return product


def _product(first: FloatArray, second: FloatArray) -> FloatArray:
    """The product of polynomials [rows, coefficients], row by row, cut off at as many coefficients."""
    size = first.shape[1]
    width = 2 * size
    transformed = np.fft.rfft(first, width) * np.fft.rfft(second, width)
    return np.asarray(np.fft.irfft(transformed, width)[:, :size])
