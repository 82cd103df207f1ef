"""The figures: confidence bars, score distributions, metrics against people, histograms.

Labels of points overlap neither each other, nor the points, nor lines, as far as there is room.

A figure as SVG inside a page: no styles, no unused names, and colours that the page's stylesheet decides.

Figures are drawn in stand-in colours (`COLOURS`); each becomes ``var(--plot-NAME)``, so that one figure is readable on
a light and on a dark page.

The heat map: which system is better than which, and how surely.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from math import cos, hypot, pi, sin
from typing import Any, NamedTuple
from unicodedata import east_asian_width
from warnings import catch_warnings, filterwarnings
from xml.etree import ElementTree

import numpy as np

from ..metrics.optional_packages import imported
from ..metrics.registry import as_typed
from ..metrics.representations import FloatArray, IntArray
from ..rerank.selection.comparison import MetaEvaluation, Scores
from ..rerank.selection.significance import Verdicts

Point = tuple[float, float]
MARK_RADIUS = 3
NEAR = 40  # points that crowd one another
DIRECTIONS = 16
DISTANCES = (6.0, 11.0, 18.0, 27.0, 38.0)
FAR = 14.0  # from here on a line leads from the point to its label


class Box(NamedTuple):
    """A rectangle by its corners."""

    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: Box) -> float:
        """The area that two rectangles share."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)

    def distance(self, x: float, y: float) -> float:
        """How far a point is from it; 0 inside."""
        across = max(self.left - x, 0.0, x - self.right)
        upright = max(self.bottom - y, 0.0, y - self.top)
        return hypot(across, upright)

    @property
    def middle(self) -> tuple[float, float]:
        """Its centre."""
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


def size_of(text: str, points: float) -> tuple[float, float]:
    """Width and height of a line of text in a sans-serif face, about.

    >>> size_of("ab", 10.0)
    (12.4, 11.5)
    """
    units = sum(1.0 if east_asian_width(letter) in "WF" else 0.62 for letter in text)
    return units * points, 1.15 * points


def placed(
    points: list[Point],
    sizes: list[tuple[float, float]],
    frame: Box,
    lines: Sequence[Box] = (),
) -> list[Box]:
    """A rectangle for the label of every point, chosen one after the other, the most crowded points first.

    Args:
        points: centres of the points.
        sizes: width and height of the labels.
        frame: where labels should stay inside.
        lines: what thin lines cover, which a label crosses rather than a mark or another label.
    """
    marks = [_mark(point) for point in points]
    num_near = [_num_near(point, points) for point in points]
    most_crowded_first = sorted(range(len(points)), key=lambda i: -num_near[i])
    boxes: dict[int, Box] = {}
    for i in most_crowded_first:
        places = product(DISTANCES, range(DIRECTIONS))
        choices = [
            _beside(points[i], sizes[i], distance, direction) for distance, direction in places
        ]
        taken = np.array([*marks, *boxes.values(), *lines])
        others = [point for j, point in enumerate(points) if j != i]
        costs = [_cost(box, points[i], others, taken, frame) for box in choices]
        boxes[i] = choices[costs.index(min(costs))]
    return [boxes[i] for i in range(len(points))]


def _mark(point: Point) -> Box:
    """The box that the mark of a point covers."""
    x, y = point
    return Box(x - MARK_RADIUS, y - MARK_RADIUS, x + MARK_RADIUS, y + MARK_RADIUS)


def _num_near(point: Point, points: list[Point]) -> int:
    """How many points are near a point, itself among them."""
    x, y = point
    return sum(hypot(x - other_x, y - other_y) < NEAR for other_x, other_y in points)


def _beside(point: Point, size: tuple[float, float], distance: float, direction: int) -> Box:
    """A label whose nearest edge stands `distance` away."""
    angle = 2 * pi * direction / DIRECTIONS
    x, y = point
    half_width, half_height = size[0] / 2, size[1] / 2
    middle_x = x + distance * cos(angle) + cos(angle) * half_width
    middle_y = y + distance * sin(angle) + sin(angle) * half_height
    return Box(
        middle_x - half_width,
        middle_y - half_height,
        middle_x + half_width,
        middle_y + half_height,
    )


