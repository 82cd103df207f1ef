"""The figures: confidence bars, score distributions, significance of pairs, metrics against people, histograms."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..rerank.selection.comparison_folder import KeptComparison, KeptHuman, KeptScores
from .labels import FAR, Box, placed, size_of
from .svg import COLOURS, drawing, inline, label

WIDTH_INCHES = 4.4
ROW_INCHES = 0.19
MAX_SIGNS = 40  # systems; of more, a heat map shows colours alone
MAX_NAMES = 60  # systems; of more, points have no names
LEVELS = (0.001, 0.01)  # and the level of the comparison


def bars(one: KeptScores, level: float, name: str) -> str:
    """Every system's score with its interval, best on top."""
    order, n = one.order, len(one.systems)
    with drawing(name) as package:
        figure, axes = _rows(package, [one.systems[s] for s in order])
        for row, s in enumerate(order):
            score, low, high = one.scores[s], one.low[s], one.high[s]
            if low is not None and high is not None:
                axes.plot(
                    [low, high],
                    [row, row],
                    color=COLOURS["span"],
                    linewidth=3.2,
                    solid_capstyle="butt",
                )
            if score is not None:
                axes.plot([score], [row], "o", color=COLOURS["mark"], markersize=4)
            if row and one.clusters[s] != one.clusters[order[row - 1]]:
                axes.axhline(
                    row - 0.5, color=COLOURS["muted"], linewidth=0.6, linestyle=(0, (3, 2))
                )
        axes.set_xlabel(_axis(one))
        about = (
            f"{one.name}: scores of {n} systems with {100 * (1 - level):g} % intervals, best first"
        )
        return inline(figure, about)


def distributions(one: KeptScores, values: Sequence[Sequence[float]], unit: str, name: str) -> str:
    """How every system's scores of single units spread: middle half, median, and the range of 90 %."""
    order = one.order
    with drawing(name) as package:
        figure, axes = _rows(package, [one.systems[s] for s in order])
        for row, s in enumerate(order):
            if not len(values[s]):
                continue
            low, first, median, third, high = np.percentile(values[s], [5, 25, 50, 75, 95])
            axes.plot(
                [low, high], [row, row], color=COLOURS["span"], linewidth=1.2, solid_capstyle="butt"
            )
            axes.barh(row, third - first, left=first, height=0.56, color=COLOURS["soft"])
            axes.plot(
                [median, median], [row - 0.28, row + 0.28], color=COLOURS["mark"], linewidth=1.6
            )
        axes.set_xlabel(f"{_axis(one)}, by {unit}")
        return inline(figure, f"{one.name}: distribution of the scores of {unit}s, by system")


def heat_map(one: KeptScores, level: float, name: str) -> str:
    """Which system is better than which, by p: the row against the column, best first."""
    order, n = one.order, len(one.systems)
    grades = sorted({*(step for step in LEVELS if step < level), level})[-3:]
    colours = [
        *(f"worse{k}" for k in (3, 2, 1)),
        "neutral",
        *(f"better{k}" for k in (1, 2, 3)),
        "own",
    ]
    cells = np.full((n, n), 7)
    for i, a in enumerate(order):
        for j, b in enumerate(order):
            if a != b:
                cells[i, j] = 3 + _grade(one, a, b, grades)
    with drawing(name) as package:
        figure, axes = _rows(package, [one.systems[s] for s in order], square=True)
        for i, row in enumerate(cells):
            starts = [0, *(np.flatnonzero(np.diff(row)) + 1)]  # of runs of one colour
            runs = [(start - 0.5, end - start) for start, end in pairwise([*starts, n])]
            axes.broken_barh(
                runs,
                (i - 0.5, 1),
                facecolors=[COLOURS[colours[row[j]]] for j in starts],
                edgecolor="face",
            )
        for i, j in zip(*np.nonzero((cells != 3) & (cells != 7) & (n <= MAX_SIGNS)), strict=True):
            sign = "+" if cells[i, j] > 3 else "−"
            axes.text(
                j, i, sign, ha="center", va="center_baseline", fontsize=7, color=COLOURS["ink"]
            )
        axes.set_xlim(-0.5, n - 0.5)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_xticks(range(n), [label(one.systems[s]) for s in order], rotation=90)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        return inline(
            figure, f"{one.name}: significance of every pair of systems, the row against the column"
        )


def _grade(one: KeptScores, a: int, b: int, grades: Sequence[float]) -> int:
    """0 where two systems are not told apart, else 1 to 3, negative where a is worse."""
    p, x, y = one.p(a, b), one.scores[a], one.scores[b]
    steps = sum(p < grade for grade in grades)
    if not steps or x is None or y is None or x == y:
        return 0
    return steps if (x > y) == one.higher_is_better else -steps


