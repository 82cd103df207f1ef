"""What ``compare`` prints of systems: tables for people and papers, a JSON object, lines of CSV; and rows of scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...metrics.representations import FloatArray
from ...rerank.runs.rows import as_line
from ...rerank.selection.comparison import MetaEvaluation, SystemComparison, clean
from ...rerank.selection.significance import Correction, Verdicts, least_p
from ...tables import CORRECTED, Table, comma_separated, number

SEGMENT_HEAD = ("accuracy", "tau-b", "tau WMT12", "tau WMT13", "tau WMT14", "Pearson")
Fact = tuple[str, str, str, str, str, Any]  # table, metric, a, b, statistic, value


def as_json(found: SystemComparison, level: float) -> dict[str, Any]:
    """Scores by system, agreement by metric, tests by pair, and beside them intervals, clusters and tests of metrics.

    "meta" is that of the first dimension of human scores, "meta_by_dimension" holds all of them.
    """
    names = [one.name for one in found.scored]
    meta = {one.human.name: _meta_json(one, names) for one in found.meta}
    by_metric = list(zip(names, found.verdicts, strict=True))
    return {
        "systems": _by_system(found, [v.scores for v in found.verdicts]),
        "meta": next(iter(meta.values()), {}),
        "pairs": [
            _pair_json(pair, found, name) for name, verdicts in by_metric for pair in verdicts.pairs
        ],
        "low": _by_system(found, [v.low for v in found.verdicts]),
        "high": _by_system(found, [v.high for v in found.verdicts]),
        "clusters": _by_system(found, [v.clusters for v in found.verdicts]),
        "human": {
            one.human.name: {
                s: clean(x) for s, x in zip(one.human.systems, one.verdicts.scores, strict=True)
            }
            for one in found.meta
        },
        "meta_by_dimension": meta,
        "metric_pairs": [_test_json(one, test, names) for one in found.meta for test in one.tests],
        "level": level,
        "units": {name: {"unit": v.unit, "number": v.units} for name, v in by_metric},
        "documents": len(found.documents),
        "segments": sum(document.segments for document in found.documents),
    }


def _by_system(found: SystemComparison, values: Sequence[Any]) -> dict[str, dict[str, Any]]:
    names = [one.name for one in found.scored]
    return {
        system: {
            name: clean(column[s]) if column.dtype.kind == "f" else int(column[s])
            for name, column in zip(names, values, strict=True)
        }
        for s, system in enumerate(found.systems)
    }


def _pair_json(pair: Any, found: SystemComparison, metric: str) -> dict[str, Any]:
    numbers = {
        key: clean(getattr(pair, key))
        for key in ("p", "p_corrected", "p_bootstrap", "difference", "low", "high")
    }
    return {"a": found.systems[pair.a], "b": found.systems[pair.b], "metric": metric, **numbers}


def _meta_json(one: MetaEvaluation, names: Sequence[str]) -> dict[str, Any]:
    rows = zip(names, one.systems, one.segments, one.units, strict=True)
    return {
        name: {**s._asdict(), "unit": unit, "segment_level": g._asdict()}
        for name, s, g, unit in rows
    }


def _test_json(one: MetaEvaluation, test: Any, names: Sequence[str]) -> dict[str, Any]:
    return {"human": one.human.name, **test._asdict(), "a": names[test.a], "b": names[test.b]}


def too_few(several: Sequence[Verdicts], level: float) -> list[str]:
    """Warnings of draws of so few units that exchanging them cannot give a p below the level."""
    counts = dict.fromkeys((v.units, v.unit) for v in several if least_p(v.units) >= level)
    return [
        f"warning: with {units} units (by {unit}) no p is below {least_p(units):g}, and none is significant; "
        "give more documents, or smaller units: --unit"
        for units, unit in counts
    ]


def facts(found: SystemComparison) -> Iterator[Fact]:
    """Every number on a line of its own."""
    for scored, verdicts in zip(found.scored, found.verdicts, strict=True):
        for s, system in enumerate(found.systems):
            for key in ("scores", "low", "high", "clusters"):
                yield (
                    "systems",
                    scored.name,
                    system,
                    "",
                    key.removesuffix("s"),
                    getattr(verdicts, key)[s],
                )
        for pair in verdicts.pairs:
            for key in ("difference", "low", "high", "p", "p_corrected", "p_bootstrap"):
                yield (
                    "pairs",
                    scored.name,
                    found.systems[pair.a],
                    found.systems[pair.b],
                    key,
                    getattr(pair, key),
                )
    for one in found.meta:
        yield from _meta_facts(one, [scored.name for scored in found.scored])


def _meta_facts(one: MetaEvaluation, names: Sequence[str]) -> Iterator[Fact]:
    human = one.human.name
    for name, systems, segments, unit in zip(
        names, one.systems, one.segments, one.units, strict=True
    ):
        yield from (("meta", name, human, "system", *fact) for fact in systems._asdict().items())
        yield from (("meta", name, human, unit, *fact) for fact in segments._asdict().items())
    for test in one.tests:
        tested = (
            (key, getattr(test, key))
            for key in ("p_pearson", "p_accuracy", "p_williams", "p_segments")
        )
        yield from (("metrics", names[test.a], human, names[test.b], *fact) for fact in tested)


def tables(found: SystemComparison, level: float, correction: Correction) -> list[Table]:
    """Systems, the tests of each metric, and the metrics against people."""
    shown = [_systems(found, level, correction)]
    for scored, verdicts in zip(found.scored, found.verdicts, strict=True):
        if len(found.systems) > 1:
            shown.append(wins(scored.name, scored.sign, found.systems, verdicts, level))
    for one in found.meta:
        shown += [_agreement(one, found), _segments(one, found)]
        if one.tests:
            shown.append(_tests(one, found))
    return shown


def _systems(found: SystemComparison, level: float, correction: Correction) -> Table:
    """Systems in order of the first metric."""
    order = np.argsort(-found.scored[0].sign * found.verdicts[0].scores, kind="stable")
    head = ["system"]
    for scored in found.scored:
        head += [
            f"{scored.name} {'' if scored.higher_is_better else '(lower is better) '}".strip(),
            "interval",
            "rank",
        ]
    head += [f"{one.human.name} (human)" for one in found.meta]
    rows = []
    for s in order:
        row = [found.systems[s]]
        for v in found.verdicts:
            row += [
                number(v.scores[s]),
                f"{number(v.low[s])} .. {number(v.high[s])}",
                str(v.clusters[s]),
            ]
        rows.append(row + [number(_judged(one, found.systems[s])) for one in found.meta])
    units = " or ".join(dict.fromkeys(v.unit for v in found.verdicts))
    line = f"one rank where no line can be drawn at p < {level:g}{CORRECTED[correction]}"
    title = f"Systems: {100 * (1 - level):g} % intervals by {units}; {line}"
    return Table(title, head, rows)


def _judged(one: MetaEvaluation, system: str) -> float | None:
    names = one.human.systems
    return float(one.verdicts.scores[names.index(system)]) if system in names else None


def wins(name: str, sign: float, systems: Sequence[str], verdicts: Verdicts, level: float) -> Table:
    """p of all pairs, best first."""
    order = np.argsort(-sign * verdicts.scores, kind="stable").tolist()
    p = verdicts.p_values()
    rows = [
        [systems[a], *(_win(sign, verdicts.scores, p, a, b, level) for b in order)] for a in order
    ]
    title = f"{name}: p of each pair; + the row is better at p < {level:g}, - worse"
    return Table(title, ["", *(systems[b] for b in order)], rows)


def _win(sign: float, scores: FloatArray, p: FloatArray, a: int, b: int, level: float) -> str:
    if a == b:
        return ""
    mark = "" if p[a, b] >= level else "+ " if sign * (scores[a] - scores[b]) > 0 else "- "
    return f"{mark}{p[a, b]:.4f}"


def _agreement(one: MetaEvaluation, found: SystemComparison) -> Table:
    head = [
        "metric",
        "Pearson",
        "Spearman",
        "Kendall",
        "pairwise accuracy",
        "soft pairwise accuracy",
    ]
    rows = [
        [s.name, *map(number, values[:5])]
        for s, values in zip(found.scored, one.systems, strict=True)
    ]
    return Table(f"Metrics against {one.human.name}: {len(one.human.systems)} systems", head, rows)


def _segments(one: MetaEvaluation, found: SystemComparison) -> Table:
    head = ["metric", "unit", "n", SEGMENT_HEAD[0], "epsilon", *SEGMENT_HEAD[1:]]
    rows = [
        [s.name, unit, str(g.segments)]
        + [number(x) for x in (g.accuracy, g.epsilon, g.kendall_b, *g[:3], g.pearson)]
        for s, g, unit in zip(found.scored, one.segments, one.units, strict=True)
    ]
    return Table(
        f"Metrics against {one.human.name}: segments or documents; accuracy with calibrated ties",
        head,
        rows,
    )


def _tests(one: MetaEvaluation, found: SystemComparison) -> Table:
    head = [
        "metric",
        "other metric",
        "p Pearson",
        "p pairwise accuracy",
        "p Williams",
        "p segments",
    ]
    rows = [
        [found.scored[t.a].name, found.scored[t.b].name, *map(number, t[2:])] for t in one.tests
    ]
    return Table(
        f"Do two metrics agree equally well with {one.human.name}? PERM-BOTH and Williams",
        head,
        rows,
    )


def segment_rows(found: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per segment and system: what each metric of segments gives, and the human scores there are."""
    at = 0
    for document in found.documents:
        for i in range(document.segments):
            for s, system in enumerate(found.systems):
                scores = {
                    one.name: clean(one.segments[s, at])
                    for one in found.scored
                    if one.segments is not None
                }
                human = {m.human.name: _cell(m.human.segments, m, system, at) for m in found.meta}
                yield {
                    "document": document.id,
                    "segment": i,
                    "system": system,
                    "scores": scores,
                    "human": human,
                }
            at += 1


