"""``discorank compare SYSTEMS -m METRIC ...``: which system is best, how sure that is, which metrics to believe.

In place of SYSTEMS, ``--hypotheses FILE ... --references FILE`` names texts by line.

This module reads and checks the options, has every systems file compared and saved, and prints them: the answer, in the
words of the page of ``discorank report``, or the tables that say all, as text, Markdown, LaTeX, CSV or JSON. It writes
a row per segment or document for ``--segment-scores`` and ``--document-scores``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.score_columns import split_direction
from ....integrations.formats.system_texts import OutputFiles
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.representations import FloatArray
from ....metrics.spec.checked_settings import Checked, Field, Rare, settings
from ....printable import printable
from ....report.compared_texts import answer_lines
from ....report.comparison_tables import agreement_table, comparison_tables
from ....rerank.runs.row_forms import as_line
from ....rerank.selection.comparison import (
    MetaEvaluation,
    SystemComparison,
    clean,
    mean_agreements,
)
from ....rerank.selection.kept_comparison import check_folder, save
from ....rerank.selection.significance import Correction, segments_of_unit
from ....rerank.selection.statistics import DRAWS
from ....tables import Format, Table, comma_separated, of_set, printed, shown
from ...options import Options, build, needed
from ...options.metric_options import CodeOptions, JudgeOptions, MetricOptions, check_references
from ...options.system_outputs import EvalSetReading, EvalSetTexts, OutputFileOptions
from ...running import check_not_input, complete_rows
from .compared_sets import (
    ComparedSet,
    SetPlace,
    check_decoded,
    check_systems_files,
    checked_files,
    compare_set,
    output_place,
    set_places,
)
from .people import PeopleOptions
from .wmt_task import TaskOptions, has_metric_scores, only_folder, run_statistics, run_task_set


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


OPTIONS = Options(
    "compare",
    "Compare systems, with significance tests and human scores. Tables go to stdout.",
    [
        CompareOptions,
        OutputFileOptions,
        PeopleOptions,
        EvalSetTexts,
        EvalSetReading,
        TaskOptions,
        MetricOptions,
    ],
    positional={"input": "*"},
    short={"metric": "m"},
    first=["input", "metric", "human", "hypotheses", "references", "save"],
    examples=[
        "compare examples:systems.jsonl -m chrf bleu --human mqm:lower",
        "compare --hypotheses examples:beam.txt examples:mbr.txt --references examples:ref.txt -m chrf",
        "compare examples:systems.jsonl -m chrf --save compared --quiet",
    ],
)


class _Inputs(NamedTuple):
    """The inputs of a comparison, its metrics, and where it is saved."""

    places: list[SetPlace]
    metrics: list[Utility]
    folders: list[Path]  # of the sets, none if nothing is saved
    keys: tuple[HumanKey, ...]


def _names(*components: type) -> frozenset[str]:
    return frozenset(field.name for component in components for field in fields(component))


# the options that each mode reads; those that `checked_files` and `check_decoded` refuse are among them
_SHARED = _names(CodeOptions, JudgeOptions) | {
    "input",
    "metric",
    "format",
    "level",
    "seed",
    "decoded",
}
_ALL = _names(
    CompareOptions, OutputFileOptions, PeopleOptions, EvalSetTexts, EvalSetReading, TaskOptions
)
_TESTED = _names(CompareOptions, PeopleOptions) | _SHARED | {"statistics"}
_TASK = _names(EvalSetReading) | _SHARED | {"statistics", "task_draws", "language_pair"}
_WMT = {"with_human", "with_outliers", "domain", "nan_as_zero", "human", "input_format"}
MODES: Mapping[str, frozenset[str]] = {
    "--tasks": _TASK | {"tasks", "every_task", "main_reference"},
    "--statistics wmt": _TASK | _WMT | {"main_reference"},
    "--hypotheses": (_TESTED | _names(OutputFileOptions)) - {"columns", "include"},
    "systems files": _TESTED | {"input_format", "language_pair", "mqm_weights"},
}


def mode_of(values: Mapping[str, Any]) -> str:
    """The mode that the options ask for."""
    if values["tasks"]:
        return "--tasks"
    if values["statistics"] == "wmt":
        return "--statistics wmt"
    return "--hypotheses" if values["hypotheses"] else "systems files"


def run(arguments: Sequence[str]) -> int:
    """Compares; returns the exit code."""
    values = OPTIONS.parse(arguments)
    files = checked_files(values)
    mode = mode_of(values)
    given = OPTIONS.given(values)
    given.refuse(
        _ALL - MODES[mode], f"has no effect beside {mode}", "Leave it out, or run it by itself"
    )
    paths = needed(values["input"], "input", "SYSTEMS") if files is None else files.paths
    inputs = _checked_inputs(paths, files, values)
    if files is not None and not values["references"]:
        check_references(inputs.metrics)
    if values["tasks"]:
        return run_task_set(only_folder(paths), inputs.metrics, values)
    if values["statistics"] == "wmt":
        return run_statistics(inputs.places, inputs.metrics, values)
    if files is not None:
        # what --references names are files, which have been read
        values = {**values, "references": ()}
    sets = [compare_set(place, inputs.metrics, inputs.keys, values) for place in inputs.places]
    write_scores(values["segment_scores"], segment_rows, sets)
    write_scores(values["document_scores"], document_rows, sets)
    for folder, compared in zip(inputs.folders, sets, strict=False):
        save(compared.kept, folder)
    if values["format"] == "table" and not values["details"]:
        sys.stdout.write(answered(sets))
    else:
        sys.stdout.write(printed_sets(sets, values["format"]))
    return 0


def _checked_inputs(
    paths: Sequence[str], files: OutputFiles | None, values: Mapping[str, Any]
) -> _Inputs:
    """The inputs that the options name; raises InputError where they do not fit together, before documents are read."""
    if files is None and not values["tasks"]:
        # before --metric is asked for: for files of texts it is not all that is missing
        check_systems_files(paths, values["input_format"])
    has_scores = has_metric_scores(values)
    without_metric = has_scores or values["human"] or (files is not None and files.human)
    specs = values["metric"] if without_metric else needed(values["metric"], "metric")
    metrics = build(MetricOptions, values).load_all(specs)
    _check_once(metrics)
    check_decoded(values, has_scores, len(paths) if files is None else 1)
    _check_outputs(paths, values)
    places = _places(paths, files, values)
    folders = _folders(values, [place.name for place in places])
    named = values["human"] if files is None else [split_direction(f)[1] for f in files.human]
    keys = tuple(map(HumanKey.read, named))
    return _Inputs(places, metrics, folders, keys)


def _places(
    paths: Sequence[str], files: OutputFiles | None, values: Mapping[str, Any]
) -> list[SetPlace]:
    """The sets."""
    if values["tasks"]:
        return []
    if files is not None:
        return [output_place(files)]
    return set_places(paths, values)


def _check_once(metrics: Sequence[Utility]) -> None:
    """Raises InputError for a metric that is named twice."""
    repeated = [metric.signature() for i, metric in enumerate(metrics) if metric in metrics[:i]]
    if repeated:
        raise InputError(
            f"{repeated[0]} is given twice", where="--metric", fix="Give each metric once"
        )


def _check_outputs(paths: Sequence[str], values: Mapping[str, Any]) -> None:
    """Raises InputError where a file of scores is an input, or segments and documents go into one file."""
    outputs = [values["segment_scores"], values["document_scores"]]
    for output in outputs:
        check_not_input(output, [*paths, *values["decoded"]])
    if None not in outputs and outputs[0] == outputs[1]:
        raise InputError(
            "is named twice", where=outputs[0], fix="Give segments and documents a file each"
        )


def _folders(values: Mapping[str, Any], names: Sequence[str]) -> list[Path]:
    """Where every set is saved, if at all: of several, each in a folder of its own.

    Raises:
        InputError: there is nothing to save, or something else stands there.
    """
    if values["save"] is None:
        return []
    if not values["save"]:
        raise InputError("is empty", where="--save", fix="Name a folder")
    if not values["metric"]:
        problem = "a report needs at least one metric"
        raise InputError(problem, where="--save", fix="Give --metric")
    parent = Path(values["save"])
    folders = [parent] if len(names) == 1 else [parent / name.replace("/", "_") for name in names]
    for folder in folders:
        check_folder(folder)
    return folders


MORE = "--details prints the tests of every pair and agreement with people by all measures"


def answered(sets: Sequence[ComparedSet]) -> str:
    """The answer for every set, and the means over several."""
    parts = []
    for compared in sets:
        lines = [] if len(sets) == 1 else [printable(compared.name), ""]
        lines += [*answer_lines(compared.kept), MORE]
        if compared.people:
            lines += ["", shown(compared.people, "table").rstrip("\n")]
        parts.append("\n".join(lines).rstrip("\n") + "\n")
    if len(sets) > 1:
        parts.append(shown(mean_tables(sets), "table"))
    return "\n".join(part for part in parts if part)


def printed_sets(sets: Sequence[ComparedSet], format: Format) -> str:
    """All tables of the sets, and the means over several."""
    tables: list[Table] = []
    for compared in sets:
        of_this = [Table("", (), [compared.settings], "settings")]
        of_this += [*comparison_tables(compared.kept), *compared.people]
        tables += of_this if len(sets) == 1 else of_set(compared.name, of_this)
    return printed(tables if len(sets) == 1 else [*tables, *mean_tables(sets)], format)


def mean_tables(sets: Sequence[ComparedSet]) -> list[Table]:
    """The means of metrics against people, if there are any."""
    by_system, by_segment = [], []
    for mean in mean_agreements([compared.systems for compared in sets]):
        key = {"metric": mean.metric, "human": mean.human, "sets": mean.sets}
        by_system.append({**key, "by": "system", **mean.systems._asdict()})
        by_segment.append({**key, "by": "segment", **mean.segments._asdict()})
    tables = []
    if by_system:
        about = "Metrics against people"
        tables = [
            agreement_table(f"{about}: means over sets", by_system, means=True),
            agreement_table(
                f"{about}, segments or documents: means over sets", by_segment, means=True
            ),
        ]
    return tables


def write_scores(
    path: str | None,
    rows_of: Callable[[SystemComparison], Iterator[dict[str, Any]]],
    sets: Sequence[ComparedSet],
) -> None:
    """Writes the rows of all sets, with the set's name where there are several; CSV if the path ends so."""
    if path is None:
        return
    with complete_rows(path) as file:
        file.writelines(score_lines(_rows_of_sets(sets, rows_of), path.endswith(".csv")))


