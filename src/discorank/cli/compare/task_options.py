"""The options of ``compare`` that follow the WMT metrics task: how its folders are read, and what is asked of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ...integrations.formats.mtme.eval_set_folder import EvalSetOptions
from ...metrics.errors import InputError
from ...metrics.spec.checked_settings import settings


@settings
class EvalSetReading:
    """How test sets are read.

    Args:
        language_pair: folders of mt-metrics-eval: the language pairs that are compared; all if not given.
        main_reference: the reference that metrics of the task read, such as refA or he-en:refB.
        human_scores: the human scores that metrics are held against, such as mqm.
        outliers: systems that do not count, such as en-de:theta.
        close_references: references that are no systems though people judged them.
        primary: the metrics that take part in task sets; all if not given.
        missing: what is done where a metric lacks a system: error, zeros (as mt-metrics-eval does), or leave-out.
    """

    language_pair: tuple[str, ...] = ()
    main_reference: tuple[str, ...] = ()
    human_scores: tuple[str, ...] = ()
    outliers: tuple[str, ...] = ()
    close_references: tuple[str, ...] = ()
    primary: tuple[str, ...] = ()
    missing: Literal["error", "zeros", "leave-out"] = "error"


@settings
class TaskOptions:
    """What of the WMT metrics task is computed.

    Args:
        input_format: how the systems are kept: systems, mtme, wmt-xml, wmt-jsonl, sacrebleu or summeval.
        statistics: discorank's, or those of the WMT metrics task under its names, for metrics with scores in the folder
            too.
        tasks: a task set instead, of the folder that holds the test sets: wmt23, wmt24, wmt24-on-wmt23 or wmt25.
        task_draws: how many times the tests of the metrics task draw; 0: no tests.
        with_human: whether references that people judged are systems; task sets know themselves.
        with_outliers: whether outliers are systems.
        domain: the only domain that counts.
        nan_as_zero: whether segments without a correlation count as 0.
    """

    input_format: str = "systems"
    statistics: Literal["discorank", "wmt"] = "discorank"
    tasks: str | None = None
    task_draws: Annotated[int, Field(ge=0)] = 1000
    with_human: bool = False
    with_outliers: bool = False
    domain: str | None = None
    nan_as_zero: bool = False


def reading_options(values: Mapping[str, Any]) -> EvalSetOptions:
    """How folders are read, as the options say."""
    return EvalSetOptions(
        tuple(values["main_reference"]),
        tuple(values["human_scores"]),
        tuple(values["outliers"]),
        tuple(values["close_references"]),
        tuple(values["primary"]),
        values["missing"],
    )


def has_metric_scores(values: Mapping[str, Any]) -> bool:
    """Whether metrics come with scores of their own, so that none need be named."""
    return bool(values["tasks"]) or values["statistics"] == "wmt"


def only_folder(paths: Sequence[str]) -> str:
    """The folder of a task set; raises InputError if there are several."""
    if len(paths) != 1:
        raise InputError(
            f"found {len(paths)} paths",
            where="--tasks",
            fix="Give the folder that holds the test sets",
        )
    return paths[0]
