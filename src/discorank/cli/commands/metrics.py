"""``discorank metrics [NAME]``: what metrics there are, and the settings of one."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any

from ...metrics.registry import WRAPPERS, metric_class, names, registered_name
from ...metrics.spec.checked_settings import settings
from ...tables import aligned
from ..options import EngineOptions, Options, ReadingOptions, field_helps


@settings
class MetricsOptions:
    """What to show.

    Args:
        metric_name: a metric, to see its equation and settings; all if not given.
    """

    metric_name: str | None = None


OPTIONS = Options(
    "metrics",
    "List the metrics, or show one.",
    [MetricsOptions],
    positional={"metric_name": "?"},
    first=["metric_name"],
    examples=[
        "metrics",
        "metrics chrf",
        "metrics discoscore",
    ],
    idle=[ReadingOptions, EngineOptions],
)


def run(arguments: Sequence[str]) -> int:
    """Lists the metrics; returns the exit code."""
    name = OPTIONS.parse(arguments)["metric_name"]
    sys.stdout.write((_metric(name) if name else _all_metrics()) + "\n")
    return 0


def _all_metrics() -> str:
    """A row per metric."""
    rows = [["name", "unit", "range", "better", "needs", "what it is"]]
    for name in sorted(names()):
        info = metric_class(name).info
        low, high = info.bounds
        needs = []
        if info.needs_references:
            needs.append("reference")
        if info.needs_source:
            needs.append("source")
        if info.takes_source:
            needs.append("source (if given)")
        rows.append(
            [
                name,
                info.unit,
                f"{low:g}..{high:g}",
                "higher" if info.higher_is_better else "lower",
                "+".join(needs) or "-",
                info.summary,
            ]
        )
    wrappers = [f"{name}(METRIC)" for name in WRAPPERS]
    return f"{aligned(rows)}\n\nAround a metric of segments, for whole documents: {', '.join(wrappers)}"


def _metric(name: str) -> str:
    """The module's docstring (equation, range, direction), then the settings."""
    name = registered_name(name)
    cls: Any = metric_class(name)
    fixed = names()[name].settings if name in names() else {}
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        helps |= field_helps(base)
    rows = [["setting", "default", "what it does"]]
    for field in fields(cls):
        if field.default is MISSING:  # not a setting
            continue
        value = fixed.get(field.name, field.default)
        rows.append([field.name, json.dumps(value), helps.get(field.name, str(field.type))])
    doc = inspect.getdoc(inspect.getmodule(cls)) or ""
    about = (inspect.getdoc(cls) or "").partition("Args:")[0].strip()
    table = aligned(rows) if len(rows) > 1 else ""
    return "\n\n".join(filter(None, (name, doc, about, table)))
