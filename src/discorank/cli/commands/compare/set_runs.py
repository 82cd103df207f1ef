"""Compares the systems of one systems file, and the choosers among their outputs, as the options of ``compare`` say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....integrations.formats.documents import DocumentRows
from ....integrations.formats.human_scores import HumanKey, human_dimensions
from ....integrations.formats.open_lists import open_documents
from ....integrations.formats.readers.systems import SystemsOptions, read_documents
from ....metrics.errors import InputError
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.storage.line_source import NumberedLines
from ....rerank.selection.choosers import ChooserComparison
from ....rerank.selection.comparison import SystemComparison, compare_systems, fitted_to_references
from ....rerank.selection.significance import unit_of
from ....rerank.selection.system_scores import DocumentOutputs, with_references
from ...options.inputs import cache_in
from ...terminal.console import Counted, say
from ...terminal.watching import judged_line
from .chooser_comparison import choice_task, judge_choosers
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
        human = human_dimensions(documents, keys)
        task = choice_task(documents, human, values)
        fitted = [fitted_to_references(metric, documents) for metric in metrics]
        systems = _compare_systems(fitted, documents, human, values) if fitted else None
        fitted_choosers = [fitted_to_references(metric, documents) for metric in choosers]
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
        source = open_documents(
            place.path, form, language_pair=place.language_pair, columns=columns
        )
    documents = list(read_documents(source, options))
    if not documents:
        raise InputError("no documents", where=source.name, fix="Give at least one line")
    return documents


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
