"""Compares the systems of one systems file, and the choosers among their outputs, as the options of ``compare`` say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....integrations.formats.document_forms import open_documents
from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.systems import SystemsOptions, read_documents
from ....integrations.formats.test_sets.document_rows import DocumentRows
from ....metrics.errors import InputError
from ....metrics.execution.failures import failures_named
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.text.numbered_lines import NumberedLines
from ....metrics.text.texts import Text
from ....rerank.selection.choosers import ChooserComparison
from ....rerank.selection.comparison import SystemComparison, compare_systems
from ....rerank.selection.document_outputs import DocumentOutputs, with_references
from ....rerank.selection.resampling_units import unit_of
from ...options.inputs import cache_in
from ...terminal.console import Counted, say
from ...terminal.watching import judged_line
from .chooser_runs import choice_task, judge_choosers
from .few_units import too_few
from .output_sets import baseline_of, segment_unit
from .set_places import SetPlace


class ComparedSet(NamedTuple):
    """The comparisons on one systems file; without metrics there are choosers alone."""

    name: str
    systems: SystemComparison | None
    choosers: ChooserComparison | None
    unit: str | int  # what draws took
    ids_unknown: bool = False  # every segment counted as a document, as no document ids were given
    baseline: str | None = None  # what the others' differences are from


def compare_set(
    place: SetPlace,
    metrics: Sequence[Utility],
    choosers: Sequence[Utility],
    keys: tuple[HumanKey, ...],
    values: Mapping[str, Any],
) -> ComparedSet:
    """One systems file; errors name it."""
    documents = _read_documents(place, keys, values)
    ids_unknown = place.outputs is not None and not place.outputs.has_documents
    unit = _unit(len(documents), ids_unknown, values)
    baseline = baseline_of(values["baseline"], place.outputs, list(documents[0].systems))
    values = {**values, "unit": unit}
    try:
        if values["references"]:
            documents = with_references(documents, values["references"])
        human = _dimensions(documents, keys)
        task = choice_task(documents, human, values)
        fitted = [_fitted(metric, documents) for metric in metrics]
        systems = _compare_systems(fitted, documents, human, values) if fitted else None
        fitted_choosers = [_fitted(metric, documents) for metric in choosers]
        judged = judge_choosers(task, fitted_choosers, fitted, human, values) if task else None
    except InputError as error:
        raise error.inside(place.path) from error
    if systems is not None:
        for remark in _remarks(systems, values):
            say(remark, values["quiet"])
    if unit != "document" and not ids_unknown:
        say(
            "warning: segments of one document are not independent: p is too small, intervals are too narrow",
            values["quiet"],
        )
    return ComparedSet(place.name, systems, judged, unit, ids_unknown, baseline)


def _unit(documents: int, ids_unknown: bool, values: Mapping[str, Any]) -> str | int:
    """What draws take."""
    if ids_unknown:
        return segment_unit(values["unit"])
    return unit_of(values["unit"], documents, values["level"])


def _read_documents(
    place: SetPlace, keys: tuple[HumanKey, ...], values: Mapping[str, Any]
) -> list[DocumentOutputs]:
    """The documents of a systems file, or of files of outputs, at least one."""
    options = SystemsOptions(keys, tuple(values["as_systems"]), tuple(values["include"]))
    source: NumberedLines
    if place.outputs is not None:
        source = DocumentRows(place.path, iter(place.outputs.rows))
    else:
        form, columns = values["input_format"], values["columns"]
        source = open_documents(place.path, form, place.language_pair, columns)
    documents = list(read_documents(source, options))
    if not documents:
        raise InputError("no documents", where=source.name, fix="Give at least one line")
    return documents


def _dimensions(
    documents: Sequence[DocumentOutputs], keys: Sequence[HumanKey]
) -> list[tuple[str, bool]]:
    """All dimensions of human scores in order of appearance, with whether lower is better."""
    lower_by_key = {key.name: key.lower for key in keys}
    names = dict.fromkeys(name for document in documents for name in document.human)
    # keys that are no dimension hold several dimensions, or no score
    rest = {key.name: key.lower for key in keys if key.name not in names}
    unnamed = [name for name in names if name not in lower_by_key]
    if rest and not unnamed:
        raise InputError(
            "no system has a score", where=f"human.{next(iter(rest))}", fix="Leave the key out"
        )
    if len(set(rest.values())) > 1:
        raise InputError(
            f"do all of {', '.join(unnamed)} have one direction?",
            where="--human",
            fix="Name the dimensions, each with its direction",
        )
    lower_of_unnamed = True in rest.values()
    return [(name, lower_by_key.get(name, lower_of_unnamed)) for name in names]


def _fitted(metric: Utility, documents: Sequence[DocumentOutputs]) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    references: list[Text] = []
    for document in documents:
        for texts in document.references.values():
            references += texts
    with failures_named(metric.signature()):
        return metric.fit(references)


def _compare_systems(
    metrics: Sequence[Utility],
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    values: Mapping[str, Any],
) -> SystemComparison:
    """The systems under every metric, while progress is shown."""
    quiet, draws, meter = values["quiet"], values["draws"], Meter()
    num_readings = len(documents) * sum(len(metric.parts) for metric in metrics)
    with (
        Counted("documents", num_readings, quiet) as reading,
        Counted("draws", draws * len(metrics), quiet) as drawing,
    ):
        comparison = compare_systems(
            metrics,
            documents,
            human,
            draws=draws,
            seed=values["seed"],
            level=values["level"],
            unit=values["unit"],
            correction=values["correction"],
            cache=cache_in(values),
            reading=reading.more,
            drawing=drawing.more,
            meter=meter,
        )
    if judged := judged_line(meter.now):
        say(judged, quiet)
    return comparison


def _remarks(comparison: SystemComparison, values: Mapping[str, Any]) -> list[str]:
    """What the reader of a comparison must know."""
    remarks = []
    for scored, verdicts in zip(comparison.scored, comparison.verdicts, strict=True):
        if scored.cuts:
            remarks.append(
                f"{scored.name}: {scored.cuts} texts were too long, and not all of them was read"
            )
        lacking = 0 if scored.segments is None else int(np.isnan(scored.segments).sum())
        if lacking:
            remarks.append(
                f"{scored.name}: {lacking} texts have no score, and are left out of means"
            )
        if values["unit"] != verdicts.unit == "document":
            remarks.append(f"{scored.name}: scores whole documents, which its draws take")
    if len(comparison.systems) > 1:
        remarks += too_few(comparison.verdicts, values["level"])
    return remarks
