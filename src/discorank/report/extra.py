"""The optional packages of the report."""

from __future__ import annotations

from typing import Any

from ..metrics.optional_packages import imported


def template_package() -> Any:
    """jinja2; raises ModelLoadError where it is missing."""
    return imported("jinja2", "report")


def plot_package() -> Any:
    """matplotlib with its figures, without a screen; raises ModelLoadError where it is missing."""
    for part in ("colors", "figure", "ticker"):
        imported(f"matplotlib.{part}", "report")
    return imported("matplotlib", "report")
