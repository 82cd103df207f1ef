"""When to take the best single system's texts: rules by what a chooser expects, in hindsight and chosen on other sets.

    python -m benchmarks.choosers.ship_rules FOLDER --work WORK [--draws 20] [--judged 20 50 100]

Sets, draws and beliefs are those of `chooser_tables`. A chooser expects the ratio of its errors to the best single
system's as exp(e), with a deviation d of e. The rule (m, c) takes the single system where e + c d >= log m: from a
ratio of m on, or unless it is below m by c deviations. The rule of `train chooser` is (1.05, 0). A figure is the ratio
of errors to that system's on segments that were not judged; the last row has for every set the rule that is best on the
six others: the least macro mean among those under which no set is more than 2 % above its single system, or, if there
is none, with the least such excess. What was expected and found is kept in WORK.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmarks.support.kept_arrays import KeptArrays
from benchmarks.support.markdown import table
from benchmarks.support.measured_sets import MeasuredSet, measured_sets
from discorank.metrics.representations import FloatArray
from discorank.rerank.chooser import chooser_fit, gains, training
from discorank.rerank.chooser.chooser_fit import fit
from discorank.rerank.chooser.gains import measured_gain, tells_nothing
from discorank.rerank.surface import SURFACE

from .chooser_defaults import UTILITY
from .judged_draws import JUDGED, splits
from .set_beliefs import Others, without_features

Rule = tuple[float, float]
MARGINS, DEVIATIONS = (0.98, 1.0, 1.01, 1.02, 1.05), (0.0, 0.25, 0.5, 1.0)
RULES: tuple[Rule, ...] = tuple((m, c) for c in DEVIATIONS for m in MARGINS)
OWN: Rule = (1.05, 0.0)
NEVER: Rule = (np.inf, 0.0)
ABOVE = 1.02  # the single system


def replayed(data: MeasuredSet, others: Others, judged: str, draws: int) -> FloatArray:
    """e, d (nan where nothing is known), and sums of errors of what is chosen and of the single system, [draws, 4]."""
    defaults = without_features(others.defaults, data.data.columns.shape[2])
    rows = []
    for train, test in splits(data, judged, draws):
        known, own = data.data.rows(train), data.data.rows(test)
        gain = measured_gain(known, defaults)
        expected = [np.nan, np.nan] if tells_nothing(gain, known) else [*gain.mixed(others.gain)]
        picks = fit(known, defaults).choices(own)
        single = int(known.errors.mean(axis=0).argmin())
        chosen = own.scores[np.arange(len(test)), picks].sum()
        rows.append([*expected, chosen, own.scores[:, single].sum()])
    return np.array(rows)


def ratio_of(replays: FloatArray, rule: Rule) -> float:
    """The ratio of errors to the single system's under a rule."""
    expected, deviation, chosen, single = replays.T
    margin, deviations = rule
    ships = expected + deviations * deviation >= np.log(margin)  # never where nothing is known
    return float(np.where(ships, single, chosen).sum() / single.sum())


def best_rule(ratios: Mapping[Rule, FloatArray]) -> Rule:
    """The rule with the least macro mean among those that keep the limit, or that come nearest to it; ratios [sets]."""

    def order(rule: Rule) -> tuple[float, float]:
        return max(float(ratios[rule].max()), ABOVE), float(ratios[rule].mean())

    return min(ratios, key=order)


def rows_of(replays: Sequence[FloatArray]) -> list[list[str]]:
    """A row for every rule, and that of rules chosen on other sets."""
    ratios = {
        rule: np.array([ratio_of(own, rule) for own in replays]) for rule in (NEVER, OWN, *RULES)
    }
    rows = []
    for rule, own in ratios.items():
        name = "never" if rule == NEVER else f"{rule[0]:g}, {rule[1]:g}"
        rows.append([name, *_cells(own)])
    nested = []
    for i in range(len(replays)):
        others = {rule: np.delete(own, i) for rule, own in ratios.items()}
        nested.append(ratios[best_rule(others)][i])
    rows.append(["best on the other sets", *_cells(np.array(nested))])
    return rows


def _cells(ratios: FloatArray) -> list[str]:
    """Every set, the macro mean, and the most."""
    return [f"{value:.3f}" for value in (*ratios, ratios.mean(), ratios.max())]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--judged", nargs="+", default=["20", "50", "100"], choices=JUDGED[1:])
    options = parser.parse_args()
    sets = measured_sets(options.folder, UTILITY, SURFACE, options.work)
    others = [Others(data, sets) for data in sets]
    kept = KeptArrays(options.work)
    modules = (chooser_fit, gains, training)
    code = [Path(str(module.__file__)).read_bytes() for module in modules]
    digest = sha256(b"".join([*code, Path(__file__).read_bytes()])).hexdigest()
    for judged in options.judged:
        replays = []
        for data, own in zip(sets, others, strict=True):
            key = f"{digest} {data.ids} {judged} {options.draws}"
            make = partial(replayed, data, own, judged, options.draws)
            replays.append(np.asarray(kept.array(f"ship.{data.name}.{judged}", key, make)))
        head = [f"{judged} judged: m, c", *(data.name for data in sets), "macro", "most"]
        print(f"{table(head, rows_of(replays))}\n", flush=True)


if __name__ == "__main__":
    main()
