"""How well a metric agrees with people: Kendall's tau as WMT counts it, win ratios, a randomisation test.

With C and D pairs that people rank and the metric ranks alike or the other way round, and T that the metric ties
(pairs that people tie never count):
    wmt12 = (C - D - T) / (C + D + T)     wmt13 = (C - D) / (C + D)     wmt14 = (C - D) / (C + D + T)
Scores within 1e-12 (relative) are tied. Two metrics are compared by approximate randomisation (Yeh 2000): for every
segment their counts change places with probability 1/2; p is the share of draws whose difference of tau is as large.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ...metrics.errors import InputError, unknown
from ...metrics.representations import FloatArray, IntArray
from ..choice import ROUNDING

Variant = Literal["wmt12", "wmt13", "wmt14"]
VARIANTS = ("wmt12", "wmt13", "wmt14")
DRAWS = 10_000
MAX_CELLS = 1 << 22  # cells of a matrix of draws held at once


class Agreement(NamedTuple):
    """Counts of human preferences: agreed, contradicted, tied by the metric; and human ties, which never count."""

    concordant: int
    discordant: int
    metric_ties: int
    human_ties: int = 0


def agreement(
    verdicts: Iterable[str],
    first: Sequence[float],
    second: Sequence[float],
) -> Agreement:
    """The counts of pairs: people's verdict ``>`` (the first is better), ``<`` or ``=``, and both scores of the metric.

    Raises:
        InputError: lengths differ, or a verdict is none.
    """
    human_verdicts = list(verdicts)
    if not len(human_verdicts) == len(first) == len(second):
        problem = f"{len(human_verdicts)} verdicts, {len(first)} and {len(second)} scores"
        raise InputError(problem, where="agreement", fix="Give two scores per verdict")
    unknown_verdicts = set(human_verdicts) - set(_SIGNS)
    if unknown_verdicts:
        raise InputError(
            f"found the verdict {min(unknown_verdicts)!r}",
            where="agreement",
            fix="Expected <, > or =",
        )
    human = np.array([_SIGNS[verdict] for verdict in human_verdicts])
    a = np.asarray(first, float)
    b = np.asarray(second, float)
    sizes = np.maximum(np.abs(a), np.abs(b))
    tied = np.abs(a - b) <= ROUNDING * sizes
    metric = np.where(tied, 0, np.sign(a - b))
    return counted_agreement(metric, human)


_SIGNS = {"<": -1, "=": 0, ">": 1}


def counted_agreement(metric: FloatArray, human: FloatArray | IntArray) -> Agreement:
    """The counts of pairs from the signs that metric and people give each, [pairs] of -1, 0 and 1."""
    ranked = human != 0
    alike = ranked & (metric == human)
    contrary = ranked & (metric == -human)
    tied = ranked & (metric == 0)
    return Agreement(
        concordant=int(alike.sum()),
        discordant=int(contrary.sum()),
        metric_ties=int(tied.sum()),
        human_ties=int((~ranked).sum()),
    )


def kendall(counts: Agreement, variant: Variant = "wmt14") -> float | None:
    """Tau, None where no pair counts.

    >>> kendall(Agreement(3, 1, 6), "wmt12"), kendall(Agreement(3, 1, 6), "wmt14")
    (-0.4, 0.2)
    """
    rows = np.array([counts[:3]], float)
    tau = float(_taus(rows, variant)[0])
    return None if np.isnan(tau) else tau


def _taus(counts: FloatArray, variant: str) -> FloatArray:
    """Tau [n] of rows [n, 3] of (C, D, T), nan where no pair counts."""
    if variant not in VARIANTS:
        raise unknown("variant", variant, VARIANTS, where="kendall")
    c, d, t = counts.T
    denominator = c + d + (0 if variant == "wmt13" else t)
    numerator = c - d - (t if variant == "wmt12" else 0)
    undefined = np.full(len(counts), np.nan)
    taus = np.divide(numerator, denominator, out=undefined, where=denominator > 0)
    return np.asarray(taus)


def win_ratios(judgements: Iterable[tuple[str, str, str]]) -> dict[str, float | None]:
    """Wins / (wins + losses) of every system over all pairwise judgements (a, b, verdict), ties ignored (WMT12).

    >>> win_ratios([("A", "B", ">"), ("A", "B", "="), ("B", "A", ">"), ("C", "A", ">")])
    {'A': 0.3333333333333333, 'B': 0.5, 'C': 1.0}

    Raises:
        InputError: a verdict is none of <, > and =.
    """
    wins: Counter[str] = Counter()
    losses: Counter[str] = Counter()
    names: dict[str, None] = {}
    for a, b, verdict in judgements:
        names |= {a: None, b: None}
        if verdict not in ("<", ">", "="):
            raise InputError(
                f"found the verdict {verdict!r}",
                where="win_ratios",
                fix="Expected <, > or =",
            )
        if verdict != "=":
            better, worse = (a, b) if verdict == ">" else (b, a)
            wins[better] += 1
            losses[worse] += 1
    ratios: dict[str, float | None] = {}
    for name in names:
        decided = wins[name] + losses[name]
        ratios[name] = wins[name] / decided if decided else None
    return ratios


class Randomisation(NamedTuple):
    """Two metrics over the same segments."""

    first: float  # tau
    second: float
    p: float  # two-sided


def randomisation(
    first: Sequence[Agreement],
    second: Sequence[Agreement],
    variant: Variant = "wmt14",
    draws: int = DRAWS,
    seed: int = 0,
) -> Randomisation:
    """Whether two metrics' taus over the same segments differ: both taus and p.

    All assignments are enumerated where there are no more of them than `draws`; else p = (1 + as large) / (1 + draws).

    Raises:
        InputError: the segments differ in number, or no pair counts.
    """
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} and {len(second)} segments",
            where="randomisation",
            fix="Give the same segments",
        )
    a = _counts(first)
    b = _counts(second)
    totals = np.stack([a.sum(axis=0), b.sum(axis=0)])
    taus = _taus(totals, variant)
    if np.isnan(taus).any():
        raise InputError(
            "no pair that people rank",
            where="randomisation",
            fix="Give human preferences",
        )
    observed = abs(taus[0] - taus[1]) - ROUNDING
    difference = b - a
    count, exact, masks = assignments(len(a), draws, seed)
    large = 0
    for swapped in masks:
        # what the first metric's counts gain where segments change places, the second's lose
        moved = swapped @ difference
        one_way = _taus(totals[0] + moved, variant)
        other_way = _taus(totals[1] - moved, variant)
        gaps = np.abs(one_way - other_way)
        large += int((~(gaps < observed)).sum())
    p = share_as_large(large, count, exact)
    return Randomisation(float(taus[0]), float(taus[1]), p)


def _counts(segments: Sequence[Agreement]) -> FloatArray:
    """Rows of (C, D, T), [segments, 3]."""
    rows = [counts[:3] for counts in segments]
    return np.array(rows, float).reshape(-1, 3)


def share_as_large(large: int, count: int, exact: bool) -> float:
    """p of a test by randomisation: the share of draws that differ at least as much as observed.

    Where not all assignments were enumerated, the observed one counts as one more draw.
    """
    return large / count if exact else (1 + large) / (1 + count)


def assignments(
    units: int,
    draws: int,
    seed: int | Sequence[int],
) -> tuple[int, bool, Iterator[IntArray]]:
    """How many assignments of 0 and 1 to units, whether these are all, and the assignments, [draws, units] at a time.

    All 2^units are enumerated where they are no more than `draws`; else `draws` are drawn.
    """
    exact = units < 63 and 2**units <= draws
    count = 2**units if exact else draws
    return count, exact, _assignments(units, count, exact, seed)


def _assignments(
    units: int,
    count: int,
    exact: bool,
    seed: int | Sequence[int],
) -> Iterator[IntArray]:
    """The assignments, as many at a time as `MAX_CELLS` allows."""
    random = np.random.default_rng(seed)
    step = max(1, MAX_CELLS // max(1, units))
    for start in range(0, count, step):
        size = min(step, count - start)
        if exact:
            # the bits of consecutive numbers
            numbers = np.arange(start, start + size)
            yield (numbers[:, None] >> np.arange(units)) & 1
        else:
            yield random.integers(2, size=(size, units))


def system_scores(segments: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """The mean of every system's segment scores."""
    return {name: float(np.mean(values)) for name, values in segments.items()}