def _cost(
    box: Box,
    point: Point,
    others: list[Point],
    taken: FloatArray,  # [number, corners]
    frame: Box,
) -> float:
    """How bad a place is: what it covers, how far it is, and for how many other points it might be taken."""
    area = (box.right - box.left) * (box.top - box.bottom)
    outside = area - box.overlap(frame)
    covered = _total_overlap(box, taken)
    distance = box.distance(*point)
    num_mistakable = sum(box.distance(x, y) < 1.3 * distance for x, y in others)
    to_the_right = box.middle[0] > point[0]
    return (
        10 * (covered + 2 * outside)
        + 25 * num_mistakable
        + 2 * distance
        + (0.0 if to_the_right else 2.0)
    )


def _total_overlap(box: Box, others: FloatArray) -> float:
    """The area that a rectangle shares with others, [number, corners]."""
    left, bottom, right, top = others.T
    widths = np.minimum(box.right, right) - np.maximum(box.left, left)
    heights = np.minimum(box.top, top) - np.maximum(box.bottom, bottom)
    return float((np.maximum(widths, 0) * np.maximum(heights, 0)).sum())


WIDTH_INCHES = 4.4
ROW_INCHES = 0.2
MAX_LETTERS = 22  # of a name beside its row
MAX_LETTERS_SQUARE = 14  # where names stand below as well
MIN_CELL_INCHES = 0.165
LINE_POINTS = 0.8  # of an interval in a scatter
MAX_NAMES = 60  # systems; of more, points have no names
DASHED = (0, (3, 2))
Span = tuple[float | None, float | None]  # an interval, if there is one


def bars(scores: Verdicts, level: float, name: str) -> str:
    """Every system's score with its interval, best on top."""
    order = scores.order
    with drawing(name) as package:
        figure, axes = rows_figure(package, [scores.systems[s] for s in order])
        for row, s in enumerate(order):
            score, low, high = scores.scores[s], scores.low[s], scores.high[s]
            if low is not None and high is not None:
                _draw_span(axes, row, low, high, linewidth=3.2)
            if score is not None:
                axes.plot([score], [row], "o", color=COLOURS["mark"], markersize=4)
            if row and scores.clusters[s] != scores.clusters[order[row - 1]]:
                between = row - 0.5
                axes.axhline(between, color=COLOURS["muted"], linewidth=0.6, linestyle=DASHED)
        axes.set_xlabel(_axis_label(scores))
        intervals = f"{100 * (1 - level):g} % intervals"
        about = f"scores of {len(order)} systems with {intervals}, best first"
        return inline(figure, f"{scores.name}: {about}")


def _draw_span(axes: Any, row: int, low: float, high: float, linewidth: float) -> None:
    """A horizontal line from `low` to `high`."""
    axes.plot(
        [low, high],
        [row, row],
        color=COLOURS["span"],
        linewidth=linewidth,
        solid_capstyle="butt",
    )


def distributions(
    scores: Verdicts,
    values: Sequence[Sequence[float]],  # [systems][units]
    unit: str,
    name: str,
) -> str:
    """How every system's scores of single units spread: middle half, median, and the range of 90 %."""
    order = scores.order
    with drawing(name) as package:
        figure, axes = rows_figure(package, [scores.systems[s] for s in order])
        for row, s in enumerate(order):
            if not len(values[s]):
                continue
            low, first, median, third, high = np.percentile(values[s], [5, 25, 50, 75, 95])
            _draw_span(axes, row, low, high, linewidth=1.2)
            axes.barh(row, third - first, left=first, height=0.56, color=COLOURS["soft"])
            upright = [row - 0.28, row + 0.28]
            axes.plot([median, median], upright, color=COLOURS["mark"], linewidth=1.6)
        axes.set_xlabel(f"{_axis_label(scores)}, by {unit}")
        return inline(figure, f"{scores.name}: distribution of the scores of {unit}s, by system")


