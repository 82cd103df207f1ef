"""The options of ``compare`` that follow the WMT metrics task: what is asked of metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from ....metrics.errors import InputError
from ....metrics.spec.checked_settings import Field, Rare, settings

BLOCK = 100  # draws between looks at p


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

    heading: ClassVar = "statistics"

    input_format: str = "systems"
    statistics: Literal["discorank", "wmt"] = "discorank"
    tasks: str | None = None
    task_draws: Annotated[int, Field(ge=0), Rare()] = 1000
    with_human: Annotated[bool, Rare()] = False
    with_outliers: Annotated[bool, Rare()] = False
    domain: Annotated[str | None, Rare()] = None
    nan_as_zero: Annotated[bool, Rare()] = False


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
