"""Estimates the prior of every system from documents that people judged: effects, and these shrunk to their mean.

An error y is the square root of a score where lower is better and no score is negative (sums of penalties such as MQM
are skewed, and a few large ones would decide), else the score itself, negated where higher is better.

    y_is = b_i + a_s + e_is,     sum_s a_s = 0                                               (segments i, systems s)
by least squares over the judged pairs; where every system is judged on every segment, a_s is the mean over segments of
y_is less the segment's mean m_i. The mean square of e over its f = judgements - segments - systems + 1 degrees of
freedom is 0 of two equal rankings, and small by luck of few judgements. So one more degree of freedom counts, with the
square s^2 that errors have around their segment, as if systems did not differ:

    sigma^2 = max(sum e_is^2 / f, (sum e_is^2 + s^2) / (f + 1)),     s^2 = sum (y_is - m_i)^2 / (judgements - segments)
With L = D - C' R^-1 C (D, R: judgements of systems and of segments; C: who is judged where), the covariance of a is
sigma^2 L^+ if segments are independent. They are not within a document, so it is multiplied with the design effect

    d = max(1, trace V / (sigma^2 trace L^+)),     V = D/(D-1) sum_d psi_d psi_d',     psi_d = L^+ sum_(i in d) e_i
the clustered variance over the plain one, pooled over systems since documents are few. Systems are drawn from a normal
distribution of variance t^2 around their mean (James and Stein 1961; Efron and Morris 1973):

    v_s = d sigma^2 L^+_ss S/(S-1)                      (d sigma^2 / n where all n segments are judged)
    a_s given t ~ Normal(B_s a_s, B_s v_s),      B_s = t^2 / (t^2 + v_s)
    p(a | t) ~ prod_s (t^2 + v_s)^(-(S-1)/2S) exp(-a_s^2 / 2 (t^2 + v_s))
A plugged-in estimate of t is often 0 where systems are few, and would then claim to be sure that all are alike. So B_s
is averaged over the posterior of t; beforehand v / (t^2 + v), v the mean of v_s, is uniform on 0 to 1 (Strawderman
1971; Daniels 1999). The posterior mean of a_s is E[B_s] a_s, its variance E[B_s] v_s + Var[B_s] a_s^2.

Several raters make one score of every text. Where lower is better and no score is negative (errors), a rater's
strictness is a factor,
    y_isr = f_r v_is,     v_is = sum_r y_isr / sum_r f_r,     f_r = (sum_is y_isr + P y) / (sum_is v_is + P y)
else what a rater adds,
    y_isr = v_is + c_r,   v_is = mean_r (y_isr - c_r),        c_r = sum_is (y_isr - v_is) / (n_r + P)
for text s of segment i, over the raters and texts that were judged, in turns until nothing changes; y is the mean
score. Both are likelihoods (Poisson, normal), drawn to raters alike as if that had been seen on P texts. A plain mean
would be biased: a strict rater who judges only the better systems makes these look worse. Scores keep their mean over
all judgements.

Of preferences, v_i is the least-squares solution of v_worse - v_better = 1 over the compared pairs of a segment, 0 for
ties, its mean 0 (Massey 1997): lower is better. Groups of texts that no comparison joins are taken to be as good as
each other on average. Texts that nobody compared have no score.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError
from ...metrics.representations import FloatArray, IntArray
from ...metrics.storage.limits import limits
from ..prior import Prior, SystemPrior
from ..selection.judged_systems import (
    human_layer,
    human_table,
    judged_whole,
    with_human_table,
)
from ..selection.system_scores import DocumentOutputs, Rankings, all_systems, check_rankings

GRID = np.linspace(-20, 30, 2001)  # log t^2 over the mean of v_s
ROUNDING = 1e-12  # what is left of an error without noise, over the largest
Root = Literal["auto", "yes", "no"]
MAX_ERROR = 1e100  # sums of products of errors up to here are finite
PSEUDO_TEXTS = 5.0  # P
STEPS, SMALLEST = 1000, 1e-9  # of turns; a change that is none
PREFERENCES = "preferences"


class Shrunk(NamedTuple):
    """Systems' errors, each relative to the mean system; all [S] in the order of the columns."""

    effects: FloatArray
    means: FloatArray  # posterior
    errors: FloatArray  # posterior standard deviations
    sigma: float
    between: float  # root of the mean of t^2, what is not known of a system that nobody judged
    design_effect: float


