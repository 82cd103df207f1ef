"""How good systems are, from judgements that are few, noisy and incomplete: effects, and these shrunk to their mean.

    y_is = b_i + a_s + e_is,     sum_s a_s = 0                                               (segments i, systems s)
by least squares over the judged pairs; where every system is judged on every segment, a_s is the mean over segments of
y_is less the segment's mean. sigma^2 is the mean square of e over its degrees of freedom. With L = D - C' R^-1 C (D, R:
judgements of systems and of segments; C: who is judged where), the covariance of a is sigma^2 L^+ if segments are
independent. They are not within a document, so it is multiplied with the design effect

    d = max(1, trace V / (sigma^2 trace L^+)),     V = D/(D-1) sum_d psi_d psi_d',     psi_d = L^+ sum_(i in d) e_i
the clustered variance over the plain one, pooled over systems since documents are few. Systems are drawn from a normal
distribution of variance t^2 around their mean (James and Stein 1961; Efron and Morris 1973):

    v_s = d sigma^2 L^+_ss S/(S-1)                      (d sigma^2 / n where all n segments are judged)
    a_s given t ~ Normal(B_s a_s, B_s v_s),      B_s = t^2 / (t^2 + v_s)
    p(a | t) ~ prod_s (t^2 + v_s)^(-(S-1)/2S) exp(-a_s^2 / 2 (t^2 + v_s))
A plugged-in estimate of t is often 0 where systems are few, and would then claim to be sure that all are alike. So B_s
is averaged over the posterior of t; beforehand v / (t^2 + v), v the mean of v_s, is uniform on 0 to 1 (Strawderman
1971; Daniels 1999). The posterior mean of a_s is E[B_s] a_s, its variance E[B_s] v_s + Var[B_s] a_s^2.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...metrics.representations import FloatArray, IntArray

GRID = np.linspace(-20, 30, 2001)  # log t^2 over the mean of v_s


class Shrunk(NamedTuple):
    """Systems' errors, each relative to the mean system; all [S] in the order of the columns."""

    effects: FloatArray
    means: FloatArray  # posterior
    errors: FloatArray  # posterior standard deviations
    sigma: float
    between: float  # root of the mean of t^2, what is not known of a system that nobody judged
    design_effect: float


def groups(known: FloatArray) -> IntArray:
    """The number of the group of every system [S]: two are in one if a chain of segments judged together joins them.

    Args:
        known: [n, S], 1 where a system is judged.
    """
    size = known.shape[1]
    joined = (known.T @ known > 0) | np.eye(size, dtype=bool)
    found = np.arange(size)
    for _ in range(size):
        found = np.where(joined, found, size).min(axis=1)
    return found


def shrunk(y: FloatArray, document: IntArray) -> Shrunk:
    """The posterior of every system's errors.

    Args:
        y: errors [n, S], nan where there is no judgement; every row has two at least, all systems are in one of the
            `groups`, and there are more judgements than segments and systems together.
        document: of every row, [n].
    """
    known = ~np.isnan(y)
    count, values = known.sum(axis=1), np.where(known, y, 0.0)
    centred = np.where(known, y - (values.sum(axis=1) / count)[:, None], 0.0)
    systems = y.shape[1]
    laplacian = np.diag(known.sum(axis=0)) - known.T.astype(float) @ (known / count[:, None])
    inverse = (
        np.linalg.inv(laplacian + 1.0) - 1 / systems**2
    )  # L^+, as L has the kernel (1, ..., 1) alone
    effects = inverse @ centred.sum(axis=0)
    moved = np.where(known, effects, 0.0)
    rest = np.where(known, centred - effects + (moved.sum(axis=1) / count)[:, None], 0.0)
    variance = float((rest**2).sum()) / (known.sum() - len(y) - systems + 1)
    design = _design_effect(rest, document, inverse, variance)
    noise = design * variance * np.diag(inverse) * systems / (systems - 1)
    means, errors, between = posterior(effects, noise)
    return Shrunk(effects, means, errors, variance**0.5, between, design)


def posterior(effects: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Posterior means and standard deviations of effects [S] whose variances are `noise` [S], and the root mean t^2."""
    typical = float(noise.mean())
    if not typical:
        return effects, np.zeros(len(effects)), float(effects.std(ddof=1))
    x = GRID[:, None]
    total = typical * np.exp(x) + noise  # t^2 + v_s
    density = -(1 - 1 / len(effects)) * np.log(total).sum(axis=1) - (effects**2 / total).sum(axis=1)
    density = density / 2 - np.logaddexp(0, GRID) - np.logaddexp(0, -GRID)  # of log t^2
    shares = np.exp(density - density.max())[:, None]
    shares /= shares.sum()
    kept = 1 - noise / total
    mean = (shares * kept).sum(axis=0)
    spread = (shares * (kept - mean) ** 2).sum(axis=0)
    between = float((shares[:, 0] * typical * np.exp(GRID)).sum()) ** 0.5
    return mean * effects, np.sqrt(mean * noise + spread * effects**2), between


def _design_effect(
    rest: FloatArray, document: IntArray, inverse: FloatArray, variance: float
) -> float:
    """d; 1 where one document says nothing of it."""
    number = np.unique(document, return_inverse=True)[1]
    count = int(number.max()) + 1
    if count < 2 or not variance:
        return 1.0
    sums = np.zeros((count, rest.shape[1]))
    np.add.at(sums, number, rest)
    clustered = count / (count - 1) * float(((sums @ inverse) ** 2).sum())
    return max(1.0, clustered / (variance * float(np.trace(inverse))))
