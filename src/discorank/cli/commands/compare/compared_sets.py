"""The sets that ``compare`` reads: a file is one, a folder of mt-metrics-eval one per language pair.

``compare --hypotheses``: systems' outputs in files of their own; what to do where --hypotheses lacks.

Compares the systems of one systems file as the options of ``compare`` say; what ``--decoded`` names are systems too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ....integrations.formats.document_outputs import human_dimensions, read_documents
from ....integrations.formats.format_table import DocumentRows, format_of, is_eval_set_folder
from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.open_lists import open_documents, recognised_documents
from ....integrations.formats.readers.systems import SystemsOptions
from ....integrations.formats.selection_files import with_chosen
from ....integrations.formats.system_texts import AlignedOutputs, OutputFiles, about_kind, kind_of
from ....integrations.formats.wmt.eval_set_folder import pairs_of
from ....metrics.errors import InputError, unknown
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.registry import WRAPPERS
from ....metrics.spec.signature import parse
from ....metrics.storage.line_source import LineSource, NumberedLines
from ....rerank.runs.run_file import check_beside, is_table, lines_of_run
from ....rerank.selection.comparison import SystemComparison, compare_systems, fitted_to_references
from ....rerank.selection.judged_systems import doubtful_direction
from ....rerank.selection.kept_comparison import KeptComparison, KeptTable, kept
from ....rerank.selection.significance import Verdicts, least_p, segments_of_unit, unit_of
from ....rerank.selection.system_scores import DocumentOutputs, with_references
from ....tables import Table
from ...options import build
from ...options.metric_options import MetricOptions
from ...options.system_outputs import OutputFileOptions, aligned_outputs
from ...terminal.console import Counted, say
from ...terminal.watching import judged_line
from ..cite import signatures_of
from .people import may_lack, people_tables, with_judgements


class SetPlace(NamedTuple):
    """Where the systems of a set are."""

    path: str
    name: str
    language_pair: str | None = None
    outputs: AlignedOutputs | None = None  # of files of texts by line, in place of the path


def set_places(paths: Sequence[str], values: Mapping[str, Any]) -> list[SetPlace]:
    """The sets that paths name; their names are those of the files, with folders where two are alike.

    Raises:
        InputError: a path is given twice, or a folder lacks a language pair.
    """
    repeated = [path for i, path in enumerate(paths) if path in paths[:i]]
    if repeated:
        raise InputError("is given twice", where=repeated[0], fix="Give each systems file once")
    stems = [Path(path.removesuffix(".gz")).stem for path in paths]
    names = stems if len(set(stems)) == len(stems) else list(paths)
    places = []
    for path, name in zip(paths, names, strict=True):
        is_folder = values["input_format"] in ("systems", "mtme") and is_eval_set_folder(path)
        named: tuple[str | None, ...] = values["language_pair"] or (None,)
        pairs = pairs_of(path, values["language_pair"]) if is_folder else named
        for pair in pairs:
            places.append(SetPlace(path, name if len(pairs) == 1 else f"{name} {pair}", pair))
    return places


_BESIDE = ("sources", "documents")  # options that need --hypotheses
_OF_SYSTEMS_FILES = ("include", "columns", "language_pair", "tasks", "primary")


def checked_files(values: Mapping[str, Any]) -> OutputFiles | None:
    """The files of outputs, None where systems files are given.

    Raises:
        InputError: options that do not go together.
    """
    files = build(OutputFileOptions, values).named(
        values["input"] and values["input"][0], values["human"]
    )
    if files is None:
        for name in _BESIDE:
            if values[name]:
                raise InputError(
                    "stands beside --hypotheses alone", where=f"--{name}", fix="Add --hypotheses"
                )
        return None
    for name in _OF_SYSTEMS_FILES:
        if values[name]:
            _refuse(f"--{name.replace('_', '-')}")
    if values["input_format"] != "systems":
        _refuse("--from")
    if values["statistics"] == "wmt":
        _refuse("--statistics wmt")
    return files


def _refuse(flag: str) -> None:
    fix = (
        "Make a systems file with discorank convert --hypotheses ... --to systems, or leave it out"
    )
    raise InputError("does not go with --hypotheses", where=flag, fix=fix)


def output_place(files: OutputFiles) -> SetPlace:
    """The set that files of outputs make; errors as `read_outputs`."""
    return SetPlace(files.name, "hypotheses", outputs=aligned_outputs(files))


def segment_unit(unit: str | int) -> str:
    """The unit where every segment is a document; raises InputError for another."""
    if unit != "auto" and segments_of_unit(unit) != 1:
        raise InputError(
            "which segments stand in one document is not known",
            where=f"--unit {unit}",
            fix="Give document ids with --documents",
        )
    return "segment"


def baseline_of(
    given: str | None, outputs: AlignedOutputs | None, systems: Sequence[str]
) -> str | None:
    """The system that --baseline names, by its name or its file; raises InputError if there is none."""
    if given is None or given in systems:
        return given
    names = {} if outputs is None else outputs.names
    if names.get(given) in systems:
        return names[given]
    raise unknown("system", given, systems, where="--baseline")


def check_systems_files(paths: Sequence[str], form: str) -> None:
    """Raises InputError, with the command that reads them, where files hold texts in place of documents."""
    if form != "systems":
        return
    for path in paths:
        kind = _kind(path)
        if recognised_documents(path) != form:
            continue
        # of one file of candidate lists its reader says more
        if kind not in (None, "systems") and (kind != "jsonl" or len(paths) > 1):
            problem = f"found {about_kind(str(kind))}, expected a systems file"
            raise InputError(problem, where=path, fix=f"For files of texts: {_command(paths)}")


def _kind(path: str) -> str | None:
    """The kind of a file, None where its reader is to find that out."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    try:
        with closing(LineSource(path)) as source:
            first = next(iter(source), (0, b""))[1]
            # JSON of any other kind has errors that say more
            if first.lstrip().startswith((b"{", b"[")) and b'"text"' not in first:
                return None
            return kind_of(first, source) if first.strip() else None
    except InputError:
        return None


