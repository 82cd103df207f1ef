"""The choosers of ``compare``: metrics that choose among the systems' outputs, and files of what was chosen before."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ....integrations.formats.earlier_choices import read_chosen
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import settings
from ....metrics.storage.line_source import LineSource
from ....rerank.normalization import Normalize
from ....rerank.runs.output_checks import check_beside
from ....rerank.runs.run_file import is_table, lines_of_run
from ....rerank.selection.choosers import ChooserComparison, Judged, compare_choosers
from ....rerank.selection.document_outputs import DocumentOutputs
from ....rerank.selection.significance import SignificanceSettings
from ....rerank.selection.system_choices import Choices, Chosen, bases_of, choices, decider_of
from ...options.inputs import cache_in
from ...terminal.console import Counted, say
from ..cite import signatures_of
from .few_units import too_few


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

    choosers: tuple[str, ...] = ()
    decoded: tuple[str, ...] = ()
    choice: Literal["auto", "segment", "document"] = "auto"
    normalize_parts: Normalize = "none"


def check_no_files(choosers: Sequence[str]) -> None:
    """Raises InputError for the file of a trained chooser among metrics; what it chose is compared."""
    for name in choosers:
        if name.endswith(".json"):
            decode = f"discorank decode SYSTEMS --from systems --chooser {name} -o CHOSEN"
            combination = f"combination(model={json.dumps(name, ensure_ascii=False)})"
            fix = f"A trained chooser: {decode}, then --decoded CHOSEN here; a combination: {combination}"
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
