"""When to stop drawing candidates: the chance that drawing on to a cap changes the choice for the better.

Of N candidates that may be drawn, n have been. Let c_j be how many of them are of kind j (candidates of one kind have
the same utilities with all others, as equal texts have, or equal answers under `vote`), u_ij the utilities, w_j the
weight of a draw of kind j, and i* the choice. Its risk is what it loses, in the utility's own units, to a reference's
utility with itself:

    mu_i = sum_j c_j w_j u_ij / sum_j c_j w_j,    risk = sum_j c_j w_j (u_jj - u_i*j) / sum_j c_j w_j

The draws are exchangeable, so what has been seen says what may come, by the Bayesian bootstrap (Rubin 1981):

    p ~ Dirichlet(c_1, ..., c_D),   k ~ Multinomial(N - n, p)
    mu'_i = sum_j w_j (c_j u_ij + k_j v_ij) / sum_j w_j (c_j + k_j)

v is u, but a kind seen once would not be drawn again: what stands for such a draw is another text like it, so v_jj is
the mean of the utilities of j with the others. A new draw is of no kind seen so far with the chance f_1 / n, f_1 the
number of kinds seen once (Good 1953), and is then a hypothesis of its own. Its expected utility is that of a random
kind seen once, smoothed with their variance kept (Silverman and Young 1987, s the standard deviation of these mu'):

    x = m + (mu'_j - m + h s e) / sqrt(1 + h^2),   e ~ Normal(0, 1),   h = 0.9 n^(-1/5),   m the mean of these mu'

With M the best of mu' and of all x in one world, the answer over all worlds is

    probability = P(M - mu'_i* > margin risk),   gain = E(M - mu'_i*)

A margin is needed: of N different texts the best stands among the first n with a chance of only n / N, however little
it is better. Where all candidates seen are of one kind both are 0. O(worlds D (D + N)), the same for the same seed.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from ..metrics.errors import InputError
from ..metrics.representations import Array, FloatArray, IntArray
from ..metrics.spec.checked_settings import Field, settings
from ..metrics.storage.limits import limits
from .choice import TIE, Ranking, in_order
from .lists import Distinct

WORLDS = 256
MAX_DRAWS = 1 << 26  # of all worlds together, where there are more than `WORLDS`
BANDWIDTH = 0.9  # of the smoothing, times n^(-1/5)


class Outlook(NamedTuple):
    """The effect of drawing on to the cap.

    Args:
        probability: that the choice then has an expected utility higher by more than the margin.
        gain: in expected utility, on average, 0 or more.
        risk: of the present choice, in the utility's units, of which the margin is a share.
    """

    probability: float
    gain: float
    risk: float


@settings
class StoppingRule:
    """Draws in rounds until the choice is safe.

    Args:
        cap: the most candidates that are drawn, at most the limit `candidates`.
        first: how many the first round draws, 2 at the least, as one candidate says nothing of the others.
        step: how many every other round draws.
        bound: the choice is safe where `Outlook.probability` is below it.
        margin: the share of the choice's risk by which a better choice counts as better.
        seed: of the bootstrap.

    Raises:
        InputError: a setting out of range, or a cap over the limit.
    """

    cap: Annotated[int, Field(ge=1)] = 16
    first: Annotated[int, Field(ge=2)] = 4
    step: Annotated[int, Field(ge=1)] = 4
    bound: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.3
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.01
    seed: Annotated[int, Field(ge=0)] = 0

    def __post_init__(self) -> None:
        check_cap(self.cap)

    def next_round(self, drawn: int) -> int:
        """How many candidates the next round draws; 0 where the cap is met.

        >>> rule = StoppingRule(cap=10)
        >>> [rule.next_round(0), rule.next_round(4), rule.next_round(8), rule.next_round(10)]
        [4, 4, 2, 0]
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
        return outlook.probability < self.bound


