"""Draws the figures of docs/budget.md from kept replays.

    python -m benchmarks.budget.plots TRAJECTORIES REPLAYS FIGURES DOCS

TRAJECTORIES is a folder that `trajectories` wrote, REPLAYS one that `replay` wrote with the other methods, FIGURES the
file of `calibration --json`, DOCS the folder for ``budget-regret.svg``, ``budget-agreement.svg`` and
``budget-calibration.svg``.
"""

from __future__ import annotations

import argparse
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.budget.trajectories import COLUMNS
from discorank.metrics.representations import FloatArray

METHODS = {
    "adaptive": ("adaptive", "#0b5fa5", "-", "o"),
    "halving": ("halving", "#c25700", "-", "s"),
    "mbrs-pruning": ("pruning, mbrs", "#7a3e9d", ":", "^"),
    "mbrs-pmbr": ("low rank, mbrs", "#3a7d34", ":", "v"),
    "mbrs-sampled": ("some references", "#555555", ":", "x"),
}
PIXELS = 11  # of the smallest letters
FLOOR = 1e-3  # regrets below are drawn here
REGRETS = (
    [0.001, 0.01, 0.1, 1.0],
    ["0.001", "0.01", "0.1", "1"],
)  # powers of ten have smaller letters
PER_ROW = 4
SETTINGS: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "budget",
    "font.size": PIXELS,
    "axes.titlesize": PIXELS,
    "axes.labelsize": PIXELS,
    "xtick.labelsize": PIXELS,
    "ytick.labelsize": PIXELS,
    "legend.fontsize": PIXELS,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "path.simplify": True,
}


_DECIMALS = re.compile(r"(-?\d+\.\d)\d+")
_SPACE = re.compile(r"\n\s+")


class Curve(NamedTuple):
    """Means over lists by budget: shares of pairs, regrets, and how often the choice is the same."""

    share: FloatArray
    regret: FloatArray
    same: FloatArray


def curves(trajectories: Path, replays: Path) -> dict[str, dict[str, Curve]]:
    """The curve of every method for every set and utility."""
    found: dict[str, dict[str, Curve]] = {}
    for path in sorted(trajectories.glob("*.1.npy")):
        name = path.name.removesuffix(".1.npy")
        if not name.startswith("judged"):
            found[name] = {"adaptive": _of_steps(np.load(path))}
    for name, methods in found.items():
        for method in [*METHODS][1:]:
            tables = [np.load(path) for path in replays.glob(f"{name}.{method}.*.0.1.npy")]
            if tables:
                points = sorted((t[:, 4].mean(), t[:, 0].mean(), t[:, 1].mean()) for t in tables)
                methods[method] = Curve(*np.transpose(points))
    return {name: methods for name, methods in found.items() if len(methods) > 1}


def _of_steps(table: FloatArray) -> Curve:
    """The curve of the last steps of trajectories."""
    last = table[table[:, COLUMNS.index("is_last")] == 1]
    budgets = np.unique(last[:, 1])
    columns = [np.array([last[last[:, 1] == b, i].mean() for b in budgets]) for i in (3, 4)]
    return Curve(budgets, *columns)


