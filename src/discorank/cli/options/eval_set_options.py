"""Test sets with outputs of systems as commands read them: folders of mt-metrics-eval, and documents in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from ...integrations.formats.human_scores import HumanKey
from ...integrations.formats.mtme.eval_set_folder import (
    EvalSetOptions,
    read_eval_set,
    standards_of,
)
from ...integrations.formats.mtme.eval_set_rows import eval_set_of_rows, missing_texts
from ...integrations.formats.open_lists import open_documents
from ...integrations.formats.readers.systems import read_document
from ...metrics.errors import InputError
from ...metrics.execution.meter import Meter
from ...metrics.mixture import Utility
from ...metrics.spec.checked_settings import Rare, settings
from ...metrics.storage.json_and_yaml import parse_json
from ...metrics.storage.line_source import NumberedLines
from ...rerank.selection.meta_evaluation.eval_set import EvalSet, score_eval_set
from ..terminal.console import Counted, say
from ..terminal.watching import judged_line
from .inputs import cache_in

NO_PAIR = "-"  # of a test set that names no languages


@settings
class EvalSetTexts:
    """Which texts of test sets are read.

    Args:
        language_pair: folders of mt-metrics-eval: the language pairs that are read; all if not given.
        main_reference: the reference that metrics of the WMT metrics task read, such as refA or he-en:refB; or all.
    """

    heading: ClassVar = "input"

    language_pair: tuple[str, ...] = ()
    main_reference: tuple[str, ...] = ()


@settings
class EvalSetReading:
    """How the scores of test sets are read.

    Args:
        human_scores: the human scores that the task's statistics hold metrics against, such as mqm.
        outliers: systems that do not count there, such as en-de:theta.
        close_references: references that are no systems there though people judged them.
        primary: the metrics that take part in task sets; all if not given.
        missing: what is done where a metric lacks a system: error, zeros (as mt-metrics-eval does), or leave-out.
    """

    heading: ClassVar = "judgements"

    human_scores: Annotated[tuple[str, ...], Rare()] = ()
    outliers: Annotated[tuple[str, ...], Rare()] = ()
    close_references: Annotated[tuple[str, ...], Rare()] = ()
    primary: Annotated[tuple[str, ...], Rare()] = ()
    missing: Annotated[Literal["error", "zeros", "leave-out"], Rare()] = "error"


def reading_options(values: Mapping[str, Any]) -> EvalSetOptions:
    """How folders are read, as the options say."""
    return EvalSetOptions(
        reference=tuple(values["main_reference"]),
        human_scores=tuple(values.get("human_scores", ())),
        outliers=tuple(values.get("outliers", ())),
        close_references=tuple(values.get("close_references", ())),
        primary=tuple(values.get("primary", ())),
        missing=values["missing"],
    )


def eval_set_at(
    path: str, name: str, language_pair: str | None, values: Mapping[str, Any]
) -> EvalSet:
    """The test set at a path: of a folder in a language pair, or made of documents, where there is none.

    Raises:
        InputError: as the readers of folders and documents.
    """
    if language_pair is not None:
        eval_set = read_eval_set(path, language_pair, reading_options(values))
    else:
        keys = [HumanKey.read(key) for key in values.get("human") or ()]
        rows = checked_rows(path, values["input_format"], None, keys)
        lower = [key.name for key in keys if key.lower]
        eval_set = eval_set_of_rows(rows, name, NO_PAIR, lower)
        eval_set = replace(eval_set, standards=standards_of(eval_set, reading_options(values)))
    if lacking := missing_texts(eval_set):
        say(f"{name}: {lacking} texts were not supplied, and count as empty", values["quiet"])
    return eval_set


def checked_rows(
    path: str,
    format: str,
    language_pair: str | None,
    keys: Sequence[HumanKey] = (),
    as_systems: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """The documents of a file or folder as rows of a systems file, checked, with human scores by dimension.

    Raises:
        InputError: the first document that cannot be read.
    """
    return checked_lines(
        open_documents(path, format, language_pair=language_pair), keys, as_systems
    )


def checked_lines(
    source: NumberedLines, keys: Sequence[HumanKey] = (), as_systems: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """The lines of a systems file as `checked_rows`."""
    for number, line in source:
        try:
            row = parse_json(line)
            document = read_document(row, keys, as_systems, ())
        except RecursionError:
            raise source.refusal(number, "nested too deeply") from None
        except InputError as error:
            raise error.inside(f"{source.name}: document {number}") from None
        names = {"systems": document.systems, "references": document.references}
        own = {**names, "human": document.human}
        yield {**row, **{key: dict(value) for key, value in own.items() if value}}


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
