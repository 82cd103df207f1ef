"""``compare --statistics wmt`` and ``compare --tasks``: metrics against people by the names of the WMT metrics task."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from ....integrations.formats.mtme.eval_set_folder import is_eval_set_folder, language_pairs
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....rerank.selection.meta_evaluation.cell_permutation import DrawSettings
from ....rerank.selection.meta_evaluation.eval_set import LEVELS, EvalSet
from ....rerank.selection.meta_evaluation.level_agreement import (
    TESTED,
    AgreementOptions,
    LevelAgreement,
    level_agreement,
)
from ....rerank.selection.meta_evaluation.task_results import (
    TaskSetResult,
    folder_of,
    run_tasks,
    task_set,
)
from ...options.eval_set_options import eval_set_at, with_own_metrics
from ...terminal.console import Counted
from .set_places import SetPlace
from .task_options import BLOCK
from .wmt_tables import printed_agreement, printed_tasks


def run_statistics(
    places: Sequence[SetPlace], metrics: Sequence[Utility], values: Mapping[str, Any]
) -> int:
    """Prints every metric's agreement with people at the levels of the scores there are; returns the exit code."""
    by_set: dict[str, list[LevelAgreement]] = {}
    for place in places:
        eval_set = with_own_metrics(_eval_set(place, values), metrics, values)
        by_set[place.name] = _agreements(eval_set, place, values)
    sys.stdout.write(printed_agreement(by_set, values["format"], values["level"]))
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
        eval_sets[pair] = with_own_metrics(_eval_set(place, values), metrics, values)
    with Counted("tasks", len(tasks.tasks), values["quiet"]) as progress:
        result: TaskSetResult = run_tasks(
            tasks, eval_sets, _drawn(values), values["level"], progress.more
        )
    sys.stdout.write(printed_tasks(tasks.name, result, values["format"], values["level"]))
    return 0


def _pairs_there(name: str, folder: Path) -> tuple[str, ...]:
    """The language pairs of a folder, for a set that has none of its own."""
    return language_pairs(folder) if name == "wmt25" else ()


def _eval_set(place: SetPlace, values: Mapping[str, Any]) -> EvalSet:
    return eval_set_at(place.path, place.name, place.language_pair, values)


def _drawn(values: Mapping[str, Any]) -> DrawSettings | None:
    """How tests draw, None for no tests."""
    draws = values["task_draws"]
    return DrawSettings(draws, values["seed"], BLOCK) if draws else None


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
    agreements = []
    for name in (each.rpartition(":")[2] for each in names):
        for level in LEVELS:
            metrics = eval_set.metrics_scored(level)
            if (name, level) not in eval_set.human_scores or not metrics:
                continue
            num_tests = len(list(combinations(metrics, 2))) * len(TESTED) // 2
            total = len(metrics) + (num_tests if options.drawn else 0)
            with Counted("metrics and tests", total, values["quiet"]) as progress:
                agreements.append(level_agreement(eval_set, name, level, options, progress.more))
    if not eval_set.human_scores:
        raise InputError("no human scores", where=place.name, fix="Give some, or name their key")
    if not agreements:
        raise InputError(
            "no metric has scores where people have", where=place.name, fix="Give -m METRIC"
        )
    return agreements