def draw(plots: Any, found: Mapping[str, Mapping[str, Curve]], of_regret: bool) -> Any:
    """One small figure for each set and utility."""
    num_rows = -(-len(found) // PER_ROW)
    figure, axes = plots.subplots(
        num_rows, PER_ROW, figsize=(11.0, 2.15 * num_rows + 0.9), sharex=True, sharey=True
    )
    for axis, (name, methods) in zip(axes.flat, found.items(), strict=False):
        for method, curve in methods.items():
            label, colour, line, mark = METHODS[method]
            values = np.maximum(curve.regret, FLOOR) if of_regret else curve.same
            axis.plot(curve.share, values, line, color=colour, marker=mark, label=label)
        axis.set_title(name.replace(".", " "), pad=3)
        axis.set_xscale("log", base=2)
        axis.set_xticks([1 / 32, 1 / 8, 1 / 2], ["1/32", "1/8", "1/2"])
        axis.grid(color="#dddddd", linewidth=0.5)
        if of_regret:
            axis.set_yscale("log")
            axis.set_yticks(*REGRETS)
            axis.minorticks_off()
            axis.axhline(0.01, color="#888888", linewidth=0.8, linestyle="--")
    for axis in list(axes.flat)[len(found) :]:
        axis.set_visible(False)
    figure.supxlabel("share of pairs that are computed", fontsize=PIXELS)
    figure.supylabel(
        "regret in standard deviations" if of_regret else "same choice", fontsize=PIXELS
    )
    handles, labels = next(iter(axes.flat)).get_legend_handles_labels()
    figure.legend(handles, labels, loc="upper center", ncols=-(-len(labels) // 2), frameon=False)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.55 / (2.15 * num_rows + 0.9)))
    return figure


def draw_calibration(plots: Any, figures: Mapping[str, Any]) -> Any:
    """Said against true: confidence and regret in bins, and by set and utility, known and new."""
    figure, axes = plots.subplots(1, 3, figsize=(11.0, 3.6))
    for axis, name, title in (
        (axes[0], "confidence", "confidence"),
        (axes[1], "regret", "regret"),
    ):
        for family, colour, mark in (("pairs", "#0b5fa5", "o"), ("scores", "#c25700", "s")):
            points = np.array(figures[f"{family}, bins"][name])
            said, true = np.maximum(points[:, :2], FLOOR).T if name == "regret" else points[:, :2].T
            label = "pairs" if family == "pairs" else "judges' scores"
            axis.plot(said, true, marker=mark, color=colour, label=label)
        axis.set_title(f"{title}, other lists, bins of equally many")
        low = FLOOR if name == "regret" else 0.2
        _diagonal(axis, low, 1.0)
    axes[1].set_xscale("log")
    axes[1].set_yscale("log")
    axes[1].set_xticks(*REGRETS)
    axes[1].set_yticks(*REGRETS)
    axes[1].minorticks_off()
    for key, colour, mark, label in (
        ("pairs, new", "#c25700", "x", "kind not known"),
        ("pairs, known", "#0b5fa5", "o", "kind known, other lists"),
    ):
        said, same = np.transpose([(one["said"], one["same"]) for one in figures[key]])
        axes[2].plot(said, same, mark, color=colour, label=label)
    axes[2].set_title("confidence by set and utility")
    _diagonal(axes[2], 0.4, 1.0)
    for axis in axes:
        axis.set_xlabel("said")
        axis.set_ylabel("true")
        axis.grid(color="#dddddd", linewidth=0.5)
        axis.legend(frameon=False)
    figure.tight_layout()
    return figure


def _diagonal(axis: Any, low: float, high: float) -> None:
    axis.plot([low, high], [low, high], color="#888888", linewidth=0.8, linestyle="--")


def write(figure: Any, path: Path) -> None:
    """As SVG with a white ground, of the same bytes every time."""
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None}, facecolor="white")
    lines = _SPACE.sub("\n", written.getvalue()).split("\n")
    # a tenth of a pixel is enough, but for the numbers that are read
    short = [line if "</text>" in line else _DECIMALS.sub(r"\1", line) for line in lines]
    path.write_text("\n".join(short), encoding="utf-8")
    print(f"{path.name}: {path.stat().st_size / 1024:.0f} KiB")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("trajectories", "replays", "figures", "docs"):
        parser.add_argument(name, type=Path, metavar=name.upper())
    options = parser.parse_args()
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plots

    plots.rcParams.update(SETTINGS)
    found = curves(options.trajectories, options.replays)
    write(draw(plots, found, True), options.docs / "budget-regret.svg")
    write(draw(plots, found, False), options.docs / "budget-agreement.svg")
    figures = json.loads(options.figures.read_text(encoding="utf-8"))
    write(draw_calibration(plots, figures), options.docs / "budget-calibration.svg")
    _tell(found)


def _tell(found: Mapping[str, Mapping[str, Curve]]) -> None:
    """Prints the regrets, and where another method is ahead of the adaptive one at the same share of pairs."""
    for name, methods in found.items():
        for method, curve in methods.items():
            points = "  ".join(f"{s:.3f}: {r:.4f} {a:.3f}" for s, r, a in zip(*curve, strict=True))
            print(f"{name:24} {method:14} {points}")
        ahead = _ahead(methods)
        if ahead:
            print(f"{name:24} ahead of adaptive: {', '.join(ahead)}")


def _ahead(methods: Mapping[str, Curve]) -> Sequence[str]:
    """Which methods lose less than the adaptive one, between whose budgets regrets are interpolated."""
    ours = methods["adaptive"]
    return [
        f"{method} at {share:.3f} ({regret:.4f})"
        for method, curve in methods.items()
        if method != "adaptive"
        for share, regret in zip(curve.share, curve.regret, strict=True)
        if regret < np.interp(np.log(share), np.log(ours.share), ours.regret) - 1e-12
        and share <= ours.share.max()
    ]


if __name__ == "__main__":
    main()
