"""The table of metrics against people, in Markdown: a panel of means, one for each group of sets, notes, the sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from discorank.metrics.representations import FloatArray

BASE = "chrf"


class Agreement(NamedTuple):
    """A metric against people on one dimension of a set.

    Args:
        accuracy: pairwise, of systems.
        pearson: of systems' scores.
        kendall: tau-b of systems' scores.
        marks: of accuracy and Pearson: "+" or "-" where the metric is significantly better or worse than chrF.
    """

    accuracy: float
    pearson: float
    kendall: float
    marks: tuple[str, str] = ("", "")


class Facts(NamedTuple):
    """A set in the table."""

    name: str
    group: str
    dimensions: tuple[str, ...]
    systems: int
    documents: int
    segments: int
    judged: int  # segments with a human score
    references: tuple[str, ...]


# of set, dimension and metric; a text says why there is none
Cells = dict[tuple[str, str, str], Agreement | str]


def markdown(sets: Sequence[Facts], metrics: Sequence[str], cells: Cells) -> str:
    """All panels."""
    groups = list(dict.fromkeys(facts.group for facts in sets))
    notes = _Notes()
    panels = [_means(sets, groups, metrics, cells)]
    for group in groups:
        own = [facts for facts in sets if facts.group == group]
        columns = [(facts, dimension) for facts in own for dimension in facts.dimensions]
        heads = [
            facts.name if len(facts.dimensions) == 1 else f"{facts.name}, {dimension}"
            for facts, dimension in columns
        ]
        rows = [
            [
                f"`{metric}`",
                *(
                    _cell(cells[facts.name, dimension, metric], notes)
                    for facts, dimension in columns
                ),
            ]
            for metric in metrics
        ]
        panels.append(f"### Systems {group}\n\n{_table([group, *heads], rows)}")
    return "\n\n".join([*panels, *notes.lines(), _table(HEAD, map(_facts, sets))]) + "\n"


HEAD = ["set", "systems", "documents", "segments", "judged", "references"]


def _facts(facts: Facts) -> list[str]:
    numbers = map(str, (facts.systems, facts.documents, facts.segments, facts.judged))
    return [
        facts.name,
        *numbers,
        str(len(facts.references)) if len(facts.references) > 4 else ", ".join(facts.references),
    ]


def _means(
    sets: Sequence[Facts], groups: Sequence[str], metrics: Sequence[str], cells: Cells
) -> str:
    """Means over the sets of every group, and how often a metric is significantly better and worse than chrF."""
    columns = [(group, [facts for facts in sets if facts.group == group]) for group in groups]
    columns += [("all sets", list(sets))] if len(groups) > 1 else []
    heads = [f"{name} ({len(own)})" for name, own in columns]
    rows = []
    for metric in metrics:
        judged = [
            cell for key, cell in cells.items() if key[2] == metric and isinstance(cell, Agreement)
        ]
        counts = [
            f"{sum(c.marks[i] == '+' for c in judged)} / {sum(c.marks[i] == '-' for c in judged)}"
            for i in (0, 1)
        ]
        counts = [f"{count} of {len(judged)}" for count in counts] if metric != BASE else ["", ""]
        rows.append(
            [f"`{metric}`", *(_mean_cell(own, metric, cells) for _, own in columns), *counts]
        )
    return _table(
        ["mean over", *heads, "accuracy: better / worse", "Pearson: better / worse"], rows
    )


def _mean_cell(sets: Iterable[Facts], metric: str, cells: Cells) -> str:
    """The mean over those sets that the metric has; if these are not all, also their number and chrF's on the same."""
    every = list(sets)
    own = [
        facts
        for facts in every
        if all(isinstance(cells[facts.name, d, metric], Agreement) for d in facts.dimensions)
    ]
    if not own:
        return "-"
    shown = _numbers(_mean(own, metric, cells))
    if len(own) == len(every):
        return shown
    return f"{shown} ({len(own)} set{'s' * (len(own) > 1)}; `{BASE}` {_numbers(_mean(own, BASE, cells))})"


def _mean(sets: Iterable[Facts], metric: str, cells: Cells) -> FloatArray:
    """The mean over sets of the mean over their dimensions, [3]."""
    means = []
    for facts in sets:
        agreements = [
            cell[:3]
            for d in facts.dimensions
            if isinstance(cell := cells[facts.name, d, metric], Agreement)
        ]
        means.append(np.mean(agreements, axis=0))
    return np.asarray(np.mean(means, axis=0))


def _numbers(values: Iterable[float], marks: Sequence[str] = ("", "", "")) -> str:
    return " / ".join(f"{value:.2f}{mark}" for value, mark in zip(values, marks, strict=True))


def _cell(cell: Agreement | str, notes: _Notes) -> str:
    if isinstance(cell, str):
        return f"- [{notes.number(cell)}]"
    return _numbers(cell[:3], (*cell.marks, ""))


class _Notes:
    """Reasons for dashes, numbered in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, reason: str) -> int:
        return self.numbers.setdefault(reason, len(self.numbers) + 1)

    def lines(self) -> list[str]:
        text = "\n".join(f"[{number}] {reason}  " for reason, number in self.numbers.items())
        return [text] if text else []


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
