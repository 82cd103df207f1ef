"""The sets of systems that ``compare`` reads, and the comparison of one of them.

A set is a systems file, a language pair of a folder of mt-metrics-eval, or the files of ``--hypotheses``, with text by
line. Judgements from files of their own (``--judged``) join its documents, and each run named by ``--decoded`` is one
more system. With the comparison come remarks on what may mislead: few units, cut texts, a metric that judges its own
choices.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ....integrations.formats.document_outputs import human_dimensions, read_documents
from ....integrations.formats.format_table import DocumentRows, format_of, is_eval_set_folder
from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.open_lists import open_documents, recognised_documents
from ....integrations.formats.readers.systems import SystemsOptions
from ....integrations.formats.selection_files import with_chosen
from ....integrations.formats.system_texts import AlignedOutputs, OutputFiles, about_kind, kind_of
from ....integrations.formats.wmt.eval_set_folder import pairs_of
from ....integrations.formats.wmt.judgements import with_judged, with_means_of_raters
from ....metrics.errors import InputError, unknown
from ....metrics.execution.meter import Meter
from ....metrics.mixture import Utility
from ....metrics.spec.checked_settings import Checked, Field, Rare, settings
from ....metrics.spec.signature import parse
from ....metrics.storage.line_source import LineSource, NumberedLines
from ....rerank.runs.run_file import check_beside, is_table, lines_of_run
from ....rerank.selection.comparison import SystemComparison, compare_systems, fitted_to_references
from ....rerank.selection.judged_systems import doubtful_direction
from ....rerank.selection.ratings import (
    People,
    RaterAgreement,
    RaterFigures,
    rater_agreement,
    rater_figures,
)
from ....rerank.selection.significance import (
    Correction,
    Verdicts,
    least_p,
    segments_of_unit,
    unit_of,
)
from ....rerank.selection.statistics import DRAWS
from ....rerank.selection.system_scores import DocumentOutputs, with_references
from ....tables import Format
from ...options.system_outputs import aligned_outputs, read_judged_file
from ...terminal.console import Counted, say
from ...terminal.watching import judged_line
from ..cite import signatures_of

if TYPE_CHECKING:
    from ....metrics.execution.cache import Cache

NOT_INDEPENDENT = "warning: segments of one document are not independent: p is too small, intervals are too narrow"


@settings
class PeopleOptions:
    """Those who judged, beside the systems.

    Args:
        judged: files of judgements of the same texts, which join those of the input: JSON lines, logs of
            Pearmut, or CSV files of Appraise.
        raters: print every annotator's figures, and how far annotators agree.
    """

    heading: ClassVar = "judgements"

    judged: tuple[str, ...] = ()
    raters: bool = False


def with_judgements(
    documents: list[DocumentOutputs], keys: Sequence[HumanKey], judged: Sequence[str]
) -> list[DocumentOutputs]:
    """The documents with the scores in files of judgements."""
    if judged:
        if len(keys) != 1:
            fix = "Give the key of their scores, such as --human esa"
            raise InputError("join the scores of one key", where="--judged", fix=fix)
        name = keys[0].name
        rows = [row for path in judged for row in read_judged_file(path, name)]
        return with_means_of_raters(with_judged(documents, rows, name), name)
    return documents


def may_lack(keys: Sequence[HumanKey], judged: Sequence[str]) -> tuple[HumanKey, ...]:
    """The keys, which documents may lack where judgements are in files of their own."""
    if not judged:
        return tuple(keys)
    return tuple(replace(key, may_lack=True) for key in keys)


def people_of(
    documents: Sequence[DocumentOutputs], human: Sequence[tuple[str, bool]], *, raters: bool
) -> People:
    """The figures of annotators in every dimension of human scores, where they are asked for.

    Args:
        documents: with their judgements.
        human: the dimensions, each with whether lower is better.
        raters: whether the figures are asked for.
    """
    if raters and not human:
        problem = "there are no human scores"
        raise InputError(problem, where="--raters", fix="Name their key with --human")
    all_figures: list[RaterFigures] = []
    agreement: list[RaterAgreement] = []
    for dimension, _ in human:
        figures = rater_figures(documents, dimension)
        _warn_of_lone_raters(figures, documents, dimension)
        if not raters:
            continue
        if not figures:
            fix = "Read a file with ratings, or give them with --judged"
            raise InputError(f"{dimension} has no single ratings", where="--raters", fix=fix)
        all_figures += figures
        agreement += rater_agreement(documents, dimension)
    return People(tuple(all_figures), tuple(agreement))


def _warn_of_lone_raters(
    figures: Sequence[RaterFigures],
    documents: Sequence[DocumentOutputs],
    dimension: str,
) -> None:
    """Warns of annotators who saw one system only."""
    lone = [one.rater for one in figures if one.systems == 1]
    if lone and len({system for d in documents for system in d.ratings.get(dimension, ())}) > 1:
        names = ", ".join(lone[:5]) + ("" if len(lone) <= 5 else f" and {len(lone) - 5} more")
        say(
            f"warning: {dimension}: {names} rated one system only: how strict they are cannot be told from how good "
            "it is"
        )


def _checked_unit(unit: str | int) -> str | int:
    if unit != "auto":
        segments_of_unit(unit)
    return unit


@settings
class CompareOptions:
    """What is compared.

    Args:
        columns: which column of a table, or key of JSON lines, is which key, such as systems=outputs.
        input: systems files, each with a document per line, or folders of mt-metrics-eval; of several, each is
            compared, and means are added.
        metric: metrics by name or signature; none to compare systems by human scores alone.
        human: keys that hold human scores, such as mqm:lower; beside --hypotheses files with a column of scores for
            each system, such as mqm.csv:lower.
        references: the references that metrics read, by name, all if not given; for --hypotheses and tables of
            ratings, which have none, their files.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
        draws: how many times the randomisation and the bootstrap draw.
        seed: of the draws.
        level: of significance; intervals cover the rest.
        unit: what draws take: document, segment, how many successive segments of a document, or auto, documents
            unless these are so few that nothing could be significant.
        correction: of p for the number of pairs: none, holm or fdr.
        decoded: files that decode or rerank wrote of the same documents; each is one more system, with the human
            scores of the systems whose texts it has.
        baseline: a system, or its file, from which the differences of all others are shown, with p.
        segment_scores: a file for a row per segment and system, CSV, Parquet or Arrow if its name ends so, else
            JSONL.
        document_scores: the same for documents.
        details: print all tables too: tests of every pair, agreement with people by all measures.
        save: a folder for texts, scores and tests, from which discorank report makes a page.
        format: what is printed.
    """

    input: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()
    human: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    draws: Annotated[int, Field(ge=1), Rare()] = DRAWS
    seed: Annotated[int, Field(ge=0), Rare()] = 0
    level: Annotated[float, Field(gt=0, lt=1), Rare()] = 0.05
    unit: Annotated[str | int, Checked(_checked_unit)] = "auto"
    correction: Correction = "none"
    decoded: tuple[str, ...] = ()
    baseline: str | None = None
    segment_scores: str | None = None
    document_scores: str | None = None
    details: bool = False
    save: str | None = None
    format: Format = "table"


class SetReading(NamedTuple):
    """How a set of systems is read and compared."""

    options: CompareOptions
    people: PeopleOptions
    input_format: str
    mqm_weights: tuple[str, ...]
    are_files: bool  # of texts by line
    cache: Cache | None

    def reference_files(self, path: str) -> tuple[str, ...]:
        """The files among --references; none where the format of the input has references of its own, by name."""
        if self.are_files or os.path.isdir(path):
            return ()
        format = format_of(recognised_documents(path, self.input_format))
        if "references" not in format.options:
            return ()
        return tuple(name for name in self.options.references if os.path.isfile(name))

    def reference_names(self, path: str) -> list[str]:
        """The names of the references that metrics read, those of files without their endings; none for all."""
        if self.are_files:  # which have been read
            return []
        files = self.reference_files(path)
        return [
            Path(name.removesuffix(".gz")).stem if name in files else name
            for name in self.options.references
        ]


class SetPlace(NamedTuple):
    """Where the systems of a set are."""

    path: str
    name: str
    language_pair: str | None = None
    outputs: AlignedOutputs | None = None  # of files of texts by line, in place of the path


def set_places(
    paths: Sequence[str], input_format: str, language_pairs: tuple[str, ...]
) -> list[SetPlace]:
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
        is_folder = input_format in ("systems", "mtme") and is_eval_set_folder(path)
        named: tuple[str | None, ...] = language_pairs or (None,)
        pairs = pairs_of(path, language_pairs) if is_folder else named
        for pair in pairs:
            places.append(SetPlace(path, name if len(pairs) == 1 else f"{name} {pair}", pair))
    return places


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
    """Raises InputError where files hold texts or lists instead of documents."""
    for path in paths if form == "systems" else ():
        kind = _kind(path)
        # of one file of candidate lists its reader says more
        is_known = kind in (None, "systems") or (kind == "jsonl" and len(paths) == 1)
        if not is_known and recognised_documents(path) == form:
            problem = f"found {about_kind(str(kind))}, expected a systems file"
            fix = "Compare files of texts with --hypotheses FILE ... --references FILE"
            raise InputError(problem, where=path, fix=fix)


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


def compare_set(
    place: SetPlace, metrics: Sequence[Utility], keys: tuple[HumanKey, ...], how: SetReading
) -> SystemComparison:
    """One systems file; errors name it."""
    options, judged = how.options, how.people.judged
    documents = _read_documents(place, may_lack(keys, judged), how)
    ids_unknown = place.outputs is not None and not place.outputs.has_documents
    unit = (
        segment_unit(options.unit)
        if ids_unknown
        else unit_of(options.unit, len(documents), options.level)
    )
    try:
        if references := how.reference_names(place.path):
            documents = with_references(documents, references)
        documents = with_judgements(documents, keys, judged)
        decoded = [DecodedRun.read(path) for path in options.decoded]
        for run in decoded:
            documents = with_chosen(run.source, documents, run.name)
        baseline = baseline_of(options.baseline, place.outputs, list(documents[0].systems))
        human = human_dimensions(documents, keys)
        doubts = [doubtful_direction(*one, documents) for one in human]
        for doubt in filter(None, doubts):
            say(f"warning: {doubt}")
        fitted = [fitted_to_references(metric, documents) for metric in metrics]
        comparison = _compare_systems(fitted, documents, human, place.path, unit, how)
    except InputError as error:
        raise error.inside(place.path) from error
    remarks = _remarks(comparison, unit, options.level)
    for remark in (*remarks, *_remarks_on_decoded(comparison, decoded)):
        say(remark)
    if unit != "document" and not ids_unknown:
        say(NOT_INDEPENDENT)
    more: dict[str, Any] = {"ids_unknown": True} if ids_unknown else {}
    if baseline is not None:
        more["baseline"] = baseline
    return replace(
        comparison,
        settings={**comparison.settings, **more},
        people=people_of(documents, human, raters=how.people.raters),
    )


def _read_documents(
    place: SetPlace, keys: tuple[HumanKey, ...], how: SetReading
) -> list[DocumentOutputs]:
    """The documents of a systems file, or of files of outputs, at least one."""
    options = SystemsOptions(keys, how.options.as_systems, how.options.include)
    source: NumberedLines
    if place.outputs is not None:
        source = DocumentRows(place.path, iter(place.outputs.rows))
    else:
        source = open_documents(
            place.path,
            how.input_format,
            language_pair=place.language_pair,
            columns=how.options.columns,
            mqm_weights=how.mqm_weights,
            references=how.reference_files(place.path),
        )
    documents = list(read_documents(source, options))
    if not documents:
        raise InputError("no documents", where=source.name, fix="Give at least one line")
    return documents


def _compare_systems(
    metrics: Sequence[Utility],
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    path: str,
    unit: str | int,
    how: SetReading,
) -> SystemComparison:
    """The systems under every metric, while progress is shown."""
    options, meter = how.options, Meter()
    num_readings = len(documents) * sum(len(metric.parts) for metric in metrics)
    with (
        Counted("documents", num_readings) as reading,
        Counted("draws", options.draws * len(metrics)) as drawing,
    ):
        comparison = compare_systems(
            metrics,
            documents,
            human,
            input=path,
            draws=options.draws,
            seed=options.seed,
            level=options.level,
            unit=unit,
            correction=options.correction,
            cache=how.cache,
            reading=reading.more,
            drawing=drawing.more,
            meter=meter,
        )
    if judged := judged_line(meter.now):
        say(judged)
    return comparison


def _remarks(comparison: SystemComparison, unit: str | int, level: float) -> list[str]:
    """Notes for the reader of a comparison."""
    remarks = []
    scores = comparison.scores
    for m, verdicts in enumerate(comparison.metrics):
        name = verdicts.name
        if verdicts.cuts:
            remarks.append(
                f"{name}: {verdicts.cuts} texts were too long, and not all of them was read"
            )
        lacking = int(np.isnan(scores.segments[m]).sum()) if scores.has_segments(m) else 0
        if lacking:
            remarks.append(f"{name}: {lacking} texts have no score, and are left out of means")
        if unit != verdicts.unit == "document":
            remarks.append(f"{name}: scores whole documents, which its draws take")
    if len(comparison.systems) > 1:
        remarks += too_few(comparison.metrics, level)
    return remarks


def too_few(verdicts: Sequence[Verdicts], level: float) -> list[str]:
    """Warnings of draws of so few units that exchanging them cannot give a p below the level."""
    counts = dict.fromkeys((v.units or 0, v.unit) for v in verdicts)
    few = [(units, unit) for units, unit in counts if least_p(units) >= level]
    return [
        f"warning: with {units} units (by {unit}) no p is below {least_p(units):g}, and none is significant; "
        + (
            "give more segments"
            if unit == "segment"
            else "give more documents, or smaller units: --unit"
        )
        for units, unit in few
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
    return frozenset(call.name for call in calls if not call.inner)


def check_decoded(paths: Sequence[str], has_scores: bool, num_sets: int) -> None:
    """Raises InputError for a decoded file that is given twice, or with several systems files or WMT's statistics."""
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
    scores = comparison.scores
    for run in decoded:
        for metric in comparison.metrics:
            if run.metrics & _metric_names(metric.name):
                about = f"{run.name} was decoded with {metric.name}"
                yield f"warning: {about}, whose scores of {run.name} are therefore too good"
        for h, human in enumerate(comparison.human, len(comparison.metrics)):
            known = ~np.isnan(scores.segments[h])
            name = human.scores.name
            if run.name not in human.scores.systems:
                yield f"warning: {run.name} has no score in {name}"
            elif lacking := int((known.any(axis=0) & ~known[scores.systems.index(run.name)]).sum()):
                about = f"{run.name} has no score in {name} for {lacking} segments"
                yield f"{about}, in which no judged system has its text"
