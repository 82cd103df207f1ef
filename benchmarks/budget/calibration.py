"""Fits the constants of statements, and shows whether what is stated is true of lists and utilities not fitted on.

    python -m benchmarks.budget.calibration RESULTS [--write rerank/budget/constants.json] [--json FILE]

RESULTS is a folder that `trajectories` wrote. Every figure is of lists that the constants were not fitted on: of every
other list of each set, or, under "new kind", of all lists of a utility when constants come from the other utilities
alone. "stopped" are lists that meet a target within half of their pairs, with what is said then. `--write` writes the
constants that all replays give, `--json` the figures, of which `plots` draws the page's.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.budget.fitted_constants import fitted, written
from benchmarks.budget.replayed_steps import Steps, read
from discorank.metrics.representations import FloatArray
from discorank.rerank.budget.statement import (
    LOSS,
    NO_CORRECTION,
    ODDS,
    SCORES_OF_TEXTS,
    Constants,
    Correction,
    on_line,
    shifted,
)
from discorank.rerank.budget_audit import first

SHOWN_BUDGET = 0.5  # of stops
SHOWN = (
    ("confidence", 0.9),
    ("confidence", 0.95),
    ("confidence", 0.99),
    ("regret", 0.05),
    ("regret", 0.01),
)
BINS = 12


def said_of(
    steps: Steps,
    constants: Constants,
    stopped: bool,
    kind: str,
    correction: Correction = NO_CORRECTION,
) -> tuple[FloatArray, FloatArray]:
    """Confidence and regret."""
    sure, loss = constants.lines(stopped)
    of_sure, of_loss = correction.shifts(stopped)
    odds = on_line(sure, steps.signs, ODDS, kind) + shifted(of_sure, steps.signs, ODDS)
    log_loss = on_line(loss, steps.signs, LOSS, kind) + shifted(of_loss, steps.signs, LOSS)
    return 1 / (1 + np.exp(-odds)), np.exp(np.minimum(log_loss, 1))


class Judged(NamedTuple):
    """What was said of some steps, at the end and at a stop, by constants that they were not fitted on."""

    steps: Steps
    end: tuple[FloatArray, FloatArray]
    stop: tuple[FloatArray, FloatArray]


def crossed(sets: Sequence[Steps]) -> list[Judged]:
    """Every list judged by the constants of the other half of the lists."""
    halves = [fitted([steps.of(steps.truth[:, 0] % 2 != h) for steps in sets]) for h in (0, 1)]
    found = []
    for steps in sets:
        half = (steps.truth[:, 0] % 2).astype(np.int64)
        both = [
            [said_of(steps, c, stopped, steps.kind) for c in halves] for stopped in (False, True)
        ]
        end, stop = (
            tuple(np.where(half == 0, one[0][i], one[1][i]) for i in (0, 1)) for one in both
        )
        found.append(Judged(steps, end, stop))  # type: ignore[arg-type]
    return found


def left_out(sets: Sequence[Steps]) -> list[Judged]:
    """Every list judged by the constants of other utilities; of judges, of other judges."""
    found = []
    for steps in sets:
        is_judge = steps.kind == SCORES_OF_TEXTS
        others = [o for o in sets if (o.name != steps.name if is_judge else o.kind != steps.kind)]
        constants = fitted(others)
        end, stop = (said_of(steps, constants, stopped, "") for stopped in (False, True))
        found.append(Judged(steps, end, stop))
    return found


def summary(judged: Judged) -> dict[str, Any]:
    """Said and true figures at the end of budgets."""
    last = judged.steps.is_last
    same, regret = judged.steps.same[last], judged.steps.regret[last]
    confidence, loss = (values[last] for values in judged.end)
    return {
        "name": judged.steps.name,
        "replays": int(last.sum()),
        "same": float(same.mean()),
        "error": clustered(same - confidence, judged.steps.truth[last, 0]),
        "said": float(confidence.mean()),
        "regret": float(regret.mean()),
        "regret_error": clustered(regret - loss, judged.steps.truth[last, 0]),
        "regret_said": float(loss.mean()),
        "stops": [stop for target in SHOWN if (stop := stopped(judged, *target)) is not None],
    }


def clustered(values: FloatArray, lists: FloatArray) -> float:
    """The standard error of a mean over replays, of which those of a list are not independent."""
    _, inverse = np.unique(lists, return_inverse=True)
    sums = np.bincount(inverse, values - values.mean())
    return float(np.sqrt((sums**2).sum()) / len(values))


def stopped(judged: Judged, of: str, bound: float) -> dict[str, Any] | None:
    """Lists that meet a target within half of their pairs, and what they cost; None if fewer than ten do."""
    rows = np.flatnonzero(judged.steps.truth[:, 1] == SHOWN_BUDGET)
    steps = judged.steps.of(rows)
    confidence, loss = (values[rows] for values in judged.stop)
    met = first(steps.replay, confidence >= bound if of == "confidence" else loss <= bound)
    if len(met) < 10:
        return None
    num_lists = len(np.unique(steps.replay))
    return {
        "of": of,
        "bound": bound,
        "stopped": len(met) / num_lists,
        "lists": len(met),
        "share": float(steps.share[met].mean()),
        "same": float(steps.same[met].mean()),
        "said": float(confidence[met].mean()),
        "regret": float(steps.regret[met].mean()),
        "regret_error": float(steps.regret[met].std() / len(met) ** 0.5),
        "regret_said": float(loss[met].mean()),
    }


def bins(found: Iterable[Judged]) -> dict[str, list[list[float]]]:
    """Said, true and the number of replays in bins of equally many; of confidence, and of regret."""
    lasts = [(j, j.steps.is_last) for j in found]
    columns = {
        "confidence": [
            np.concatenate([j.end[0][m] for j, m in lasts]),
            np.concatenate([j.steps.same[m] for j, m in lasts]),
        ],
        "regret": [
            np.concatenate([j.end[1][m] for j, m in lasts]),
            np.concatenate([j.steps.regret[m] for j, m in lasts]),
        ],
    }
    return {
        name: [
            [float(said[rows].mean()), float(true[rows].mean()), len(rows)]
            for rows in np.array_split(np.argsort(said, kind="stable"), BINS)
        ]
        for name, (said, true) in columns.items()
    }


def margins(found: Sequence[Judged], but: str) -> tuple[float, float]:
    """Logits, and log regret, by which what is said of a new kind was too good on the worst set but those of a kind."""
    off, factors = [0.0], [0.0]
    for one in map(summary, (j for j in found if j.steps.kind != but)):
        off.append(_logit(one["said"]) - _logit(one["same"]))
        factors.append(float(np.log(one["regret"] / one["regret_said"])))
    return max(off), max(factors)


def _logit(share: float) -> float:
    inside = min(max(share, 1e-3), 1 - 1e-3)
    return float(np.log(inside / (1 - inside)))


def show(title: str, found: Sequence[Judged]) -> list[dict[str, Any]]:
    """Prints the figures of some sets."""
    figures = [summary(one) for one in found]
    total = sum(one["replays"] for one in figures)
    print(f"{title}: {total} replays")
    for one in figures:
        print(
            f"  {one['name']:26} {one['replays']:5}  same {one['same']:.3f}, said {one['said']:.3f} "
            f"({one['said'] - one['same']:+.3f} +- {one['error']:.3f});  regret {one['regret']:.4f}, "
            f"said {one['regret_said']:.4f} ({one['regret_said'] - one['regret']:+.4f} +- {one['regret_error']:.4f})"
        )
        for stop in one["stops"]:
            print(
                f"      {stop['of']} {stop['bound']:g}: {stop['stopped']:.2f} stopped at {stop['share']:.3f} of pairs, "
                f"same {stop['same']:.3f}, said {stop['said']:.3f}, regret {stop['regret']:.4f} +- "
                f"{stop['regret_error']:.4f}, said {stop['regret_said']:.4f}"
            )
    for name in ("same", "regret"):
        said = "said" if name == "same" else "regret_said"
        mean, stated = (sum(o[key] * o["replays"] for o in figures) / total for key in (name, said))
        print(f"  all: {name} {mean:.4f}, said {stated:.4f}")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS")
    parser.add_argument("--write", type=Path, metavar="MODULE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    sets = [read(path) for path in sorted(options.results.glob("*.npy"))]
    figures: dict[str, Any] = {}
    kept: list[Constants] = []
    for family, is_scores in (("pairs", False), ("scores", True)):
        some = [steps for steps in sets if (steps.kind == SCORES_OF_TEXTS) == is_scores]
        if not some:
            continue
        known, new = crossed(some), left_out(some)
        figures[f"{family}, known"] = show(f"{family}, other lists", known)
        figures[f"{family}, new"] = show(f"{family}, new kind", new)
        figures[f"{family}, bins"] = bins(known)
        margin, factor = margins(new, "kernel")
        print(f"  margin {margin:.2f}, factor {factor:.2f}")
        kept.append(fitted(some)._replace(margin=margin, factor=factor))
    if options.write is not None:
        options.write.write_text(written(kept[0], kept[1]), encoding="utf-8")
    if options.json is not None:
        options.json.write_text(json.dumps(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
