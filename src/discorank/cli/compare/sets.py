"""What ``compare`` prints of one systems file or several: systems, choosers, and means over the sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...rerank.runs.rows import as_line
from ...rerank.selection.averages import MeanAgreement, mean_agreements, mean_choices
from ...rerank.selection.choosers import ChooserComparison
from ...rerank.selection.comparison import SystemComparison
from ...rerank.selection.significance import Correction
from ...tables import Table, comma_separated, latex, markdown, number, text
from .chooser_tables import choosers_facts, choosers_json, choosers_tables, mean_choices_table
from .system_tables import SEGMENT_HEAD, Fact, as_json, facts, tables, wins

HEAD = ("table", "metric", "a", "b", "statistic", "value")


class Compared(NamedTuple):
    """What became of one systems file; without metrics there are choosers alone."""

    name: str
    systems: SystemComparison | None
    choosers: ChooserComparison | None


def rendered(several: Sequence[Compared], format: str, level: float, correction: Correction) -> str:
    """The comparisons as table, markdown, latex, csv or json."""
    if format == "json":
        found = [_json(one, level, correction) for one in several]
        whole = found[0] if len(found) == 1 else _sets_json(several, found)
        return as_line(whole).decode()
    if format == "csv":
        return _comma_separated(several, correction)
    shown = [
        table for one in several for table in _tables(one, level, correction, len(several) > 1)
    ]
    means = _means(several) if len(several) > 1 else []
    return {"table": text, "markdown": markdown, "latex": latex}[format]([*shown, *means])


def _json(one: Compared, level: float, correction: Correction) -> dict[str, Any]:
    found = {} if one.systems is None else as_json(one.systems, level)
    if one.choosers is not None:
        found["choosers"] = choosers_json(one.choosers, level, correction)
    return {**found, "correction": correction}


def _sets_json(several: Sequence[Compared], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    agreements = [
        {**m._asdict(), "systems": m.systems._asdict(), "segments": m.segments._asdict()}
        for m in _agreements(several)
    ]
    choosers = [m._asdict() for m in mean_choices(_choosers(several))]
    sets = {one.name: own for one, own in zip(several, found, strict=True)}
    return {"sets": sets, "means": {"meta": agreements, "choosers": choosers}}


def _comma_separated(several: Sequence[Compared], correction: Correction) -> str:
    if len(several) == 1:
        return comma_separated(HEAD, _facts(several[0], correction))
    rows = [(one.name, *fact) for one in several for fact in _facts(one, correction)]
    return comma_separated(("set", *HEAD), [*rows, *(("", *fact) for fact in _mean_facts(several))])


def _facts(one: Compared, correction: Correction) -> Iterator[Fact]:
    if one.systems is not None:
        yield from facts(one.systems)
    if one.choosers is not None:
        yield from choosers_facts(one.choosers, correction)


def _mean_facts(several: Sequence[Compared]) -> Iterator[Fact]:
    for m in _agreements(several):
        yield "means", m.metric, m.human, "", "sets", m.sets
        yield from (
            ("means", m.metric, m.human, "system", *fact) for fact in m.systems._asdict().items()
        )
        yield from (
            ("means", m.metric, m.human, "segment", *fact) for fact in m.segments._asdict().items()
        )
    for c in mean_choices(_choosers(several)):
        yield from (
            ("chooser means", c.human, c.chooser, "", *fact)
            for fact in list(c._asdict().items())[2:]
        )


def _tables(one: Compared, level: float, correction: Correction, named: bool) -> list[Table]:
    found = [] if one.systems is None else tables(one.systems, level, correction)
    if one.choosers is not None:
        found += choosers_tables(one.choosers, level, correction)
        for judged in one.choosers.judged:
            if len(judged.names) > 1:
                sign = 1.0 if judged.higher_is_better else -1.0
                found.append(
                    wins(
                        f"Choosers by {judged.dimension}", sign, judged.names, judged.between, level
                    )
                )
    return (
        [table._replace(title=f"{one.name}: {table.title}") for table in found] if named else found
    )


def _means(several: Sequence[Compared]) -> list[Table]:
    agreements, choosers = _agreements(several), mean_choices(_choosers(several))
    found = []
    if agreements:
        found += [_systems_table(agreements), _segments_table(agreements)]
    return [*found, mean_choices_table(choosers)] if choosers else found


def _systems_table(agreements: Sequence[MeanAgreement]) -> Table:
    head = [
        "metric",
        "human scores",
        "sets",
        "systems",
        "Pearson",
        "Spearman",
        "Kendall",
        "pairwise accuracy",
    ]
    rows = [
        [m.metric, m.human, str(m.sets), str(m.systems.systems), *map(number, m.systems[:5])]
        for m in agreements
    ]
    return Table("Metrics against people: means over sets", [*head, "soft pairwise accuracy"], rows)


def _segments_table(agreements: Sequence[MeanAgreement]) -> Table:
    head = ["metric", "human scores", "sets", "n", *SEGMENT_HEAD]
    rows = []
    for m in agreements:
        g = m.segments
        numbers = map(number, (g.accuracy, g.kendall_b, *g[:3], g.pearson))
        rows.append([m.metric, m.human, str(m.sets), str(g.segments), *numbers])
    return Table("Metrics against people, segments or documents: means over sets", head, rows)


def _agreements(several: Sequence[Compared]) -> list[MeanAgreement]:
    return mean_agreements([one.systems for one in several if one.systems is not None])


def _choosers(several: Sequence[Compared]) -> list[ChooserComparison]:
    return [one.choosers for one in several if one.choosers is not None]