def _command(paths: Sequence[str]) -> str:
    """The command that compares the files, of which those named like references are references."""
    references = [path for path in paths if Path(path).stem.lower().startswith("ref")]
    hypotheses = [path for path in paths if path not in references]
    if not hypotheses:
        hypotheses, references = list(paths), []
    words = ["discorank", "compare", "--hypotheses", *hypotheses]
    words += ["--references", *(references or ["REFERENCES"]), "-m", "chrf"]
    return shlex.join(words)


class ComparedSet(NamedTuple):
    """The comparison of one systems file."""

    name: str
    settings: Mapping[str, Any]  # how they were compared
    systems: SystemComparison
    kept: KeptComparison  # as it is printed and saved
    people: Sequence[Table] = ()  # those who judged


def compare_set(
    place: SetPlace,
    metrics: Sequence[Utility],
    keys: tuple[HumanKey, ...],
    values: Mapping[str, Any],
) -> ComparedSet:
    """One systems file; errors name it."""
    documents = _read_documents(place, may_lack(keys, values), values)
    ids_unknown = place.outputs is not None and not place.outputs.has_documents
    unit = _unit(len(documents), ids_unknown, values)
    values = {**values, "unit": unit}
    try:
        if values["references"]:
            files = reference_files(place.path, values)
            names = [
                Path(name.removesuffix(".gz")).stem if name in files else name
                for name in values["references"]
            ]
            documents = with_references(documents, names)
        documents = with_judgements(documents, keys, values)
        decoded = []
        for path in values["decoded"]:
            decoded.append(DecodedRun.read(path))
            documents = with_chosen(decoded[-1].source, documents, decoded[-1].name)
        baseline = baseline_of(values["baseline"], place.outputs, list(documents[0].systems))
        human = human_dimensions(documents, keys)
        for dimension, lower in human:
            if doubt := doubtful_direction(dimension, lower, documents):
                say(f"warning: {doubt}", values["quiet"])
        fitted = [fitted_to_references(metric, documents) for metric in metrics]
        systems = _compare_systems(fitted, documents, human, values)
    except InputError as error:
        raise error.inside(place.path) from error
    for remark in (*_remarks(systems, values), *_remarks_on_decoded(systems, decoded)):
        say(remark, values["quiet"])
    if unit != "document" and not ids_unknown:
        say(
            "warning: segments of one document are not independent: p is too small, intervals are too narrow",
            values["quiet"],
        )
    how = _settings(place, ids_unknown, baseline, values)
    people = people_tables(documents, human, fitted, values)
    shown = [
        KeptTable(table.title, tuple(table.head), tuple(map(tuple, table.cells)))
        for table in people
    ]
    comparison = kept(systems, how, shown)
    num_segments = sum(document.segments for document in documents)
    how |= {"documents": len(documents), "segments": num_segments}
    return ComparedSet(place.name, how, systems, comparison, people)