def estimate_prior(
    documents: Sequence[DocumentOutputs],
    dimension: str,
    lower: bool,
    root: Root = "auto",
) -> Prior:
    """The prior of every system of some documents.

    Segments where fewer than two systems are judged say nothing of systems and do not count. A system that nobody
    judged gets the mean of all with the standard deviation between systems.

    Args:
        documents: judgements may be missing, and systems.
        dimension: of the human scores.
        lower: whether lower scores are better.
        root: whether an error is the square root of a score; "auto": where lower is better and none is negative.

    Raises:
        InputError: a root that does not exist, too few judgements, or systems that are never judged beside each other.
    """
    names = all_systems(documents)
    where = f"human.{dimension}"
    people = human_layer(dimension, lower, documents, names)
    judged, owner = people.systems, people.parts[0].owner
    values, known = np.moveaxis(people.parts[0].rows, 2, 0)
    scores = np.where(known > 0, values, np.nan).T  # [n, S]
    rooted = _rooted(scores, lower, root, where)
    # a segment says something of systems where two are judged
    together = (~np.isnan(scores)).sum(axis=1) > 1
    y = scores[together]
    document = owner[together]
    y = np.sqrt(y) if rooted else y if lower else -y
    _check(y, judged, where)
    estimates = shrunk(y, document)
    nobody = SystemPrior(mean=0.0, error=estimates.between, effect=None, segments=0, documents=0)
    priors = {name: _system_prior(estimates, s, y, document) for s, name in enumerate(judged)}
    return Prior(
        systems=tuple((name, priors.get(name, nobody)) for name in names),
        sigma=estimates.sigma,
        between=estimates.between,
        design_effect=estimates.design_effect,
        human=dimension,
        lower=lower,
        rooted=rooted,
        segments=len(y),
        documents=len(np.unique(document)),
        inputs=_digest(documents, dimension),
    )


def _rooted(scores: FloatArray, lower: bool, root: Root, where: str) -> bool:
    """Whether errors are the square roots of scores."""
    negative = bool((scores < 0).any())
    if root == "yes" and (negative or not lower):
        cause = "a negative score" if lower else "scores of which higher is better"
        raise InputError(f"{cause}, which has no root", where=where, fix="Leave --root out")
    return root == "yes" or (root == "auto" and lower and not negative)


def _check(y: FloatArray, systems: Sequence[str], where: str) -> None:
    """Raises InputError unless the judgements suffice for effects and their noise."""
    known = ~np.isnan(y)
    if not len(y):
        fix = "Have two or more systems judged on the same segments"
        raise InputError("no segment with two judged systems", where=where, fix=fix)
    group = groups(known.astype(float))
    apart = np.flatnonzero(group != group[0]).tolist()
    if apart:
        raise InputError(
            f"{systems[apart[0]]!r:.80} is never judged beside {systems[0]!r:.80}, nor through others",
            where=where,
            fix="Have them judged on the same segments, or leave one out",
        )
    largest = float(np.abs(y[known]).max())
    if largest > MAX_ERROR:
        problem = f"an error of {largest:g}, which is too large to compute with"
        raise InputError(problem, where=where, fix="Scale the scores down")
    num_judgements = known.sum()
    if num_judgements - len(y) - len(systems) + 1 < 1:
        raise InputError(
            f"{int(num_judgements)} judgements of {len(y)} segments and {len(systems)} systems",
            where=where,
            fix="Have more segments judged",
        )


def _system_prior(estimates: Shrunk, s: int, y: FloatArray, document: IntArray) -> SystemPrior:
    """The prior of system s, from the errors [n, S] and the document of every row [n]."""
    rows = ~np.isnan(y[:, s])
    return SystemPrior(
        mean=float(estimates.means[s]),
        error=float(estimates.errors[s]),
        effect=float(estimates.effects[s]),
        segments=int(rows.sum()),
        documents=len(np.unique(document[rows])),
    )


def _digest(documents: Sequence[DocumentOutputs], dimension: str) -> str:
    """A digest of who was judged how on what."""
    digest = blake2b(digest_size=16)
    for document in documents:
        scores = document.human.get(dimension, {})
        by_system = {name: scores.get(name) for name in document.systems}
        digest.update(json.dumps([document.id, by_system]).encode() + b"\n")
    return digest.hexdigest()


