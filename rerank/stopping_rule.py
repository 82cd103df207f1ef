"""When to stop drawing candidates: the chance that drawing on to a cap changes the choice for the better.

Of N candidates that may be drawn, n have been. Let c_j be how many of them are of kind j (candidates of one kind have
the same utilities with all others, as equal texts have, or equal answers under `vote`), u_ij the utilities, w_j the
weight of a draw of kind j, and i* the choice. Its risk is what it loses, in the utility's own units, to a reference's
utility with itself:

    mu_i = sum_j c_j w_j u_ij / sum_j c_j w_j,    risk = sum_j c_j w_j (u_jj - u_i*j) / sum_j c_j w_j

**Answers.** Where kinds agree with themselves alone, as answers do, the chance that another has the most votes at the
cap is exact under a model. D answers have been seen, and i has the votes now. The draws are those of one of K answers
whose shares are p ~ Dirichlet(a, ..., a), of which K and a are not known: each pair of a grid is a model, as likely
beforehand as any other (`models`). What has been seen weighs them,

    P(m | c) ~ K! / (K - D)!  G(K a) / G(K a + n)  prod_j G(c_j + a) / G(a)           G: the gamma function

and in each of them x_j more draws of answer j come with the chance

    P(x) = prod_j nb(x_j; c_j + a) / nb(N - n; n + K a),   nb(x; r) = G(r + x) / (G(r) x!) q^x (1 - q)^r

over the D answers seen and the K - D not seen (c = 0); q cancels. So an answer that was seen once may come again, and
one that was not seen may come. The votes stay with i where w_j (c_j + x_j) is less than w_i (c_i + x_i) for every other
j, or the same where j came later, w the weight of a vote. For every x_i the chance of that is a coefficient of a
product of polynomials, one for each j, cut off where j would win: O((D + log K) k^2 log k) for k draws that are left.

**Calls of tools** are chosen by such votes after each other: whether to call, which tools, with which arguments. The
choice is another with at most the sum of the chances that each step's is (`changing_in_steps`).

**Texts.** Else what comes is drawn: in each of 256 worlds a model of how many kinds there are, as likely as what has
been seen makes it, and from it the shares of the kinds seen and of all others,

    p ~ Dirichlet(c_1 + a, ..., c_D + a, (K - D) a),   k ~ Multinomial(N - n, p)
    mu'_i = sum_j w_j (c_j u_ij + k_j u_ij + l_j v_ij) / sum_j w_j (c_j + k_j + l_j)

k_j draws are kind j again. Those of no kind seen so far are each taken for a text like one of the kinds seen once,
l_j like j: v is u, but v_jj the mean of the utilities of j with the others. As a hypothesis such a text has the
expected utility of a random kind seen once, smoothed with their variance kept (Silverman and Young 1987, s the standard
deviation of these mu'):

    x = m + (mu'_j - m + h s e) / sqrt(1 + h^2),   e ~ Normal(0, 1),   h = 0.9 n^(-1/5),   m the mean of these mu'

With M the best of mu' and of all x in one world, the answer over all worlds is

    probability = P(M - mu'_i* > margin risk)

A margin is needed: of N different texts the best stands among the first n with a chance of only n / N, however little
it is better. O(worlds D (D + N)), the same for the same seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import lgamma, log
from typing import Annotated, NamedTuple

import numpy as np

from ..metrics.errors import InputError
from ..metrics.representations import Array, FloatArray, IntArray
from ..metrics.spec.checked_settings import Field, settings
from ..metrics.storage.limits import limits
from .choice import TIE, Ranking, in_order
from .lists import Distinct

ANSWER_BOUND, TEXT_BOUND = 0.03, 0.3
WORLDS = 256
BANDWIDTH = 0.9  # of the smoothing, times n^(-1/5)


class Outlook(NamedTuple):
    """The effect of drawing on to the cap.

    Args:
        probability: that the choice is then another answer; of texts, one whose expected utility is higher by more than
            the margin.
        risk: of the present choice, in the utility's units, of which the margin is a share.
        is_of_answers: whether the utility is agreement of answers.
    """

    probability: float
    risk: float
    is_of_answers: bool = False


@settings
class StoppingRule:
    """Draws in rounds until the choice is safe.

    Args:
        cap: the most candidates that are drawn, at most the limit `candidates`.
        first: how many the first round draws, 2 at the least, as one candidate says nothing of the others.
        step: how many every other round draws.
        bound: the choice is safe where `Outlook.probability` is below it; if not given, 0.03 of answers, 0.3 of texts.
        margin: of texts, the share of the choice's risk by which a better choice counts as better.
        seed: of the bootstrap.

    Raises:
        InputError: a setting out of range, or a cap over the limit.
    """

    cap: Annotated[int, Field(ge=1)] = 16
    first: Annotated[int, Field(ge=2)] = 4
    step: Annotated[int, Field(ge=1)] = 1
    bound: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    seed: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        check_cap(self.cap)

    def next_round(self, drawn: int) -> int:
        """How many candidates the next round draws; 0 where the cap is met.

        >>> rule = StoppingRule(cap=10)
        >>> [rule.next_round(0), rule.next_round(4), rule.next_round(5), rule.next_round(10)]
        [4, 1, 1, 0]
        """
        wanted = self.step if drawn else self.first
        return min(wanted, max(0, self.cap - drawn))

    def outlook(
        self, utilities: FloatArray, counts: IntArray, weights: FloatArray | None = None
    ) -> Outlook:
        """The effect of drawing on to the cap; arguments and errors as the function `outlook`."""
        return outlook(utilities, counts, self.cap, weights, margin=self.margin, seed=self.seed)

    def outlook_of(self, ranking: Ranking, weights: FloatArray | None = None) -> Outlook:
        """The same from a ranking that carries its utility matrix; `weights` are those of its candidates, [N].

        Raises:
            InputError: the ranking has no matrix of its candidates with each other.
        """
        distinct = Distinct(ranking.candidates)
        matrix = ranking.matrix
        if matrix is None or matrix.shape != (len(distinct), len(distinct)):
            raise InputError(
                "no utilities of the candidates with each other",
                where="ranking",
                fix="Decode with keep_matrix, without pseudo-references, shortlist or oracle",
            )
        pooled = None if weights is None else distinct.pooled(weights)
        return self.outlook(matrix, np.bincount(distinct.of), pooled)

    def is_safe(self, outlook: Outlook) -> bool:
        """Whether drawing may stop."""
        default = ANSWER_BOUND if outlook.is_of_answers else TEXT_BOUND
        return outlook.probability < (self.bound or default)


def outlook(
    utilities: FloatArray,
    counts: IntArray,
    cap: int,
    weights: FloatArray | None = None,
    *,
    margin: float = 0.01,
    seed: int = 0,
) -> Outlook:
    """The effect on the choice of drawing on to the cap.

    Args:
        utilities: of the distinct candidates with each other, [D, D], higher is better.
        counts: how often each was drawn, [D], at least 1.
        cap: N, how many candidates there are at most; at most the limit `candidates`, as memory grows with it.
        weights: of each one's draws together as pseudo-references, [D]; the counts if not given.
        margin: the share of the risk by which a better choice counts as better.
        seed: of the draws of `WORLDS` ways to go on.

    Raises:
        InputError: shapes that do not fit, or a cap over the limit.
    """
    check_cap(cap)
    num_distinct = len(counts)
    if utilities.shape != (num_distinct, num_distinct) or not num_distinct or min(counts) < 1:
        problem = f"utilities {list(utilities.shape)} of {num_distinct} candidates"
        raise InputError(problem, where="utilities", fix="Give [D, D] and D counts from 1")
    seen = _Seen.of(utilities, counts, counts.astype(float) if weights is None else weights)
    drawn = int(counts.sum())
    of_answers = seen.are_answers
    if seen.chosen is None:
        return Outlook(float(cap > drawn), 0.0, of_answers)
    risk = seen.risk(seen.chosen)
    if drawn >= cap:
        return Outlook(0.0, risk, of_answers)
    if drawn < 2:
        return Outlook(1.0, risk, of_answers)
    if of_answers:
        return Outlook(seen.overtaking(seen.chosen, cap), risk, is_of_answers=True)
    random = np.random.default_rng(seed)
    again, new = seen.coming(cap, WORLDS, random)
    values = seen.values_with(again, new)  # [worlds, D]
    best = np.maximum(values.max(axis=1), seen.best_new(values, new.sum(axis=1), random))
    present = values[:, seen.chosen]
    is_better = best - present > margin * risk + TIE * np.abs(present)
    return Outlook(float(is_better.mean()), risk)


def check_cap(cap: int, where: str = "cap") -> None:
    """Raises InputError for a cap over the limit on the candidates of a list."""
    most = limits().candidates
    if cap > most:
        fix = "Lower it, or raise the limit: --max candidates=NUMBER, use_limits(candidates=NUMBER)"
        raise InputError(f"{cap} candidates, at most {most} are drawn", where=where, fix=fix)


class _Seen(NamedTuple):
    """The kinds of candidates drawn so far.

    Args:
        utilities: [D, D]; rows of hypotheses that cannot be chosen are 0.
        counts: draws of each kind, [D].
        weights: of a draw of each kind as a pseudo-reference, [D].
        usable: whether a kind has an expected utility, [D].
        chosen: the present choice; None where no kind has one.
    """

    utilities: FloatArray
    counts: FloatArray
    weights: FloatArray
    usable: Array
    chosen: int | None

    @classmethod
    def of(cls, utilities: FloatArray, counts: IntArray, weights: FloatArray) -> _Seen:
        """Candidates of the same utilities with all others, either way, as one kind."""
        both = np.hstack((utilities, utilities.T))
        first, kind = _kinds(both)
        pooled = np.asarray(np.bincount(kind, counts), np.float64)
        per_draw = np.bincount(kind, weights) / pooled
        usable = np.asarray(np.isfinite(utilities[first]).all(axis=1))
        u = np.where(usable[:, None], utilities[np.ix_(first, first)], 0.0)
        mu = u @ (pooled * per_draw) / (pooled * per_draw).sum()
        order = in_order(np.where(usable, mu, np.nan))
        return cls(u, pooled, per_draw, usable, next(order) if usable.any() else None)

    def risk(self, chosen: int) -> float:
        """The loss of a choice to the references themselves, on average."""
        weights = self.counts * self.weights * self.usable
        lost = np.diagonal(self.utilities) - self.utilities[chosen]
        total = weights.sum()
        return float(max(0.0, lost @ weights / total)) if total > 0 else 0.0

    @property
    def are_answers(self) -> bool:
        """Whether every kind agrees fully with itself alone, or with nothing, as a text without an answer."""
        own = np.diagonal(self.utilities)
        is_alone = np.count_nonzero(self.utilities) == np.count_nonzero(own)
        return bool(is_alone and np.isin(own, (0, own.max())).all() and own.max() >= 0)

    def overtaking(self, chosen: int, cap: int) -> float:
        """The chance that the answer chosen is another when the cap is met."""
        own = np.diagonal(self.utilities)
        rivals = [
            Rival(int(self.counts[j]), float(self.weights[j]), j < chosen, bool(own[j] > 0))
            for j in range(len(own))
            if j != chosen
        ]
        weight = float(self.weights[chosen]) if own[chosen] > 0 else 0.0
        leader = int(self.counts[chosen]), weight
        return overtaking(leader, tuple(sorted(rivals)), cap)

    def coming(
        self, cap: int, worlds: int, random: np.random.Generator
    ) -> tuple[IntArray, IntArray]:
        """The draws until the cap is met: of each kind again, and of new texts like each kind, [worlds, D]."""
        left = int(cap - self.counts.sum())
        num_kinds = len(self.counts)
        likely = models(tuple(self.counts.astype(int).tolist()), cap)
        num_worlds = random.multinomial(worlds, [chance for chance, _ in likely])
        draws = []
        for (_, (kinds, concentration)), size in zip(likely, num_worlds.tolist(), strict=True):
            others = (kinds - num_kinds) * concentration
            known = self.counts + concentration
            shares = random.dirichlet([*known, others] if others else known, size)
            drawn = random.multinomial(left, shares)
            draws.append(drawn if others else np.pad(drawn, ((0, 0), (0, 1))))
        drawn = np.concatenate(draws)
        is_parent = self.counts == 1 if (self.counts == 1).any() else self.counts > 0
        new = drawn[:, num_kinds]
        return drawn[:, :num_kinds], random.multinomial(new, is_parent / is_parent.sum())

    def values_with(self, again_drawn: IntArray, new_drawn: IntArray) -> FloatArray:
        """Expected utilities mu' of every kind when the cap is met, [worlds, D]."""
        # v: a text like j agrees with j as the others do
        weights = self.counts * self.weights
        own = np.diagonal(self.utilities)
        others = weights.sum() - weights
        sums = self.utilities @ weights - own * weights
        v = self.utilities.copy()
        np.fill_diagonal(v, np.where(others > 0, sums / np.where(others > 0, others, 1.0), own))
        again, new = again_drawn * self.weights, new_drawn * self.weights
        total = weights.sum() + again.sum(axis=1, keepdims=True) + new.sum(axis=1, keepdims=True)
        values = (self.utilities @ weights + again @ self.utilities.T + new @ v.T) / total
        return np.where(self.usable, values, -np.inf)

    def best_new(
        self, values: FloatArray, num_new: IntArray, random: np.random.Generator
    ) -> FloatArray:
        """The best expected utility of so many texts of no kind seen so far, [worlds]; -inf where none comes."""
        is_once = (self.counts == 1) & self.usable
        parents = np.flatnonzero(is_once if is_once.any() else self.usable)
        if not num_new.any():
            return np.full(len(values), -np.inf)
        alike = values[:, parents]
        mean = alike.mean(axis=1, keepdims=True)
        deviation = alike.std(axis=1, keepdims=True)
        shape = (len(values), int(num_new.max()))
        chosen = random.integers(len(parents), size=shape)
        of_parents = np.take_along_axis(alike, chosen, axis=1)
        width = BANDWIDTH * self.counts.sum() ** -0.2
        noise = width * deviation * random.standard_normal(shape)
        new = mean + (of_parents - mean + noise) / np.sqrt(1 + width**2)
        is_drawn = np.arange(shape[1]) < num_new[:, None]
        return np.asarray(np.where(is_drawn, new, -np.inf).max(axis=1))


