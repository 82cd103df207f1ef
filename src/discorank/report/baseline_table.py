"""How far every system is from one of them under each metric: difference, interval and p of the pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..rerank.selection.kept_comparison import KeptComparison, KeptScores
from ..tables import Table, number
from .summary_text import is_tested
from .system_ranking import ordered, packed
from .words import cut, short_names


def baseline_tables(comparison: KeptComparison, width: int = 100) -> list[Table]:
    """The systems' scores minus those of the baseline, in tables of at most `width` columns; none without baseline."""
    baseline = comparison.settings.get("baseline")
    if baseline not in comparison.systems:
        return []
    every = [*(human.scores for human in comparison.human), *comparison.metrics]
    systems = [name for name in ordered(comparison) if name != baseline]
    names = short_names([metric.name for metric in comparison.metrics])
    columns = [[cut(name) for name in ("system", *systems)]]
    groups = [
        _columns(scores, systems, baseline, names.get(scores.name, scores.name), comparison.level)
        for scores in every
        if baseline in scores.systems
    ]
    return packed(columns, groups, width, f"Differences from {baseline}")


def _columns(
    scores: KeptScores, systems: Sequence[str], baseline: str, name: str, level: float
) -> list[list[str]]:
    """Difference, interval and p; the difference alone where nothing can be tested."""
    arrow = "" if scores.higher_is_better else " ↓"
    head = [f"{name}{arrow}", f"{100 * (1 - level):g} % interval", "p"]
    rows = [list(_cells(scores, system, baseline)) for system in systems]
    columns = [list(column) for column in zip(head, *rows, strict=True)]
    return columns if is_tested(scores, level) else columns[:1]


def _cells(scores: KeptScores, system: str, baseline: str) -> Iterator[str]:
    """The cells of one system; dashes without a score."""
    pairs = {(scores.systems[pair.a], scores.systems[pair.b]): pair for pair in scores.pairs}
    # a pair has the score of its first system minus that of its second
    pair, sign = pairs.get((system, baseline)), 1.0
    if pair is None:
        pair, sign = pairs.get((baseline, system)), -1.0
    if pair is None or pair.difference is None:
        yield from ("-", "-", "-")
        return
    low, high = (pair.low, pair.high) if sign > 0 else (_negative(pair.high), _negative(pair.low))
    yield _signed(sign * pair.difference + 0.0)  # no -0
    yield f"{_signed(low)} to {_signed(high)}"
    yield f"{pair.p:.2g}"


def _negative(value: float | None) -> float | None:
    return None if value is None else -value


def _signed(value: float | None) -> str:
    """A number with its sign.

    >>> _signed(1.5), _signed(-0.25), _signed(None)
    ('+1.5', '-0.25', '-')
    """
    return f"+{number(value)}" if value is not None and value > 0 else number(value)
