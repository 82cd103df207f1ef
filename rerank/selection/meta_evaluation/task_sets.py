"""What the WMT metrics task asks of a metric: a set of weighted tasks per year, by name.

WMT23 (L language pairs): accuracy of systems over all pairs, weight 1/4; per pair Pearson of systems, Pearson of
segments, and calibrated accuracy of segments, 1/4L each. WMT24, WMT24 on WMT23 and WMT25: per pair soft pairwise
accuracy of systems and calibrated accuracy of segments, equally weighted. Correlations count on a scale of -1 to 1,
shares on 0 to 1. References are systems ("human") where a pair has several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ....metrics.errors import InputError, unknown
from .averaged_correlations import Coefficient
from .eval_set import Level

Year = Literal["wmt23", "wmt24", "wmt24-on-wmt23", "wmt25"]


@dataclass(frozen=True, slots=True)
class MetricsTask:
    """One comparison of metrics with people.

    Args:
        language_pairs: whose systems are compared; several: by the accuracy of all pairs within one of them.
        level: of the scores, "sys" or "seg".
        coefficient: what is computed; None: soft pairwise accuracy, of scores of segments.
        human: whether the other references are systems.
        weight: in the average.
    """

    language_pairs: tuple[str, ...]
    level: Level
    coefficient: Coefficient | None
    human: bool
    weight: float

    @property
    def statistic(self) -> str:
        """The name of what is computed."""
        return "soft_pairwise_accuracy" if self.coefficient is None else self.coefficient.statistic

    @property
    def name(self) -> str:
        """The name in tables."""
        averaging = "none" if self.coefficient is None else self.coefficient.averaging
        by = {"none": "", "item": " by segment", "sys": " by system"}[averaging]
        return f"{','.join(self.language_pairs)} {self.level} {self.statistic}{by}"

    @property
    def bounds(self) -> tuple[float, float]:
        """The lowest and the highest value."""
        shares = ("accuracy", "acc23", "acc_opt", "soft_pairwise_accuracy")
        return (0.0, 1.0) if self.statistic in shares else (-1.0, 1.0)


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a year.

    Args:
        name: of the set.
        test_set: the folder of its data.
        tasks: whose weights add up to 1.
    """

    name: str
    test_set: str
    tasks: tuple[MetricsTask, ...]

    @property
    def language_pairs(self) -> tuple[str, ...]:
        """Those whose data is needed, sorted."""
        return tuple(sorted({pair for task in self.tasks for pair in task.language_pairs}))


@dataclass(frozen=True, slots=True)
class _Plan:
    """How the tasks of a year are made of its language pairs."""

    test_set: str
    language_pairs: tuple[str, ...]
    human: frozenset[str]
    tasks: Callable[[Sequence[str], frozenset[str]], list[MetricsTask]]


def _wmt23(pairs: Sequence[str], human: frozenset[str]) -> list[MetricsTask]:
    joint = Coefficient("accuracy")
    weight = 1 / (4 * len(pairs))
    tasks = [MetricsTask(tuple(pairs), "sys", joint, bool(human & set(pairs)), 1 / 4)]
    kinds: list[tuple[Level, Coefficient]] = [
        ("sys", Coefficient("pearson")),
        ("seg", Coefficient("pearson")),
        ("seg", Coefficient("acc_opt", "item")),
    ]
    for pair in pairs:
        for level, coefficient in kinds:
            tasks.append(MetricsTask((pair,), level, coefficient, pair in human, weight))
    return tasks


def _wmt24(pairs: Sequence[str], human: frozenset[str]) -> list[MetricsTask]:
    weight = 1 / (2 * len(pairs))
    kinds: list[tuple[Level, Coefficient | None]] = [
        ("sys", None),
        ("seg", Coefficient("acc_opt", "item")),
    ]
    return [
        MetricsTask((pair,), level, coefficient, pair in human, weight)
        for pair in pairs
        for level, coefficient in kinds
    ]


_HEBREW = frozenset({"he-en", "en-he"})
_WMT23_PAIRS = ("en-de", "he-en", "zh-en")
_PLANS: dict[str, _Plan] = {
    "wmt23": _Plan("wmt23", _WMT23_PAIRS, _HEBREW, _wmt23),
    "wmt24": _Plan("wmt24", ("en-de", "en-es", "ja-zh"), frozenset({"en-de"}), _wmt24),
    "wmt24-on-wmt23": _Plan("wmt23", _WMT23_PAIRS, _HEBREW, _wmt24),
    "wmt25": _Plan("wmt25", (), frozenset(), _wmt24),
}
TASK_SETS = tuple(_PLANS)


def task_set(name: str, language_pairs: Sequence[str] = ()) -> TaskSet:
    """The tasks of a year, of other language pairs if any are given; "wmt25" has none of its own.

    Raises:
        InputError: an unknown set, or no language pairs.

    >>> [task.weight for task in task_set("wmt24", ["en-de"]).tasks]
    [0.5, 0.5]
    """
    if name not in _PLANS:
        raise unknown("task set", name, _PLANS, where="tasks")
    plan = _PLANS[name]
    pairs = sorted(set(language_pairs)) or sorted(plan.language_pairs)
    if not pairs:
        raise InputError("no language pairs", where=f"tasks {name}", fix="Name them")
    return TaskSet(name, plan.test_set, tuple(plan.tasks(pairs, plan.human)))


def folder_of(name: str) -> str:
    """The folder that has the data of a set; errors as `task_set`."""
    if name not in _PLANS:
        raise unknown("task set", name, _PLANS, where="tasks")
    return _PLANS[name].test_set