def document_rows(found: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per document and system: each metric's corpus score of the document, and the human scores there are."""
    scores = [one.document_scores() for one in found.scored]
    judged = [one.human.document_scores() for one in found.meta]
    for d, document in enumerate(found.documents):
        for s, system in enumerate(found.systems):
            row = {
                one.name: clean(values[s, d])
                for one, values in zip(found.scored, scores, strict=True)
            }
            human = {
                m.human.name: _cell(values, m, system, d)
                for m, values in zip(found.meta, judged, strict=True)
            }
            yield {"document": document.id, "system": system, "scores": row, "human": human}


def _cell(values: FloatArray | None, one: MetaEvaluation, system: str, at: int) -> float | None:
    names = one.human.systems
    return (
        clean(values[names.index(system), at]) if values is not None and system in names else None
    )


def score_file(rows: Iterator[dict[str, Any]], as_csv: bool) -> Iterator[bytes]:
    """Rows of scores, whose keys may differ between sets, as JSON lines or as CSV (human scores as ``human:NAME``)."""
    if not as_csv:
        yield from map(as_line, rows)
        return
    flat = []
    for row in rows:
        scores, human = row.pop("scores"), row.pop("human")
        flat.append({**row, **scores, **{f"human:{name}": value for name, value in human.items()}})
    head = list(dict.fromkeys(key for row in flat for key in row))
    yield comma_separated(head, [[row.get(key) for key in head] for row in flat]).encode()
