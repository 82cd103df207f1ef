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
from typing import Any

import numpy as np

from ....integrations.formats.human_scores import HumanKey
from ....integrations.formats.score_columns import split_direction
from ....integrations.formats.wmt.eval_set_folder import EvalSetOptions
from ....metrics.errors import InputError
from ....metrics.mixture import Utility
from ....metrics.representations import FloatArray
from ....printable import printable
from ....report.compared_texts import answer_lines
from ....report.comparison_tables import agreement_table, comparison_tables, people_tables
from ....rerank.runs.resumable import as_line
from ....rerank.selection.comparison import SystemComparison, mean_agreements
from ....rerank.selection.saved_comparison import check_folder, save
from ....rerank.selection.statistics import clean
from ....tables import Format, Table, comma_separated, of_set, printed, shown
from ...options import Given, command, needed
from ...options.decoders import MetricOptions, check_references
from ...options.system_outputs import EvalSetTexts, OutputFileOptions
from ...running import check_not_input, complete_rows
from .compared_sets import (
    CompareOptions,
    PeopleOptions,
    SetPlace,
    SetReading,
    check_decoded,
    check_systems_files,
    compare_set,
    output_place,
    set_places,
)
from .wmt_task import (
    TaskOptions,
    TaskReading,
    only_folder,
    statistics_tables,
    task_set_tables,
)

MORE = "--details prints the tests of every pair and agreement with people by all measures"


def _names(*components: type) -> frozenset[str]:
    return frozenset(field.name for component in components for field in fields(component))


# the options that each mode reads
_ALL = _names(
    CompareOptions, OutputFileOptions, PeopleOptions, EvalSetTexts, EvalSetOptions, TaskOptions
)
_SHARED = {"input", "metric", "format", "level", "seed", "decoded", "statistics"}
_TESTED = _names(CompareOptions, PeopleOptions) | _SHARED
_TASK = _names(EvalSetOptions) | _SHARED | {"task_draws", "language_pair"}
_WMT = {"with_human", "with_outliers", "human", "input_format"}
_OF_FILES = _names(OutputFileOptions) - {"references"}
MODES: Mapping[str, frozenset[str]] = {
    "--tasks": _TASK | {"tasks", "every_task"},
    "--statistics wmt": _TASK | _WMT,
    "--hypotheses": (_TESTED | _OF_FILES) - {"columns", "include", "statistics"},
    "systems files": _TESTED | {"input_format", "language_pair", "mqm_weights"},
}


@command(
    "Compare systems, with significance tests and human scores. Tables go to stdout.",
    positional={"input": "*"},
    short={"metric": "m"},
    first=["input", "metric", "human", "hypotheses", "references", "save"],
    examples=[
        "compare examples:systems.jsonl -m chrf bleu --human mqm:lower",
        "compare --hypotheses examples:beam.txt examples:mbr.txt --references examples:ref.txt -m chrf",
        "compare examples:systems.jsonl -m chrf --save compared --quiet",
    ],
)
def compare(
    options: CompareOptions,
    outputs: OutputFileOptions,
    people: PeopleOptions,
    texts: EvalSetTexts,
    reading: EvalSetOptions,
    tasks: TaskOptions,
    loading: MetricOptions,
    given: Given,
) -> None:
    """Compares."""
    files = outputs.named(next(iter(options.input), None), options.human)
    mode = "systems files"
    if files is not None:
        mode = "--hypotheses"
    elif tasks.have_scores:
        mode = "--tasks" if tasks.tasks else "--statistics wmt"
    fix = "Leave it out, or run it by itself"
    given.refuse(_ALL - MODES[mode], f"has no effect beside {mode}", fix)
    paths = needed(options.input, "input", "SYSTEMS") if files is None else files.paths
    if mode == "systems files":
        # before --metric is asked for: for files of texts it is not all that is missing
        check_systems_files(paths, tasks.input_format)
    may_be_none = tasks.have_scores or bool(options.human)
    specs = options.metric if may_be_none else needed(options.metric, "metric")
    metrics = loading.load_all(specs)
    if files is not None and not outputs.references:
        check_references(metrics)
    check_decoded(options.decoded, tasks.have_scores, len(paths))
    cache = loading.cache()
    task = TaskReading(
        tasks, texts, reading, options.human, metrics, cache, options.level, options.seed
    )
    if tasks.tasks:
        tables = task_set_tables(only_folder(paths), tasks.tasks, task)
        sys.stdout.write(printed(tables, options.format))
        return
    if files is not None:
        places = [output_place(files)]
    else:
        places = set_places(paths, tasks.input_format, texts.language_pair)
    if tasks.statistics == "wmt":
        sys.stdout.write(printed(statistics_tables(places, task), options.format))
        return
    how = SetReading(
        options, people, tasks.input_format, texts.mqm_weights, files is not None, cache
    )
    named = options.human if files is None else [split_direction(f)[1] for f in files.human]
    _compare_sets(paths, places, metrics, tuple(map(HumanKey.read, named)), how)


