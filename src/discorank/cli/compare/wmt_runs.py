"""``compare --statistics wmt`` and ``compare --tasks``: metrics against people by the names of the WMT metrics task."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from ...integrations.files.strict_json import parse_json
from ...integrations.formats.document_forms import open_documents
from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.mtme.eval_set_folder import (
    is_eval_set_folder,
    language_pairs,
    read_eval_set,
    standards_of,
)
from ...integrations.formats.mtme.eval_set_rows import eval_set_of_rows, missing_texts
from ...integrations.formats.systems_document import read_document
from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...rerank.selection.meta_evaluation.cell_permutation import DrawSettings
from ...rerank.selection.meta_evaluation.eval_set import EvalSet
from ...rerank.selection.meta_evaluation.level_agreement import (
    TESTED,
    AgreementOptions,
    LevelAgreement,
    level_agreement,
)
from ...rerank.selection.meta_evaluation.own_scores import score_eval_set
from ...rerank.selection.meta_evaluation.task_results import TaskSetResult, run_tasks
from ...rerank.selection.meta_evaluation.task_sets import folder_of, task_set
from ..console import Counted, say
from ..inputs import cache_in
from ..watching import judged_line
from .set_places import SetPlace
from .task_options import reading_options
from .wmt_tables import printed_agreement, printed_tasks

BLOCK = 100  # draws between looks at p


def run_statistics(
    places: Sequence[SetPlace], metrics: Sequence[Utility], values: Mapping[str, Any]
) -> int:
    """Prints every metric's agreement with people at the levels of the scores there are; returns the exit code."""
    found: dict[str, list[LevelAgreement]] = {}
    for place in places:
        eval_set = with_own_metrics(eval_set_at(place, values), metrics, values)
        found[place.name] = _agreements(eval_set, place, values)
    sys.stdout.write(printed_agreement(found, values["format"], values["level"]))
    return 0


def run_task_set(path: str, metrics: Sequence[Utility], values: Mapping[str, Any]) -> int:
    """Prints a task set's values, ranks and averages; returns the exit code."""
    name = values["tasks"]
    folder = Path(path)
    if not is_eval_set_folder(folder):
        folder = folder / folder_of(name)
    pairs = tuple(values["language_pair"])
    tasks = task_set(name, pairs or _pairs_there(name, folder))
    eval_sets = {}
    for pair in tasks.language_pairs:
        place = SetPlace(str(folder), f"{folder.name} {pair}", pair)
        eval_sets[pair] = with_own_metrics(eval_set_at(place, values), metrics, values)
    with Counted("tasks", len(tasks.tasks), values["quiet"]) as progress:
        result: TaskSetResult = run_tasks(
            tasks, eval_sets, _drawn(values), values["level"], progress.more
        )
    sys.stdout.write(printed_tasks(tasks.name, result, values["format"], values["level"]))
    return 0


def _pairs_there(name: str, folder: Path) -> tuple[str, ...]:
    """The language pairs of a folder, for a set that has none of its own."""
    return language_pairs(folder) if name == "wmt25" else ()


def _drawn(values: Mapping[str, Any]) -> DrawSettings | None:
    """How tests draw, None for no tests."""
    draws = values["task_draws"]
    return DrawSettings(draws, values["seed"], BLOCK) if draws else None


def eval_set_at(place: SetPlace, values: Mapping[str, Any]) -> EvalSet:
    """The test set at a place: a folder of mt-metrics-eval, or what documents with human scores make."""
    if place.language_pair is not None:
        found = read_eval_set(place.path, place.language_pair, reading_options(values))
    else:
        found = _of_documents(place, values)
    if lacking := missing_texts(found):
        say(f"{place.name}: {lacking} texts were not supplied, and count as empty", values["quiet"])
    return found


def _of_documents(place: SetPlace, values: Mapping[str, Any]) -> EvalSet:
    """The test set of a systems file or another form of documents."""
    keys = [HumanKey.read(key) for key in values["human"]]
    lower = [key.name for key in keys if key.lower]
    rows = []
    source = open_documents(place.path, values["input_format"])
    for number, line in source:
        row = parse_json(line)
        if not isinstance(row, dict):
            raise source.refusal(number, "no object", "Write one document per line")
        rows.append(_with_human(row, keys))
    eval_set = eval_set_of_rows(rows, place.name, "-", lower)
    return _with_standards(eval_set, values)


def _with_human(row: dict[str, Any], keys: Sequence[HumanKey]) -> dict[str, Any]:
    """A row whose human scores stand under ``human`` by dimension."""
    document = read_document(row, keys, (), ())
    return {**row, "human": document.human, "references": document.references}


def _with_standards(eval_set: EvalSet, values: Mapping[str, Any]) -> EvalSet:
    """The set with the names that options give."""
    return replace(eval_set, standards=standards_of(eval_set, reading_options(values)))


def with_own_metrics(
    eval_set: EvalSet, metrics: Sequence[Utility], values: Mapping[str, Any]
) -> EvalSet:
    """The set with the scores of metrics of ours."""
    quiet, meter = values["quiet"], Meter()
    num_readings = len(eval_set.documents) * sum(len(metric.parts) for metric in metrics)
    with Counted("documents", num_readings, quiet) as reading:
        for metric in metrics:
            eval_set = score_eval_set(
                metric, eval_set, cache=cache_in(values), progress=reading.more, meter=meter
            )
    if judged := judged_line(meter.now):
        say(judged, quiet)
    return eval_set


def _agreements(
    eval_set: EvalSet, place: SetPlace, values: Mapping[str, Any]
) -> list[LevelAgreement]:
    """The agreement at every level that has people's and metrics' scores."""
    options = AgreementOptions(
        human=values["with_human"],
        outliers=values["with_outliers"],
        domain=values["domain"],
        nan_as_zero=values["nan_as_zero"],
        drawn=_drawn(values),
        level=values["level"],
    )
    names = tuple(values["human_scores"]) or tuple(
        dict.fromkeys(eval_set.standards.human_scores.values())
    )
    found = []
    for name in (each.rpartition(":")[2] for each in names):
        for level in ("sys", "doc", "seg"):
            metrics = eval_set.metrics_scored(level)
            if (name, level) not in eval_set.human_scores or not metrics:
                continue
            num_tests = len(list(combinations(metrics, 2))) * len(TESTED) // 2
            total = len(metrics) + (num_tests if options.drawn else 0)
            with Counted("metrics and tests", total, values["quiet"]) as progress:
                found.append(level_agreement(eval_set, name, level, options, progress.more))
    if not found:
        raise InputError(
            "no metric has scores where people have", where=place.name, fix="Give -m METRIC"
        )
    return found
