"""How ``compare`` prints choosers: their tables, their part of the JSON object, and their lines of the CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....metrics.representations import FloatArray
from ....rerank.selection.averages import MeanChoice
from ....rerank.selection.choosers import BASELINES, ChooserComparison, Gain, Judged
from ....rerank.selection.comparison import clean
from ....rerank.selection.significance import Correction, Verdicts
from ....rerank.selection.system_scores import Scored
from ....tables import CORRECTED, Table, number

GAIN_KEYS = {"best single system": "gain_over_best", "random system": "gain_over_random"}


def choosers_json(
    comparison: ChooserComparison, level: float, correction: Correction
) -> dict[str, Any]:
    """Choosers by dimension, tests by pair, and the metrics' scores of what was chosen."""
    pairs = []
    for judged in comparison.judged:
        pairs += _pairs_json(judged)
    return {
        "choice": "document" if comparison.choices.whole else "segment",
        "candidates": list(comparison.choices.systems),
        "by_dimension": {
            judged.dimension: _judged_json(judged, correction) for judged in comparison.judged
        },
        "pairs": pairs,
        "metrics": _metrics_json(comparison),
        "level": level,
    }


def _judged_json(judged: Judged, correction: Correction) -> dict[str, Any]:
    """All choosers and baselines under one dimension of human scores."""
    statistics = _statistics(judged, correction)
    return {
        "choosers": {name: statistics[name] for name in judged.names},
        "baselines": {name: statistics[name] for name in BASELINES},
        "best_single_system": judged.best,
        "counted": judged.counted,
        "total": judged.total,
        "unit": judged.verdicts.unit,
        "units": judged.verdicts.units,
    }


def _pairs_json(judged: Judged) -> list[dict[str, Any]]:
    """The tests between choosers under one dimension of human scores."""
    return [
        {
            "human": judged.dimension,
            **pair._asdict(),
            "a": judged.names[pair.a],
            "b": judged.names[pair.b],
        }
        for pair in judged.between.pairs
    ]


def _metrics_json(comparison: ChooserComparison) -> dict[str, dict[str, Any]]:
    """Of every chooser, what each metric gives what it chose."""
    columns = _metric_columns(comparison)
    by_chooser: dict[str, dict[str, Any]] = {}
    for c, name in enumerate(comparison.judged[0].names):
        by_chooser[name] = {
            scored.name: {"score": clean(scores[c]), "optimised": optimised[c]}
            for scored, scores, optimised in columns
        }
    return by_chooser


def _statistics(judged: Judged, correction: Correction) -> dict[str, dict[str, Any]]:
    """Every number of every chooser and baseline, by its name."""
    verdicts, between = judged.verdicts, judged.between
    statistics: dict[str, dict[str, Any]] = {}
    for i, name in enumerate((*judged.names, *BASELINES)):
        statistics[name] = {
            "score": clean(verdicts.scores[i]),
            "low": clean(verdicts.low[i]),
            "high": clean(verdicts.high[i]),
        }
    clusters, reached = between.clusters.tolist(), judged.reached.tolist()
    unscored = judged.unscored.tolist()
    for c, name in enumerate(judged.names):
        statistics[name] |= {
            "cluster": clusters[c],
            "oracle_reached": reached[c],
            "unscored": unscored[c],
        }
    gains_by_key = {"regret": judged.regrets()}
    for baseline, key in GAIN_KEYS.items():
        gains_by_key[key] = judged.gains(baseline, correction)
    for key, gains in gains_by_key.items():
        for name, gain in zip(judged.names, gains, strict=True):
            statistics[name] |= _gain_statistics(key, gain)
    return statistics


def _gain_statistics(key: str, gain: Gain) -> dict[str, float]:
    """A gain under its key, its interval and p under keys that begin with it."""
    statistics = {key: gain.gain}
    for part, value in gain._asdict().items():
        if part != "gain":
            statistics[f"{key}_{part}"] = value
    return statistics


def choosers_facts(
    comparison: ChooserComparison, correction: Correction
) -> Iterator[tuple[str, str, str, str, str, Any]]:
    """Every number on a line of its own."""
    for judged in comparison.judged:
        dimension = judged.dimension
        for name, statistics in _statistics(judged, correction).items():
            for statistic, value in statistics.items():
                yield "choosers", dimension, name, "", statistic, value
        for pair in judged.between.pairs:
            a, b = judged.names[pair.a], judged.names[pair.b]
            # the first two fields are a and b
            for statistic, value in list(pair._asdict().items())[2:]:
                yield "chooser pairs", dimension, a, b, statistic, value
    names = comparison.judged[0].names
    for scored, scores, optimised in _metric_columns(comparison):
        for name, score, by_metric in zip(names, scores, optimised, strict=True):
            yield "chosen", scored.name, name, "", "score", score
            yield "chosen", scored.name, name, "", "optimised", int(by_metric)


