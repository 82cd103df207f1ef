"""What ``compare`` prints of systems: tables for people and papers, a JSON object, lines of CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ....metrics.representations import FloatArray, IntArray
from ....rerank.selection.agreement import SegmentAgreement
from ....rerank.selection.comparison import MetaEvaluation, MetricTest, SystemComparison, clean
from ....rerank.selection.significance import Correction, Verdicts
from ....rerank.selection.system_scores import Scored
from ....tables import CORRECTED, Table, number

SEGMENT_HEAD = ("accuracy", "tau-b", "tau WMT12", "tau WMT13", "tau WMT14", "Pearson")
Fact = tuple[str, str, str, str, str, Any]  # table, metric, a, b, statistic, value


def systems_json(comparison: SystemComparison, level: float) -> dict[str, Any]:
    """Scores by system, agreement by metric, tests by pair, and beside them intervals, clusters and tests of metrics.

    "meta" is that of the first dimension of human scores, "meta_by_dimension" holds all of them.
    """
    names = [scored.name for scored in comparison.scored]
    verdicts = comparison.verdicts
    pairs = []
    for name, of_metric in zip(names, verdicts, strict=True):
        pairs += [_pair_json(pair, comparison.systems, name) for pair in of_metric.pairs]
    by_dimension = {meta.human.name: _meta_json(meta, names) for meta in comparison.meta}
    metric_pairs = []
    for meta in comparison.meta:
        metric_pairs += [_test_json(meta.human.name, test, names) for test in meta.tests]
    return {
        "systems": _by_system(comparison, [v.scores for v in verdicts]),
        "meta": next(iter(by_dimension.values()), {}),
        "pairs": pairs,
        "low": _by_system(comparison, [v.low for v in verdicts]),
        "high": _by_system(comparison, [v.high for v in verdicts]),
        "clusters": _by_system(comparison, [v.clusters for v in verdicts]),
        "human": {meta.human.name: _human_json(meta) for meta in comparison.meta},
        "meta_by_dimension": by_dimension,
        "metric_pairs": metric_pairs,
        "level": level,
        "units": {
            name: {"unit": v.unit, "number": v.units}
            for name, v in zip(names, verdicts, strict=True)
        },
        "documents": len(comparison.documents),
        "segments": sum(document.segments for document in comparison.documents),
    }


def _by_system(
    comparison: SystemComparison,
    columns: Sequence[FloatArray | IntArray],  # [metrics][systems]
) -> dict[str, dict[str, Any]]:
    """The numbers of every system by metric, NaN as null."""
    names = [scored.name for scored in comparison.scored]
    numbers: dict[str, dict[str, Any]] = {system: {} for system in comparison.systems}
    for name, column in zip(names, columns, strict=True):
        is_float = column.dtype.kind == "f"
        for system, value in zip(comparison.systems, column, strict=True):
            numbers[system][name] = clean(value) if is_float else int(value)
    return numbers


def _pair_json(pair: Any, systems: Sequence[str], metric: str) -> dict[str, Any]:
    keys = ("p", "p_corrected", "p_bootstrap", "difference", "low", "high")
    numbers = {key: clean(getattr(pair, key)) for key in keys}
    return {"a": systems[pair.a], "b": systems[pair.b], "metric": metric, **numbers}


def _human_json(meta: MetaEvaluation) -> dict[str, float | None]:
    scores = zip(meta.human.systems, meta.verdicts.scores, strict=True)
    return {system: clean(score) for system, score in scores}


def _meta_json(meta: MetaEvaluation, names: Sequence[str]) -> dict[str, Any]:
    rows = zip(names, meta.systems, meta.segments, meta.units, strict=True)
    return {
        name: {**by_system._asdict(), "unit": unit, "segment_level": by_segment._asdict()}
        for name, by_system, by_segment, unit in rows
    }


def _test_json(human: str, test: MetricTest, names: Sequence[str]) -> dict[str, Any]:
    return {"human": human, **test._asdict(), "a": names[test.a], "b": names[test.b]}


def systems_facts(comparison: SystemComparison) -> Iterator[Fact]:
    """Every number on a line of its own."""
    systems = comparison.systems
    for scored, verdicts in zip(comparison.scored, comparison.verdicts, strict=True):
        for s, system in enumerate(systems):
            for key in ("scores", "low", "high", "clusters"):
                value = getattr(verdicts, key)[s]
                yield "systems", scored.name, system, "", key.removesuffix("s"), value
        for pair in verdicts.pairs:
            a, b = systems[pair.a], systems[pair.b]
            for key in ("difference", "low", "high", "p", "p_corrected", "p_bootstrap"):
                yield "pairs", scored.name, a, b, key, getattr(pair, key)
    names = [scored.name for scored in comparison.scored]
    for meta in comparison.meta:
        yield from _meta_facts(meta, names)


def _meta_facts(meta: MetaEvaluation, names: Sequence[str]) -> Iterator[Fact]:
    """Every metric against one dimension of human scores, then the tests between metrics."""
    human = meta.human.name
    rows = zip(names, meta.systems, meta.segments, meta.units, strict=True)
    for name, by_system, by_segment, unit in rows:
        for statistic, value in by_system._asdict().items():
            yield "meta", name, human, "system", statistic, value
        for statistic, value in by_segment._asdict().items():
            yield "meta", name, human, unit, statistic, value
    for test in meta.tests:
        a, b = names[test.a], names[test.b]
        for key in ("p_pearson", "p_accuracy", "p_williams", "p_segments"):
            yield "metrics", a, human, b, key, getattr(test, key)


def systems_tables(
    comparison: SystemComparison, level: float, correction: Correction
) -> list[Table]:
    """Systems, the tests of each metric, and the metrics against people."""
    shown = [_systems_table(comparison, level, correction)]
    systems = comparison.systems
    if len(systems) > 1:
        for scored, verdicts in zip(comparison.scored, comparison.verdicts, strict=True):
            shown.append(pairs_table(scored.name, scored.sign, systems, verdicts, level))
    for meta in comparison.meta:
        shown += [
            _agreement_table(meta, comparison.scored),
            _segments_table(meta, comparison.scored),
        ]
        if meta.tests:
            shown.append(_tests_table(meta, comparison.scored))
    return shown


def _systems_table(comparison: SystemComparison, level: float, correction: Correction) -> Table:
    """Systems in order of the first metric."""
    first, first_scores = comparison.scored[0], comparison.verdicts[0].scores
    head = ["system"]
    for scored in comparison.scored:
        direction = "" if scored.higher_is_better else "(lower is better) "
        head += [f"{scored.name} {direction}".strip(), "interval", "rank"]
    head += [f"{meta.human.name} (human)" for meta in comparison.meta]
    rows = []
    for s in np.argsort(-first.sign * first_scores, kind="stable"):
        system = comparison.systems[s]
        row = [system]
        for v in comparison.verdicts:
            interval = f"{number(v.low[s])} .. {number(v.high[s])}"
            row += [number(v.scores[s]), interval, str(v.clusters[s])]
        row += [number(_human_score(meta, system)) for meta in comparison.meta]
        rows.append(row)
    units = " or ".join(dict.fromkeys(v.unit for v in comparison.verdicts))
    ranks = f"one rank where no line can be drawn at p < {level:g}{CORRECTED[correction]}"
    return Table(f"Systems: {100 * (1 - level):g} % intervals by {units}; {ranks}", head, rows)


def _human_score(meta: MetaEvaluation, system: str) -> float | None:
    names = meta.human.systems
    return float(meta.verdicts.scores[names.index(system)]) if system in names else None


def pairs_table(
    name: str,
    sign: float,
    systems: Sequence[str],
    verdicts: Verdicts,
    level: float,
) -> Table:
    """p of all pairs, best first.

    Args:
        name: of the metric, for the title.
        sign: +1, or -1 where lower is better.
        systems: S names.
        verdicts: of the systems.
        level: of significance.
    """
    order = np.argsort(-sign * verdicts.scores, kind="stable").tolist()
    gains, p = sign * verdicts.scores, verdicts.p_values()
    rows = []
    for a in order:
        rows.append([systems[a], *(_pair_cell(gains, p, a, b, level) for b in order)])
    title = f"{name}: p of each pair; + the row is better at p < {level:g}, - worse"
    return Table(title, ["", *(systems[b] for b in order)], rows)


def _pair_cell(
    gains: FloatArray,  # [systems], the higher the better
    p: FloatArray,  # [systems, systems]
    a: int,
    b: int,
    level: float,
) -> str:
    """p, with the sign of a significant difference; empty on the diagonal."""
    if a == b:
        return ""
    if p[a, b] >= level:
        return f"{p[a, b]:.4f}"
    sign = "+" if gains[a] > gains[b] else "-"
    return f"{sign} {p[a, b]:.4f}"


def _agreement_table(meta: MetaEvaluation, metrics: Sequence[Scored]) -> Table:
    """How every metric orders systems, against people."""
    head = [
        "metric",
        "Pearson",
        "Spearman",
        "Kendall",
        "pairwise accuracy",
        "soft pairwise accuracy",
    ]
    rows = []
    for scored, by_system in zip(metrics, meta.systems, strict=True):
        rows.append([scored.name, *map(number, by_system[:5])])
    title = f"Metrics against {meta.human.name}: {len(meta.human.systems)} systems"
    return Table(title, head, rows)


def _segments_table(meta: MetaEvaluation, metrics: Sequence[Scored]) -> Table:
    """How every metric orders texts of one segment or document, against people."""
    head = ["metric", "unit", "n", SEGMENT_HEAD[0], "epsilon", *SEGMENT_HEAD[1:]]
    rows = []
    for scored, by_segment, unit in zip(metrics, meta.segments, meta.units, strict=True):
        accuracy, *rest = map(number, segment_numbers(by_segment))
        epsilon = number(by_segment.epsilon)
        rows.append([scored.name, unit, str(by_segment.segments), accuracy, epsilon, *rest])
    about = "segments or documents; accuracy with calibrated ties"
    return Table(f"Metrics against {meta.human.name}: {about}", head, rows)


def segment_numbers(agreement: SegmentAgreement) -> tuple[float | None, ...]:
    """The numbers under `SEGMENT_HEAD`."""
    return (
        agreement.accuracy,
        agreement.kendall_b,
        agreement.kendall_wmt12,
        agreement.kendall_wmt13,
        agreement.kendall_wmt14,
        agreement.pearson,
    )


def _tests_table(meta: MetaEvaluation, metrics: Sequence[Scored]) -> Table:
    """Whether metrics differ in their agreement with people."""
    head = [
        "metric",
        "other metric",
        "p Pearson",
        "p pairwise accuracy",
        "p Williams",
        "p segments",
    ]
    rows = []
    for test in meta.tests:
        names = [metrics[test.a].name, metrics[test.b].name]
        p_values = (test.p_pearson, test.p_accuracy, test.p_williams, test.p_segments)
        rows.append([*names, *map(number, p_values)])
    title = f"Do two metrics agree equally well with {meta.human.name}? PERM-BOTH and Williams"
    return Table(title, head, rows)
