"""The choosers of ``compare``: metrics that choose among the systems' outputs, and files of what was chosen before.

They are read, compared, and printed: their tables, their part of the JSON object, and their lines of the CSV.

The warning that tests drew from too few units to show anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ....integrations.formats.selection_files import read_chosen
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.representations import FloatArray
from ....metrics.spec.checked_settings import settings
from ....metrics.storage.line_source import LineSource
from ....rerank.part_sums import Normalize
from ....rerank.runs.output_checks import check_beside
from ....rerank.runs.run_file import is_table, lines_of_run
from ....rerank.selection.choosers import (
    BASELINES,
    Choices,
    ChooserComparison,
    Chosen,
    Gain,
    Judged,
    bases_of,
    choices,
    compare_choosers,
    decider_of,
)
from ....rerank.selection.comparison import MeanChoice, clean
from ....rerank.selection.significance import Correction, SignificanceSettings, Verdicts, least_p
from ....rerank.selection.system_scores import DocumentOutputs, Scored
from ....tables import CORRECTED, Table, number
from ...options.inputs import cache_in
from ...terminal.console import Counted, say
from ..cite import signatures_of

GAIN_KEYS = {"best single system": "gain_over_best", "random system": "gain_over_random"}


@settings
class ChooserOptions:
    """What chooses among the systems' outputs, judged by the human scores of what it chose.

    Args:
        choosers: utilities for MBR, and metrics without references for reranking, by name or signature.
        decoded: files that decode or rerank wrote of the same documents.
        choice: what is chosen: segment, document, or auto, which is what people scored.
        normalize_parts: what choosers that are sums do to each part's expected utilities within a list before they
            are added: none, zscore, minmax or rank.
    """

    heading: ClassVar = "choice"

    choosers: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    choice: Literal["auto", "segment", "document"] = "auto"
    normalize_parts: Normalize = "none"


def check_no_files(choosers: Sequence[str]) -> None:
    """Raises InputError for a file among metrics: what was chosen by a prior is compared as --decoded."""
    for name in choosers:
        if name.endswith(".json"):
            decode = f"discorank decode SYSTEMS --from systems -u chrf --prior {name} -o CHOSEN"
            combination = f"combination(model={json.dumps(name, ensure_ascii=False)})"
            fix = f"A prior: {decode}, then --decoded CHOSEN here; a combination: {combination}"
            problem = f"found the file {name}, expected a metric"
            raise InputError(problem, where="--choosers", fix=fix)


def check_decoded(values: Mapping[str, Any], num_sets: int) -> None:
    """Raises InputError for a decoded file given twice, or beside several systems files."""
    paths = values["decoded"]
    repeated = [path for i, path in enumerate(paths) if path in paths[:i]]
    if repeated:
        raise InputError(f"{repeated[0]} is given twice", where="--decoded", fix="Give each once")
    if paths and num_sets > 1:
        raise InputError(
            "belongs to one systems file", where="--decoded", fix="Compare each systems file alone"
        )


class ChoiceTask(NamedTuple):
    """The outputs to choose from, and what files say was chosen from them before."""

    choices: Choices
    chosen_before: list[Chosen]


def choice_task(
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    values: Mapping[str, Any],
) -> ChoiceTask | None:
    """What choosers work on, None if there are none; raises InputError before anything is computed."""
    if not (values["choosers"] or values["decoded"]):
        return None
    candidates = choices(documents, human, values["choice"])
    chosen_before = [_read_decoded(path, candidates) for path in values["decoded"]]
    return ChoiceTask(candidates, chosen_before)


def judge_choosers(
    task: ChoiceTask,
    choosers: Sequence[Utility],
    metrics: Sequence[Utility],
    human: Sequence[tuple[str, bool]],
    values: Mapping[str, Any],
) -> ChooserComparison:
    """Lets every chooser choose, compares the choosers, and says what a reader of the result must know."""
    quiet = values["quiet"]
    num_choices = len(task.choices.lists) * len(choosers)
    num_draws = values["draws"] * 2 * len(human)
    tests = SignificanceSettings(
        values["draws"], values["seed"], values["level"], values["unit"], values["correction"]
    )
    deciders = {
        metric.signature(): decider_of(metric, values["normalize_parts"]) for metric in choosers
    }
    with (
        Counted("lists", num_choices, quiet) as deciding,
        Counted("draws", num_draws, quiet) as drawing,
    ):
        comparison = compare_choosers(
            deciders,
            task.choices,
            human,
            metrics,
            decided=task.chosen_before,
            settings=tests,
            cache=cache_in(values),
            on_list=deciding.more,
            on_draw=drawing.more,
        )
    for remark in _remarks(comparison, values["level"]):
        say(remark, quiet)
    return comparison


def _read_decoded(path: str, candidates: Choices) -> Chosen:
    """The choices in a file, and the metrics by which they were made if its run says so."""
    run = check_beside(path)
    metrics = frozenset() if run is None else _metrics_of_run(run, f"{path}.run.json")
    source = LineSource(lines_of_run(path))
    name = Path(path).stem if is_table(path) else source.stem
    return read_chosen(source, candidates, name, metrics)


def _metrics_of_run(run: Mapping[str, Any], path: str) -> frozenset[str]:
    """The metrics of a run, by the values of its run file."""
    try:
        bases = [bases_of(signature) for signature in signatures_of(run, path)]
    except InputError as error:
        raise (error if path in error.where else error.inside(path)) from None
    return frozenset(base for several in bases for base in several)


def _remarks(comparison: ChooserComparison, level: float) -> list[str]:
    """What limits the comparison: systems and units that do not count, too few units, choosing by the judge itself."""
    candidates = comparison.choices
    remarks = []
    num_unjudged = len(candidates.documents[0].systems) - len(candidates.systems)
    if num_unjudged:
        remarks.append(
            f"choosers: {num_unjudged} systems that people did not judge are no candidates"
        )
    for judged in comparison.judged:
        remarks += _remarks_on_dimension(judged, candidates.what, level)
    names = comparison.judged[0].names
    for scored, optimised in zip(comparison.scored, comparison.optimised, strict=True):
        partial = [name for name, own in zip(names, optimised, strict=True) if own]
        if partial:
            remarks.append(
                f"warning: {', '.join(partial)} chose by {scored.name}, which therefore says little of what they chose"
            )
    return remarks


def _remarks_on_dimension(judged: Judged, unit_noun: str, level: float) -> list[str]:
    """What limits the comparison under one dimension of human scores."""
    remarks = [
        f"choosers: {judged.counted} of {judged.total} {unit_noun} count under {judged.dimension}"
    ]
    warnings = too_few([judged.verdicts], level)
    remarks += [f"choosers by {judged.dimension}: {warning}" for warning in warnings]
    for name, num_unscored in zip(judged.names, judged.unscored.tolist(), strict=True):
        if num_unscored:
            remarks.append(
                f"choosers: {name} chose a text without a score in {num_unscored} {unit_noun}, "
                "which count for no chooser"
            )
    return remarks


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


def too_few(verdicts: Sequence[Verdicts], level: float) -> list[str]:
    """Warnings of draws of so few units that exchanging them cannot give a p below the level."""
    counts = dict.fromkeys((v.units, v.unit) for v in verdicts if least_p(v.units) >= level)
    return [
        f"warning: with {units} units (by {unit}) no p is below {least_p(units):g}, and none is significant; "
        + (
            "give more segments"
            if unit == "segment"
            else "give more documents, or smaller units: --unit"
        )
        for units, unit in counts
    ]
