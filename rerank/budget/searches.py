"""Adaptive search: which pairs are asked for next, and when to stop.

Candidates that may still be the best are compared with the same pseudo-references, beside a cheap utility
of all pairs.

1. A pilot compares some candidates, most of them good ones by the cheap utility, with a few pseudo-references.
2. `posterior` regresses the costly utility on the cheap one and gives every expected utility a mean and an error, also
   where nothing was computed.
3. Draws from it say how often each candidate is among the best. Those that hold most of this probability are compared
   with further pseudo-references, the same for all: what these have in common cancels.
4. From 2 again, until the confidence wanted is reached or the budget is used up. The best by posterior mean is chosen.

`representative_order` puts pseudo-references in an order in which the first ones, whatever their number, represent all.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from ...metrics.representations import FloatArray, IntArray
from .posterior import (
    Asking,
    BoolArray,
    Observed,
    Posterior,
    Problem,
    Regressors,
    Request,
    posterior,
    regressors_of,
    scale_of,
)
from .statement import Evidence, Statement, stated

# values [H], NaN of those given up; evidence, None where no pair is a number; whether a target was met
Found = tuple[FloatArray, Evidence | None, bool]
Search = Generator[Request, FloatArray, Found]
DRAWS = 1000  # of the posterior, of which a confidence is a share
SMALLEST, LARGEST = 1e-3, 3.0  # regrets in spreads that are told apart
MAX_GAP = 10.0

PILOT = 0.3  # share of the budget
PILOT_REFERENCES = 2  # at most
STEP = 0.1  # share of what is left that each further step takes,
MIN_STEP = 0.05  # and the least share of the budget
HELD = 0.8  # share of the probability of being best that the compared candidates hold
WIDER = (1, 2, 4, 8)  # times the errors
FEWEST = 3  # pairs of which anything is said


def adaptive(observed: Observed) -> Search:
    """The posterior means [H] of the expected utilities, and what is known of the choice."""
    problem = observed.problem
    features = regressors_of(problem)
    order = representative_order(problem, features)
    rows, level = _pilot(observed, order)
    yield from observed.ask(rows, np.sort(order[:level]))
    if not observed.known.any():
        return np.full(problem.num_rows, np.nan), None, False
    known = posterior(observed, features)
    while observed.left > 0:
        draws = possible(known.draws(DRAWS), observed.broken)
        if problem.target.is_set:
            evidence = _evidence(observed, known, draws)
            if problem.target.met(evidence):
                return _choosable(observed, known.mean), evidence, True
        is_open = np.asarray(~observed.seen[:, order].all(axis=1))
        rows = _contenders(draws, known.mean, problem.nbest, is_open)
        if not len(rows):
            break
        cost = int(max(STEP * observed.left, MIN_STEP * problem.pairs, len(rows)))
        columns = _next_columns(observed, order, rows)
        yield from _ask_in_order(observed, rows, columns, min(cost, observed.left))
        known = posterior(observed, features, known.variances, 2)
    evidence = _evidence(observed, known, possible(known.draws(DRAWS), observed.broken))
    return _choosable(observed, known.mean), evidence, False


def _evidence(observed: Observed, known: Posterior, draws: FloatArray) -> Evidence:
    """The evidence for the choice as it would be now, by draws [n, H] of the expected utilities.

    Its features, in order, are the posterior's figures: probability that the choice is the best, expected loss; how
    many pairs were computed, their share, candidates and places; the shares of the variance of pairs that nothing
    explains, that are the candidates' and the references' own; heavy tails; ties; how much higher a text with itself
    is, and whether that is not known; the share of the chosen ones' expectations that is computed; and how much better
    the last of them is than the next.
    """
    rows, columns = np.nonzero(observed.known)
    values = observed.utilities[rows, columns]
    is_self = columns == observed.problem.selves[rows]
    scale = scale_of(values, is_self)
    others = values if is_self.all() else values[~is_self]
    chosen = leaders(_choosable(observed, known.mean), observed.problem.nbest)
    confidence, regret = figures_of(draws, chosen)
    spread = float(draws.std(axis=1).mean())
    inside = (confidence * DRAWS + 0.5) / (DRAWS + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.nan_to_num(np.divide(regret, spread), nan=LARGEST, posinf=LARGEST)
    self_gap = (scale.of_selves - scale.centre) / scale.unit if is_self.any() else 0.0
    shares = np.where(observed.known, observed.problem.shares, 0.0)[chosen]
    gap = _gap(known.mean, chosen) / max(spread, 1e-300)
    features = [
        1.0,
        np.log(inside / (1 - inside)),
        np.log(np.clip(loss, SMALLEST, LARGEST)),
        np.log(observed.pairs / 100),
        np.log(observed.seen.mean()),
        np.log(len(known.mean) / 16),
        np.log(len(chosen)),
        np.log(known.variances.noise),
        np.log(known.variances.row),
        np.log(known.variances.column),
        np.log(max((((others - scale.centre) / scale.unit) ** 4).mean(), 1)),
        1 - len(np.unique(others)) / len(others),
        np.log1p(max(self_gap, 0)),
        self_gap == 0,
        shares.sum() / len(chosen),
        np.log1p(np.clip(gap, 0, MAX_GAP)),
    ]
    return Evidence(spread, np.array(features, np.float64))


def _choosable(observed: Observed, mean: FloatArray) -> FloatArray:
    """The means, NaN of what has no expectation."""
    return np.where(observed.broken, np.nan, mean)


def _pilot(observed: Observed, order: IntArray) -> tuple[IntArray, int]:
    """Which rows are compared first, and with how many references.

    Where texts weigh differently for themselves, the first of these is among the rows: what a text is worth against
    itself follows from nothing else.
    """
    problem = observed.problem
    num_rows, num_columns = problem.num_rows, len(order)
    spent = max(1, int(PILOT * problem.pairs))
    level = max(1, min(PILOT_REFERENCES, num_columns, spent // min(8, num_rows)))
    count = max(1, min(num_rows, spent // level))
    rows = _spread(num_rows, count)
    own = problem.rows_of[order[0]]
    if own >= 0 and own not in rows and problem.weighs_selves:
        rows[-1] = own
    return rows, level


def _spread(num_rows: int, count: int) -> IntArray:
    """Rows of which half are the first ones and half are spread over the others."""
    first = -(-count // 2)
    others = np.linspace(first, num_rows - 1, count - first).round().astype(np.int64)
    return np.unique(np.concatenate([np.arange(first), others]))


def _contenders(draws: FloatArray, mean: FloatArray, nbest: int, is_open: BoolArray) -> IntArray:
    """The open rows that hold most of the probability of being among the best, most probable first.

    Where none has any, errors count for more, in case they are larger than they seem.
    """
    for wider in WIDER:
        counts = np.where(is_open, _among_best(mean + wider * (draws - mean), nbest), 0)
        if counts.any():
            break
    order = np.argsort(-counts, kind="stable")
    held = np.cumsum(counts[order])
    count = max(nbest + 1, int(np.searchsorted(held, HELD * held[-1])) + 1)
    rows: IntArray = order[:count]
    return rows[counts[rows] > 0]


def _among_best(draws: FloatArray, nbest: int) -> IntArray:
    """In how many draws [n, H] each hypothesis is among the best, [H]."""
    if nbest == 1:
        return np.bincount(draws.argmax(axis=1), minlength=draws.shape[1])
    tops = np.argpartition(-draws, nbest - 1, axis=1)[:, :nbest]
    return np.bincount(tops.ravel(), minlength=draws.shape[1])


def _next_columns(observed: Observed, order: IntArray, rows: IntArray) -> IntArray:
    """The pseudo-references that rows are compared with next.

    Of a symmetric utility first the rows themselves, as a pair then says something of two of them.
    """
    if not observed.problem.symmetric:
        return order
    own = observed.problem.selves[np.sort(rows)]
    is_own = np.isin(order, own)
    return np.concatenate([order[is_own], order[~is_own]])


def _ask_in_order(observed: Observed, rows: IntArray, columns: IntArray, affordable: int) -> Asking:
    """Has rows compared with as many of the first columns as so many new pairs are; if with none, some of the rows."""
    is_new = observed.new_pairs(rows, columns)
    spent = np.cumsum(is_new.sum(axis=0))
    count = int(np.searchsorted(spent, affordable, "right"))
    if count and spent[count - 1]:
        yield from observed.ask(np.sort(rows), np.sort(columns[:count]))
    elif count < len(columns):
        first = rows[is_new[:, count]][:affordable]
        yield from observed.ask(np.sort(first), columns[[count]])


def representative_order(problem: Problem, features: Regressors) -> IntArray:
    """The pseudo-references that count, in an order by herding (Welling 2009).

    Each next one is the one most along what the mean over those so far lacks of the mean over all by their weights, in
    the space of the columns of the cheap utilities: one that compares all hypotheses alike never comes first.
    """
    columns = problem.columns
    weights = problem.shares.sum(axis=0)[columns]
    points = features.cheap[:, :, columns]
    points = points - points.mean(axis=1, keepdims=True)
    points = points.reshape(-1, len(columns)).T
    return columns[_herded(points, weights / weights.sum())]


def _herded(points: FloatArray, weights: FloatArray) -> IntArray:
    """An order of points [n, d] whose beginnings have about the weighted mean of all."""
    products = points @ points.T
    with_mean = products @ weights
    with_chosen = np.zeros(len(points))
    is_left = np.ones(len(points), bool)
    order = []
    for count in range(len(points)):
        gains = np.where(is_left, (count + 1) * with_mean - with_chosen, -np.inf)
        best = int(np.argmax(gains))
        order.append(best)
        is_left[best] = False
        with_chosen += products[best]
    return np.array(order, np.int64)


def state(observed: Observed, evidence: Evidence | None, stopped: bool) -> Statement:
    """The statement on the `nbest` hypotheses with the highest values; after too few pairs the regret is NaN."""
    problem = observed.problem
    if problem.nbest == problem.num_rows:
        return Statement(1.0, 0.0, np.nan)
    if evidence is None or observed.known.sum() < FEWEST:
        return Statement(problem.nbest / problem.num_rows, np.nan, np.nan)
    return stated(evidence, stopped=stopped)


def possible(draws: FloatArray, broken: BoolArray) -> FloatArray:
    """Draws [n, H] in which hypotheses without an expectation are no better than the worst."""
    if broken.any() and not broken.all():
        draws[:, broken] = draws[:, ~broken].min(axis=1, keepdims=True)
    return draws


def leaders(values: FloatArray, count: int) -> IntArray:
    """The hypotheses with the highest values [H]; NaN comes last."""
    return np.argsort(-values, kind="stable")[:count]


def figures_of(draws: FloatArray, chosen: IntArray) -> tuple[float, float]:
    """How often the chosen ones [k] are the best in draws [n, H] of expected utilities, and what they lose a place."""
    count = len(chosen)
    is_chosen = np.zeros(draws.shape[1], bool)
    is_chosen[chosen] = True
    if is_chosen.all():
        return 1.0, 0.0
    worst, best = draws[:, is_chosen].min(axis=1), draws[:, ~is_chosen].max(axis=1)
    top = np.maximum(worst, best)
    if count > 1:
        top = -np.partition(-draws, count - 1, axis=1)[:, :count].sum(axis=1)
    regret = (top - draws[:, is_chosen].sum(axis=1)) / count
    return float((worst >= best).mean()), max(0.0, float(regret.mean()))


def _gap(mean: FloatArray, chosen: IntArray) -> float:
    """How much better the last of the chosen ones [k] is than the best of the others, by their means [H]."""
    others = np.delete(mean, chosen)
    return float(np.nanmin(mean[chosen]) - np.nanmax(others, initial=-np.inf))