class _MetricColumn(NamedTuple):
    """A metric, its scores of what the choosers chose, and which of them chose by it."""

    scored: Scored
    scores: FloatArray  # [choosers]
    optimised: tuple[bool, ...]  # [choosers]


def _metric_columns(comparison: ChooserComparison) -> list[_MetricColumn]:
    return [
        _MetricColumn(scored, scored.system_scores(), optimised)
        for scored, optimised in zip(comparison.scored, comparison.optimised, strict=True)
    ]


def choosers_tables(
    comparison: ChooserComparison, level: float, correction: Correction
) -> list[Table]:
    """A table for every dimension, and one of the metrics' scores of what was chosen."""
    tables = [
        _dimension_table(judged, comparison, level, correction) for judged in comparison.judged
    ]
    if comparison.scored:
        tables.append(_metrics_table(comparison))
    return tables


def _dimension_table(
    judged: Judged, comparison: ChooserComparison, level: float, correction: Correction
) -> Table:
    """Choosers, best first, then the baselines, under one dimension of human scores."""
    direction = "" if judged.higher_is_better else " (lower is better)"
    head = [
        "chooser",
        f"{judged.dimension}{direction}",
        "interval",
        "rank",
        "regret",
        "interval",
        f"gain over {judged.best}",
        "interval",
        "p",
        "gain over a random system",
        "interval",
        "p",
        "oracle reached",
    ]
    candidates = comparison.choices
    num_systems = len(candidates.systems)
    counts = f"{judged.counted} of {judged.total} {candidates.what}, {num_systems} systems"
    intervals = f"{100 * (1 - level):g} % intervals by {judged.verdicts.unit}"
    title = f"Choosers by {judged.dimension}: {counts}; {intervals}{CORRECTED[correction]}"
    rows = [*_chooser_rows(judged, correction), *_baseline_rows(judged, len(head))]
    return Table(title, head, rows)


def _chooser_rows(judged: Judged, correction: Correction) -> list[list[str]]:
    """A row per chooser, the best first."""
    regrets = judged.regrets()
    over_best, over_random = (judged.gains(baseline, correction) for baseline in GAIN_KEYS)
    sign = -1 if judged.higher_is_better else 1
    order = np.argsort(sign * judged.verdicts.scores[: len(judged.names)], kind="stable")
    rows = []
    for c in order:
        regret, regret_interval, _ = _gain_cells(regrets[c])
        rows.append(
            [
                judged.names[c],
                *_score_cells(judged.verdicts, c),
                str(judged.between.clusters[c]),
                regret,
                regret_interval,
                *_gain_cells(over_best[c]),
                *_gain_cells(over_random[c]),
                f"{100 * judged.reached[c]:.1f} %",
            ]
        )
    return rows


def _baseline_rows(judged: Judged, num_columns: int) -> list[list[str]]:
    """Score and interval of every baseline, the other columns empty."""
    rows = []
    for i, name in enumerate(BASELINES):
        title = f"{name} ({judged.best})" if i == 0 else name
        cells = [title, *_score_cells(judged.verdicts, len(judged.names) + i)]
        rows.append(cells + [""] * (num_columns - len(cells)))
    return rows


def _score_cells(verdicts: Verdicts, i: int) -> list[str]:
    interval = f"{number(verdicts.low[i])} .. {number(verdicts.high[i])}"
    return [number(verdicts.scores[i]), interval]


def _gain_cells(gain: Gain) -> list[str]:
    interval = f"{number(gain.low)} .. {number(gain.high)}"
    return [number(gain.gain), interval, f"{gain.p_corrected:.4f}"]


def _metrics_table(comparison: ChooserComparison) -> Table:
    """The metrics' scores of what was chosen."""
    columns = _metric_columns(comparison)
    head = ["chooser"]
    for scored, _, _ in columns:
        direction = "" if scored.higher_is_better else " (lower is better)"
        head.append(f"{scored.name}{direction}")
    rows = []
    for c, name in enumerate(comparison.judged[0].names):
        row = [name]
        for _, scores, optimised in columns:
            mark = " (!)" if optimised[c] else ""
            row.append(f"{number(scores[c])}{mark}")
        rows.append(row)
    legend = "(!) the chooser chose by this metric, which says little of it"
    return Table(f"What was chosen, by metric; {legend}", head, rows)


def mean_choices_table(means: Sequence[MeanChoice]) -> Table:
    """Choosers over several sets."""
    head = [
        "chooser",
        "human scores",
        "sets",
        "regret",
        "gain over the best system",
        "gain over a random system",
        "oracle reached",
    ]
    rows = []
    for mean in means:
        gains = (mean.regret, mean.gain_over_best, mean.gain_over_random)
        reached = f"{100 * mean.oracle_reached:.1f} %"
        rows.append([mean.chooser, mean.human, str(mean.sets), *map(number, gains), reached])
    return Table("Choosers: means over sets", head, rows)
