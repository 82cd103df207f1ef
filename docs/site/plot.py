"""Plots of the documentation, from tables beside them: every docs/pictures/NAME.tsv becomes NAME.svg.

    python docs/site/plot.py [NAME ...]

The first line of a table is ``# dots: TITLE`` or ``# lines: TITLE``; a second line ``# ...`` names the axis, for lines
both: ``# x; y``. Dots are rows ``label, value, low, high``: the last two are an interval or empty, and a fifth column
makes a row stand out. Lines are rows ``series, x, y``. A line ``# log`` makes the x axis logarithmic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from html import escape
from itertools import groupby, pairwise
from pathlib import Path

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
WIDTH, RIGHT = 480, 24
STYLE = """<style>
.paper{fill:#fff}.ink{fill:#222}.soft{fill:#666}.line{stroke:#888;fill:none}.grid{stroke:#ddd}
.a{fill:#0072b2}.b{fill:#c25700}.c{fill:#007a5a}.d{fill:#8a5a9e}
.sa{stroke:#0072b2}.sb{stroke:#c25700}.sc{stroke:#007a5a}.sd{stroke:#8a5a9e}
@media (prefers-color-scheme:dark){
.paper{fill:#1e2129}.ink{fill:#eee}.soft{fill:#aaa}.line{stroke:#999}.grid{stroke:#444}
.a{fill:#56b4e9}.b{fill:#f0a030}.c{fill:#3cc79a}.d{fill:#cf9fe0}
.sa{stroke:#56b4e9}.sb{stroke:#f0a030}.sc{stroke:#3cc79a}.sd{stroke:#cf9fe0}}
</style>"""


def picture(title: str, height: float, parts: list[str], width: float = WIDTH) -> str:
    """An SVG in the common look."""
    size = f'width="{width:g}" height="{height:g}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}" '
        f'font-family="system-ui, sans-serif" font-size="15" role="img" aria-label="{escape(title)}">'
    )
    paper = f'<rect class="paper" {size} rx="8"/>'
    return "\n".join([head, STYLE, paper, *parts, "</svg>\n"])


def text(x: float, y: float, words: str, kind: str = "ink", anchor: str = "start") -> str:
    """Words at a place; ``anchor`` is start, middle or end."""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def ticks(low: float, high: float, is_log: bool) -> list[float]:
    """About five round numbers, which span what is shown."""
    if is_log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [10.0**power for power in range(first, last + 1)]
    rough = (high - low or 1) / 4
    scale = 10 ** math.floor(math.log10(rough))
    step = next(factor * scale for factor in (1, 2, 2.5, 5, 10) if factor * scale >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def axis(marks: list[float], start: float, end: float, is_log: bool) -> Callable[[float], float]:
    """Where a value is drawn, between two places."""
    scaled = math.log10 if is_log else float
    low, high = scaled(marks[0]), scaled(marks[-1])
    return lambda value: start + (scaled(value) - low) / (high - low) * (end - start)


def dots(title: str, label: str, rows: list[list[str]], is_log: bool) -> str:
    """A row per label: a dot, and its interval as a line."""
    values = [float(word) for row in rows for word in row[1:4] if word]
    marks = ticks(min(values), max(values), is_log)
    left = min(240, 36 + 8 * max(len(row[0]) for row in rows))
    place = axis(marks, left, WIDTH - RIGHT - 30, is_log)
    bottom = 44 + 28 * len(rows)
    parts = [text(16, 26, title)]
    for mark in marks:
        at = place(mark)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="{bottom}"/>')
        parts.append(text(at, bottom + 20, f"{mark:g}", "soft", "middle"))
    for number, row in enumerate(rows):
        value, low, high, marked = [*row[1:], "", "", ""][:4]
        y, colour = 58 + 28 * number, "b" if marked else "a"
        parts.append(text(16, y + 5, row[0]))
        if low:
            span = f'x1="{place(float(low)):.1f}" x2="{place(float(high)):.1f}"'
            parts.append(f'<line class="s{colour}" {span} y1="{y}" y2="{y}" stroke-width="2"/>')
        at = place(float(value))
        parts.append(f'<circle class="{colour}" cx="{at:.1f}" cy="{y}" r="5"/>')
        parts.append(text(place(float(high or value)) + 9, y + 5, value, colour))
    parts.append(text((left + WIDTH - RIGHT) / 2, bottom + 42, label, "soft", "middle"))
    return picture(f"{title}: {label}", bottom + 54, parts)


def lines(title: str, label: str, rows: list[list[str]], is_log: bool) -> str:
    """A line per series, named at its end."""
    series = [
        (name, [(float(row[1]), float(row[2])) for row in group])
        for name, group in groupby(rows, key=lambda row: row[0])
    ]
    points = [point for _, members in series for point in members]
    across = ticks(min(x for x, _ in points), max(x for x, _ in points), is_log)
    up = ticks(min(y for _, y in points), max(y for _, y in points), False)
    room = 12 + 8 * max(len(name) for name, _ in series)
    at_x, at_y = axis(across, 56, WIDTH - room - 8, is_log), axis(up, 260, 66, False)
    x_label, _, y_label = label.partition("; ")
    parts = [text(16, 26, title), text(16, 50, y_label, "soft")]
    for mark in up:
        y = at_y(mark)
        parts.append(f'<line class="grid" x1="56" x2="{WIDTH - room}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(text(48, y + 5, f"{mark:g}", "soft", "end"))
    parts += [text(at_x(mark), 282, f"{mark:g}", "soft", "middle") for mark in across]
    parts.append(text((56 + WIDTH - room) / 2, 304, x_label, "soft", "middle"))
    ends = _apart([at_y(members[-1][1]) for _, members in series])
    for number, (name, members) in enumerate(series):
        colour = "abcd"[number % 4]
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in members)
        parts.append(
            f'<polyline class="s{colour}" fill="none" stroke-width="2.5" points="{path}"/>'
        )
        parts.append(text(at_x(members[-1][0]) + 8, ends[number] + 5, name, colour))
    return picture(f"{title}: {y_label} by {x_label}", 318, parts)


def _apart(heights: list[float], least: float = 17) -> list[float]:
    """Heights of names that do not lie on each other."""
    moved = list(heights)
    order = sorted(range(len(moved)), key=lambda i: moved[i])
    for above, below in pairwise(order):
        moved[below] = max(moved[below], moved[above] + least)
    return moved


def plot(table: str) -> str:
    """The SVG of a table.

    Raises:
        ValueError: its first line names no kind of plot.
    """
    notes = [line[1:].strip() for line in table.splitlines() if line.startswith("#")]
    rows = [line.split("\t") for line in table.splitlines() if line and not line.startswith("#")]
    kind, _, title = notes[0].partition(": ")
    kinds = {"dots": dots, "lines": lines}
    if kind not in kinds:
        raise ValueError(f"found {kind!r}, expected one of {', '.join(kinds)}")
    return kinds[kind](title, notes[1], rows, "log" in notes[2:])


def main(names: list[str]) -> None:
    """Draws the plots."""
    for name in names or sorted(path.stem for path in PICTURES.glob("*.tsv")):
        table = (PICTURES / f"{name}.tsv").read_text(encoding="utf-8")
        (PICTURES / f"{name}.svg").write_text(plot(table), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