def against_people(metric: Verdicts, human: MetaEvaluation, name: str) -> str:
    """A metric's scores of systems against people's, every point with its system's name; better is right and up."""
    judged = human.scores
    points = _shared_systems(metric, judged)
    with drawing(name) as package:
        figure = package.figure.Figure((WIDTH_INCHES, 4.2), layout="constrained")
        axes = figure.add_subplot()
        axes.grid(True)
        thin = {"color": COLOURS["soft"], "linewidth": LINE_POINTS}
        for h, m in points:
            x, y = metric.scores[m], judged.scores[h]
            axes.plot([metric.low[m], metric.high[m]], [y, y], **thin)
            axes.plot([x, x], [judged.low[h], judged.high[h]], **thin)
        xs = [float(metric.scores[m] or 0) for _, m in points]
        ys = [float(judged.scores[h] or 0) for h, _ in points]
        axes.plot(xs, ys, "o", color=COLOURS["mark"], markersize=4)
        # long intervals may run out of the frame
        axes.set_xlim(*_around(xs))
        axes.set_ylim(*_around(ys))
        axes.set_xlabel(_axis_label(metric))
        axes.set_ylabel(f"{_axis_label(judged)}, people")
        if not metric.higher_is_better:
            axes.invert_xaxis()
        if not judged.higher_is_better:
            axes.invert_yaxis()
        if len(points) <= MAX_NAMES:
            names = [label(judged.systems[h], 20) for h, _ in points]
            spans = [
                ((metric.low[m], metric.high[m]), (judged.low[h], judged.high[h]))
                for h, m in points
            ]
            _name_points(figure, axes, list(zip(xs, ys, strict=True)), names, spans)
        about = (
            f"{as_typed(metric.name)} against {judged.name}: {len(points)} systems, a point each"
        )
        return inline(figure, about)


def _shared_systems(metric: Verdicts, judged: Verdicts) -> list[tuple[int, int]]:
    """(place among the judged, place in the metric) of every system with both scores."""
    place_in_metric = {system: m for m, system in enumerate(metric.systems)}
    places = []
    for h, system in enumerate(judged.systems):
        m = place_in_metric[system]
        if judged.scores[h] is not None and metric.scores[m] is not None:
            places.append((h, m))
    return places


def _around(values: Sequence[float]) -> tuple[float, float]:
    """The range of values with some room around it."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    room = 0.15 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _name_points(
    figure: Any,
    axes: Any,
    xy: Sequence[tuple[float, float]],
    names: Sequence[str],
    spans: Sequence[tuple[Span, Span]],
) -> None:
    """Labels beside the points, with lines to those that had to go far; measured in points of the finished layout.

    Args:
        figure: what the axes are in.
        axes: where the points are drawn.
        xy: the points, as data.
        names: their labels.
        spans: the intervals that are drawn through each, across and upright.
    """
    if not xy:
        return
    figure.draw_without_rendering()
    to_points = 72 / figure.dpi
    in_points = axes.transData.transform(np.array(xy)) * to_points
    points = [(float(x), float(y)) for x, y in in_points]
    frame = Box(*(float(edge) * to_points for edge in axes.get_window_extent().extents))
    sizes = [size_of(name, FONT_POINTS) for name in names]
    lines = [
        _line_box(axes.transData.transform(ends) * to_points)
        for point, span in zip(xy, spans, strict=True)
        for ends in _ends_of_lines(point, span)
    ]
    to_data = axes.transData.inverted().transform
    for point, name, box in zip(points, names, placed(points, sizes, frame, lines), strict=True):
        (x, y), (middle_x, middle_y) = point, box.middle
        offset = (middle_x - x, middle_y - y)
        axes.annotate(
            name,
            to_data((x / to_points, y / to_points)),
            offset,
            textcoords="offset points",
            ha="center",
            va="center",
            color=COLOURS["name"],  # on a halo, as lines may pass behind it
            arrowprops=_leader(box, offset),
            annotation_clip=False,
        )


def _ends_of_lines(point: tuple[float, float], span: tuple[Span, Span]) -> Iterator[FloatArray]:
    """The two ends, [2, 2], of the line across a point and of the upright one, of those that are drawn."""
    (x, y), ((left, right), (bottom, top)) = point, span
    if left is not None and right is not None:
        yield np.array([(left, y), (right, y)])
    if bottom is not None and top is not None:
        yield np.array([(x, bottom), (x, top)])


def _line_box(ends: FloatArray) -> Box:
    """The boxes that a line covers whose two ends are given in points."""
    low, high = ends.min(0) - LINE_POINTS / 2, ends.max(0) + LINE_POINTS / 2
    return Box(float(low[0]), float(low[1]), float(high[0]), float(high[1]))


def _leader(box: Box, offset: tuple[float, float]) -> dict[str, Any] | None:
    """The line from a point to its label, where the label's nearest edge is far."""
    gap_across = abs(offset[0]) - (box.right - box.left) / 2
    gap_upright = abs(offset[1]) - (box.top - box.bottom) / 2
    if max(gap_across, gap_upright) <= FAR:
        return None
    return {"arrowstyle": "-", "color": COLOURS["muted"], "linewidth": 0.5}


