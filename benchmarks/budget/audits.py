"""What an audit makes of statements on a kind of utilities that is not known: how far they are off, with and without.

    python -m benchmarks.budget.audits RESULTS [--lists 0 50 100 200] [--draws 8]

RESULTS is a folder that `trajectories` wrote. Constants come from the other kinds of utilities alone. Of every set and
budget some lists are drawn, at most half, whose steps correct these constants (`--budget-audit`); the others are
judged. Printed are, over sets and budgets: how far the confidence said is from the share of choices that are the same,
on average, at worst, and beyond what so few lists are off by chance; how often `at_least` is above that share by more
than 0.01; and at stops at 0.95 the share of choices that are the same, on average and of the worst set.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.budget.calibration import said_of
from benchmarks.budget.fitted_constants import fitted
from benchmarks.budget.replayed_steps import Steps, read
from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.correction import AuditedSteps, corrected, first
from discorank.rerank.budget.statement import (
    NO_CORRECTION,
    ONE_SIDED,
    SCORES_OF_TEXTS,
    Constants,
    Correction,
    fitted_constants,
)

FEWEST_LISTS = 50  # of a set that is judged
STOP = 0.95
ABOVE = 0.01
STOP_BUDGET = 0.5


class Outcome(NamedTuple):
    """What was said of the lists of a set under a budget that were not audited."""

    off: float  # the mean confidence less the share of the same choices
    error: float  # standard error of this
    low: float  # the mean `at_least` less that share
    stopped: float  # share of lists
    same: float  # at stops, NaN of none


def drawn(steps: Steps, number: int, random: np.random.Generator) -> tuple[Steps, Steps]:
    """The steps of some lists, at most half of them, and of the others."""
    lists = np.unique(steps.truth[:, 0])
    some = random.choice(lists, min(number, len(lists) // 2), replace=False)
    is_audited = np.isin(steps.truth[:, 0], some)
    return steps.of(is_audited), steps.of(~is_audited)


def correction_by(audited: Steps, constants: Constants) -> Correction:
    """What audited lists show."""
    if not len(audited.truth):
        return NO_CORRECTION
    steps = AuditedSteps(
        audited.signs, audited.replay, audited.is_last, audited.same, audited.regret
    )
    return corrected(steps, constants, "")


def judged(steps: Steps, constants: Constants, correction: Correction) -> Outcome:
    """What is said of some lists."""
    confidence, _ = said_of(steps, constants, False, "", correction)
    last = steps.is_last
    off = confidence[last] - steps.same[last]
    margin = min(fitted_constants()["pairs"].margin, ONE_SIDED * correction.confidence.error)
    low = _lowered(confidence[last], margin) - steps.same[last]
    at_stop, _ = said_of(steps, constants, True, "", correction)
    margin = min(
        fitted_constants()["pairs"].margin, ONE_SIDED * correction.confidence_at_stop.error
    )
    met = first(steps.replay, _lowered(at_stop, margin) >= STOP)
    return Outcome(
        float(off.mean()),
        float(off.std() / len(off) ** 0.5),
        float(low.mean()),
        len(met) / int(last.sum()),
        float(steps.same[met].mean()) if len(met) else np.nan,
    )


def _lowered(confidence: FloatArray, margin: float) -> FloatArray:
    """Confidences less a margin in logits."""
    inside = np.clip(confidence, 1e-12, 1 - 1e-12)
    return np.asarray(1 / (1 + (1 - inside) / inside * np.exp(margin)))


def show(number: int, outcomes: Sequence[Sequence[tuple[float, Outcome]]]) -> None:
    """Prints one line for a number of audited lists; an element for each set and budget, with all its draws."""
    every = [[one for _, one in draws] for draws in outcomes]
    means = np.array([np.mean([one.off for one in draws]) for draws in every])
    offs = np.array([[one.off, one.error, one.low] for draws in every for one in draws])
    beyond = max(0.0, float((offs[:, 0] ** 2 - offs[:, 1] ** 2).mean())) ** 0.5
    at_stops = [[one.same for budget, one in draws if budget == STOP_BUDGET] for draws in outcomes]
    same = np.array([np.nanmean(one) for one in at_stops if one and np.isfinite(one).any()])
    of_lists = [one.stopped for draws in outcomes for budget, one in draws if budget == STOP_BUDGET]
    print(
        f"{number:4} lists: off by {np.abs(means).mean():.3f}, at worst {np.abs(means).max():.3f}, "
        f"beyond chance {beyond:.3f}; at_least above by more than {ABOVE}: {(offs[:, 2] > ABOVE).mean():.2f}; "
        f"stops of {np.mean(of_lists):.2f}, same {same.mean():.3f}, at worst {same.min():.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("--lists", nargs="+", type=int, default=[0, 20, 50, 100, 200])
    parser.add_argument("--draws", type=int, default=8)
    options = parser.parse_args()
    every = [read(path) for path in sorted(options.results.glob("*.npy"))]
    sets = [steps for steps in every if steps.kind != SCORES_OF_TEXTS]
    kinds = sorted({steps.kind for steps in sets})
    others = {kind: fitted([steps for steps in sets if steps.kind != kind]) for kind in kinds}
    long = [steps for steps in sets if len(np.unique(steps.truth[:, 0])) >= FEWEST_LISTS]
    for number in options.lists:
        random = np.random.default_rng(0)
        outcomes = []
        for steps in long:
            constants = others[steps.kind]
            for budget in np.unique(steps.truth[:, 1]).tolist():
                of_budget = steps.of(steps.truth[:, 1] == budget)
                halves = [drawn(of_budget, number, random) for _ in range(options.draws)]
                outcomes.append(
                    [
                        (budget, judged(rest, constants, correction_by(some, constants)))
                        for some, rest in halves
                    ]
                )
        show(number, outcomes)


if __name__ == "__main__":
    main()