def _settings(
    place: SetPlace, ids_unknown: bool, baseline: str | None, values: Mapping[str, Any]
) -> dict[str, Any]:
    """How a set is compared."""
    tested_by = ("level", "draws", "seed", "correction", "unit")
    how = {"input": place.path, **{name: values[name] for name in tested_by}}
    if ids_unknown:
        # every segment counted as a document
        how["ids_unknown"] = True
    if baseline is not None:
        how["baseline"] = baseline
    return how


def reference_files(path: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The files among --references; none where the format of the input has references of its own, by name."""
    if values["hypotheses"] or os.path.isdir(path):
        return ()
    format = format_of(recognised_documents(path, values["input_format"]))
    if "references" not in format.options:
        return ()
    return tuple(name for name in values["references"] if os.path.isfile(name))


def _unit(documents: int, ids_unknown: bool, values: Mapping[str, Any]) -> str | int:
    """The settings of draws."""
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
            place.path,
            form,
            language_pair=place.language_pair,
            columns=columns,
            mqm_weights=values["mqm_weights"],
            references=reference_files(place.path, values),
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
            cache=build(MetricOptions, values).cache(),
            reading=reading.more,
            drawing=drawing.more,
            meter=meter,
        )
    if judged := judged_line(meter.now):
        say(judged, quiet)
    return comparison


def _remarks(comparison: SystemComparison, values: Mapping[str, Any]) -> list[str]:
    """Notes for the reader of a comparison."""
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


class DecodedRun(NamedTuple):
    """A file of decisions, which counts as a system.

    Args:
        name: of the system.
        source: the rows of the file.
        metrics: the metrics that decided, without their settings; none if there is no run file.
    """

    name: str
    source: LineSource
    metrics: frozenset[str]

    @classmethod
    def read(cls, path: str) -> DecodedRun:
        """The run at a path; raises InputError if its run file is damaged or its rows have changed."""
        run = check_beside(path)
        metrics = frozenset() if run is None else _metrics_of_run(run, f"{path}.run.json")
        source = LineSource(lines_of_run(path))
        return cls(Path(path).stem if is_table(path) else source.stem, source, metrics)


def _metrics_of_run(run: Mapping[str, Any], path: str) -> frozenset[str]:
    try:
        return frozenset().union(*map(_metric_names, signatures_of(run, path)))
    except InputError as error:
        raise (error if path in error.where else error.inside(path)) from None


def _metric_names(signature: str) -> frozenset[str]:
    """The metrics of a signature, without their settings and the wrappers around them."""
    calls = [call for term in parse(signature) for call in term.every]
    return frozenset(call.name for call in calls if call.name not in WRAPPERS)


def check_decoded(values: Mapping[str, Any], has_scores: bool, num_sets: int) -> None:
    """Raises InputError for a decoded file that is given twice, or with several systems files or WMT's statistics."""
    paths = values["decoded"]
    repeated = [path for i, path in enumerate(paths) if path in paths[:i]]
    if repeated:
        raise InputError(f"{repeated[0]} is given twice", where="--decoded", fix="Give each once")
    if paths and (num_sets > 1 or has_scores):
        fix = "Compare one systems file, without --statistics wmt and --tasks"
        raise InputError("belongs to one systems file", where="--decoded", fix=fix)


def _remarks_on_decoded(
    comparison: SystemComparison, decoded: Sequence[DecodedRun]
) -> Iterator[str]:
    """Warnings of metrics that judge their own choices, and of choices without a human score."""
    for run in decoded:
        for scored in comparison.scored:
            if run.metrics & _metric_names(scored.name):
                about = f"{run.name} was decoded with {scored.name}"
                yield f"warning: {about}, whose scores of {run.name} are therefore too good"
        for meta in comparison.meta:
            human = meta.human
            if run.name not in human.systems:
                yield f"warning: {run.name} has no score in {human.name}"
            elif human.segments is not None:
                known = ~np.isnan(human.segments)
                lacking = int((known.any(axis=0) & ~known[human.systems.index(run.name)]).sum())
                if lacking:
                    about = f"{run.name} has no score in {human.name} for {lacking} segments"
                    yield f"{about}, in which no judged system has its text"