def _compare_sets(
    paths: Sequence[str],
    places: Sequence[SetPlace],
    metrics: Sequence[Utility],
    keys: tuple[HumanKey, ...],
    how: SetReading,
) -> None:
    """Compares the systems of every set, saves what is to be saved, and prints the answer or all tables."""
    options = how.options
    _check_outputs(paths, options)
    folders = _folders(options, [place.name for place in places])
    sets = {place.name: compare_set(place, metrics, keys, how) for place in places}
    write_scores(options.segment_scores, segment_rows, sets)
    write_scores(options.document_scores, document_rows, sets)
    for folder, comparison in zip(folders, sets.values(), strict=False):
        save(comparison, folder)
    is_answer = options.format == "table" and not options.details
    sys.stdout.write(answered(sets) if is_answer else printed_sets(sets, options.format))


def _check_outputs(paths: Sequence[str], options: CompareOptions) -> None:
    """Raises InputError where a file of scores is an input, or segments and documents go into one file."""
    outputs = [options.segment_scores, options.document_scores]
    for output in outputs:
        check_not_input(output, [*paths, *options.decoded])
    if None not in outputs and outputs[0] == outputs[1]:
        fix = "Give segments and documents a file each"
        raise InputError("is named twice", where=str(outputs[0]), fix=fix)


def _folders(options: CompareOptions, names: Sequence[str]) -> list[Path]:
    """Where every set is saved, if at all: of several, each in a folder of its own.

    Raises:
        InputError: there is nothing to save, or something else stands there.
    """
    if options.save is None:
        return []
    if not options.save:
        raise InputError("is empty", where="--save", fix="Name a folder")
    if not options.metric:
        problem = "a report needs at least one metric"
        raise InputError(problem, where="--save", fix="Give --metric")
    parent = Path(options.save)
    folders = [parent] if len(names) == 1 else [parent / name.replace("/", "_") for name in names]
    for folder in folders:
        check_folder(folder)
    return folders


def answered(sets: Mapping[str, SystemComparison]) -> str:
    """The answer for every set, and the means over several."""
    parts = []
    for name, comparison in sets.items():
        lines = [] if len(sets) == 1 else [printable(name), ""]
        lines += [*answer_lines(comparison), MORE]
        if people := people_tables(comparison):
            lines += ["", shown(people, "table").rstrip("\n")]
        parts.append("\n".join(lines).rstrip("\n") + "\n")
    if len(sets) > 1:
        parts.append(shown(mean_tables(sets), "table"))
    return "\n".join(part for part in parts if part)


def printed_sets(sets: Mapping[str, SystemComparison], format: Format) -> str:
    """All tables of the sets, and the means over several."""
    tables: list[Table] = []
    for name, comparison in sets.items():
        sizes = comparison.scores.sizes
        settings = {**comparison.settings, "documents": len(sizes), "segments": sum(sizes)}
        of_this = [Table("", (), [settings], "settings"), *comparison_tables(comparison)]
        tables += of_this if len(sets) == 1 else of_set(name, of_this)
    return printed(tables if len(sets) == 1 else [*tables, *mean_tables(sets)], format)


def mean_tables(sets: Mapping[str, SystemComparison]) -> list[Table]:
    """The means of metrics against people, if there are any."""
    by_system, by_segment = [], []
    for mean in mean_agreements(list(sets.values())):
        key = {"metric": mean.metric, "human": mean.human, "sets": mean.sets}
        by_system.append({**key, "by": "system", **vars(mean.systems)})
        by_segment.append({**key, "by": "segment", **vars(mean.segments)})
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
    sets: Mapping[str, SystemComparison],
) -> None:
    """Writes the rows of all sets, with the set's name where there are several; CSV if the path ends so."""
    if path is None:
        return
    rows = (
        {"set": name, **row} if len(sets) > 1 else row
        for name, comparison in sets.items()
        for row in rows_of(comparison)
    )
    with complete_rows(path) as file:
        file.writelines(score_lines(rows, path.endswith(".csv")))


def segment_rows(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per segment and system: what each metric of segments gives, and the human scores there are."""
    scores = comparison.scores
    metrics = [m for m in range(len(comparison.metrics)) if scores.has_segments(m)]
    places = [
        (d, i) for d, document in enumerate(comparison.documents) for i in range(document.segments)
    ]
    for (d, i), table in zip(places, np.moveaxis(scores.segments, 2, 0), strict=True):
        key = {"document": comparison.documents[d].id, "segment": i}
        yield from _rows_of_unit(comparison, key, metrics, table)


def document_rows(comparison: SystemComparison) -> Iterator[dict[str, Any]]:
    """A row per document and system: each metric's corpus score of the document, and the human scores there are."""
    tables = np.moveaxis(comparison.scores.documents, 2, 0)
    metrics = range(len(comparison.metrics))
    for document, table in zip(comparison.documents, tables, strict=True):
        yield from _rows_of_unit(comparison, {"document": document.id}, metrics, table)


def _rows_of_unit(
    comparison: SystemComparison, key: Mapping[str, Any], metrics: Sequence[int], table: FloatArray
) -> Iterator[dict[str, Any]]:
    """The rows of one segment or document from its scores [layers, systems]."""
    names = comparison.scores.layers
    people = range(len(comparison.metrics), len(names))
    for s, system in enumerate(comparison.systems):
        scores = {names[m]: clean(table[m, s]) for m in metrics}
        human = {names[h]: clean(table[h, s]) for h in people}
        yield {**key, "system": system, "scores": scores, "human": human}


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
