"""The figures of the page, drawn by matplotlib: intervals of scores, metrics against people, histograms.

A figure is an image of its own, as SVG in a data URL: nothing in it can reach the page, whatever systems are called.
"""

from __future__ import annotations

import io
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from warnings import catch_warnings, filterwarnings

import numpy as np

from ..metrics.optional_packages import imported
from ..metrics.registry import as_typed
from ..rerank.selection.comparison import MetaEvaluation
from ..rerank.selection.significance import Verdicts

WIDTH_INCHES = 4.4
ROW_INCHES = 0.2
MAX_LETTERS = 22  # of a name beside its row
MAX_NAMES = 60  # systems; of more, points have no names
MARK, SPAN, SOFT, MUTED = "#14518c", "#7ba7d7", "#a9c6e6", "#6b7280"
DASHED = (0, (3, 2))
SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a $ in a name is a $
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.edgecolor": MUTED,
    "grid.color": "#e2e5ea",
}
_UNNAMED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


class Plot(NamedTuple):
    """A figure as an image.

    Args:
        source: a data URL.
        about: what is read out in its place.
    """

    source: str
    about: str


def template_package() -> Any:
    """jinja2; raises ModelLoadError where it is missing."""
    return imported("jinja2", "report")


def plot_package() -> Any:
    """matplotlib with its figures, without a screen; raises ModelLoadError where it is missing."""
    for part in ("figure", "ticker"):
        imported(f"matplotlib.{part}", "report")
    return imported("matplotlib", "report")


@contextmanager
def drawing() -> Iterator[Any]:
    """matplotlib with the settings of the page's figures, whatever the user's own are."""
    package = plot_package()
    with package.rc_context(), catch_warnings():
        package.rcdefaults()
        # ids inside the SVG are the same in every run
        package.rcParams.update({**SETTINGS, "svg.hashsalt": "discorank"})
        filterwarnings("ignore", message=r"(?s).*[Gg]lyph")  # the page's reader has other fonts
        yield package


def image(figure: Any, about: str) -> Plot:
    """A figure as an image."""
    written = io.BytesIO()
    figure.savefig(written, format="svg", metadata={"Date": None})
    source = f"data:image/svg+xml;base64,{b64encode(written.getvalue()).decode()}"
    return Plot(source, _UNNAMED.sub(" ", about))


def label(text: str, longest: int = 26) -> str:
    """A name as it can stand in a figure: one line, no control characters, not too long.

    >>> label("a\\nb"), label("a" * 40)
    ('a b', 'aaaaaaaaaaaaaaaaaaaaaaaaa…')
    """
    plain = _UNNAMED.sub(" ", text)
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def _rows_figure(package: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """A figure with a row per name, the first on top."""
    n = max(1, len(names))
    figure = package.figure.Figure((WIDTH_INCHES, n * ROW_INCHES + 0.6), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylim(n - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [label(name, MAX_LETTERS) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    return figure, axes


def _axis_label(scores: Verdicts) -> str:
    return label(scores.name, 48) + ("" if scores.higher_is_better else " (lower is better)")


def bars(scores: Verdicts, level: float) -> Plot:
    """Every system's score with its interval, best on top."""
    order = scores.order
    with drawing() as package:
        figure, axes = _rows_figure(package, [scores.systems[s] for s in order])
        for row, s in enumerate(order):
            score, low, high = scores.scores[s], scores.low[s], scores.high[s]
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], color=SPAN, linewidth=3.2)
            if score is not None:
                axes.plot([score], [row], "o", color=MARK, markersize=4)
            if row and scores.clusters[s] != scores.clusters[order[row - 1]]:
                axes.axhline(row - 0.5, color=MUTED, linewidth=0.6, linestyle=DASHED)
        axes.set_xlabel(_axis_label(scores))
        intervals = f"{100 * (1 - level):g} % intervals"
        about = f"scores of {len(order)} systems with {intervals}, best first"
        return image(figure, f"{scores.name}: {about}")


def against_people(metric: Verdicts, human: MetaEvaluation) -> Plot:
    """A metric's scores of systems against people's, every point with its system's name; better is right and up."""
    judged = human.scores
    places = {system: m for m, system in enumerate(metric.systems)}
    points = [(h, places[system]) for h, system in enumerate(judged.systems)]
    with drawing() as package:
        figure = package.figure.Figure((WIDTH_INCHES, 4.2), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(True)
        for h, m in points:
            x, y = metric.scores[m], judged.scores[h]
            if x is None or y is None:
                continue
            axes.plot([metric.low[m], metric.high[m]], [y, y], color=SOFT, linewidth=0.8)
            axes.plot([x, x], [judged.low[h], judged.high[h]], color=SOFT, linewidth=0.8)
            axes.plot([x], [y], "o", color=MARK, markersize=4)
            if len(points) <= MAX_NAMES:
                name = label(judged.systems[h], 20)
                axes.annotate(name, (x, y), (4, 4), textcoords="offset points")
        axes.margins(0.15)
        axes.set_xlabel(_axis_label(metric))
        axes.set_ylabel(f"{_axis_label(judged)}, people")
        if not metric.higher_is_better:
            axes.invert_xaxis()
        if not judged.higher_is_better:
            axes.invert_yaxis()
        about = f"{as_typed(metric.name)} against {judged.name}"
        return image(figure, f"{about}: {len(points)} systems, a point each")


def histogram(values: Sequence[float], about: str, whole: bool = False) -> Plot:
    """How often values of at least 0 occur; a bar for every number where they are `whole` and few."""
    largest = max(values)
    bins: Any = min(40, max(5, len(set(values))))
    if whole and largest < 40:
        # edges half-way between the numbers
        bins = np.arange(largest + 2) - 0.5
    with drawing() as package:
        figure = package.figure.Figure((WIDTH_INCHES, 2.0), layout="constrained")
        axes = figure.add_subplot()
        axes.hist(values, bins=bins, range=(0, largest or 1), color=SOFT, rwidth=0.9)
        axes.yaxis.set_major_locator(package.ticker.MaxNLocator(integer=True))
        if whole:
            axes.set_xticks(range(0, int(largest) + 1, 1 + int(largest) // 10))
        axes.set_xlabel(about)
        axes.set_ylabel("lists")
        return image(figure, f"Histogram: {about}")
