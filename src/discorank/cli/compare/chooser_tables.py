"""How ``compare`` prints choosers: their tables, their part of the JSON object, and their lines of the CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...metrics.representations import FloatArray
from ...rerank.selection.averages import MeanChoice
from ...rerank.selection.choosers import BASELINES, ChooserComparison, Gain, Judged
from ...rerank.selection.comparison import clean
from ...rerank.selection.significance import Correction, Verdicts
from ...rerank.selection.system_scores import Scored
from ...tables import CORRECTED, Table, number

KEYS = {"best single system": "gain_over_best", "random system": "gain_over_random"}


def choosers_json(found: ChooserComparison, level: float, correction: Correction) -> dict[str, Any]:
    """Choosers by dimension, tests by pair, and the metrics' scores of what was chosen."""
    return {
        "choice": "document" if found.choices.whole else "segment",
        "candidates": list(found.choices.systems),
        "by_dimension": {one.dimension: _judged_json(one, correction) for one in found.judged},
        "pairs": [
            {
                "human": one.dimension,
                **pair._asdict(),
                "a": one.names[pair.a],
                "b": one.names[pair.b],
            }
            for one in found.judged
            for pair in one.between.pairs
        ],
        "metrics": {
            name: {
                scored.name: {"score": clean(scores[c]), "optimised": optimised[c]}
                for scored, scores, optimised in _by_metric(found)
            }
            for c, name in enumerate(found.judged[0].names)
        },
        "level": level,
    }


def _judged_json(one: Judged, correction: Correction) -> dict[str, Any]:
    rows = _numbers(one, correction)
    return {
        "choosers": {name: rows[name] for name in one.names},
        "baselines": {name: rows[name] for name in BASELINES},
        "best_single_system": one.best,
        "counted": one.counted,
        "total": one.total,
        "unit": one.verdicts.unit,
        "units": one.verdicts.units,
    }


def _numbers(one: Judged, correction: Correction) -> dict[str, dict[str, Any]]:
    """Every number of every chooser and baseline, by its name."""
    v = one.verdicts
    columns = (v.scores, v.low, v.high)
    found: dict[str, dict[str, Any]] = {
        name: {
            key: clean(column[i])
            for key, column in zip(("score", "low", "high"), columns, strict=True)
        }
        for i, name in enumerate((*one.names, *BASELINES))
    }
    for name, cluster, reached, unscored in zip(
        one.names,
        one.between.clusters.tolist(),
        one.reached.tolist(),
        one.unscored.tolist(),
        strict=True,
    ):
        found[name] |= {"cluster": cluster, "oracle_reached": reached, "unscored": unscored}
    gains = {"regret": one.regrets()} | {
        key: one.gains(baseline, correction) for baseline, key in KEYS.items()
    }
    for key, several in gains.items():
        for name, gain in zip(one.names, several, strict=True):
            rest = {
                f"{key}_{part}": value for part, value in gain._asdict().items() if part != "gain"
            }
            found[name] |= {key: gain.gain, **rest}
    return found


def choosers_facts(
    found: ChooserComparison, correction: Correction
) -> Iterator[tuple[str, str, str, str, str, Any]]:
    """Every number on a line of its own."""
    for one in found.judged:
        for name, numbers in _numbers(one, correction).items():
            yield from (("choosers", one.dimension, name, "", *fact) for fact in numbers.items())
        for pair in one.between.pairs:
            a, b = one.names[pair.a], one.names[pair.b]
            yield from (
                ("chooser pairs", one.dimension, a, b, *fact)
                for fact in list(pair._asdict().items())[2:]
            )
    for scored, scores, optimised in _by_metric(found):
        for name, score, own in zip(found.judged[0].names, scores, optimised, strict=True):
            yield "chosen", scored.name, name, "", "score", score
            yield "chosen", scored.name, name, "", "optimised", int(own)


def _by_metric(found: ChooserComparison) -> list[tuple[Scored, FloatArray, tuple[bool, ...]]]:
    return [
        (scored, scored.system_scores(), own)
        for scored, own in zip(found.scored, found.optimised, strict=True)
    ]


def choosers_tables(found: ChooserComparison, level: float, correction: Correction) -> list[Table]:
    """A table for every dimension, and one of the metrics' scores of what was chosen."""
    tables = [_table(one, found, level, correction) for one in found.judged]
    return [*tables, _chosen(found)] if found.scored else tables


def _table(one: Judged, found: ChooserComparison, level: float, correction: Correction) -> Table:
    head = [
        *(
            "chooser",
            f"{one.dimension}{'' if one.higher_is_better else ' (lower is better)'}",
            "interval",
            "rank",
        ),
        *("regret", "interval", f"gain over {one.best}", "interval", "p"),
        *("gain over a random system", "interval", "p", "oracle reached"),
    ]
    columns = (one.regrets(), *(one.gains(baseline, correction) for baseline in KEYS))
    rows = []
    for c in np.argsort(
        (-1 if one.higher_is_better else 1) * one.verdicts.scores[: len(one.names)], kind="stable"
    ):
        regret, best, random = (column[c] for column in columns)
        rank = str(one.between.clusters[c])
        reached = f"{100 * one.reached[c]:.1f} %"
        rows.append(
            [
                one.names[c],
                *_mean(one.verdicts, c),
                rank,
                *_gain(regret)[:2],
                *_gain(best),
                *_gain(random),
                reached,
            ]
        )
    for i, name in enumerate(BASELINES):
        own = _mean(one.verdicts, len(one.names) + i)
        rows.append(
            [
                f"{name} ({one.best})" if name == BASELINES[0] else name,
                *own,
                *[""] * (len(head) - 3),
            ]
        )
    what = (
        f"{one.counted} of {one.total} {found.choices.what}, {len(found.choices.systems)} systems"
    )
    intervals = f"{100 * (1 - level):g} % intervals by {one.verdicts.unit}"
    title = f"Choosers by {one.dimension}: {what}; {intervals}{CORRECTED[correction]}"
    return Table(title, head, rows)


def _mean(verdicts: Verdicts, at: int) -> list[str]:
    return [
        number(verdicts.scores[at]),
        f"{number(verdicts.low[at])} .. {number(verdicts.high[at])}",
    ]


def _gain(gain: Gain) -> list[str]:
    return [
        number(gain.gain),
        f"{number(gain.low)} .. {number(gain.high)}",
        f"{gain.p_corrected:.4f}",
    ]


def _chosen(found: ChooserComparison) -> Table:
    by_metric = _by_metric(found)
    head = ["chooser"]
    for scored, _, _ in by_metric:
        head.append(f"{scored.name}{'' if scored.higher_is_better else ' (lower is better)'}")
    rows = []
    for c, name in enumerate(found.judged[0].names):
        rows.append(
            [
                name,
                *(f"{number(scores[c])}{' (!)' if own[c] else ''}" for _, scores, own in by_metric),
            ]
        )
    return Table(
        "What was chosen, by metric; (!) the chooser chose by this metric, which says little of it",
        head,
        rows,
    )


def mean_choices_table(means: Sequence[MeanChoice]) -> Table:
    """Choosers over several sets."""
    head = [
        "chooser",
        "human scores",
        "sets",
        "regret",
        "gain over the best system",
        "gain over a random system",
    ]
    rows = [
        [m.chooser, m.human, str(m.sets), *map(number, m[3:6]), f"{100 * m.oracle_reached:.1f} %"]
        for m in means
    ]
    return Table("Choosers: means over sets", [*head, "oracle reached"], rows)
