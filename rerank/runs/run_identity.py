"""The settings that the rows of a run depend on: a run resumes only where all of them are the same."""

from __future__ import annotations

from typing import Any, cast

from ...metrics.base import Metric
from ...metrics.spec.signature import portable
from ..decider import Decider
from .row_forms import RowForm


def identity_of(decider: Decider, form: RowForm, saves_utilities: bool) -> dict[str, Any]:
    """The settings of a decider and a form of rows."""
    versions = {part.signature(): part.info.version for part in parts_of(decider)}
    saved = {"save_utilities": True} if saves_utilities else {}
    settings = {**decider.identity, "score_versions": versions, **form.identity, **saved}
    return cast("dict[str, Any]", _portable(settings))


def parts_of(decider: Decider) -> list[Metric]:
    """The metrics that sums are made of."""
    return [part for metric in decider.metrics for _, part in metric.parts]


def _portable(value: Any) -> Any:
    """The value with files named by their digests alone: a model may be moved."""
    if isinstance(value, dict):
        return {_portable(key): _portable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_portable(inner) for inner in value]
    return portable(value) if isinstance(value, str) else value


def signature_of(decider: Decider) -> str | list[str]:
    """The signature of every metric, or the only one."""
    signatures = [metric.signature() for metric in decider.metrics]
    return signatures[0] if len(signatures) == 1 else signatures