def agreement(human: MetaEvaluation, name: str) -> str:
    """The share of pairs of systems that each metric orders as people do, best on top."""
    percents = []
    for metric in human.agreement:
        accuracy = metric.systems.pairwise_accuracy
        if accuracy is not None:
            percents.append((as_typed(metric.metric), 100 * accuracy))
    percents.sort(key=lambda pair: -pair[1])
    with drawing(name) as package:
        figure, axes = rows_figure(package, [metric for metric, _ in percents])
        for row, (_, percent) in enumerate(percents):
            axes.barh(row, percent, height=0.6, color=COLOURS["soft"])
            axes.text(percent, row, f" {percent:.0f} %", va="center_baseline")
        axes.axvline(50, color=COLOURS["muted"], linewidth=0.8, linestyle=DASHED)
        axes.set_xlim(0, 112)
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.set_xlabel("pairs of systems ordered as people do, %")
        return inline(figure, f"Pairwise accuracy of every metric against {human.scores.name}")


def histogram(values: Sequence[float], about: str, name: str, whole: bool = False) -> str:
    """How often values of at least 0 occur; a bar for every number where they are `whole` and few."""
    largest = max(values)
    bins: Any = min(40, max(5, len(set(values))))
    if whole and largest < 40:
        # edges half-way between the numbers
        bins = np.arange(largest + 2) - 0.5
    with drawing(name) as package:
        figure = package.figure.Figure((WIDTH_INCHES, 2.0), layout="constrained")
        axes = figure.add_subplot()
        axes.hist(
            values,
            bins=bins,
            range=(0, largest or 1),
            color=COLOURS["soft"],
            rwidth=0.9,
        )
        axes.yaxis.set_major_locator(package.ticker.MaxNLocator(integer=True))
        if whole:
            axes.set_xticks(range(0, int(largest) + 1, 1 + int(largest) // 10))
        axes.set_xlabel(about)
        axes.set_ylabel("lists")
        return inline(figure, f"Histogram: {about}")


def unit_values(scores: Scores, layer: int) -> tuple[str, list[list[float]]]:
    """The unit of a distribution, "segment" or "document", and every system's scores of these that there are."""
    has_segments = scores.has_segments(layer)
    table = scores.segments[layer] if has_segments else scores.documents[layer]
    values = [row[~np.isnan(row)].tolist() for row in table]
    return ("segment" if has_segments else "document"), values


def rows_figure(package: Any, names: Sequence[str], square: bool = False) -> tuple[Any, Any]:
    """A figure with a row per name, the first on top."""
    n = max(1, len(names))
    most_letters = MAX_LETTERS_SQUARE if square else MAX_LETTERS
    shown = [label(name, most_letters) for name in names]
    longest = max((size_of(name, FONT_POINTS)[0] for name in shown), default=0) / 72  # in inches
    height = n * ROW_INCHES + 0.6
    width = WIDTH_INCHES
    if square:
        cell = max(MIN_CELL_INCHES, min(0.3, (WIDTH_INCHES - longest - 0.2) / n))
        width = max(width, n * cell + longest + 0.2)
        height = n * cell + longest + 0.3
    figure = package.figure.Figure((width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_ylim(n - 0.4, -0.6)
    axes.set_yticks(range(len(names)), shown)
    axes.tick_params(axis="y", length=0)
    axes.grid(not square, axis="x")
    if square:
        axes.set_aspect("equal")
        axes.set_anchor("W")
    return figure, axes


def _axis_label(scores: Verdicts) -> str:
    return label(scores.name, 48) + ("" if scores.higher_is_better else " (lower is better)")


def template_package() -> Any:
    """jinja2; raises ModelLoadError where it is missing."""
    return imported("jinja2", "report")


def plot_package() -> Any:
    """matplotlib with its figures, without a screen; raises ModelLoadError where it is missing."""
    for part in ("colors", "figure", "ticker"):
        imported(f"matplotlib.{part}", "report")
    return imported("matplotlib", "report")


FONT_POINTS = 10.0  # of all text: 11 px where a figure is narrowest
NARROW_POINTS = 318.0  # the width of a figure that any page has room for
MIN_SCALE = 1.11  # pixels per point
GRADES = tuple(f"{side}{n}" for side in ("better", "worse") for n in (1, 2, 3))
NAMES = ("ink", "muted", "grid", "mark", "span", "soft", "neutral", "own", "name", *GRADES)
# a colour of its own for every name, #010010 and on
COLOURS: Mapping[str, str] = {name: f"#0100{n + 16:02x}" for n, name in enumerate(NAMES)}
_STAND_INS = {colour: f"var(--plot-{name})" for name, colour in COLOURS.items()}
_SETTINGS = {
    "svg.fonttype": "none",  # text stays text
    "text.parse_math": False,  # a $ in a name is a $
    "axes.unicode_minus": True,
    "font.size": FONT_POINTS,
    "axes.titlesize": FONT_POINTS,
    "axes.labelsize": FONT_POINTS,
    "xtick.labelsize": FONT_POINTS,
    "ytick.labelsize": FONT_POINTS,
    "text.color": COLOURS["ink"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.edgecolor": COLOURS["muted"],
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.labelcolor": COLOURS["ink"],
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": COLOURS["grid"],
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
}
_UNNAMED = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_DECIMALS = re.compile(r"(-?\d+\.\d\d)\d+")
_REFERENCE = re.compile(r"#([A-Za-z][\w.-]*)")
_DROPPED = frozenset({"font-family", "font"})


@contextmanager
def drawing(name: str) -> Iterator[Any]:
    """matplotlib with the settings of a figure whose names inside the SVG derive from `name`."""
    package = plot_package()
    with package.rc_context(), catch_warnings():
        package.rcdefaults()  # whatever the user's own settings are
        package.rcParams.update({**_SETTINGS, "svg.hashsalt": name})
        filterwarnings("ignore", message=r"(?s).*[Gg]lyph")  # the page's reader has other fonts
        yield package


def label(text: str, longest: int = 26) -> str:
    """A name as it can stand in a figure: one line, no control characters, not too long.

    >>> label("a\\nb"), label("a" * 40)
    ('a b', 'aaaaaaaaaaaaaaaaaaaaaaaaa…')
    """
    plain = _UNNAMED.sub(" ", text)
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def inline(figure: Any, about: str) -> str:
    """The SVG element of a figure; `about` is read out in its place."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(written.getvalue())  # noqa: S314  written one line above
    references: set[str] = set()
    for element in root.iter():
        for value in element.attrib.values():
            references.update(_REFERENCE.findall(value))
    for element in list(root.iter()):
        for child in list(element):
            if child.tag.endswith(("metadata", "style")):
                element.remove(child)
        _clean(element, references)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    points_wide = 72 * figure.get_figwidth()
    if points_wide > NARROW_POINTS:
        # shrunk to the page its text would be too small: it keeps its size, and scrolls
        root.attrib["width"] = f"{MIN_SCALE * points_wide:.0f}"
    root.attrib.update({"role": "img", "aria-label": _UNNAMED.sub(" ", about)})
    return re.sub(r">\s+<", "><", ElementTree.tostring(root, encoding="unicode"))


def _clean(element: ElementTree.Element, references: set[str]) -> None:
    """One element without namespaces and unused names, with attributes for its style."""
    element.tag = element.tag.rpartition("}")[2]
    attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
    style = attributes.pop("style", "")
    if attributes.get("id") not in references:
        attributes.pop("id", None)
    if attributes.get("transform", "").startswith("rotate(-0 "):
        del attributes["transform"]
    element.attrib.clear()
    for name, value in attributes.items():
        element.attrib[name] = value if name == "id" else _short(value)
    element.attrib.update(_style_attributes(style))


def _style_attributes(style: str) -> dict[str, str]:
    """The declarations of a style as attributes, stand-in colours replaced by variables of the page."""
    attributes = {}
    for declaration in style.split(";"):
        name, _, value = declaration.partition(":")
        name, value = name.strip(), value.strip()
        if name and name not in _DROPPED:
            attributes[name] = _STAND_INS.get(value, value)
    return attributes


def _short(value: str) -> str:
    """Numbers with two decimals, space for line breaks."""
    return _DECIMALS.sub(r"\1", " ".join(value.split()))


MAX_SIGNS = 40  # systems; of more, a heat map shows colours alone
LEVELS = (0.001, 0.01)  # and the level of the comparison
# the cells of a heat map are indices here: NEUTRAL + grade, or OWN on the diagonal
CELL_COLOURS = ("worse3", "worse2", "worse1", "neutral", "better1", "better2", "better3", "own")
NEUTRAL, OWN = CELL_COLOURS.index("neutral"), CELL_COLOURS.index("own")


def heat_map(scores: Verdicts, level: float, name: str) -> str:
    """Which system is better than which, by p: the row against the column, best first."""
    systems = [scores.systems[s] for s in scores.order]
    n = len(systems)
    cells = _heat_map_cells(scores, level)
    with drawing(name) as package:
        figure, axes = rows_figure(package, systems, square=True)
        for i, row in enumerate(cells):
            _draw_row(axes, i, row)
        if n <= MAX_SIGNS:
            _draw_signs(axes, cells)
        axes.set_xlim(-0.5, n - 0.5)
        axes.set_ylim(n - 0.5, -0.5)
        axes.set_xticks(
            range(n), [label(system, MAX_LETTERS_SQUARE) for system in systems], rotation=90
        )
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        about = f"{scores.name}: significance of every pair of systems, the row against the column"
        return inline(figure, about)


def _heat_map_cells(scores: Verdicts, level: float) -> IntArray:
    """The colour of every pair, best first, as an index into `CELL_COLOURS`, [n, n]."""
    n = len(scores.systems)
    stricter = [grade for grade in LEVELS if grade < level]
    grades = sorted({*stricter, level})[-3:]
    cells = np.full((n, n), OWN)
    for i, a in enumerate(scores.order):
        for j, b in enumerate(scores.order):
            if a != b:
                cells[i, j] = NEUTRAL + _grade(scores, a, b, grades)
    return cells


def _draw_row(axes: Any, i: int, cells: IntArray) -> None:
    """Row `i` of a heat map, one bar for every run of cells of one colour."""
    starts = [0, *(np.flatnonzero(np.diff(cells)) + 1)]
    ends = [*starts[1:], len(cells)]
    runs = [(start - 0.5, end - start) for start, end in zip(starts, ends, strict=True)]
    colours = [COLOURS[CELL_COLOURS[cells[start]]] for start in starts]
    axes.broken_barh(runs, (i - 0.5, 1), facecolors=colours, edgecolor="face")


def _draw_signs(axes: Any, cells: IntArray) -> None:
    """+ and − in the cells of systems that are told apart."""
    rows, columns = np.nonzero((cells != NEUTRAL) & (cells != OWN))
    for i, j in zip(rows, columns, strict=True):
        axes.text(
            j,
            i,
            "+" if cells[i, j] > NEUTRAL else "−",
            ha="center",
            va="center_baseline",
            color=COLOURS["ink"],
        )


def _grade(scores: Verdicts, a: int, b: int, grades: Sequence[float]) -> int:
    """0 where two systems are not told apart, else 1 to 3, negative where a is worse."""
    p, score_a, score_b = scores.p(a, b), scores.scores[a], scores.scores[b]
    steps = sum(p < grade for grade in grades)
    if not steps or score_a is None or score_b is None or score_a == score_b:
        return 0
    return steps if (score_a > score_b) == scores.higher_is_better else -steps
