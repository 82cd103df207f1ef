"""The optional packages of the report."""

from __future__ import annotations

from typing import Any

from ..metrics.errors import ModelLoadError


def template_package() -> Any:
    """jinja2; raises ModelLoadError where it is missing."""
    try:
        import jinja2
    except ImportError as error:
        raise _missing("jinja2") from error
    return jinja2


def plot_package() -> Any:
    """matplotlib with its figures, without a screen; raises ModelLoadError where it is missing."""
    try:
        import matplotlib.colors
        import matplotlib.figure
        import matplotlib.ticker
    except ImportError as error:
        raise _missing("matplotlib") from error
    return matplotlib


def _missing(name: str) -> ModelLoadError:
    return ModelLoadError(
        f"a report needs {name}", where="report", fix="Install it: pip install 'discorank[report]'"
    )
