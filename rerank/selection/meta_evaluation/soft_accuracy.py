"""Soft pairwise accuracy as the WMT metrics task computes it since 2024 (Thompson et al. 2024).

For systems i < j in the order given, p_ij is the share of draws of signs with
    sum_n +-(x_in - x_jn) >= sum_n (x_in - x_jn),
one-sided ("i is better than j"), ties counted; the value is 1 - mean |p_human - p_metric| over pairs. Units are
segments, scores their sums. All pairs, people and metric share one matrix of signs [draws, N] of numpy's default
generator with seed 4, as the task's tool draws it. Because ties count, p_ij + p_ji > 1 where there are some, so the
value depends on the order of the systems: sort them. Scores and sums are of single precision there, so that rounding
decides ties; in "double" precision sums that only rounding tells apart are tied, whatever the machine.
Segments that people did not score for every system are left out for all, so that rows stay aligned.
`agreement.system_agreement` has the definition that compare shows by default: two-sided draws of documents, halved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ....metrics.errors import InputError
from ....metrics.representations import FloatArray
from ...choice import ROUNDING
from ..statistics import assignments
from .averaged_correlations import check_tables

DRAWS = 1000
SEED = 4
MAX_ENUMERATED = 20  # segments
Precision = Literal["single", "double"]
_CELLS = 1 << 25  # signs held at once


def soft_pairwise_accuracy(
    human: FloatArray,
    metric: FloatArray,
    draws: int = DRAWS,
    seed: int = SEED,
    precision: Precision = "single",
    enumerate_all: bool = False,
) -> float | None:
    """The value of scores [S, N], nan where people gave none; None without two systems and a segment.

    Args:
        human, metric: scores, higher is better.
        draws: of signs.
        seed: of the draws.
        precision: of sums; "single" is that of the task's tool, draw by draw.
        enumerate_all: all 2^N signs instead, in double precision, of at most `MAX_ENUMERATED` segments.

    Raises:
        InputError: shapes differ, a text lacks the metric's score, or N is too large to enumerate.
    """
    check_tables(human, metric)
    is_rated = ~np.isnan(human).any(axis=0)
    people, scores = human[:, is_rated], metric[:, is_rated]
    if len(people) < 2 or not people.shape[1]:
        return None
    p_human = one_sided_p(people, draws, seed, precision, enumerate_all)
    p_metric = one_sided_p(scores, draws, seed, precision, enumerate_all)
    return _value(p_human, p_metric)


def _value(p_human: FloatArray, p_metric: FloatArray) -> float:
    a, b = np.triu_indices(len(p_human), 1)
    gaps = np.abs(p_human[a, b] - p_metric[a, b])
    return 1 - float(gaps.mean())


def one_sided_p(
    scores: FloatArray,
    draws: int = DRAWS,
    seed: int = SEED,
    precision: Precision = "single",
    enumerate_all: bool = False,
) -> FloatArray:
    """p_ij of scores [S, N] without holes, [S, S]; only j > i is filled, the rest is nan.

    Raises:
        InputError: N is too large to enumerate.
    """
    num_systems, n = scores.shape
    if enumerate_all and n > MAX_ENUMERATED:
        raise InputError(
            f"{n} segments, at most {MAX_ENUMERATED} are enumerated",
            where="soft_pairwise_accuracy",
            fix="Draw instead",
        )
    is_single = precision == "single" and not enumerate_all
    # rows in one piece, so that sums are taken in the same order whatever the table was cut from
    values = np.ascontiguousarray(scores, np.float32 if is_single else np.float64)
    a, b = np.triu_indices(num_systems, 1)
    totals = values.sum(axis=1)
    least = totals[a] - totals[b]  # [pairs]
    if not is_single:
        # what only rounding tells apart is tied
        least -= ROUNDING * np.abs(values).sum(axis=1).max()
    large = np.zeros(len(a), np.int64)
    count = 0
    signs_of_draws = _enumerated(n) if enumerate_all else _drawn(n, draws, seed)
    for signs in signs_of_draws:
        sums = signs.astype(values.dtype) @ values.T  # [b, S]
        large += np.count_nonzero(sums[:, a] - sums[:, b] >= least, axis=0)
        count += len(signs)
    p = np.full((num_systems, num_systems), np.nan)
    p[a, b] = large / count
    return p


class SoftAccuracy:
    """Soft pairwise accuracy against the same people's scores, of many metrics' scores, as draws of a test need it.

    Args:
        human: scores [S, N] without holes, of two systems at least.
        seed: of the signs.
    """

    def __init__(self, human: FloatArray, seed: int = SEED) -> None:
        self._shape = human.shape
        self._pairs = np.triu_indices(len(human), 1)
        self._signs = np.concatenate(list(_drawn(human.shape[1], DRAWS, seed)))
        self._p_human = self._p(human[None])  # [1, pairs]

    def values(self, metrics: FloatArray) -> FloatArray:
        """The values [b] of scores [b, S * N]."""
        p_metric = self._p(metrics.reshape(-1, *self._shape))
        gaps = np.abs(p_metric - self._p_human)
        return np.asarray(1 - gaps.mean(axis=1))

    def _p(self, scores: FloatArray) -> FloatArray:
        """`one_sided_p` of scores [b, S, N] in single precision, [b, pairs]."""
        a, b = self._pairs
        tables = np.ascontiguousarray(scores, np.float32)
        totals = tables.sum(axis=2)
        least = totals[:, a] - totals[:, b]
        p = np.empty(least.shape)
        for i, table in enumerate(tables):
            sums = self._signs @ table.T  # [draws, S]
            p[i] = np.mean(sums[:, a] - sums[:, b] >= least[i], axis=0)
        return p


def _drawn(n: int, draws: int, seed: int) -> Iterator[NDArray[np.float32]]:
    """Signs [b, n] of 1 and -1, some draws at a time."""
    random = np.random.default_rng(seed)
    step = max(1, _CELLS // n)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        uniform = random.random((size, n), dtype=np.float32)
        # a half is rounded to the even number, 0
        yield 2 * np.rint(uniform) - 1


def _enumerated(n: int) -> Iterator[NDArray[np.float32]]:
    """All signs, some at a time."""
    _, _, masks = assignments(n, 1 << n, 0)
    for mask in masks:
        yield (2 * mask - 1).astype(np.float32)
