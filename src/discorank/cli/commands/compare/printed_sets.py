"""What ``compare`` prints of one systems file or several: systems, choosers, and means over the sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ....rerank.runs.rows import as_line
from ....rerank.selection.comparison import MeanAgreement, MeanChoice, mean_agreements, mean_choices
from ....rerank.selection.significance import Correction
from ....tables import Table, comma_separated, latex, markdown, number, text
from .chooser_comparison import choosers_facts, choosers_json, choosers_tables, mean_choices_table
from .compared_sets import ComparedSet
from .system_tables import (
    SEGMENT_HEAD,
    Fact,
    pairs_table,
    segment_numbers,
    systems_facts,
    systems_json,
    systems_tables,
)

HEAD = ("table", "metric", "a", "b", "statistic", "value")


def printed(
    sets: Sequence[ComparedSet],
    format: str,
    level: float,
    correction: Correction,
    further: Sequence[Table] = (),
) -> str:
    """The comparisons as table, markdown, latex, csv or json, with further tables where there are tables."""
    if format == "json":
        return as_line(_json(sets, level, correction)).decode()
    if format == "csv":
        return _comma_separated(sets, correction)
    tables = []
    for compared in sets:
        tables += _set_tables(compared, level, correction, named=len(sets) > 1)
    if len(sets) > 1:
        tables += mean_tables(sets)
    tables += further
    return {"table": text, "markdown": markdown, "latex": latex}[format](tables)


def _json(sets: Sequence[ComparedSet], level: float, correction: Correction) -> dict[str, Any]:
    """The one set, or all by name and their means."""
    if len(sets) == 1:
        return _set_json(sets[0], level, correction)
    agreements = [
        {
            **mean._asdict(),
            "systems": mean.systems._asdict(),
            "segments": mean.segments._asdict(),
        }
        for mean in _mean_agreements(sets)
    ]
    choices = [mean._asdict() for mean in _mean_choices(sets)]
    return {
        "sets": {compared.name: _set_json(compared, level, correction) for compared in sets},
        "means": {"meta": agreements, "choosers": choices},
    }


def _set_json(compared: ComparedSet, level: float, correction: Correction) -> dict[str, Any]:
    data = {} if compared.systems is None else systems_json(compared.systems, level)
    if compared.choosers is not None:
        data["choosers"] = choosers_json(compared.choosers, level, correction)
    return {**data, "correction": correction}


def _comma_separated(sets: Sequence[ComparedSet], correction: Correction) -> str:
    """A line for every number; of several sets with a column for the set, empty for means."""
    if len(sets) == 1:
        return comma_separated(HEAD, _set_facts(sets[0], correction))
    rows = []
    for compared in sets:
        rows += [(compared.name, *fact) for fact in _set_facts(compared, correction)]
    rows += [("", *fact) for fact in _mean_facts(sets)]
    return comma_separated(("set", *HEAD), rows)


def _set_facts(compared: ComparedSet, correction: Correction) -> Iterator[Fact]:
    if compared.systems is not None:
        yield from systems_facts(compared.systems)
    if compared.choosers is not None:
        yield from choosers_facts(compared.choosers, correction)


def _mean_facts(sets: Sequence[ComparedSet]) -> Iterator[Fact]:
    """Every mean on a line of its own."""
    for agreement in _mean_agreements(sets):
        metric, human = agreement.metric, agreement.human
        yield "means", metric, human, "", "sets", agreement.sets
        for statistic, value in agreement.systems._asdict().items():
            yield "means", metric, human, "system", statistic, value
        for statistic, value in agreement.segments._asdict().items():
            yield "means", metric, human, "segment", statistic, value
    for choice in _mean_choices(sets):
        # the first two fields name the chooser and the human scores
        for statistic, value in list(choice._asdict().items())[2:]:
            yield "chooser means", choice.human, choice.chooser, "", statistic, value


def _set_tables(
    compared: ComparedSet, level: float, correction: Correction, named: bool
) -> list[Table]:
    """Systems, then choosers; `named` with the set's name in the titles."""
    tables = []
    if compared.systems is not None:
        tables += systems_tables(compared.systems, level, correction)
    if compared.choosers is not None:
        tables += choosers_tables(compared.choosers, level, correction)
        for judged in compared.choosers.judged:
            if len(judged.names) > 1:
                title = f"Choosers by {judged.dimension}"
                sign = 1.0 if judged.higher_is_better else -1.0
                tables.append(pairs_table(title, sign, judged.names, judged.between, level))
    if not named:
        return tables
    return [table._replace(title=f"{compared.name}: {table.title}") for table in tables]


def mean_tables(sets: Sequence[ComparedSet]) -> list[Table]:
    """The means that there are, of metrics and of choosers."""
    agreements, choices = _mean_agreements(sets), _mean_choices(sets)
    tables = []
    if agreements:
        tables += [_mean_systems_table(agreements), _mean_segments_table(agreements)]
    if choices:
        tables.append(mean_choices_table(choices))
    return tables


def _mean_systems_table(agreements: Sequence[MeanAgreement]) -> Table:
    head = [
        "metric",
        "human scores",
        "sets",
        "systems",
        "Pearson",
        "Spearman",
        "Kendall",
        "pairwise accuracy",
        "soft pairwise accuracy",
    ]
    rows = []
    for mean in agreements:
        counts = [str(mean.sets), str(mean.systems.systems)]
        rows.append([mean.metric, mean.human, *counts, *map(number, mean.systems[:5])])
    return Table("Metrics against people: means over sets", head, rows)


def _mean_segments_table(agreements: Sequence[MeanAgreement]) -> Table:
    head = ["metric", "human scores", "sets", "n", *SEGMENT_HEAD]
    rows = []
    for mean in agreements:
        counts = [str(mean.sets), str(mean.segments.segments)]
        numbers = map(number, segment_numbers(mean.segments))
        rows.append([mean.metric, mean.human, *counts, *numbers])
    return Table("Metrics against people, segments or documents: means over sets", head, rows)


def _mean_agreements(sets: Sequence[ComparedSet]) -> list[MeanAgreement]:
    return mean_agreements([compared.systems for compared in sets if compared.systems is not None])


def _mean_choices(sets: Sequence[ComparedSet]) -> list[MeanChoice]:
    return mean_choices([compared.choosers for compared in sets if compared.choosers is not None])