def outlook(
    utilities: FloatArray,
    counts: IntArray,
    cap: int,
    weights: FloatArray | None = None,
    *,
    margin: float = 0.01,
    worlds: int = WORLDS,
    seed: int = 0,
) -> Outlook:
    """The effect on the choice of drawing on to the cap.

    Args:
        utilities: of the distinct candidates with each other, [D, D], higher is better.
        counts: how often each was drawn, [D], at least 1.
        cap: N, how many candidates there are at most; at most the limit `candidates`, as memory grows with it.
        weights: of each one's draws together as pseudo-references, [D]; the counts if not given.
        margin: the share of the risk by which a better choice counts as better.
        worlds: how many ways to go on are drawn, with at most `MAX_DRAWS` candidates together.
        seed: of these draws.

    Raises:
        InputError: shapes that do not fit, a cap over the limit, no world or too many.
    """
    check_cap(cap)
    num_distinct = len(counts)
    _check_worlds(worlds, max(cap, num_distinct))
    if utilities.shape != (num_distinct, num_distinct) or not num_distinct or min(counts) < 1:
        problem = f"utilities {list(utilities.shape)} of {num_distinct} candidates"
        raise InputError(problem, where="utilities", fix="Give [D, D] and D counts from 1")
    seen = _Seen.of(utilities, counts, counts.astype(float) if weights is None else weights)
    drawn = int(counts.sum())
    if seen.chosen is None:
        return Outlook(float(cap > drawn), 0.0, 0.0)
    risk = seen.risk(seen.chosen)
    if drawn >= cap:
        return Outlook(0.0, 0.0, risk)
    if drawn < 2:
        return Outlook(1.0, 0.0, risk)
    random = np.random.default_rng(seed)
    values = seen.values_at(cap, worlds, random)  # [worlds, D]
    best = np.maximum(values.max(axis=1), seen.best_new(values, cap, random))
    present = values[:, seen.chosen]
    gains = np.maximum(best - present, 0.0)
    is_better = gains > margin * risk + TIE * np.abs(present)
    return Outlook(float(is_better.mean()), float(gains.mean()), risk)


def check_cap(cap: int, where: str = "cap") -> None:
    """Raises InputError for a cap over the limit on the candidates of a list."""
    most = limits().candidates
    if cap > most:
        fix = "Lower it, or raise the limit: --max candidates=NUMBER, use_limits(candidates=NUMBER)"
        raise InputError(f"{cap} candidates, at most {most} are drawn", where=where, fix=fix)


def _check_worlds(worlds: int, num_candidates: int) -> None:
    """Raises InputError where so many worlds of so many candidates each are not drawn."""
    most = max(WORLDS, MAX_DRAWS // max(1, num_candidates))
    if not 1 <= worlds <= most:
        problem = f"{worlds} of {num_candidates} candidates, from 1 to {most} are drawn"
        raise InputError(problem, where="worlds", fix=f"Leave it at {WORLDS}, or lower the cap")


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

    def values_at(self, cap: int, worlds: int, random: np.random.Generator) -> FloatArray:
        """Expected utilities mu' of every kind when the cap is met, [worlds, D]."""
        num_new = int(cap - self.counts.sum())
        shares = random.dirichlet(self.counts, worlds)
        new_weights = random.multinomial(num_new, shares) * self.weights
        # v: a kind seen once has the mean of its utilities with the others in place of its own
        weights = self.counts * self.weights
        own = np.diagonal(self.utilities)
        others = weights.sum() - weights
        sums = self.utilities @ weights - own * weights
        is_known = (self.counts > 1) | (others <= 0)
        v = self.utilities.copy()
        np.fill_diagonal(v, np.where(is_known, own, sums / np.where(others > 0, others, 1.0)))
        total = weights.sum() + new_weights.sum(axis=1, keepdims=True)
        values = (self.utilities @ weights + new_weights @ v.T) / total
        return np.where(self.usable, values, -np.inf)

    def best_new(self, values: FloatArray, cap: int, random: np.random.Generator) -> FloatArray:
        """The best expected utility of a text of no kind seen so far, [worlds]; -inf where none comes."""
        drawn = self.counts.sum()
        once = np.flatnonzero((self.counts == 1) & self.usable)
        if not len(once):
            return np.full(len(values), -np.inf)
        alike = values[:, once]
        mean = alike.mean(axis=1, keepdims=True)
        deviation = alike.std(axis=1, keepdims=True)
        shape = (len(values), int(cap - drawn))
        chosen = random.integers(len(once), size=shape)
        parents = np.take_along_axis(alike, chosen, axis=1)
        width = BANDWIDTH * drawn**-0.2
        noise = width * deviation * random.standard_normal(shape)
        new = mean + (parents - mean + noise) / np.sqrt(1 + width**2)
        is_new = random.random(shape) < len(once) / drawn
        return np.asarray(np.where(is_new, new, -np.inf).max(axis=1))


def _kinds(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """The first of each kind of equal rows, in order, and the kind of every row."""
    number: dict[bytes, int] = {}
    kinds = [number.setdefault(row.tobytes(), len(number)) for row in rows]
    kind = np.array(kinds, np.int64)
    first = np.unique(kind, return_index=True)[1]
    return first, kind