def groups(known: FloatArray) -> IntArray:
    """The number of the group of every system [S]: two are in one if a chain of segments judged together joins them.

    Args:
        known: [n, S], 1 where a system is judged.
    """
    num_systems = known.shape[1]
    judged_together = known.T @ known > 0
    joined = judged_together | np.eye(num_systems, dtype=bool)
    # every system takes the lowest number of those it is joined with, until all of a chain have one
    group = np.arange(num_systems)
    for _ in range(num_systems):
        group = np.where(joined, group, num_systems).min(axis=1)
    return group


def shrunk(y: FloatArray, document: IntArray) -> Shrunk:
    """The posterior of every system's errors.

    Args:
        y: errors [n, S], nan where there is no judgement; every row has two at least, all systems are in one of the
            `groups`, and there are more judgements than segments and systems together.
        document: of every row, [n].
    """
    known = ~np.isnan(y)
    num_systems = y.shape[1]
    # errors less the mean of their segment, which takes b out
    count = known.sum(axis=1)  # judged systems of every segment, [n]
    values = np.where(known, y, 0.0)
    segment_means = values.sum(axis=1) / count
    centred = np.where(known, y - segment_means[:, None], 0.0)
    # L = D - C' R^-1 C, and L^+, as L has the kernel (1, ..., 1) alone
    shared = known.T.astype(float) @ (known / count[:, None])
    laplacian = np.diag(known.sum(axis=0).astype(float)) - shared
    inverse = np.linalg.inv(laplacian + 1.0) - 1 / num_systems**2
    # a, by least squares
    effects = inverse @ centred.sum(axis=0)
    # e, what a and b leave of the errors
    judged_effects = np.where(known, effects, 0.0)
    mean_effects = judged_effects.sum(axis=1) / count
    residuals = np.where(known, centred - effects + mean_effects[:, None], 0.0)
    degrees_of_freedom = known.sum() - len(y) - num_systems + 1
    without_effects = float((centred**2).sum()) / (known.sum() - len(y))  # s^2
    squares = float((residuals**2).sum())
    with_one_more = (squares + without_effects) / (degrees_of_freedom + 1)
    variance = max(squares / degrees_of_freedom, with_one_more)
    if variance <= (ROUNDING * float(np.abs(values).max())) ** 2:
        variance = 0.0  # systems and segments explain all of it
    # v_s, the noise of every effect
    design = _design_effect(residuals, document, inverse, variance)
    noise = design * variance * np.diag(inverse) * num_systems / (num_systems - 1)
    means, errors, between = posterior(effects, noise)
    return Shrunk(effects, means, errors, variance**0.5, between, design)


