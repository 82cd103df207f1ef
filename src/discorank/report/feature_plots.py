"""The figure of ``discorank features``: foci against references, shares of relations, densities of roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np

from ..rerank.selection.discourse_features import FocusRow, RoleDensities, TreeComparison
from .plots import label, plot_package

SUFFIXES = (".svg", ".png", ".pdf")
WIDTH, PANEL_HEIGHT = 8.0, 3.2  # inches
MAX_RELATIONS = 10  # as in Figure 7 of Joty et al. 2017
BAR = 0.8  # of the room of a label


def feature_figure(
    foci: Sequence[FocusRow] = (),
    trees: TreeComparison | None = None,
    roles: RoleDensities | None = None,
) -> Any:
    """A matplotlib figure with a panel for each part that is given.

    Raises:
        ModelLoadError: matplotlib is not installed.
    """
    package = plot_package()
    panels = bool(foci) + (trees is not None) + (roles is not None)
    with package.rc_context():
        package.rcdefaults()
        package.rcParams.update({"text.parse_math": False})
        figure = package.figure.Figure((WIDTH, PANEL_HEIGHT * max(1, panels)), layout="constrained")
        grid = figure.add_gridspec(max(1, panels), 1)
        place = 0
        if foci:
            _draw_foci(figure.add_subplot(grid[place]), foci)
            place += 1
        if trees is not None:
            _draw_relations(figure.add_subplot(grid[place]), trees)
            place += 1
        if roles is not None:
            _draw_roles(figure, grid[place], roles)
        return figure


def write_figure(figure: Any, file: BinaryIO, suffix: str) -> None:
    """Writes a figure in the form of a suffix; the same figure gives the same bytes."""
    package = plot_package()
    metadata = (
        {"Date": None} if suffix == ".svg" else {"CreationDate": None} if suffix == ".pdf" else {}
    )
    with package.rc_context({"svg.fonttype": "none", "svg.hashsalt": "features"}):
        figure.savefig(file, format=suffix[1:], metadata=metadata)


def _draw_foci(axes: Any, rows: Sequence[FocusRow]) -> None:
    """The shares of pairs whose reference has less of a feature, and more, side by side."""
    names = [f"{row.feature}, {row.group}" for row in rows]
    places = np.arange(len(rows))
    kinds = (("lower", "reference lower"), ("equal", "equal"), ("higher", "reference higher"))
    below = np.zeros(len(rows))
    for name, about in kinds:
        shares = np.array([100 * getattr(row, name) for row in rows])
        axes.bar(places, shares, BAR, bottom=below, label=about)
        below += shares
    axes.set_xticks(places, names, rotation=30, ha="right", fontsize="small")
    axes.set_ylabel("% of pairs")
    axes.legend(fontsize="small", ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1))


def _draw_relations(axes: Any, trees: TreeComparison) -> None:
    """The most frequent relations, a bar for each group."""
    rows = trees.relations[:MAX_RELATIONS]
    groups = list(dict.fromkeys(group for row in rows for group in row.shares))
    places = np.arange(len(rows))
    width = BAR / max(1, len(groups))
    for number, group in enumerate(groups):
        shares = [100 * row.shares.get(group, 0.0) for row in rows]
        axes.bar(places + number * width, shares, width, label=group)
    middle = (len(groups) - 1) * width / 2
    names = [label(row.label) for row in rows]
    axes.set_xticks(places + middle, names, rotation=30, ha="right", fontsize="small")
    axes.set_ylabel("% of relations")
    axes.legend(fontsize="small")


def _draw_roles(figure: Any, place: Any, roles: RoleDensities) -> None:
    """A panel for each group: the shares of roles in every bin, one above the other."""
    inner = place.subgridspec(1, len(roles.density))
    first = None
    for number, (group, density) in enumerate(roles.density.items()):
        axes = figure.add_subplot(inner[number], sharey=first)
        bins = np.arange(1, len(density) + 1)
        below = np.zeros(len(density))
        for column, role in enumerate(roles.roles):
            axes.bar(bins, 100 * density[:, column], BAR, bottom=below, label=label(role))
            below += 100 * density[:, column]
        axes.set_title(group, fontsize="medium")
        axes.set_xlabel("bin")
        if first is None:
            axes.set_ylabel("% of sentences")
            first = axes
    if first is not None:
        handles, names = first.get_legend_handles_labels()
        figure.legend(handles, names, fontsize="small", ncols=4, loc="outside lower center")