def against_people(metric: KeptScores, human: KeptHuman, name: str) -> str:
    """A metric's scores of systems against people's, every point with its system's name; better is right and up."""
    judged = human.scores
    at = {system: s for s, system in enumerate(metric.systems)}
    both = [(s, at[system]) for s, system in enumerate(judged.systems)]
    kept = [
        (h, m) for h, m in both if judged.scores[h] is not None and metric.scores[m] is not None
    ]
    with drawing(name) as package:
        figure = package.figure.Figure((WIDTH_INCHES, 3.5), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(True)
        for h, m in kept:
            axes.plot(
                [metric.low[m], metric.high[m]],
                [judged.scores[h]] * 2,
                color=COLOURS["soft"],
                linewidth=0.8,
            )
            axes.plot(
                [metric.scores[m]] * 2,
                [judged.low[h], judged.high[h]],
                color=COLOURS["soft"],
                linewidth=0.8,
            )
        xy = [(float(metric.scores[m] or 0), float(judged.scores[h] or 0)) for h, m in kept]
        axes.plot([x for x, _ in xy], [y for _, y in xy], "o", color=COLOURS["mark"], markersize=4)
        axes.set_xlim(*_around([x for x, _ in xy]))  # long intervals may run out of the frame
        axes.set_ylim(*_around([y for _, y in xy]))
        axes.set_xlabel(_axis(metric))
        axes.set_ylabel(f"{_axis(judged)}, people")
        if not metric.higher_is_better:
            axes.invert_xaxis()
        if not judged.higher_is_better:
            axes.invert_yaxis()
        if len(kept) <= MAX_NAMES:
            _name_points(figure, axes, xy, [label(judged.systems[h], 20) for h, _ in kept])
        return inline(
            figure, f"{metric.name} against {judged.name}: {len(kept)} systems, a point each"
        )


def _around(values: Sequence[float]) -> tuple[float, float]:
    """The range of values with some room around it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.15 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _name_points(
    figure: Any, axes: Any, xy: Sequence[tuple[float, float]], names: Sequence[str]
) -> None:
    """Labels beside the points, with lines to those that had to go far; measured in points of the finished layout."""
    if not xy:
        return
    figure.draw_without_rendering()
    to_points = 72 / figure.dpi
    points = [(float(x), float(y)) for x, y in axes.transData.transform(np.array(xy)) * to_points]
    frame = Box(*(float(edge) * to_points for edge in axes.get_window_extent().extents))
    size = 7.0
    for point, name, box in zip(
        points, names, placed(points, [size_of(n, size) for n in names], frame), strict=True
    ):
        offset = (box.middle[0] - point[0], box.middle[1] - point[1])
        edge = max(
            abs(offset[0]) - (box.right - box.left) / 2, abs(offset[1]) - (box.top - box.bottom) / 2
        )
        line = (
            {"arrowstyle": "-", "color": COLOURS["muted"], "linewidth": 0.5} if edge > FAR else None
        )
        axes.annotate(
            name,
            axes.transData.inverted().transform((point[0] / to_points, point[1] / to_points)),
            offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=size,
            arrowprops=line,
            annotation_clip=False,
        )


def agreement(human: KeptHuman, name: str) -> str:
    """The share of pairs of systems that each metric orders as people do, best on top."""
    found = [(a.metric, a.systems.get("pairwise_accuracy")) for a in human.agreement]
    known = sorted([(m, 100 * x) for m, x in found if x is not None], key=lambda pair: -pair[1])
    with drawing(name) as package:
        figure, axes = _rows(package, [metric for metric, _ in known])
        for row, (_, percent) in enumerate(known):
            axes.barh(row, percent, height=0.6, color=COLOURS["soft"])
            axes.text(percent, row, f" {percent:.0f} %", va="center_baseline", fontsize=7)
        axes.axvline(50, color=COLOURS["muted"], linewidth=0.8, linestyle=(0, (3, 2)))
        axes.set_xlim(0, 112)
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.set_xlabel("pairs of systems ordered as people do, %; dashed: by chance")
        return inline(figure, f"Pairwise accuracy of every metric against {human.scores.name}")


def histogram(values: Sequence[float], about: str, name: str, whole: bool = False) -> str:
    """How often values of at least 0 occur; a bar for every number where they are `whole` and few."""
    few = whole and max(values) < 40
    bins: Any = np.arange(max(values) + 2) - 0.5 if few else min(40, max(5, len(set(values))))
    with drawing(name) as package:
        figure = package.figure.Figure((WIDTH_INCHES, 2.0), layout="constrained")
        axes = figure.add_subplot()
        axes.hist(values, bins=bins, range=(0, max(values) or 1), color=COLOURS["soft"], rwidth=0.9)
        for axis in (axes.yaxis, *([axes.xaxis] if whole else [])):
            axis.set_major_locator(package.ticker.MaxNLocator(integer=True))
        axes.set_xlabel(about)
        axes.set_ylabel("lists")
        return inline(figure, f"Histogram: {about}")


def unit_values(found: KeptComparison, metric: KeptScores) -> tuple[str, list[list[float]]]:
    """What a distribution shows: "segment" or "document", and every system's scores of these that there are."""
    name = metric.name
    by_segment = all(name in document.segments for document in found.documents)
    values: list[list[float]] = [[] for _ in metric.systems]
    for document in found.documents:
        for s, mine in enumerate(values):
            row = document.segments[name][s] if by_segment else (document.scores[name][s],)
            mine += [x for x in row if x is not None]
    return ("segment" if by_segment else "document"), values


def _rows(package: Any, names: Sequence[str], square: bool = False) -> tuple[Any, Any]:
    """A figure with a row per name, the first on top."""
    n = max(1, len(names))
    longest = max((size_of(label(name), 8)[0] for name in names), default=0) / 72
    height = n * ROW_INCHES + 0.55
    width = WIDTH_INCHES
    if square:
        cell = max(0.13, min(0.3, (WIDTH_INCHES - longest - 0.2) / n))
        width = max(width, n * cell + longest + 0.2)
        height = n * cell + longest + 0.3
    figure = package.figure.Figure((width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylim(n - 0.4, -0.6)
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(not square, axis="x")
    if square:
        axes.set_aspect("equal")
        axes.set_anchor("W")
    return figure, axes


def _axis(one: KeptScores) -> str:
    return label(one.name, 48) + ("" if one.higher_is_better else " (lower is better)")