def posterior(effects: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Posterior means and standard deviations of effects [S] whose variances are `noise` [S], and the root mean t^2."""
    typical = float(noise.mean())
    if not typical:
        return effects, np.zeros(len(effects)), float(effects.std(ddof=1))
    total = typical * np.exp(GRID[:, None]) + noise  # t^2 + v_s, [grid, S]
    # the logarithm of the density of log t^2, [grid]: p(a | t) times what is assumed beforehand
    log_determinant = (1 - 1 / len(effects)) * np.log(total).sum(axis=1)
    density = -log_determinant - (effects**2 / total).sum(axis=1)
    density = density / 2
    density = density - np.logaddexp(0, GRID) - np.logaddexp(0, -GRID)
    shares = np.exp(density - density.max())[:, None]
    shares /= shares.sum()
    # mean and variance of B_s over the posterior of t, [S]
    shrinkage = 1 - noise / total
    mean = (shares * shrinkage).sum(axis=0)
    spread = (shares * (shrinkage - mean) ** 2).sum(axis=0)
    squares = shares[:, 0] * typical * np.exp(GRID)
    mean_square = float(squares.sum())  # of t
    deviations = np.sqrt(mean * noise + spread * effects**2)
    return mean * effects, deviations, mean_square**0.5


def _design_effect(
    residuals: FloatArray,
    document: IntArray,
    inverse: FloatArray,
    variance: float,
) -> float:
    """d from residuals [n, S], the document of each row [n] and L^+ [S, S]; 1 where one document says nothing of it."""
    number = np.unique(document, return_inverse=True)[1]
    num_documents = int(number.max()) + 1
    if num_documents < 2 or not variance:
        return 1.0
    sums = np.zeros((num_documents, residuals.shape[1]))
    np.add.at(sums, number, residuals)
    psi = sums @ inverse  # [D, S]
    clustered = num_documents / (num_documents - 1) * float((psi**2).sum())
    return max(1.0, clustered / (variance * float(np.trace(inverse))))


def with_one_score(
    documents: Sequence[DocumentOutputs], dimensions: Sequence[str], lower: bool, name: str
) -> list[DocumentOutputs]:
    """The documents with one dimension `name` instead of those of several raters, without their strictness.

    Raises:
        InputError: nobody judged anything, or too many raters.
    """
    limits().check("systems", len(dimensions), "raters")  # of whom there may be as many
    is_whole = judged_whole(documents, dimensions)
    systems = all_systems(documents)
    tables = np.array([human_table(one, documents, systems, is_whole) for one in dimensions])
    if np.isnan(tables).all():
        raise InputError("no score", where="human", fix="Name the keys that hold scores")
    are_factors = lower and float(np.nanmin(tables)) >= 0
    values, _ = without_strictness(tables.reshape(len(tables), -1), are_factors)
    return with_human_table(documents, name, systems, values.reshape(len(systems), -1), is_whole)


def without_strictness(y: FloatArray, are_factors: bool) -> tuple[FloatArray, FloatArray]:
    """v [n], nan where nobody judged, and f [R], or c [R], from scores [R, n]."""
    known = ~np.isnan(y)
    scores = np.where(known, y, 0.0)
    sizes, num_raters = known.sum(axis=1), known.sum(axis=0)
    tolerance = SMALLEST * (1.0 if are_factors else 1 + float(np.abs(scores).max()))
    # without any error all raters are alike, whatever is believed
    belief = PSEUDO_TEXTS * float(y[known].mean()) or 1.0
    strictness = np.full(len(y), float(are_factors))
    for _ in range(STEPS):
        total = known.T @ strictness  # of all who judged a text, [n]
        if are_factors:
            values = scores.sum(axis=0) / np.where(num_raters > 0, total, 1.0)
            new = (scores.sum(axis=1) + belief) / (known @ values + belief)
            new *= sizes.sum() / (sizes @ new)
        else:
            values = (scores.sum(axis=0) - total) / np.maximum(num_raters, 1)
            new = np.where(known, scores - values, 0.0).sum(axis=1) / (sizes + PSEUDO_TEXTS)
            new -= (sizes @ new) / sizes.sum()
        change = float(np.abs(new - strictness).max())
        strictness = new
        if change < tolerance:
            break
    return np.where(num_raters > 0, values, np.nan), strictness


def with_preferences(
    documents: Sequence[DocumentOutputs], rankings: Rankings
) -> list[DocumentOutputs]:
    """The documents with scores made of rankings of their segments, under `PREFERENCES`; lower is better.

    Args:
        documents: all with the same systems.
        rankings: of systems by the id of a list, ``d7:3``, or of a document of one whole text; rank 1 is the best.

    Raises:
        InputError: a ranking is of no segment, or of an unknown system.
    """
    systems = all_systems(documents)
    owners: dict[str, DocumentOutputs] = {}
    for document in documents:
        ids = (
            [document.id]
            if document.whole
            else map(f"{document.id}:{{}}".format, range(document.segments))
        )
        owners |= dict.fromkeys(ids, document)
    check_rankings(rankings, {name: document.systems for name, document in owners.items()})
    rows = []
    for name, document in owners.items():
        row = np.full(len(systems), np.nan)
        places = [systems.index(system) for system in document.systems]
        row[places] = preference_scores(tuple(document.systems), rankings.get(name, ()))
        rows.append(row)
    is_whole = all(document.whole for document in documents)
    table = np.array(rows).T  # [S, segments]
    return with_human_table(documents, PREFERENCES, systems, table, is_whole)


def preference_scores(
    systems: Sequence[str], rankings: Sequence[Mapping[str, float]]
) -> FloatArray:
    """v of every system, [S], nan where nobody compared it."""
    if not rankings:
        return np.full(len(systems), np.nan)
    number = {system: s for s, system in enumerate(systems)}
    laplacian = np.zeros((len(systems), len(systems)))
    lost = np.zeros(len(systems))
    for ranks in rankings:
        own = np.array([number[system] for system in ranks], int)
        values = np.array(list(ranks.values()))
        # every two systems are compared once
        lost[own] += np.sign(values[:, None] - values).sum(axis=1)
        laplacian[np.ix_(own, own)] -= 1.0
        laplacian[own, own] += len(own)
    compared = laplacian.diagonal() > 0
    scores = np.linalg.pinv(laplacian, hermitian=True) @ lost
    return np.where(compared, scores, np.nan)
