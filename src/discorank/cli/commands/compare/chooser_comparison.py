"""The choosers of ``compare``: metrics that choose among the systems' outputs, and files of what was chosen before.

They are read, compared, and printed: their tables, their part of the JSON object, and their lines of the CSV.

The warning that tests drew from too few units to show anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ....integrations.formats.selection_files import read_chosen
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import settings
from ....metrics.storage.line_source import LineSource
from ....report.comparison_tables import pair_rows, pairs_table
from ....rerank.engines.part_sums import Normalize
from ....rerank.runs.run_file import check_beside, is_table, lines_of_run
from ....rerank.selection.choosers import (
    BASELINES,
    Choices,
    ChooserComparison,
    Chosen,
    Judged,
    bases_of,
    choices,
    compare_choosers,
    decider_of,
)
from ....rerank.selection.comparison import clean
from ....rerank.selection.kept_comparison import kept_scores
from ....rerank.selection.significance import (
    Correction,
    SignificanceSettings,
    Verdicts,
    least_p,
)
from ....rerank.selection.system_scores import DocumentOutputs
from ....rerank.shrinkage import load_means
from ....tables import CORRECTED, Column, Table, between, number, text_table, whole, words
from ...options.inputs import cache_in
from ...terminal.console import Counted, say
from ..cite import signatures_of

GAIN_KEYS = {"best single system": "gain_over_best", "random system": "gain_over_random"}


@settings
class ChooserOptions:
    """Choosers among the systems' outputs, judged by the human scores of their choices.

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
    """The input of choosers, None if there are none; raises InputError before anything is computed."""
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
    chosen = read_chosen(source, candidates, name, metrics)
    means = load_means((run or {}).get("settings", {}).get("system_means"))
    if means is None:
        return chosen
    return chosen._replace(system_means={name: one.mean for name, one in means.systems.items()})


def _metrics_of_run(run: Mapping[str, Any], path: str) -> frozenset[str]:
    """The metrics of a run, by the values of its run file."""
    try:
        bases = [bases_of(signature) for signature in signatures_of(run, path)]
    except InputError as error:
        raise (error if path in error.where else error.inside(path)) from None
    return frozenset(base for several in bases for base in several)


def _remarks(comparison: ChooserComparison, level: float) -> list[str]:
    """Limits of the comparison: systems and units that do not count, too few units, choosing by the judge itself."""
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
    """Limits of the comparison under one dimension of human scores."""
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


def choosers_tables(
    comparison: ChooserComparison, level: float, correction: Correction
) -> list[Table]:
    """Choosers and their pairs under every dimension, and the metrics' scores of what was chosen."""
    tables = []
    for judged in comparison.judged:
        tables.append(_dimension_table(judged, comparison, level, correction))
        names, higher_is_better = judged.names, judged.higher_is_better
        title = f"Choosers by {judged.dimension}"
        own = kept_scores(title, higher_is_better, names, judged.between)
        pairs = [{"human": judged.dimension, **row} for row in pair_rows(own)]
        tables.append(Table("", (), pairs, "chooser_pairs", ("human", "a", "b")))
        if len(names) > 1:
            tables.append(pairs_table(own, level))
    if comparison.scored:
        tables += _metrics_tables(comparison)
    if comparison.means:
        tables.append(_means_table(comparison))
    return [*tables, _counts_table(comparison)]


def _dimension_table(
    judged: Judged, comparison: ChooserComparison, level: float, correction: Correction
) -> Table:
    """Choosers, best first, then the baselines, under one dimension of human scores."""
    direction = "" if judged.higher_is_better else " (lower is better)"
    columns = [
        words("chooser", "chooser"),
        Column(f"{judged.dimension}{direction}", ("score",)),
        Column("interval", ("low", "high"), between),
        whole("rank", "cluster"),
        *_gain_columns("regret", "regret")[:2],
        *_gain_columns(f"gain over {judged.best}", "gain_over_best"),
        *_gain_columns("gain over a random system", "gain_over_random"),
        Column("oracle reached", ("oracle_reached",), percent),
    ]
    candidates = comparison.choices
    counts = (
        f"{judged.counted} of {judged.total} {candidates.what}, {len(candidates.systems)} systems"
    )
    intervals = f"{100 * (1 - level):g} % intervals by {judged.verdicts.unit}"
    title = f"Choosers by {judged.dimension}: {counts}; {intervals}{CORRECTED[correction]}"
    rows = _chooser_rows(judged, correction)
    return Table(title, columns, rows, "choosers", ("human", "chooser"))


