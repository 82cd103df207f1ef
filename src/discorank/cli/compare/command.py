"""``discorank compare SYSTEMS -m METRIC ...``: which system is best, how sure that is, which metrics to believe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.systems import SystemsOptions, read_documents
from ...metrics.errors import InputError
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import settings
from ...metrics.text.line_source import LineSource
from ...rerank.selection.comparison import SystemComparison, compare_systems
from ...rerank.selection.comparison_folder import KeptTable, check_folder, kept, save
from ...rerank.selection.document_outputs import DocumentOutputs, with_references
from ...rerank.selection.resampling_units import segments_of_unit
from ...rerank.selection.significance import Correction
from ...rerank.selection.statistics import DRAWS
from ..console import Counted, say
from ..inputs import cache_in, check_model, metric_in
from ..options import Options, needed
from ..running import check_not_input, complete_or_absent
from .chooser_runs import ChooserOptions, check_decoded, compared_choosers, prepared
from .chooser_tables import choosers_tables
from .sets import Compared, rendered
from .system_tables import document_rows, score_file, segment_rows, too_few


def _unit(given: str | int) -> str | int:
    segments_of_unit(given)
    return given


@settings
class CompareOptions:
    """What is compared.

    Args:
        input: systems files, each with a document per line; of several, each is compared, and means are added.
        metric: metrics by name or signature.
        human: keys that hold human scores, such as mqm:lower.
        references: the references that metrics read, by name; all if not given.
        as_systems: references to treat as systems.
        include: further keys that hold systems.
        draws: how many times the randomisation and the bootstrap draw.
        seed: of the draws.
        level: of significance; intervals cover the rest.
        unit: what draws take: document, segment, or how many successive segments of a document.
        correction: of p for the number of pairs: none, holm or fdr.
        segment_scores: a file for a row per segment and system, CSV if its name ends so, else JSONL.
        document_scores: the same for documents.
        save: a folder for texts, scores and tests, from which discorank report makes a page.
        format: what is printed.
    """

    input: tuple[str, ...] = ()
    metric: tuple[str, ...] = ()
    human: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    as_systems: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    draws: Annotated[int, Field(ge=1)] = DRAWS
    seed: Annotated[int, Field(ge=0)] = 0
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    unit: Annotated[str | int, AfterValidator(_unit)] = "document"
    correction: Correction = "none"
    segment_scores: str | None = None
    document_scores: str | None = None
    save: str | None = None
    format: Literal["table", "markdown", "latex", "csv", "json"] = "table"


OPTIONS = Options(
    "compare",
    "Compare whole systems, and what chooses among their outputs. Tables go to stdout.",
    [CompareOptions, ChooserOptions],
    positional={"input": "*"},
    short={"metric": "m"},
)


def run(arguments: Sequence[str]) -> int:
    """Compares; returns the exit code."""
    values = OPTIONS.parse(arguments)
    paths = needed(values, "input", "SYSTEMS")
    names = _names(paths)
    choosing = bool(values["choosers"] or values["decoded"])
    specs = values["metric"] if choosing else needed(values, "metric", "--metric")
    metrics = [metric_in(values, spec) for spec in specs]
    choosers = [metric_in(values, spec) for spec in values["choosers"]]
    check_model(values, [*metrics, *choosers])
    for flag, given in (("--metric", metrics), ("--choosers", choosers)):
        if twice := [one.signature() for i, one in enumerate(given) if one in given[:i]]:
            raise InputError(f"{twice[0]} is given twice", where=flag, fix="Give each metric once")
    check_decoded(values, len(paths) > 1)
    outputs = [values["segment_scores"], values["document_scores"]]
    for output in outputs:
        check_not_input(output, [*paths, *values["decoded"]])
    if None not in outputs and outputs[0] == outputs[1]:
        raise InputError(
            "is named twice", where=outputs[0], fix="Give segments and documents a file each"
        )
    folders = _folders(values, names)
    keys = tuple(map(HumanKey.read, values["human"]))
    found = [
        _set(path, name, metrics, choosers, keys, values)
        for path, name in zip(paths, names, strict=True)
    ]
    if values["unit"] != "document":
        say(
            "warning: segments of one document are not independent: p is too small, intervals are too narrow",
            values["quiet"],
        )
    _write(values["segment_scores"], segment_rows, found)
    _write(values["document_scores"], document_rows, found)
    _save(folders, found, values)
    sys.stdout.write(rendered(found, values["format"], values["level"], values["correction"]))
    return 0


def _names(paths: Sequence[str]) -> list[str]:
    """The names of the sets: of their files, with folders where two are alike."""
    if twice := [path for i, path in enumerate(paths) if path in paths[:i]]:
        raise InputError("is given twice", where=twice[0], fix="Give each systems file once")
    short = [Path(path.removesuffix(".gz")).stem for path in paths]
    return short if len(set(short)) == len(short) else list(paths)


def _folders(values: Mapping[str, Any], names: Sequence[str]) -> list[Path]:
    """Where every set is saved, if at all: of several, each in a folder of its own.

    Raises:
        InputError: there is nothing to save, or something else stands there.
    """
    if not values["save"]:
        return []
    if not values["metric"]:
        raise InputError("systems are compared by no metric", where="--save", fix="Give --metric")
    whole = Path(values["save"])
    folders = [whole] if len(names) == 1 else [whole / name.replace("/", "_") for name in names]
    for folder in folders:
        check_folder(folder)
    return folders


def _save(folders: Sequence[Path], several: Sequence[Compared], values: Mapping[str, Any]) -> None:
    """Writes every set into its folder."""
    settings = {name: values[name] for name in ("level", "draws", "seed", "unit", "correction")}
    for folder, one, path in zip(folders, several, values["input"], strict=False):
        if one.systems is not None:
            tables = (
                []
                if one.choosers is None
                else choosers_tables(one.choosers, values["level"], values["correction"])
            )
            shown = [
                KeptTable(table.title, tuple(table.head), tuple(map(tuple, table.rows)))
                for table in tables
            ]
            save(kept(one.systems, {"input": path, **settings}, shown), folder)


def _set(
    path: str,
    name: str,
    metrics: Sequence[Utility],
    choosers: Sequence[Utility],
    keys: tuple[HumanKey, ...],
    values: Mapping[str, Any],
) -> Compared:
    """One systems file; errors name it."""
    documents = _documents(path, values, keys)
    try:
        if values["references"]:
            documents = with_references(documents, values["references"])
        human = _dimensions(documents, keys)
        work = prepared(documents, human, values)
        fitted = [_fitted(metric, documents) for metric in metrics]
        found = _compared(fitted, documents, human, values) if fitted else None
        deciding = [_fitted(metric, documents) for metric in choosers]
        chosen = compared_choosers(work, deciding, fitted, human, values) if work else None
    except InputError as error:
        raise error.inside(path) from error
    if found is not None:
        _tell(found, values)
    return Compared(name, found, chosen)


def _tell(found: SystemComparison, values: Mapping[str, Any]) -> None:
    """What the reader of a comparison must know."""
    for scored, verdicts in zip(found.scored, found.verdicts, strict=True):
        if scored.cuts:
            say(
                f"{scored.name}: {scored.cuts} texts were too long, and not all of them was read",
                values["quiet"],
            )
        if values["unit"] != verdicts.unit == "document":
            say(f"{scored.name}: scores whole documents, which its draws take", values["quiet"])
    for warning in too_few(found.verdicts, values["level"]) if len(found.systems) > 1 else ():
        say(warning, values["quiet"])


def _documents(
    path: str, values: Mapping[str, Any], keys: tuple[HumanKey, ...]
) -> list[DocumentOutputs]:
    options = SystemsOptions(keys, tuple(values["as_systems"]), tuple(values["include"]))
    source = LineSource(path)
    documents = list(read_documents(source, options))
    if not documents:
        raise InputError("no documents", where=source.name, fix="Give at least one line")
    return documents


def _compared(
    metrics: Sequence[Utility],
    documents: Sequence[DocumentOutputs],
    human: Sequence[tuple[str, bool]],
    values: Mapping[str, Any],
) -> SystemComparison:
    quiet, draws = values["quiet"], values["draws"]
    to_read = len(documents) * sum(len(metric.parts) for metric in metrics)
    with (
        Counted("documents", to_read, quiet) as read,
        Counted("draws", draws * len(metrics), quiet) as drawn,
    ):
        return compare_systems(
            metrics,
            documents,
            human,
            draws=draws,
            seed=values["seed"],
            level=values["level"],
            unit=values["unit"],
            correction=values["correction"],
            cache=cache_in(values),
            reading=read.more,
            drawing=drawn.more,
        )


def _dimensions(
    documents: Sequence[DocumentOutputs], keys: Sequence[HumanKey]
) -> list[tuple[str, bool]]:
    """All dimensions of human scores in order of appearance, with whether lower is better."""
    lower = {key.name: key.lower for key in keys}
    found = dict.fromkeys(name for document in documents for name in document.human)
    rest = {
        key.name: key.lower for key in keys if key.name not in found
    }  # of several dimensions, or of no score
    inner = [name for name in found if name not in lower]
    if rest and not inner:
        raise InputError(
            "no system has a score", where=f"human.{next(iter(rest))}", fix="Leave the key out"
        )
    if len(set(rest.values())) > 1:
        raise InputError(
            f"do all of {', '.join(inner)} have one direction?",
            where="--human",
            fix="Name the dimensions, each with its direction",
        )
    return [(name, lower.get(name, True in rest.values())) for name in found]


def _fitted(metric: Utility, documents: Sequence[DocumentOutputs]) -> Utility:
    """The metric with what it learns from a corpus, here all references."""
    if not any(part.unfitted for _, part in metric.parts):
        return metric
    return metric.fit(
        [text for d in documents for texts in d.references.values() for text in texts]
    )


def _write(
    path: str | None,
    rows: Callable[[SystemComparison], Iterator[dict[str, Any]]],
    several: Sequence[Compared],
) -> None:
    """The rows of all sets, with the set's name where there are several."""
    if path is None:
        return
    found = (
        (one.name, row) for one in several if one.systems is not None for row in rows(one.systems)
    )
    named = ({"set": name, **row} if len(several) > 1 else row for name, row in found)
    with complete_or_absent(path) as file:
        file.writelines(score_file(named, path.endswith(".csv")))
