"""``discorank metrics [NAME]``: what metrics there are, and the settings of one."""

from __future__ import annotations

import inspect
import json
import sys
from dataclasses import MISSING, fields
from typing import Any

from ...functions import metrics as known_metrics
from ...metrics.registry import metric_class, names, registered_name
from ...metrics.spec.checked_settings import settings
from ...tables import aligned
from ..options import command, field_helps


@settings
class MetricsOptions:
    """What to show.

    Args:
        metric_name: a metric, to see its equation and settings; all if not given.
    """

    metric_name: str | None = None


@command(
    "List the metrics, or show one.",
    positional={"metric_name": "?"},
    first=["metric_name"],
    examples=[
        "metrics",
        "metrics chrf",
        "metrics discoscore",
    ],
)
def metrics(options: MetricsOptions) -> None:
    """Lists the metrics."""
    name = options.metric_name
    sys.stdout.write((_metric(name) if name else repr(known_metrics())) + "\n")


def _metric(name: str) -> str:
    """The module's docstring (equation, range, direction), then the settings."""
    name = registered_name(name)
    cls = metric_class(name)
    rows = setting_rows(name)
    doc = inspect.getdoc(inspect.getmodule(cls)) or ""
    about = (inspect.getdoc(cls) or "").partition("Args:")[0].strip()
    table = aligned([["setting", "default", "what it does"], *rows]) if rows else ""
    return "\n\n".join(filter(None, (name, doc, about, table)))


def setting_rows(name: str) -> list[list[str]]:
    """Every setting of a registered metric: its name, its default as JSON, and what it does."""
    cls: Any = metric_class(name)
    fixed = names()[name].settings if name in names() else {}
    helps: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        helps |= field_helps(base)
    rows = []
    for field in fields(cls):
        if field.default is MISSING:  # not a setting
            continue
        value = fixed.get(field.name, field.default)
        rows.append([field.name, json.dumps(value), helps.get(field.name, str(field.type))])
    return rows