def _gain_columns(head: str, name: str) -> list[Column]:
    """A gain, its interval, and its corrected p."""
    return [
        Column(head, (name,)),
        Column("interval", (f"{name}_low", f"{name}_high"), between),
        Column("p", (f"{name}_p_corrected",), "{:.4f}".format),
    ]


def percent(share: float) -> str:
    """A share as it is shown."""
    return f"{100 * share:.1f} %"


def _chooser_rows(judged: Judged, correction: Correction) -> list[dict[str, Any]]:
    """Every number of every chooser, the best first, and of every baseline."""
    verdicts = judged.verdicts
    rows: list[dict[str, Any]] = []
    for i, name in enumerate((*judged.names, *BASELINES)):
        scores = (verdicts.scores[i], verdicts.low[i], verdicts.high[i])
        row = dict(zip(("score", "low", "high"), map(clean, scores), strict=True))
        rows.append({"human": judged.dimension, "chooser": name, **row})
    choosers, baselines = rows[: len(judged.names)], rows[len(judged.names) :]
    baselines[0]["system"] = judged.best
    gains_by_key = {"regret": judged.regrets()}
    for baseline, key in GAIN_KEYS.items():
        gains_by_key[key] = judged.gains(baseline, correction)
    for c, row in enumerate(choosers):
        row["cluster"] = int(judged.between.clusters[c])
        row["oracle_reached"] = float(judged.reached[c])
        row["unscored"] = int(judged.unscored[c])
        for key, gains in gains_by_key.items():
            gain, *parts = gains[c]._asdict().items()
            row[key] = gain[1]
            row |= {f"{key}_{part}": value for part, value in parts}
    sign = -1 if judged.higher_is_better else 1
    order = np.argsort(sign * verdicts.scores[: len(choosers)], kind="stable")
    return [*(choosers[c] for c in order), *baselines]


def _metrics_tables(comparison: ChooserComparison) -> list[Table]:
    """The metrics' scores of what was chosen: as they are written, and as they are shown."""
    names = comparison.judged[0].names
    head, rows = ["chooser"], []
    lines = [[name] for name in names]
    for scored, optimised in zip(comparison.scored, comparison.optimised, strict=True):
        direction = "" if scored.higher_is_better else " (lower is better)"
        head.append(f"{scored.name}{direction}")
        scores = scored.system_scores()
        for name, score, own, line in zip(names, scores, optimised, lines, strict=True):
            row = {"metric": scored.name, "chooser": name}
            rows.append({**row, "score": clean(score), "optimised": own})
            line.append(f"{number(score)}{' (!)' if own else ''}")
    legend = "(!) the chooser chose by this metric, which says little of it"
    return [
        text_table(f"What was chosen, by metric; {legend}", head, lines),
        Table("", (), rows, "chosen", ("metric", "chooser")),
    ]


def _means_table(comparison: ChooserComparison) -> Table:
    """The means of systems that choosers shrank towards, against people's."""
    statistics = ("pearson", "spearman", "kendall", "pairwise_accuracy")
    columns = [words("chooser", "chooser"), words("human", "human"), whole("systems", "systems")]
    columns += [Column(name.replace("_", " "), (name,)) for name in statistics]
    rows = [
        {"chooser": chooser, "human": dimension, "systems": agreement.systems}
        | {name: getattr(agreement, name) for name in statistics}
        for (chooser, dimension), agreement in comparison.means.items()
    ]
    title = "Means of systems without a judgement (--shrink), against people's"
    return Table(title, columns, rows, "system_means", ("chooser", "human"))


def _counts_table(comparison: ChooserComparison) -> Table:
    """Of how many texts the choice counted under every dimension."""
    rows = []
    for judged in comparison.judged:
        rows.append(
            {
                "human": judged.dimension,
                "choice": "document" if comparison.choices.whole else "segment",
                "systems": len(comparison.choices.systems),
                "counted": judged.counted,
                "total": judged.total,
                "unit": judged.verdicts.unit,
                "units": judged.verdicts.units,
            }
        )
    return Table("", (), rows, "choices", ("human",))


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
