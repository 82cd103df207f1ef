"""Tables of `context_agreement`: agreement with people without context, and what context changes in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.support.context_readings import ALONE
from benchmarks.support.markdown import table
from benchmarks.support.resampling import shown
from discorank.metrics.representations import FloatArray

STATISTICS = ("Pearson of systems", "tau-b within segments")


class Agreement(NamedTuple):
    """A metric in a reading against people on a set.

    Args:
        data: name of the set.
        metric: its name.
        reading: what it reads before.
        values: Pearson of systems and mean tau-b within segments.
        draws: the same in every resample, [resamples] each.
        p: of PERM-BOTH against the metric alone, for either; None where it is not defined.
        accuracy: pairwise, of systems.
        counts: segments, groups that are resampled, systems.
    """

    data: str
    metric: str
    reading: str
    values: tuple[float, float]
    draws: tuple[FloatArray, FloatArray]
    p: tuple[float | None, float | None] = (None, None)
    accuracy: float | None = None
    counts: tuple[int, int, int] = (0, 0, 0)


def markdown(rows: Sequence[Agreement]) -> str:
    """A table for every metric and statistic, and one of the sets."""
    parts = []
    for metric in dict.fromkeys(row.metric for row in rows):
        own = [row for row in rows if row.metric == metric]
        parts += [_of_metric(own, statistic) for statistic in range(len(STATISTICS))]
        parts += _whose(own)
    if not parts:
        return "nothing yet\n"
    return "\n\n".join([*parts, _facts(rows)]) + "\n"


def _of_metric(rows: Sequence[Agreement], statistic: int) -> str:
    """A row for every set, a column for every reading, and the means over sets."""
    readings = list(dict.fromkeys(row.reading for row in rows))
    sets = list(dict.fromkeys(row.data for row in rows))
    of = {(row.data, row.reading): row for row in rows}
    lines = []
    for name in sets:
        base = of[name, ALONE]
        cells = [_cell(of.get((name, reading)), base, statistic) for reading in readings]
        lines.append([name, *cells])
    if len(sets) > 1:
        means = [
            _mean(
                [of.get((name, r)) for name in sets], [of[name, ALONE] for name in sets], statistic
            )
            for r in readings
        ]
        lines.append([f"mean ({len(sets)})", *means])
    return table([f"`{rows[0].metric}`: {STATISTICS[statistic]}", *readings], lines)


def _cell(row: Agreement | None, base: Agreement, statistic: int) -> str:
    """A value with its interval; behind context the difference from none, its interval, and p."""
    if row is None:
        return "-"
    if row is base:
        return shown(row.values[statistic], row.draws[statistic])
    less = row.values[statistic] - base.values[statistic]
    draws = row.draws[statistic] - base.draws[statistic]
    p = row.p[statistic]
    tested = "" if p is None else f", p {p:.2f}"
    return f"{shown(less, draws, sign='+')}{tested}"


def _mean(rows: Sequence[Agreement | None], bases: Sequence[Agreement], statistic: int) -> str:
    """The same of the mean over sets, which are resampled apart."""
    known = [row for row in rows if row is not None]
    if len(known) < len(rows):
        return "-"
    pairs = list(zip(known, bases, strict=True))
    alone = all(row is base for row, base in pairs)
    values, draws = [], []
    random = np.random.default_rng(0)
    for row, base in pairs:
        less = 0.0 if alone else base.values[statistic]
        of_draws = row.draws[statistic] - (0.0 if alone else base.draws[statistic])
        values.append(row.values[statistic] - less)
        # draws of different sets are independent, so each is put in another order
        draws.append(of_draws[random.permutation(len(of_draws))])
    return shown(float(np.mean(values)), np.mean(draws, axis=0), sign="" if alone else "+")


def _whose(rows: Sequence[Agreement]) -> list[str]:
    """The reference's sentences against a system's own, where the sets have both: the means of paired differences."""
    readings = dict.fromkeys(row.reading for row in rows)
    lines = []
    for reading in readings:
        other = reading.replace("reference", "hypothesis")
        first = {row.data: row for row in rows if row.reading == reading}
        second = {row.data: row for row in rows if row.reading == other}
        if reading == other or not first or first.keys() != second.keys():
            continue
        cells = [_mean(list(first.values()), [second[name] for name in first], s) for s in (0, 1)]
        lines.append([f"`{reading}` less `{other}`, mean ({len(first)})", *cells])
    return [table([f"`{rows[0].metric}`", *STATISTICS], lines)] if lines else []


def _facts(rows: Sequence[Agreement]) -> str:
    head = ["set", "segments", "groups", "systems"]
    facts = {row.data: row.counts for row in rows}
    return table(head, [[name, *map(str, counts)] for name, counts in facts.items()])