def _rows_of_sets(
    sets: Sequence[ComparedSet], rows_of: Callable[[SystemComparison], Iterator[dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    for compared in sets:
        for row in rows_of(compared.systems):
            yield {"set": compared.name, **row} if len(sets) > 1 else row


def segment_rows(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per segment and system: what each metric of segments gives, and the human scores there are."""
    column = 0  # of the segment among those of all documents
    for document in comparison.documents:
        for i in range(document.segments):
            for s, system in enumerate(comparison.systems):
                yield {
                    "document": document.id,
                    "segment": i,
                    "system": system,
                    "scores": {
                        scored.name: clean(scored.segments[s, column])
                        for scored in comparison.scored
                        if scored.segments is not None
                    },
                    "human": {
                        meta.human.name: _human_score(meta, meta.human.segments, system, column)
                        for meta in comparison.meta
                    },
                }
            column += 1


def document_rows(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per document and system: each metric's corpus score of the document, and the human scores there are."""
    names = [scored.name for scored in comparison.scored]
    scores = [scored.document_scores() for scored in comparison.scored]
    human_scores = [meta.human.document_scores() for meta in comparison.meta]
    for d, document in enumerate(comparison.documents):
        for s, system in enumerate(comparison.systems):
            own_scores = [clean(values[s, d]) for values in scores]
            yield {
                "document": document.id,
                "system": system,
                "scores": dict(zip(names, own_scores, strict=True)),
                "human": {
                    meta.human.name: _human_score(meta, values, system, d)
                    for meta, values in zip(comparison.meta, human_scores, strict=True)
                },
            }


def _human_score(
    meta: MetaEvaluation,
    scores: FloatArray | None,  # [judged systems, segments or documents]
    system: str,
    column: int,
) -> float | None:
    """The score of a system that people judged, None of another or where there are no scores."""
    names = meta.human.systems
    if scores is None or system not in names:
        return None
    return clean(scores[names.index(system), column])


def score_lines(rows: Iterator[dict[str, Any]], as_csv: bool) -> Iterator[bytes]:
    """Rows of scores, whose keys may differ between sets, as JSON lines or as CSV (human scores as ``human:NAME``)."""
    if not as_csv:
        yield from map(as_line, rows)
        return
    flat_rows = []
    for row in rows:
        scores, human = row.pop("scores"), row.pop("human")
        columns_of_people = {f"human:{name}": value for name, value in human.items()}
        flat_rows.append({**row, **scores, **columns_of_people})
    head = list(dict.fromkeys(key for row in flat_rows for key in row))
    cells = [[row.get(key) for key in head] for row in flat_rows]
    yield comma_separated(head, cells).encode()