def _kinds(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """The first of each kind of equal rows, in order, and the kind of every row."""
    number: dict[bytes, int] = {}
    kinds = [number.setdefault(row.tobytes(), len(number)) for row in rows]
    kind = np.array(kinds, np.int64)
    first = np.unique(kind, return_index=True)[1]
    return first, kind


# a: from one answer that has nearly all to shares that are anything
CONCENTRATIONS = (0.1, 0.3, 1.0)
FEW = (2, 3, 4, 6, 8)  # K; between these and many, twice as many each time
MANY = 1 << 16  # of so many kinds none comes again
LIKELY = 1e-4  # models below this chance are left out
MAX_LEFT = 512  # draws that are left; of more, so many are looked at
REMEMBERED = 1 << 12


class AnswerModel(NamedTuple):
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


def models(counts: tuple[int, ...], cap: int) -> list[tuple[float, AnswerModel]]:
    """The models that are likely after these draws, each with its chance, which sum to 1."""
    kinds = list(FEW)
    while kinds[-1] < 2 * max(cap, len(counts)):
        kinds.append(2 * kinds[-1])
    kinds.append(max(MANY, 2 * kinds[-1]))
    grid = [AnswerModel(k, a) for k in kinds for a in CONCENTRATIONS]
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


class VoteStep(NamedTuple):
    """A vote among candidates that agreed so far: the draws of the winner, and the others, each draw of weight 1."""

    winner: int
    rivals: tuple[Rival, ...]


def changing_in_steps(steps: Sequence[VoteStep], left: int) -> float:
    """The chance that votes after each other, each among those who were for the winner before, end with another choice.

    At most the sum over the steps of the chance that the winner is another, where all draws that are left, or all but
    one, are of candidates that vote in it.

    Args:
        steps: the votes so far.
        left: how many candidates may still be drawn.
    """
    chance = 0.0
    for winner, rivals in steps:
        drawn = winner + sum(rival.drawn for rival in rivals)
        caps = {drawn + left, drawn + max(0, left - 1)}
        chance += max(overtaking((winner, 1.0), tuple(sorted(rivals)), cap) for cap in caps)
    return min(1.0, chance)


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
    leader: tuple[int, float], rivals: tuple[Rival, ...], new: Rival, left: int, model: AnswerModel
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
